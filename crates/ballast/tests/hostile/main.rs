//! Hostile clients against the real program, with its memory on the scale: a stranger on the gateway's port cannot raise
//! it by more than `--body-memory`, `--connections` and `--held-calls` allow, and learns nothing about others' calls.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test, though its helpers are not marked as such"
)]

mod attacks;
mod client;
mod program;

use program::Program;

/// One program for all: it takes longest to start. Each attack has its own functions, and ends what it began.
#[tokio::test(flavor = "multi_thread")]
async fn strangers_on_the_gateways_port() {
    let program = Program::start().await;
    attacks::smuggling(&program).await;
    attacks::operators_paths(&program).await;
    attacks::chunk_bombs(&program).await;
    attacks::large_heads(&program).await;
    attacks::slow_heads_and_half_handshakes(&program).await;
    attacks::websockets(&program).await;
    attacks::dead_letter_storms(&program).await;
    attacks::floods_of_results(&program).await;
    attacks::large_calls_under_way(&program).await;
    attacks::tiny_frames(&program).await;
    program.is_well().await;
}

/// A trigger that wants 156 GB, in an annotation: it is turned off and told, the rest goes on, and so it does after a
/// restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_in_an_annotation_cannot_end_it() {
    let mut program = Program::start().await;
    let scale = serde_json::json!({"Triggers": [
        {"MetricName": "bomb", "Query": attacks::query_bomb(), "Threshold": 1},
        {"MetricName": "matchers", "Query": attacks::many_matchers(), "Threshold": 1},
    ]});
    let wait_until_told = async |program: &Program| {
        loop {
            let status = client::get(program.gateway, "/status-function/bomb").await.text();
            if status.contains("bomb cannot be used: turned off for 300 s") {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let attack = async {
        program.function("bomb", &[("SlimFaas/Scale", &scale.to_string())], "true").await;
        wait_until_told(&program).await;
    };
    let (growth, ()) = program.growth(attack).await;
    attacks::check("a query in an annotation", growth, 96 << 20);
    program.is_well().await;
    program = program.restart().await;
    wait_until_told(&program).await;
    program.is_well().await;
}

/// With `serve`, what is for operators is on their port only.
#[tokio::test(flavor = "multi_thread")]
async fn strangers_on_a_served_gateway() {
    let program = Program::start().await;
    let served = program.serve().await;
    for path in attacks::OPERATORS {
        let answer = client::get(served.gateway, path).await;
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    for (path, status) in
        [("/status-functions", 200), ("/metrics", 200), ("/debug/store", 200), ("/health", 200)]
    {
        let answer = client::get(served.operator, path).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    let foreign =
        client::send(served.operator, "GET", "/status-functions", "host: evil.example\r\n", b"").await;
    assert_eq!(foreign.status, 403, "{}", foreign.text());
}
