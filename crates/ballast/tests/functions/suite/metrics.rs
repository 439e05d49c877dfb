//! N to M: triggers, veto, agreement.

use anyhow::{Result, ensure};

use crate::world::World;

pub fn scale(window: u32) -> String {
    serde_json::json!({
        "ReplicaMax": 4,
        "Triggers": [{
            "MetricType": "AverageValue", "MetricName": "load",
            "Query": "sum(demo_load{namespace=\"${namespace}\",job=\"${app}\"})", "Threshold": 10,
        }],
        "Behavior": {
            "ScaleUp": {"StabilizationWindowSeconds": 0, "Policies": [{"Type": "Pods", "Value": 10, "PeriodSeconds": 1}]},
            "ScaleDown": {"StabilizationWindowSeconds": window, "Policies": [{"Type": "Percent", "Value": 100, "PeriodSeconds": 1}]},
        },
    })
    .to_string()
}

/// One pod says that there is work for three; when all say that there is little, some go.
pub async fn metrics_raise_and_lower(world: &mut World) -> Result<()> {
    world.function("work", &[("Scale", &scale(0)), ("ReplicasMin", "1")]).await?;
    world.ok("work/gauge/load/30").await?;
    world.until_replicas("work", |n| n == 3).await?;
    let event = world.event("work", |event| event.reason.as_deref() == Some("AboveThreshold")).await?;
    let message = event.message.unwrap_or_default();
    ensure!(message.starts_with("Scale up work from 1 to 3: load asks for 3"), "{message}");

    for pod in world.place.ready_pods("app=work", 3).await? {
        // a pod may be gone already: with the first of these there is less to do
        let _ = e2e::http_get(&e2e::pod_ip(&pod)?, 8080, "/gauge/load/5").await;
    }
    world.until_replicas("work", |n| n < 3).await?;
    Ok(())
}

pub async fn metrics_veto_zero_until_they_agree(world: &mut World) -> Result<()> {
    let annotations = [("Scale", scale(0)), ("TimeoutSecondBeforeSetReplicasMin", "3".to_owned())];
    let annotations = annotations.each_ref().map(|(name, value)| (*name, value.as_str()));
    world.function("work", &annotations).await?;
    world.ok("work/gauge/load/5").await?;
    // idle, and yet there is work
    e2e::eventually("a veto", || async {
        let status = world.status("work").await?;
        let is_veto = status["LastDecision"]["Reason"] == "MetricsVeto";
        ensure!(status["NumberRequested"] == 1 || status["NumberRequested"] == 0, "{status}");
        Ok(if is_veto { Ok(()) } else { Err(status) })
    })
    .await?;
    ensure!(world.replicas("work").await? == 1);
    // told to the pod itself, which is no call
    for pod in world.pods("work").await? {
        e2e::http_get(&e2e::pod_ip(&pod)?, 8080, "/gauge/load/0").await?;
    }
    world.until_replicas("work", |n| n == 0).await?;
    world.event("work", |event| event.reason.as_deref() == Some("BothAgreeOnZero")).await?;
    Ok(())
}
