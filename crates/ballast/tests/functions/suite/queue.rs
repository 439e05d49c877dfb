//! Asynchronous calls: results, retries, dead letters, limits.

use anyhow::{Result, ensure};
use e2e::eventually;

use super::faults::at_once;
use crate::{http, world::World};

/// Wakes the function like any other call, and the answer is kept.
pub async fn a_result_can_be_read(world: &mut World) -> Result<()> {
    world.function("fib", &[]).await?;
    let id = world.later(world.any_gateway(), "fib/fib/10?x=1").await?;
    let answer = world.result("fib", &id).await?;
    ensure!(answer.status == 200 && answer.json()?["fibonacci"] == 55, "{answer:?}");
    let unknown = http::get(world.any_gateway(), "/async-function-result/fib/nobody").await?;
    ensure!(unknown.status == 404, "{unknown:?}");
    Ok(())
}

pub async fn a_call_that_fails_is_tried_again_and_given_up(world: &mut World) -> Result<()> {
    let configuration =
        r#"{"DefaultAsync":{"HttpTimeout":60,"TimeoutRetries":[1,1],"HttpStatusRetries":[503]}}"#;
    world.function("fib", &[("Configuration", configuration)]).await?;
    let id = world.later(world.any_gateway(), "fib/status/503").await?;
    world.result("fib", &id).await?;
    let letters = eventually("a dead letter", || async {
        let answer = http::get(world.any_gateway(), "/async-function-dead/fib").await?.json()?;
        let letters = answer.as_array().cloned().unwrap_or_default();
        Ok(if letters.is_empty() { Err(answer) } else { Ok(letters) })
    })
    .await?;
    ensure!(letters[0]["Id"] == id.as_str() && letters[0]["Attempts"] == 3, "{letters:?}");
    // a status that is not to be tried again is the answer
    let id = world.later(world.any_gateway(), "fib/status/404").await?;
    let answer = world.result("fib", &id).await?;
    ensure!(answer.status == 404, "{answer:?}");
    Ok(())
}

/// Two at a time, as the pod itself counts them.
pub async fn no_more_than_the_limit_are_under_way(world: &mut World) -> Result<()> {
    world.function("slow", &[("NumberParallelRequest", "2")]).await?;
    world.ok("slow/fib/1").await?;
    let pods = world.place.ready_pods("app=slow", 1).await?;
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(world.later(world.any_gateway(), "slow/sleep/2").await?);
    }
    for id in &ids {
        let answer = world.result("slow", id).await?;
        ensure!(answer.status == 200, "{answer:?}");
    }
    let most = at_once(&pods).await?;
    ensure!(most == [2], "six calls, two at a time, were {most:?} at once");
    let refused = http::request(world.any_gateway(), "POST", "/async-function/nobody/x", "").await?;
    ensure!(refused.status == 404, "{refused:?}");
    Ok(())
}

/// Both have a function of the same name: a call that one group accepts is neither made nor known by the other.
pub async fn two_namespaces_share_servers_but_nothing_else(world: &mut World) -> Result<()> {
    let neighbour = world.neighbour().await?;
    for group in [&*world, &neighbour] {
        group.function("fib", &[]).await?;
    }
    for (own, other) in [(&*world, &neighbour), (&neighbour, &*world)] {
        let id = own.later(own.any_gateway(), "fib/fib/10").await?;
        let answer = own.result("fib", &id).await?.json()?;
        let pods = own.pods("fib").await?;
        let names: Vec<_> = pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
        ensure!(answer["pod"].as_str().is_some_and(|pod| names.contains(&pod)), "{answer}, not of {names:?}");
        let path = format!("/async-function-result/fib/{id}");
        let unknown = http::get(other.any_gateway(), &path).await?;
        ensure!(unknown.status == 404, "the other namespace knows it: {unknown:?}");
    }
    neighbour.clear().await
}
