//! What happens when a part of it dies.

use anyhow::{Result, ensure};
use e2e::eventually;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
};
use nix::sys::signal::Signal;

use super::metrics::scale;
use crate::world::World;

/// A call that comes while there is no master waits for the next one.
pub async fn another_node_follows_a_killed_master(world: &mut World) -> Result<()> {
    world.function("fib", &[]).await?;
    let old = world.master().await?;
    world.node(&old)?.kill();
    let answer = world.ok("fib/fib/10").await?;
    ensure!(answer.json()?["fibonacci"] == 55, "{answer:?}");
    let new = world.master().await?;
    ensure!(new != old, "{new} is still the master");
    // and the scraping is not left with it, as long as there are two
    eventually("master and scraper to differ", || async {
        let (master, scraper) = (world.master().await?, world.scraper().await?);
        Ok(if master != scraper { Ok(()) } else { Err((master, scraper)) })
    })
    .await
}

/// It comes back to life believing that it is the master.
pub async fn a_paused_master_cannot_write(world: &mut World) -> Result<()> {
    world.function("fib", &[]).await?;
    let old = world.master().await?;
    world.node(&old)?.signal(Signal::SIGSTOP)?;
    let gateway = world.nodes.iter().find(|node| node.name != old).map(|node| node.gateway);
    let gateway = gateway.unwrap_or_else(|| world.any_gateway());
    let answer = crate::http::get(gateway, "/function/fib/fib/10").await?;
    ensure!(answer.status == 200, "{answer:?}");
    let new = world.master().await?;
    ensure!(new != old, "{new} is still the master");
    world.node(&old)?.signal(Signal::SIGCONT)?;
    // it is awake once it answers, and then it has to see that its time is over
    world.ok("fib/fib/10").await?;
    let gateway = world.node(&old)?.gateway;
    let answer = crate::http::get(gateway, "/function/fib/fib/10").await?;
    ensure!(answer.status == 200, "{answer:?}");
    ensure!(world.master().await? == new);
    let events = world.place.api::<Event>().list(&ListParams::default()).await?.items;
    let ups: Vec<_> = events.iter().filter(|event| event.reason.as_deref() == Some("WakeUp")).collect();
    ensure!(ups.len() == 1 && ups[0].count.unwrap_or(1) == 1, "woken more than once: {ups:?}");
    Ok(())
}

pub async fn another_node_follows_a_killed_scraper(world: &mut World) -> Result<()> {
    world.function("work", &[("Scale", &scale(0)), ("ReplicasMin", "1")]).await?;
    world.ok("work/gauge/load/20").await?;
    world.until_replicas("work", |n| n == 2).await?;
    let old = world.scraper().await?;
    world.node(&old)?.kill();
    let pods = world.place.ready_pods("app=work", 2).await?;
    for pod in pods {
        e2e::http_get(&e2e::pod_ip(&pod)?, 8080, "/gauge/load/20").await?;
    }
    world.until_replicas("work", |n| n == 4).await?;
    ensure!(world.scraper().await? != old);
    Ok(())
}

pub async fn calls_go_on_without_a_gateway_node(world: &mut World) -> Result<()> {
    world.function("fib", &[]).await?;
    world.ok("fib/fib/10").await?;
    let master = world.master().await?;
    let other = world.nodes.iter().find(|node| node.name != master).map(|node| node.name.clone());
    let other = other.unwrap_or_default();
    world.node(&other)?.kill();
    for _ in 0..20 {
        world.ok("fib/fib/10").await?;
    }
    Ok(())
}

pub async fn one_of_three_nats_servers_may_die(world: &mut World) -> Result<()> {
    world.function("fib", &[]).await?;
    if let Some(nats) = &mut world.nats {
        nats.kill(0);
    }
    world.ok("fib/fib/10").await?;
    Ok(())
}

/// The call of a pod that dies is answered, at the latest at its deadline, and the next one goes elsewhere.
pub async fn a_pod_may_die_during_a_call(world: &mut World) -> Result<()> {
    let deadline = r#"{"DefaultSync":{"HttpTimeout":20}}"#;
    world.function("fib", &[("ReplicasMin", "1"), ("Configuration", deadline)]).await?;
    world.ok("fib/fib/1").await?;
    let gateway = world.any_gateway();
    let call = tokio::spawn(crate::http::get(gateway, "/function/fib/sleep/600"));
    eventually("the call to be under way", || async {
        let status = crate::http::get(gateway, "/status-function/fib").await?.json()?;
        Ok(if status["ActiveCalls"] == 1 { Ok(()) } else { Err(status) })
    })
    .await?;
    for pod in world.pods("fib").await? {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        world.place.api::<Pod>().delete(&pod.name_any(), &now).await?;
    }
    let answer = call.await??;
    ensure!((500..600).contains(&answer.status), "{answer:?}");
    eventually("the next call to be answered", || async {
        let answer = world.call("fib/fib/10").await?;
        Ok(if answer.status == 200 { Ok(()) } else { Err(answer) })
    })
    .await
}

/// Calls are accepted by the other nodes while the master dies: every one of them is made.
pub async fn no_accepted_call_is_lost_with_the_master(world: &mut World) -> Result<()> {
    world.function("fib", &[("NumberParallelRequest", "4")]).await?;
    let old = world.master().await?;
    let gateway = world.nodes.iter().find(|node| node.name != old).map(|node| node.gateway);
    let gateway = gateway.unwrap_or_else(|| world.any_gateway());
    let mut accepted = Vec::new();
    for n in 0..60 {
        if n == 20 {
            // some are waiting, some are under way
            world.node(&old)?.kill();
        }
        accepted.push(world.later(gateway, "fib/fib/5").await?);
    }
    for id in &accepted {
        let answer = crate::world::result_at(gateway, "fib", id).await?;
        ensure!(answer.status == 200 && answer.json()?["fibonacci"] == 5, "{id}: {answer:?}");
    }
    ensure!(world.master().await? != old);
    Ok(())
}
