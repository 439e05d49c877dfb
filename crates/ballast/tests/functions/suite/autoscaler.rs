//! Others who write the same count: a HorizontalPodAutoscaler, a person.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::eventually;
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::{http, world::World};

/// Its maximum is below our minimum: two that both insist would write for ever.
pub async fn an_autoscaler_is_told_and_not_fought(world: &mut World) -> Result<()> {
    create(world).await?;
    world.function("fib", &[("ReplicasMin", "3")]).await?;
    // from zero it is ours to wake, and then the autoscaler's to lower
    world.until_replicas("fib", |n| n == 2).await?;
    until_told(world).await?;
    eventually("the count to be left to the autoscaler", || async {
        let status = world.status("fib").await?;
        let is_left = status["LastDecision"]["Reason"] == "LeftToAutoscaler";
        let is_told = status["Problems"].to_string().contains("HorizontalPodAutoscaler web");
        Ok(if is_left && is_told { Ok(()) } else { Err(status) })
    })
    .await?;
    eventually("a metric to tell of it", || async {
        let mut pages = Vec::new();
        for at in world.gateways() {
            pages.push(http::get(at, "/metrics").await?.body);
        }
        let is_told = pages.iter().any(|page| page.contains("slimfaas_autoscaler_problems{function=\"fib\""));
        Ok(if is_told { Ok(()) } else { Err(pages) })
    })
    .await?;

    // the autoscaler looks each second, and nobody has anything to write
    let fib = world.place.api::<Deployment>();
    let left = fib.get("fib").await?.metadata;
    for _ in 0..40 {
        let now = fib.get("fib").await?.metadata;
        ensure!(now.generation == left.generation, "{left:?}\n{now:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    let annotations = json!({"SlimFaas/ReplicasMin": "0", "SlimFaas/TimeoutSecondBeforeSetReplicasMin": "2"});
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    fib.patch("fib", &PatchParams::default(), &patch).await?;
    world.until_replicas("fib", |n| n == 0).await?;
    world.ok("fib/fib/10").await?;
    Ok(())
}

/// Who writes a count that is decided about is named, and overruled unless an annotation says otherwise.
pub async fn a_person_who_scales_is_named_and_overruled_or_left(world: &mut World) -> Result<()> {
    let annotations = [("ReplicasMin", "1"), ("TimeoutSecondBeforeSetReplicasMin", "2")];
    world.function("fib", &annotations).await?;
    world.until_replicas("fib", |n| n == 1).await?;
    world.place.kubectl("scale deployment fib --replicas=5").await?;
    until_conflict(world, "kubectl", "it is decided about anew").await?;
    world.until_replicas("fib", |n| n == 1).await?;

    world.place.kubectl("annotate deployment fib ballast.dev/on-conflict=yield").await?;
    world.place.kubectl("scale deployment fib --replicas=4").await?;
    until_conflict(world, "kubectl", "left alone, as ballast.dev/on-conflict says").await?;
    world.ok("fib/fib/10").await?;
    ensure!(world.replicas("fib").await? == 4, "it was not left");
    let annotations = "SlimFaas/ReplicasMin=0 ballast.dev/on-conflict-";
    world.place.kubectl(&format!("annotate deployment fib --overwrite {annotations}")).await?;
    world.until_replicas("fib", |n| n == 0).await?;

    // The API notes nobody for a zero that was written through the scale, nor for what follows it.
    world.place.kubectl("scale deployment fib --replicas=5").await?;
    until_conflict(world, "somebody whom the API does not name", "it is decided about anew").await?;
    world.until_replicas("fib", |n| n == 0).await?;
    Ok(())
}

async fn until_conflict(world: &World, who: &str, remedy: &str) -> Result<()> {
    let begins = format!("{who} wrote replicas");
    let names_it = |text: &str| text.starts_with(&begins) && text.contains(remedy);
    world
        .event("fib", |event| {
            event.reason.as_deref() == Some("ConflictingWriter")
                && event.message.as_deref().is_some_and(names_it)
        })
        .await?;
    Ok(())
}

/// Of `fib`, between 1 and 2.
pub(super) async fn create(world: &World) -> Result<()> {
    let autoscaler: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "minReplicas": 1, "maxReplicas": 2,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "fib"},
        },
    }))?;
    world.place.api().create(&PostParams::default(), &autoscaler).await?;
    Ok(())
}

pub(super) async fn until_told(world: &World) -> Result<()> {
    let told = "SlimFaas/: HorizontalPodAutoscaler web scales it too";
    world.event("fib", |event| event.message.as_deref().is_some_and(|text| text.starts_with(told))).await?;
    Ok(())
}
