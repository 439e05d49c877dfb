//! What the program writes into its own log, in the words of the guide.

use anyhow::Result;
use e2e::eventually;
use serde_json::json;

use crate::world::World;

pub async fn it_says_what_was_decided_and_what_cannot_be_used(world: &mut World) -> Result<()> {
    world.restart_with("--verbose").await?;
    let trigger = |name: &str, query: &str, threshold: i32| json!({"MetricName": name, "Query": query, "Threshold": threshold});
    let scale = json!({"Triggers": [
        trigger("broken", "sum(", 1),
        trigger("absent", "sum(demo_of_nobody)", 1),
        trigger("endless", "1 / 0", 1),
        trigger("flat", "vector(1)", 0),
    ]});
    world.deployment("odd", &[("ReplicasMin", "1"), ("Scale", &scale.to_string())], 1).await?;
    world.function("fib", &[("TimeoutSecondBeforeSetReplicasMin", "2")]).await?;
    world.ok("fib/fib/1").await?;
    for (level, words) in [
        ("INFO", "Scale up fib from 0 to 1"),
        ("DEBUG", "2 s left before scale down of fib"),
        ("INFO", "Scale down fib from 1 to 0"),
        ("WARN", "trigger broken of odd cannot be used: cannot parse the query"),
        ("WARN", "trigger absent of odd cannot be used: there is no recent data"),
        ("WARN", "trigger endless of odd cannot be used: its value is negative or not a finite number"),
        ("WARN", "trigger flat of odd cannot be used: its threshold is not a positive number"),
    ] {
        until_said(world, level, words).await?;
    }
    Ok(())
}

/// By whichever node decides.
async fn until_said(world: &mut World, level: &str, words: &str) -> Result<()> {
    let nodes: Vec<String> = world.nodes.iter().map(|node| node.name.clone()).collect();
    eventually(format!("{level} {words}"), || {
        let logs: Result<String> = nodes.iter().map(|node| world.log(node)).collect();
        async move {
            let logs = logs?;
            let said = logs.lines().any(|line| line.contains(level) && line.contains(words));
            Ok(if said { Ok(()) } else { Err(logs) })
        }
    })
    .await
}
