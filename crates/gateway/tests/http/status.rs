use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use api::slimfaas::{Problem, Visibility};
use gateway::{Hooks, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};

use crate::support::*;

fn value(answer: &Answer) -> Value {
    serde_json::from_slice(answer.body()).unwrap()
}

#[tokio::test]
async fn status_has_the_shape_of_slimfaas_and_more() {
    let hooks = Hooks {
        status: Some(Arc::new(|name| match json!({"Desired": 3, "Reason": format!("of {name}")}) {
            Value::Object(more) => more,
            _ => unreachable!(),
        })),
        ..Hooks::default()
    };
    let rig = Rig::with(visible(), hooks).await;
    let pod = Pod::echo("pod").await;
    let mut bad = function_with("bad", &[&pod], |settings| settings.visibility = Visibility::Private);
    bad.requested = 2;
    bad.problems = vec![Problem { annotation: "SlimFaas/Scale".into(), message: "no JSON".into() }];
    bad.unschedulable = Some("no room".into());
    let mut lost = function("lost", &[&pod]);
    lost.pods[0].name = "lost-1".into();
    lost.pods[0].ready = false;
    lost.pods[0].failure = Some("exit code 3".into());
    rig.snapshot([bad, function("good", &[]), lost], &["127.0.0.1"]);
    let call = rig.start("GET", "/function/good", "");
    until("the call to be held", || rig.held() == 1).await;
    let all = rig.get("/status-functions").await;
    assert_eq!(header_of(&all, "content-type"), Some("application/json"));
    let mut all = value(&all);
    let last_call = all[1]["LastCall"].take();
    assert!(last_call.as_str().is_some_and(|at| at.parse::<jiff::Timestamp>().is_ok()), "{last_call}");
    all[1]["LastCall"] = "2026-01-05T12:00:00Z".into();
    // the dashboard's types are checked against the same file
    let shape: Value =
        serde_json::from_str(include_str!("../../../../web/src/fixtures/statuses.json")).unwrap();
    assert_eq!(all, shape);
    assert_eq!(value(&rig.get("/status-function/bad").await), shape[0]);
    call.abort();
}

#[tokio::test]
async fn readiness_tells_what_is_missing() {
    let is_ready = Arc::new(AtomicBool::new(false));
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let hooks = Hooks {
        ready: Some({
            let (is_ready, notes) = (is_ready.clone(), notes.clone());
            Arc::new(move || match is_ready.load(Ordering::SeqCst) {
                true => Ok(notes.lock().unwrap().clone()),
                false => Err("no master".into()),
            })
        }),
        ..Hooks::default()
    };
    let rig = Rig::with(visible(), hooks).await;
    let seen = rig.get("/ready").await;
    assert_eq!(
        (seen.status().as_u16(), text(&seen)),
        (503, "NOT_READY\nthe functions are not known yet\n".into())
    );
    rig.functions([]);
    let seen = rig.get("/ready").await;
    assert_eq!((seen.status().as_u16(), text(&seen)), (503, "NOT_READY\nno master\n".into()));
    is_ready.store(true, Ordering::SeqCst);
    let seen = rig.get("/ready").await;
    assert_eq!((seen.status().as_u16(), text(&seen)), (200, "READY".into()));
    // A controller that waits is worth knowing, and no reason to take no calls.
    notes.lock().unwrap().push("controller function waits for functions".into());
    let seen = rig.get("/ready").await;
    assert_eq!(
        (seen.status().as_u16(), text(&seen)),
        (200, "READY\ncontroller function waits for functions\n".into())
    );
}

#[tokio::test]
async fn metrics_can_be_scraped() {
    let hooks = Hooks { metrics: Some(Arc::new(|page| page.push_str("more 1\n"))), ..Hooks::default() };
    let rig = Rig::with(visible(), hooks).await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[&pod])]);
    rig.get("/function/fib").await;
    let page = rig.get("/metrics").await;
    assert_eq!(header_of(&page, "content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let page = text(&page);
    for line in [
        "# TYPE ballast_gateway_calls_total counter",
        "ballast_gateway_calls_total{function=\"fib\",code=\"2xx\"} 1",
        "# TYPE ballast_gateway_call_duration_seconds histogram",
        "ballast_gateway_call_duration_seconds_bucket{function=\"fib\",le=\"+Inf\"} 1",
        "ballast_gateway_call_duration_seconds_count{function=\"fib\"} 1",
        "ballast_gateway_cold_start_seconds_count{function=\"fib\"} 0",
        "ballast_gateway_held_calls{function=\"fib\"} 0",
        "ballast_gateway_connections 1",
        "more 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is missing in\n{page}");
    }
    rig.functions([]);
    assert!(!text(&rig.get("/metrics").await).contains("fib"), "what is gone is not shown for ever");
}

async fn follow(rig: &Rig) -> Lines<BufReader<tokio::net::TcpStream>> {
    let mut stream = rig.connect().await;
    stream.write_all(b"GET /status-functions-stream HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    BufReader::new(stream).lines()
}

/// The data of the next event that has this name.
async fn event(lines: &mut Lines<BufReader<tokio::net::TcpStream>>, name: &str) -> Value {
    patient(name, async {
        loop {
            let line = lines.next_line().await.unwrap().expect("the stream goes on");
            if line == format!("event: {name}") {
                let data = lines.next_line().await.unwrap().unwrap();
                return serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            }
        }
    })
    .await
}

#[tokio::test]
async fn changes_are_streamed() {
    let rig = Rig::new().await;
    let pod = Pod::echo("pod").await;
    rig.functions([function("fib", &[])]);
    let mut lines = follow(&rig).await;
    assert_eq!(event(&mut lines, "state").await[0]["NumberReady"], 0);
    rig.functions([function("fib", &[&pod])]);
    assert_eq!(event(&mut lines, "state").await[0]["NumberReady"], 1);
    rig.activity.touch(&"fib".into());
    let activity = event(&mut lines, "activity").await;
    assert_eq!((&activity["Name"], &activity["Active"]), (&json!("fib"), &json!(0)));
    assert!(activity["LastCall"].is_string());
}

#[tokio::test]
async fn streams_are_bounded() {
    let rig = Rig::with(Options { streams: 2, ..visible() }, Hooks::default()).await;
    let mut followers = vec![follow(&rig).await, follow(&rig).await];
    for follower in &mut followers {
        event(follower, "state").await;
    }
    let refused = rig.get("/status-functions-stream").await;
    assert_eq!((refused.status().as_u16(), header_of(&refused, "retry-after")), (429, Some("10")));
    drop(followers.pop());
    until("a place", || rig.metric("ballast_gateway_status_streams", "") == 1.0).await;
    event(&mut follow(&rig).await, "state").await;
}

#[tokio::test]
async fn a_stream_does_not_hold_up_the_end() {
    let rig = Rig::with(Options { grace: Duration::from_secs(3600), ..visible() }, Hooks::default()).await;
    let mut follower = follow(&rig).await;
    event(&mut follower, "state").await;
    rig.shutdown.cancel();
    patient("the end", rig.ended).await.unwrap();
}
