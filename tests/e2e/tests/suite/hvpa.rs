//! Hvpas: more replicas and larger ones from the processor time of real processes, and then rest.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, ensure};
use cluster::{Cluster, Flavor};
use controllers::hvpa;
use e2e::{Place, at, eventually};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const SYNC_PERIOD: Duration = Duration::from_secs(1);
/// So many looks at the metrics without a write are rest.
const RESTING_LOOKS: u32 = 8;

/// A namespace on a cluster in which the controller of Hvpas runs.
pub(super) async fn place<'a>(cluster: &'a Cluster, name: &str) -> Result<Place<'a>> {
    static EMBEDDED: OnceCell<()> = OnceCell::const_new();
    static REAL: OnceCell<()> = OnceCell::const_new();
    let cell = if cluster.flavor == Flavor::Embedded { &EMBEDDED } else { &REAL };
    cluster.serve_metrics().await?;
    cell.get_or_try_init(|| async {
        controllers::crds::install(&cluster.client()).await?;
        let store = store::open("memory:", store::Options::default()).await?;
        let options =
            hvpa::Options { sync_period: SYNC_PERIOD, learn_period: SYNC_PERIOD, ..hvpa::Options::default() };
        tokio::spawn(hvpa::run(cluster.client(), store, options, std::future::pending()));
        anyhow::Ok(())
    })
    .await?;
    Place::new(cluster, name).await
}

/// Uses a twentieth of a core, however busy the machine is: what it missed it makes up for. Even half of that is more
/// than the largest pods may request, so the count and the size come to rest at their bounds.
pub(super) const STEADY: &str = "
import time
begun = time.monotonic()
while True:
    if time.process_time() > 0.05 * (time.monotonic() - begun):
        time.sleep(0.01)
";

/// What the template requests, and what pods end with.
pub(super) const SMALL: &str = "2m";
pub(super) const LARGE: &str = "10m";
pub(super) const MOST: usize = 3;

pub(super) fn busy() -> String {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "busy"},
        "spec": {
            "selector": {"matchLabels": {"app": "busy"}},
            "template": {
                "metadata": {"labels": {"app": "busy"}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [{
                    "name": "main", "image": "none", "command": ["python3", "-c", STEADY],
                    "resources": {"requests": {"cpu": SMALL}},
                }]},
            },
        },
    })
    .to_string()
}

/// Its sizes are learnt here, also where another test has had VerticalPodAutoscalers served.
pub(super) fn hvpa(spec: Value) -> String {
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}});
    let policy = json!({
        "containerName": "*", "controlledResources": ["cpu"],
        "minAllowed": {"cpu": SMALL}, "maxAllowed": {"cpu": LARGE},
    });
    let mut whole = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "busy"},
        "mode": "RatioBased",
        "ratioBasedScalingSpec": {"vToHScalingRatio": 1},
        "hpa": {"template": {"spec": {
            "minReplicas": 1, "maxReplicas": MOST, "metrics": [{"type": "Resource", "resource": cpu}],
        }}},
        "vpa": {"template": {"spec": {"resourcePolicy": {"containerPolicies": [policy]}}}},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        for (inner, value) in value.as_object().into_iter().flatten() {
            whole[field][inner] = value.clone();
        }
        if !value.is_object() {
            whole[field] = value.clone();
        }
    }
    json!({
        "apiVersion": "autoscaling.k8s.io/v1alpha1", "kind": "Hvpa",
        "metadata": {"name": "busy", "annotations": {"ballast.dev/recommender": "Embedded"}}, "spec": whole,
    })
    .to_string()
}

pub(super) fn condition(object: &Value, name: &str) -> String {
    let all = at(object, "/status/conditions").as_array().cloned().unwrap_or_default();
    let found = all.iter().find(|one| one["type"] == name).cloned().unwrap_or_default();
    format!("{}/{}", found["status"].as_str().unwrap_or("?"), found["reason"].as_str().unwrap_or("?"))
}

pub(super) async fn pods(place: &Place<'_>) -> Result<Vec<Value>> {
    let text = place.kubectl("get pods -l app=busy -o json").await?;
    let list: Value = serde_json::from_str(&text)?;
    Ok(at(&list, "/items").as_array().cloned().unwrap_or_default())
}

/// What a pod asks for and what its node gave it, by name.
pub(super) fn sizes(pods: &[Value]) -> BTreeMap<String, (String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let size = |pod: &Value| {
        let asked = text(at(pod, "/spec/containers/0/resources/requests/cpu"));
        let given = text(at(pod, "/status/containerStatuses/0/resources/requests/cpu"));
        (text(at(pod, "/metadata/name")), (asked, given))
    };
    pods.iter().map(size).collect()
}

/// Until as many pods as there may be run, all of this size.
pub(super) async fn until_full_grown(place: &Place<'_>, size: &str) -> Result<Vec<Value>> {
    eventually(format!("{MOST} pods of {size}"), || async {
        let found = pods(place).await?;
        let sizes = sizes(&found);
        let is_large = |(asked, given): &(String, String)| asked == size && given == size;
        let is_full_grown = sizes.len() == MOST && sizes.values().all(is_large);
        if is_full_grown { Ok(Ok(found)) } else { Ok(Err((sizes, place.kubectl("get hvpa -o yaml").await?))) }
    })
    .await
}

/// All that a controller could have written, by its version, and the part of it that decides what runs.
async fn written(place: &Place<'_>) -> Result<(Vec<Value>, Vec<Value>)> {
    let text = place.kubectl("get hvpas,functions,deployments,pods -o json").await?;
    let list: Value = serde_json::from_str(&text)?;
    let items = at(&list, "/items").as_array().cloned().unwrap_or_default();
    let version = |item: &Value| json!([item["metadata"]["uid"], item["metadata"]["resourceVersion"]]);
    let asked = |item: &Value| json!([item["metadata"]["uid"], item["metadata"]["generation"], item["spec"]]);
    Ok((items.iter().map(version).collect(), items.iter().map(asked).collect()))
}

/// Until nothing at all is written for a while. Of what runs nothing may be written from now on; a status may be, as long
/// as what it tells of the load moves.
pub(super) async fn until_at_rest(place: &Place<'_>) -> Result<()> {
    let (_, asked_first) = written(place).await?;
    eventually("rest", || async {
        let (before, _) = written(place).await?;
        tokio::time::sleep(SYNC_PERIOD * RESTING_LOOKS).await;
        let (after, asked) = written(place).await?;
        ensure!(asked == asked_first, "{asked:?} is not what it was: {asked_first:?}");
        Ok(if before == after { Ok(()) } else { Err(place.kubectl("get hvpa -o yaml").await?) })
    })
    .await
}

pub async fn a_busy_workload_gets_more_and_larger_pods_and_then_rest(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "hvpa").await?;
    place.apply(&busy()).await?;
    place.ready_pods("app=busy", 1).await?;
    let first = pods(&place).await?.pop().context("a pod")?;
    place.apply(&hvpa(json!({}))).await?;
    let grown = until_full_grown(&place, LARGE).await?;

    let same = grown.iter().find(|pod| at(pod, "/metadata/uid") == at(&first, "/metadata/uid"));
    let same = same.with_context(|| format!("the first pod was replaced: {:?}", sizes(&grown)))?;
    ensure!(sizes(std::slice::from_ref(&first)).values().all(|(asked, _)| asked == SMALL), "{first}");
    for pod in &grown {
        ensure!(at(pod, "/status/containerStatuses/0/restartCount") == &json!(0), "{pod}");
    }
    let started = "/status/containerStatuses/0/state/running/startedAt";
    ensure!(at(same, started) == at(&first, started), "the process was not left alone: {same}");
    let deployment = place.until("deployment", "busy", |_| true).await?;
    let template = at(&deployment, "/spec/template/spec/containers/0/resources/requests/cpu");
    ensure!(template == SMALL, "a change of the template would have replaced every pod: {deployment}");

    let settled = place
        .until("hvpa", "busy", |hvpa| {
            condition(hvpa, "Resized") == "True/Done"
                && at(hvpa, "/status/replicas") == &json!(MOST)
                && at(hvpa, "/status/horizontal/currentReplicas") == &json!(MOST)
        })
        .await?;
    for (name, state) in [
        ("Ready", "True/Scaling"),
        ("HorizontalRecommendation", "True/Metrics"),
        ("VerticalRecommendation", "True/EmbeddedRecommender"),
    ] {
        ensure!(condition(&settled, name) == state, "{name}: {settled:#}");
    }
    for (path, value) in [
        ("/status/targetSelector", json!("app=busy")),
        ("/status/horizontal/desiredReplicas", json!(MOST)),
        ("/status/horizontal/metric", json!("cpu")),
        ("/status/vertical/containers/0/target/cpu", json!(LARGE)),
        ("/status/need/0/containerName", json!("main")),
        ("/status/applied/replicas", json!(MOST)),
        ("/status/applied/requests/0/target/cpu", json!(LARGE)),
    ] {
        ensure!(at(&settled, path) == &value, "{path} should be {value}: {settled:#}");
    }
    for path in ["/status/need/0/need/cpu", "/status/need/0/horizontal/cpu", "/status/need/0/vertical/cpu"] {
        ensure!(at(&settled, path).is_string(), "{path}: {settled:#}");
    }
    until_at_rest(&place).await
}

pub async fn with_everything_off_only_the_status_is_written(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "hvpa-off").await?;
    place.apply(&busy()).await?;
    place.ready_pods("app=busy", 1).await?;
    let off = json!({"updatePolicy": {"updateMode": "Off"}});
    place.apply(&hvpa(json!({"updateMode": "Off", "hpa": {"scaleUp": off, "scaleDown": off}}))).await?;
    // its own scale has to have a value, or nobody could read it
    place.until("hvpa", "busy", |hvpa| at(hvpa, "/spec/replicas") == &json!(1)).await?;
    let (_, before) = written(&place).await?;
    let hvpa = place
        .until("hvpa", "busy", |hvpa| {
            at(hvpa, "/status/horizontal/desiredReplicas") == &json!(MOST)
                && at(hvpa, "/status/vertical/containers/0/target/cpu") == LARGE
        })
        .await?;
    ensure!(at(&hvpa, "/status/applied").is_null(), "{hvpa:#}");
    until_at_rest(&place).await?;
    let (_, after) = written(&place).await?;
    ensure!(before == after, "{after:?} is not what it was: {before:?}");
    Ok(())
}

pub async fn a_second_autoscaler_is_told_and_not_fought(cluster: &Cluster) -> Result<()> {
    let place = place(cluster, "hvpa-conflict").await?;
    place.apply(&busy()).await?;
    place.apply(&hvpa(json!({}))).await?;
    until_full_grown(&place, LARGE).await?;

    place.kubectl("autoscale deployment busy --min=1 --max=1 --cpu=50%").await?;
    let told = place.until("hvpa", "busy", |hvpa| condition(hvpa, "Ready") == "False/TargetConflict").await?;
    let message = at(&told, "/status/conditions").to_string();
    ensure!(message.contains("HorizontalPodAutoscaler busy scales Deployment busy directly"), "{message}");
    eventually("an event", || async {
        let events = place.kubectl("get events --field-selector involvedObject.kind=Hvpa").await?;
        Ok(if events.contains("TargetConflict") { Ok(()) } else { Err(events) })
    })
    .await?;
    place.ready_pods("app=busy", 1).await?;
    until_at_rest(&place).await?;

    place.kubectl("delete hpa busy").await?;
    place.until("hvpa", "busy", |hvpa| condition(hvpa, "Ready") == "True/Scaling").await?;
    until_full_grown(&place, LARGE).await?;
    Ok(())
}
