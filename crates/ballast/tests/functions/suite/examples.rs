//! The guide's examples, as they stand in `examples/on-demand` but for what would take long: pods are scraped, and the
//! queue is Ballast's own.

use anyhow::{Result, ensure};
use e2e::eventually;
use serde_json::json;

use crate::world::World;

const FIBONACCI: &str = include_str!("../../../../../examples/on-demand/fibonacci.yaml");
const QUEUE: &str = include_str!("../../../../../examples/on-demand/queue.yaml");

/// An example asleep, with some of its text replaced. What is to be replaced must be there.
pub fn asleep(example: &str, changes: &[(&str, &str)]) -> Result<String> {
    let mut changed = example.to_owned();
    for (from, to) in [("\nspec:\n", "\nspec:\n  replicas: 0\n")].iter().chain(changes) {
        ensure!(changed.contains(from), "the example does not say {from:?}:\n{example}");
        changed = changed.replace(from, to);
    }
    Ok(changed)
}

pub async fn calls_latency_and_a_queue_raise(world: &mut World) -> Result<()> {
    let world = &*world;
    tokio::try_join!(calls(world), latency(world), queue(world)).map(drop)
}

/// A call in two seconds for each pod instead of 20 a second: more than 30 in a minute are too many for one.
async fn calls(world: &World) -> Result<()> {
    world.place.apply(&asleep(FIBONACCI, &[(r#""Threshold": 20"#, r#""Threshold": 0.5"#)])?).await?;
    world.all_know("fibonacci").await?;
    eventually("calls to raise", || async {
        world.ok("fibonacci/fib/1").await?;
        let replicas = world.replicas("fibonacci").await?;
        Ok(if replicas > 1 { Ok(()) } else { Err(replicas) })
    })
    .await?;
    until_read(world, "fibonacci", "rps_per_pod", 0.5).await
}

/// Two pods at most, because no number of them makes a sleep shorter.
async fn latency(world: &World) -> Result<()> {
    let scale = json!({
        "ReplicaMax": 2,
        "Triggers": [{
            "MetricType": "AverageValue",
            "MetricName": "p95_latency",
            "Query": "histogram_quantile(0.95, sum by (le) ( rate(http_server_requests_seconds_bucket{namespace=\"${namespace}\",job=\"${app}\"}[1m]) ))",
            "Threshold": 0.500,
        }],
    });
    world.function("slow", &[("Scale", &scale.to_string())]).await?;
    eventually("latency to raise", || async {
        world.ok("slow/sleep/0.6").await?;
        let replicas = world.replicas("slow").await?;
        Ok(if replicas == 2 { Ok(()) } else { Err(replicas) })
    })
    .await?;
    until_read(world, "slow", "p95_latency", 0.5).await
}

/// 20 calls that wait instead of 200. Of 60, ten are under way and 50 wait: more than enough for three pods.
async fn queue(world: &World) -> Result<()> {
    let changes =
        [(r#""Threshold": 200"#, r#""Threshold": 20"#), (r#""ReplicaMax": 50"#, r#""ReplicaMax": 3"#)];
    world.place.apply(&asleep(QUEUE, &changes)?).await?;
    world.all_know("my-queue-driven-func").await?;
    for _ in 0..60 {
        world.later(world.any_gateway(), "my-queue-driven-func/sleep/10").await?;
    }
    world.until_replicas("my-queue-driven-func", |n| n == 3).await?;
    until_read(world, "my-queue-driven-func", "queue_length", 20.0).await
}

/// Until a decision tells that this trigger read more than its threshold.
async fn until_read(world: &World, function: &str, trigger: &str, threshold: f64) -> Result<()> {
    eventually(format!("{trigger} of {function}"), || async {
        let status = world.status(function).await?;
        let steps = status["LastDecision"]["Steps"].as_array().into_iter().flatten();
        let above = steps.filter(|step| step["input"]["trigger"] == trigger).any(|step| {
            step["rule"] == "trigger"
                && step["input"]["value"].as_f64().is_some_and(|value| value > threshold)
        });
        Ok(if above { Ok(()) } else { Err(status) })
    })
    .await
}
