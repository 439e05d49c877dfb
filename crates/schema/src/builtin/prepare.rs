//! What a new object has whatever the request says.

use serde_json::{Map, Value, json};

use super::{Row, decode, defaults};
use crate::{Quantity, Schema, json::object_mut};

pub(super) fn create(row: &Row, object: &mut Value, schema: &Schema) {
    let Some(map) = object.as_object_mut() else { return };
    // nodes bring their status with them; everything else starts without one
    if let Some(status) = schema.properties.get("status").filter(|_| row.kind != "Node") {
        let mut fresh = decode::zero(status);
        match row.kind {
            "Pod" => {
                fresh = json!({ "phase": "Pending", "qosClass": quality(map) });
                admit_pod(object_mut(map, "spec"));
            }
            "CustomResourceDefinition" => {
                let stored = map.get("status").and_then(|status| status.get("storedVersions")).cloned();
                fresh["storedVersions"] = stored.unwrap_or(Value::Null);
            }
            _ => {}
        }
        defaults::fill(&mut fresh, status);
        map.insert("status".to_owned(), fresh);
    }
    if row.kind == "DaemonSet" {
        let annotations = object_mut(object_mut(map, "metadata"), "annotations");
        annotations.insert("deprecated.daemonset.template.generation".to_owned(), "1".into());
    }
    if row.kind == "Namespace" {
        let finalizers = object_mut(map, "spec").entry("finalizers").or_insert(Value::Null);
        let present = finalizers.as_array().is_some_and(|list| list.iter().any(|name| name == "kubernetes"));
        if !present {
            *finalizers = json!(["kubernetes"]);
        }
    }
}

/// Pods tolerate a node that is away for five minutes, and rank equal unless somebody says otherwise.
fn admit_pod(spec: &mut Map<String, Value>) {
    spec.entry("priority").or_insert(json!(0));
    spec.entry("preemptionPolicy").or_insert(json!("PreemptLowerPriority"));
    let tolerations = spec.entry("tolerations").or_insert(Value::Null);
    if tolerations.is_null() {
        *tolerations = json!([]);
    }
    let Some(list) = tolerations.as_array_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covered = list.iter().any(|toleration| {
            let text = |field: &str| toleration.get(field).and_then(Value::as_str).unwrap_or_default();
            (text("key") == key || text("key").is_empty()) && matches!(text("effect"), "NoExecute" | "")
        });
        if !covered {
            list.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
}

/// How a pod fares when memory runs out: `Guaranteed` if requests equal limits for both resources of all containers,
/// `BestEffort` if nothing is said, `Burstable` in between.
fn quality(pod: &Map<String, Value>) -> &'static str {
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| pod.get("spec").and_then(|spec| spec.get(list)?.as_array()).into_iter().flatten());
    let mut guaranteed = true;
    let mut best_effort = true;
    for container in containers {
        for resource in ["cpu", "memory"] {
            let amount = |list: &str| {
                let text = container.get("resources")?.get(list)?.get(resource)?.as_str()?;
                Quantity::parse(text).ok().filter(|amount| !amount.is_zero())
            };
            let (request, limit) = (amount("requests"), amount("limits"));
            best_effort &= request.is_none() && limit.is_none();
            guaranteed &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (best_effort, guaranteed) {
        (true, _) => "BestEffort",
        (false, true) => "Guaranteed",
        (false, false) => "Burstable",
    }
}
