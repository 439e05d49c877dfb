//! StatefulSets on demand.

use anyhow::{Result, ensure};
use e2e::eventually;
use k8s_openapi::api::apps::v1::StatefulSet;

use super::metrics::scale;
use crate::world::World;

/// By a call, by metrics, and once both agree.
pub async fn a_stateful_set_wakes_grows_and_sleeps(world: &mut World) -> Result<()> {
    let annotations = [("Scale", scale(0)), ("TimeoutSecondBeforeSetReplicasMin", "2".to_owned())];
    let annotations = annotations.each_ref().map(|(name, value)| (*name, value.as_str()));
    world.stateful_set("shard", &annotations).await?;
    let answer = world.ok("shard/gauge/load/20").await?;
    ensure!(answer.json()?["pod"] == "shard-0", "{answer:?}");
    ensure!(answer.header("ballast-cold-start").is_some(), "{answer:?}");
    let woken = world.event("shard", |event| event.reason.as_deref() == Some("WakeUp")).await?;
    ensure!(woken.involved_object.kind.as_deref() == Some("StatefulSet"), "{woken:?}");
    let message = woken.message.unwrap_or_default();
    ensure!(message.starts_with("Scale up shard from 0 to 1"), "{message}");
    ensure!(world.status("shard").await?["PodType"] == "StatefulSet");

    until_replicas(world, 2).await?;
    let pods = world.place.ready_pods("app=shard", 2).await?;
    for pod in pods.iter().filter(|pod| pod.metadata.name.as_deref() == Some("shard-0")) {
        // told to the pod itself, which is no call
        e2e::http_get(&e2e::pod_ip(pod)?, 8080, "/gauge/load/0").await?;
    }
    until_replicas(world, 0).await?;
    world.event("shard", |event| event.reason.as_deref() == Some("BothAgreeOnZero")).await?;
    Ok(())
}

async fn until_replicas(world: &World, count: i32) -> Result<()> {
    eventually(format!("{count} replicas of the StatefulSet"), || async {
        let replicas =
            world.place.api::<StatefulSet>().get("shard").await?.spec.and_then(|spec| spec.replicas);
        let is_so = replicas == Some(count);
        Ok(if is_so { Ok(()) } else { Err((replicas, world.status("shard").await)) })
    })
    .await
}
