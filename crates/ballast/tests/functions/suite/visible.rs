//! What people can see.

use anyhow::{Context, Result, ensure};
use e2e::eventually;
use serde_json::{Value, json};

use crate::{
    http,
    world::{Node, World},
};

/// Also the next master, before it has decided anything itself.
pub async fn every_node_says_why(world: &mut World) -> Result<()> {
    world.function("fib", &[("TimeoutSecondBeforeSetReplicasMin", "2")]).await?;
    world.ok("fib/fib/1").await?;
    world.until_replicas("fib", |n| n == 0).await?;
    let mut said = Vec::new();
    for node in &world.nodes {
        let asleep = eventually(format!("{} to say why fib sleeps", node.name), || async {
            let last = last_decision(node, "fib").await?;
            let is_it = last["Current"] == 0 && last["Desired"] == 0 && last["Reason"] == "Idle";
            Ok(if is_it { Ok(last) } else { Err(last) })
        });
        said.push(rules(&asleep.await?));
    }
    ensure!(said[0].contains(&"activity".to_owned()) && said.iter().all(|one| *one == said[0]), "{said:?}");
    eventually("only the master to show gauges", || async {
        let master = world.master().await?;
        let mut showing = Vec::new();
        for node in &world.nodes {
            let metrics = http::get(node.gateway, "/metrics").await?.body;
            if metrics.contains("slimfaas_autoscaler_desired_replicas{function=\"fib\"") {
                showing.push(node.name.as_str());
            }
        }
        Ok(if showing == [master.as_str()] { Ok(()) } else { Err((master, showing)) })
    })
    .await?;
    if world.nodes.len() == 1 {
        return Ok(());
    }
    let old = world.master().await?;
    world.node(&old)?.kill();
    let next = world.master().await?;
    ensure!(next != old, "{next} is still the master");
    for node in world.nodes.iter().filter(|node| node.is_running()) {
        let last = last_decision(node, "fib").await?;
        ensure!(last["Desired"] == 0 && rules(&last) == said[0], "{}: {last}", node.name);
    }
    Ok(())
}

async fn last_decision(node: &Node, name: &str) -> Result<Value> {
    let mut status = http::get(node.gateway, &format!("/status-function/{name}")).await?.json()?;
    Ok(status["LastDecision"].take())
}

/// The rules of a decision in their order.
fn rules(decision: &Value) -> Vec<String> {
    let steps = decision["Steps"].as_array().into_iter().flatten();
    steps.filter_map(|step| step["rule"].as_str().map(str::to_owned)).collect()
}

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
    let answer = ask("sum(demo_answer) please").await?;
    let words = "Unexpected trailing characters in query";
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
    // each bucket of a histogram matches all the others
    let query = "http_server_requests_seconds_bucket + on (job) http_server_requests_seconds_bucket";
    let answer = eventually("a query that cannot be evaluated", || async {
        let answer = ask(query).await?;
        Ok(if answer.status == 500 { Ok(answer) } else { Err(answer) })
    })
    .await?;
    ensure!(answer.header("content-type") == Some("application/problem+json"), "{answer:?}");
    let problem = answer.json()?;
    ensure!(problem["title"] == "Evaluation error" && problem["status"] == 500, "{problem}");
    ensure!(problem["detail"].to_string().contains("many-to-many"), "{problem}");
    let store = http::get(at, "/debug/store").await?.json()?;
    ensure!(store["requestedMetricNames"].to_string().contains("demo_answer"), "{store}");
    ensure!(store["seriesCount"].as_u64() >= Some(1), "{store}");
    Ok(())
}

/// The test is no pod: it is believed to call for one only where its address is that of a trusted proxy.
pub async fn private_is_for_pods_and_for_those_a_trusted_proxy_names(world: &mut World) -> Result<()> {
    world.function("shop", &[]).await?;
    world.function("secret", &[("DefaultVisibility", "Private")]).await?;
    world.ok("shop/fib/1").await?;
    let pods = world.pods("shop").await?;
    let pod = pods.iter().find_map(|pod| pod.status.as_ref()?.pod_ip.clone()).context("no pod of shop")?;
    let path = "/function/secret/fib/10";

    let stranger = http::get_for(&pod, world.any_gateway(), path).await?;
    ensure!(stranger.status == 404, "no proxy is trusted yet: {stranger:?}");

    world.restart_with("--trusted-proxies=192.0.2.0/24,127.0.0.1").await?;
    world.all_know("secret").await?;
    let of_pod = eventually("the pod to be known again", || async {
        let answer = http::get_for(&pod, world.any_gateway(), path).await?;
        Ok(if answer.status == 200 { Ok(answer) } else { Err(answer) })
    })
    .await?;
    ensure!(of_pod.json()?["fibonacci"] == 55, "{of_pod:?}");
    for client in ["192.0.2.7", "203.0.113.9", &format!("{pod}, 203.0.113.9")] {
        let answer = http::get_for(client, world.any_gateway(), path).await?;
        ensure!(answer.status == 404, "{client}: {answer:?}");
    }
    Ok(())
}
