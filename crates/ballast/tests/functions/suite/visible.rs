//! What people can see.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::{http, world::World};

pub async fn bad_annotations_are_told_and_the_function_is_served(world: &mut World) -> Result<()> {
    let bad = [("Schedule", "{not json"), ("ReplicasAtStart", "many"), ("DependsOn", "odd")];
    world.function("odd", &bad).await?;
    world.ok("odd/fib/1").await?;
    for annotation in ["SlimFaas/Schedule", "SlimFaas/ReplicasAtStart", "SlimFaas/DependsOn"] {
        let told = |message: &Option<String>| {
            message.as_deref().is_some_and(|message| message.starts_with(&format!("{annotation}: ")))
        };
        let event = world.event("odd", |event| told(&event.message)).await?;
        ensure!(
            event.reason.as_deref() == Some("BadAnnotation") && event.type_.as_deref() == Some("Warning")
        );
        let status = world.status("odd").await?;
        ensure!(status["Problems"].to_string().contains(annotation), "{status}");
    }
    Ok(())
}

pub async fn debug_endpoints_answer_as_the_guide_says(world: &mut World) -> Result<()> {
    world.function("fib", &[]).await?;
    world.ok("fib/gauge/answer/42").await?;
    let at = world.any_gateway();
    let ask = |query: &str| {
        let body = json!({ "query": query }).to_string();
        async move { http::request(at, "POST", "/debug/promql/eval", &body).await }
    };
    let answer = ask("").await?;
    ensure!(answer.status == 400 && answer.json()?["error"] == "query is required", "{answer:?}");
    let answer = ask("1/0").await?;
    let words = "PromQL result is NaN or Infinity (probably no data or division by zero).";
    ensure!(answer.status == 400 && answer.json()?["error"] == words, "{answer:?}");

    // asking is what makes it collected, on whichever node
    let query = "max_over_time(demo_answer{job=\"fib\"}[30s])";
    e2e::eventually("the metric to be collected", || async {
        let answer = ask(query).await?;
        Ok(if answer.status == 200 { Ok(answer) } else { Err(answer) })
    })
    .await
    .and_then(|answer| {
        ensure!(answer.json()?["value"] == 42.0, "{answer:?}");
        Ok(())
    })?;
    let store = http::get(at, "/debug/store").await?.json()?;
    ensure!(store["requestedMetricNames"].to_string().contains("demo_answer"), "{store}");
    ensure!(store["seriesCount"].as_u64() >= Some(1), "{store}");
    Ok(())
}
