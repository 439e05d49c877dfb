//! Each mode of an Hvpa beside the ratio, from the processor time of real processes. A workload this busy ends with as many
//! pods as it may have, as large as they may be, whatever the mode; the way there is told by the reasons of the changes.

use anyhow::Result;
use cluster::Cluster;
use e2e::{at, eventually};
use serde_json::{Value, json};

use super::hvpa::{LARGE, busy, hvpa, place, until_full_grown};

/// Until it is grown, by a change of which an Event says this and has this reason.
async fn grows(cluster: &Cluster, mode: Value, change: &str, reason: &str) -> Result<()> {
    let place = place(cluster, "hvpa-mode").await?;
    place.apply(&busy()).await?;
    place.ready_pods("app=busy", 1).await?;
    let mut own: Value = serde_json::from_str(&hvpa(json!({})))?;
    own["spec"]["ratioBasedScalingSpec"] = json!(null);
    for (field, value) in mode.as_object().into_iter().flatten() {
        own["spec"][field] = value.clone();
    }
    place.apply(&own.to_string()).await?;
    until_full_grown(&place, LARGE).await?;
    eventually(format!("{change:?} because of {reason}"), || async {
        let events = place.kubectl("get events --field-selector involvedObject.kind=Hvpa -o json").await?;
        let events: Value = serde_json::from_str(&events)?;
        let text = |event: &Value, path: &str| at(event, path).as_str().unwrap_or_default().to_owned();
        let said = |event: &Value| (text(event, "/reason"), text(event, "/message"));
        let said: Vec<_> = at(&events, "/items").as_array().into_iter().flatten().map(said).collect();
        let is_it = |(why, note): &(String, String)| why == reason && note.starts_with(change);
        Ok(if said.iter().any(is_it) { Ok(()) } else { Err(said) })
    })
    .await?;
    place.kubectl("delete deployment busy").await?;
    Ok(())
}

pub async fn hpa_preferred_grows_sizes_at_the_most_replicas(cluster: &Cluster) -> Result<()> {
    grows(cluster, json!({"mode": "HpaPreferred"}), "Resize busy", "HorizontalExhausted").await
}

pub async fn hpa_biased_grows_replicas_first(cluster: &Cluster) -> Result<()> {
    grows(cluster, json!({"mode": "HpaBiased"}), "Scale up busy from 1", "HorizontalPreferred").await
}

pub async fn vpa_biased_grows_sizes_first(cluster: &Cluster) -> Result<()> {
    grows(cluster, json!({"mode": "VpaBiased"}), "Resize busy", "VerticalPreferred").await
}

pub async fn mixed_grows_what_is_preferred_first(cluster: &Cluster) -> Result<()> {
    let mixed = json!({"preference": "vertical", "replicas": 0, "cpu": {"value": "1m"}});
    grows(cluster, json!({"mode": "Mixed", "mixed": mixed}), "Resize busy", "VerticalPreferred").await
}
