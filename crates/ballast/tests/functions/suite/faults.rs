//! What happens when a part of it dies.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use e2e::eventually;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Event, Pod},
};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use nix::sys::signal::Signal;
use serde_json::json;

use super::metrics::scale;
use crate::{
    http,
    load::Load,
    world::{World, result_at},
};

/// A call that comes while there is no master waits for the next one.
pub async fn another_node_follows_a_killed_master(world: &mut World) -> Result<()> {
    world.function("fib", &[]).await?;
    let load = Load::start(world, world.gateways()).await?;
    let old = world.master().await?;
    load.does_without(world.node(&old)?.gateway);
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
    .await?;
    load.end().await
}

/// It comes back to life believing that it is the master.
pub async fn a_paused_master_cannot_write(world: &mut World) -> Result<()> {
    world.function("fib", &[]).await?;
    let old = world.master().await?;
    let others = world.gateways_without(&old);
    let load = Load::start(world, others.clone()).await?;
    world.node(&old)?.signal(Signal::SIGSTOP)?;
    let answer = http::get(others[0], "/function/fib/fib/10").await?;
    ensure!(answer.status == 200, "{answer:?}");
    let new = world.master().await?;
    ensure!(new != old, "{new} is still the master");
    world.node(&old)?.signal(Signal::SIGCONT)?;
    // it is awake once it answers, and then it has to see that its time is over
    world.ok("fib/fib/10").await?;
    let gateway = world.node(&old)?.gateway;
    let answer = http::get(gateway, "/function/fib/fib/10").await?;
    ensure!(answer.status == 200, "{answer:?}");
    ensure!(world.master().await? == new);
    ensure!(wakes(world, "fib").await? == 1, "woken more than once");
    load.end().await
}

/// How often a function was woken, as Events tell.
async fn wakes(world: &World, name: &str) -> Result<i32> {
    let events = world.place.api::<Event>().list(&ListParams::default()).await?.items;
    let ups = events.iter().filter(|event| {
        event.reason.as_deref() == Some("WakeUp") && event.involved_object.name.as_deref() == Some(name)
    });
    Ok(ups.map(|event| event.count.unwrap_or(1)).sum())
}

pub async fn another_node_follows_a_killed_scraper(world: &mut World) -> Result<()> {
    world.function("work", &[("Scale", &scale(0)), ("ReplicasMin", "1")]).await?;
    world.ok("work/gauge/load/20").await?;
    world.until_replicas("work", |n| n == 2).await?;
    let load = Load::start(world, world.gateways()).await?;
    let old = world.scraper().await?;
    load.does_without(world.node(&old)?.gateway);
    world.node(&old)?.kill();
    let pods = world.place.ready_pods("app=work", 2).await?;
    for pod in pods {
        e2e::http_get(&e2e::pod_ip(&pod)?, 8080, "/gauge/load/20").await?;
    }
    world.until_replicas("work", |n| n == 4).await?;
    ensure!(world.scraper().await? != old);
    load.end().await
}

pub async fn calls_go_on_without_a_gateway_node(world: &mut World) -> Result<()> {
    let load = Load::start(world, world.gateways()).await?;
    let master = world.master().await?;
    let other = world.nodes.iter().find(|node| node.name != master).map(|node| node.name.clone());
    let other = other.context("there is one node only")?;
    load.does_without(world.node(&other)?.gateway);
    world.node(&other)?.kill();
    load.end().await
}

pub async fn one_of_three_nats_servers_may_die(world: &mut World) -> Result<()> {
    world.function("fib", &[("NumberParallelRequest", "4")]).await?;
    let load = Load::start(world, world.gateways()).await?;
    let at = world.any_gateway();
    let mut accepted = world.later_for_sure(at, "fib/fib/5", 20).await?;
    // The one that answers for the calls: losing a follower is the easier case.
    let nats = world.nats.as_mut().context("a store in a file has no servers")?;
    let leader = nats.stream_leader("-queues").await?;
    nats.kill(leader);
    accepted.extend(world.later_for_sure(at, "fib/fib/5", 20).await?);
    world.ok("fib/fib/10").await?;
    all_are_made(at, &accepted).await?;
    load.end().await
}

/// The call of a pod that dies is answered, at the latest at its deadline, and the next one goes elsewhere.
pub async fn a_pod_may_die_during_a_call(world: &mut World) -> Result<()> {
    let deadline = r#"{"DefaultSync":{"HttpTimeout":20}}"#;
    world.function("fib", &[("ReplicasMin", "1"), ("Configuration", deadline)]).await?;
    world.ok("fib/fib/1").await?;
    let gateway = world.any_gateway();
    let call = tokio::spawn(http::get(gateway, "/function/fib/sleep/600"));
    eventually("the call to be under way", || async {
        let status = http::get(gateway, "/status-function/fib").await?.json()?;
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

/// Two pods, and one of them dies in the midst of calls: those that it broke off are made again on the other.
pub async fn a_call_without_a_body_outlives_its_pod(world: &mut World) -> Result<()> {
    let load = Load::start(world, world.gateways()).await?;
    let patch = Patch::Merge(json!({"spec": {"replicas": 2}}));
    world.place.api::<Deployment>().patch("steady", &PatchParams::default(), &patch).await?;
    let pods = world.place.ready_pods("app=steady", 2).await?;
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    world.place.api::<Pod>().delete(&pods[0].name_any(), &now).await?;
    world.place.ready_pods("app=steady", 2).await?;
    load.end().await
}

/// Calls are accepted by the other nodes while the master dies: every one of them is made.
pub async fn no_accepted_call_is_lost_with_the_master(world: &mut World) -> Result<()> {
    world.function("fib", &[("NumberParallelRequest", "4")]).await?;
    let old = world.master().await?;
    let at = world.gateways_without(&old)[0];
    let load = Load::start(world, world.gateways()).await?;
    let mut accepted = Vec::new();
    for n in 0..60 {
        if n == 20 {
            // some are waiting, some are under way
            load.does_without(world.node(&old)?.gateway);
            world.node(&old)?.kill();
        }
        accepted.push(world.later(at, "fib/fib/5").await?);
    }
    all_are_made(at, &accepted).await?;
    ensure!(world.master().await? != old);
    load.end().await
}

/// One call a pod. Two of three pods are still busy with calls of the killed master when the next one begins: it must
/// not send them a second one, and the third pod need not wait for them.
pub async fn no_pod_gets_too_many_when_the_master_is_killed(world: &mut World) -> Result<()> {
    let limits = [("ReplicasMin", "3"), ("NumberParallelRequest", "9"), ("NumberParallelRequestPerPod", "1")];
    world.deployment("slow", &limits, 3).await?;
    let pods = world.place.ready_pods("app=slow", 3).await?;
    let old = world.master().await?;
    let at = world.gateways_without(&old)[0];
    // less than the 15 seconds after which the next master makes them again
    let mut accepted = vec![world.later(at, "slow/sleep/9").await?, world.later(at, "slow/sleep/9").await?];
    eventually("two pods to be busy", || async {
        let most = at_once(&pods).await?;
        Ok(if most.iter().sum::<u64>() == 2 { Ok(()) } else { Err(most) })
    })
    .await?;
    world.node(&old)?.kill();
    for _ in 0..20 {
        accepted.push(world.later(at, "slow/sleep/0.3").await?);
    }
    for id in &accepted {
        let answer = result_at(at, "slow", id).await?;
        ensure!(answer.status == 200, "{id}: {answer:?}");
    }
    let most = at_once(&pods).await?;
    ensure!(most == [1, 1, 1], "a pod had more than one call at once: {most:?}");
    ensure!(world.master().await? != old);
    Ok(())
}

/// How many calls each pod had at once, at most, as it counts itself.
pub async fn at_once(pods: &[Pod]) -> Result<Vec<u64>> {
    let mut most = Vec::new();
    for pod in pods {
        let address = SocketAddr::new(e2e::pod_ip(pod)?.parse()?, 8080);
        let page = http::get(address, "/most").await?.json()?;
        most.push(page["most"].as_u64().context("the pod does not count")?);
    }
    Ok(most)
}

/// Calls of `fib/5`, as `at` knows them.
async fn all_are_made(at: SocketAddr, accepted: &[String]) -> Result<()> {
    for id in accepted {
        let answer = result_at(at, "fib", id).await?;
        ensure!(answer.status == 200 && answer.json()?["fibonacci"] == 5, "{id}: {answer:?}");
    }
    Ok(())
}

/// It goes on serving what is awake. That it is the master no longer it finds out by its own clock.
pub async fn a_node_that_is_cut_off_is_replaced_and_comes_back(world: &mut World) -> Result<()> {
    world.put_behind_lines().await?;
    world.function("fib", &[("NumberParallelRequest", "4")]).await?;
    world.function("late", &[]).await?;
    let old = world.master().await?;
    let (cut_off, at) = (world.node(&old)?.gateway, world.gateways_without(&old)[0]);
    let load = Load::start(world, world.gateways()).await?;
    let mut accepted = world.later_for_sure(at, "fib/fib/5", 20).await?;
    world.lines(&old)?.cut();
    accepted.extend(world.later_for_sure(at, "fib/fib/5", 20).await?);
    let answer = http::get(at, "/function/late/fib/10").await?;
    ensure!(answer.status == 200, "{answer:?}");
    world.master_after(&old).await?;
    eventually("the node to know that it is the master no longer", || async {
        let page = http::get(cut_off, "/metrics").await?.body;
        let of_master = |line: &&str| {
            line.starts_with("slimfaas_autoscaler_") || line.starts_with("slimfaas_function_queue_")
        };
        let shown: Vec<String> = page.lines().filter(of_master).map(str::to_owned).collect();
        Ok(if shown.is_empty() { Ok(()) } else { Err(shown) })
    })
    .await?;
    all_are_made(at, &accepted).await?;

    world.lines(&old)?.mend();
    eventually("the node to see what happened meanwhile", || async {
        let status = http::get(cut_off, "/status-function/late").await?.json()?;
        let knows_why = status["LastDecision"]["Current"] == 1;
        Ok(if status["NumberReady"] == 1 && knows_why { Ok(()) } else { Err(status) })
    })
    .await?;
    let accepted = world.later_for_sure(cut_off, "fib/fib/5", 5).await?;
    all_are_made(cut_off, &accepted).await?;
    // what the old master may have sent arrived too late
    for name in ["fib", "late"] {
        ensure!(wakes(world, name).await? == 1, "{name} was woken more than once");
    }
    load.end().await
}

pub async fn a_node_that_hears_nothing_of_the_cluster_says_so(world: &mut World) -> Result<()> {
    world.put_behind_lines().await?;
    let figure = async |at, name: &str| -> Result<Option<f64>> {
        let page = http::get(at, "/metrics").await?.body;
        Ok(page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()))
    };
    const IS_MASTER: &str = r#"ballast_role{role="master"}"#;
    // a lease may still name what was killed: nodes were just started again
    let (master, at) = eventually("a master that knows it", || async {
        let master = world.master().await?;
        let at = world.nodes.iter().find(|node| node.name == master).context("no such node")?.gateway;
        let (ready, is_master) = (http::get(at, "/ready").await?, figure(at, IS_MASTER).await?);
        let knows_it = ready.status == 200 && is_master == Some(1.0);
        Ok(if knows_it { Ok((master, at)) } else { Err((ready, is_master)) })
    })
    .await?;

    world.lines(&master)?.cut_api();
    eventually("the node to say that it is cut off", || async {
        let answer = http::get(at, "/ready").await?;
        let says_so = answer.status == 503 && answer.body.contains("renew its lease");
        Ok(if says_so { Ok(()) } else { Err(answer) })
    })
    .await?;
    let (is_master, silence) =
        (figure(at, IS_MASTER).await?, figure(at, "ballast_lease_last_renewed_seconds ").await?);
    // two leases of three seconds
    ensure!(is_master == Some(0.0) && silence.is_some_and(|s| s > 6.0), "{is_master:?} {silence:?}");

    world.lines(&master)?.mend();
    eventually("the node to be ready again", || async {
        let answer = http::get(at, "/ready").await?;
        Ok(if answer.status == 200 { Ok(()) } else { Err(answer) })
    })
    .await
}
