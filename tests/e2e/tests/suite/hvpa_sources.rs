//! Hvpas and an autoscaler of their target that was there before.

use anyhow::{Result, ensure};
use cluster::Cluster;
use e2e::{Place, at, eventually};
use serde_json::{Value, json};

use super::hvpa::{MOST, SMALL, busy, condition, hvpa, place, until_at_rest, until_full_grown};

/// Of CPU at 80 % of the requests.
pub(super) fn autoscaler(target: Value, max: usize, behavior: &Value) -> String {
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}});
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "before"},
        "spec": {
            "scaleTargetRef": target, "minReplicas": 1, "maxReplicas": max,
            "metrics": [{"type": "Resource", "resource": cpu}], "behavior": behavior,
        },
    })
    .to_string()
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "busy"})
}

async fn until_said(place: &Place<'_>, kind: &str, what: &str) -> Result<()> {
    eventually(format!("an Event {what}"), || async {
        let events =
            place.kubectl(&format!("get events --field-selector involvedObject.kind={kind}")).await?;
        Ok(if events.contains(what) { Ok(()) } else { Err(events) })
    })
    .await
}

pub async fn an_autoscaler_that_is_switched_off_lends_its_metrics(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "hvpa-adopts").await?;
    let disabled = json!({"selectPolicy": "Disabled"});
    let off = json!({"scaleUp": disabled, "scaleDown": disabled});
    place.apply(&busy()).await?;
    place.ready_pods("app=busy", 1).await?;
    place.apply(&autoscaler(deployment(), MOST, &off)).await?;
    // by its own metrics, and its own bounds alone, the Hvpa would do something else
    let idle = json!({"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1000"}});
    let spec = json!({"minReplicas": 1, "maxReplicas": MOST + 2, "metrics": [{"type": "Resource", "resource": idle}]});
    let vpa_off = json!({"template": {"spec": {"resourcePolicy": {"containerPolicies": [
        {"containerName": "*", "mode": "Off"},
    ]}}}});
    place
        .apply(&hvpa(json!({"mode": "HpaBiased", "hpa": {"template": {"spec": spec}}, "vpa": vpa_off})))
        .await?;
    until_full_grown(&place, SMALL).await?;
    let told = place
        .until("hvpa", "busy", |hvpa| {
            condition(hvpa, "Ready") == "True/Scaling"
                && condition(hvpa, "HorizontalRecommendation") == "True/AdoptedAutoscaler"
                && at(hvpa, "/status/replicas") == &json!(MOST)
        })
        .await?;
    ensure!(at(&told, "/status/adoptedAutoscaler") == "before", "{told:#}");
    until_said(&place, "Hvpa", "AutoscalerAdopted").await?;
    until_at_rest(&place).await?;

    // its bounds hold for both: whoever is first, the other one agrees
    place.kubectl(r#"patch hpa before --type=merge -p {"spec":{"maxReplicas":2}}"#).await?;
    place.ready_pods("app=busy", 2).await?;
    until_at_rest(&place).await?;

    // one that may write again is told, and not fought
    place
        .kubectl(
            r#"patch hpa before --type=merge -p {"spec":{"behavior":{"scaleUp":{"selectPolicy":"Max"}}}}"#,
        )
        .await?;
    let told = place.until("hvpa", "busy", |hvpa| condition(hvpa, "Ready") == "False/TargetConflict").await?;
    let message = at(&told, "/status/conditions").to_string();
    ensure!(message.contains("set selectPolicy: Disabled"), "{message}");
    ensure!(at(&told, "/status/adoptedAutoscaler").is_null(), "{told:#}");
    Ok(())
}
