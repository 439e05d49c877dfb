//! What a new object has whatever the request says.

use serde_json::{Map, Value, json};

use super::{Row, decode, defaults};
use crate::{Quantity, Schema, json::object_mut, kind::Part};

pub(super) fn create(row: &Row, object: &mut Value, schema: &Schema) {
    let Some(map) = object.as_object_mut() else { return };
    // nodes bring their status with them; everything else starts without one
    if let Some(status) = schema.properties.get("status").filter(|_| row.kind != "Node") {
        let mut fresh = decode::zero(status);
        match row.kind {
            "Pod" => {
                fresh = json!({ "phase": "Pending", "qosClass": quality_of_service(map.get("spec")) });
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
    if row.kind == "Service" {
        service(object_mut(map, "spec"));
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
pub fn quality_of_service(spec: Option<&Value>) -> &'static str {
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| spec.and_then(|spec| spec.get(list)?.as_array()).into_iter().flatten());
    let mut guaranteed = true;
    let mut best_effort = true;
    for container in containers {
        for resource in ["cpu", "memory"] {
            let amount = |list: &str| {
                let text = container.get("resources")?.get(list)?.get(resource)?.as_str()?;
                Quantity::parse(text).ok().filter(|amount| !amount.is_zero() && !amount.is_negative())
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

/// One family of addresses, and the single address also as a list. Giving out addresses is up to the server.
fn service(spec: &mut Map<String, Value>) {
    if spec.get("type").is_some_and(|kind| kind == "ExternalName") {
        return;
    }
    // without a selector the addresses are somebody else's, of whatever family
    let headless = spec.get("clusterIP").is_some_and(|address| address == "None");
    let selects = spec.get("selector").and_then(Value::as_object).is_some_and(|labels| !labels.is_empty());
    let (families, policy) = if headless && !selects {
        (json!(["IPv4", "IPv6"]), "RequireDualStack")
    } else {
        (json!(["IPv4"]), "SingleStack")
    };
    spec.entry("ipFamilies").or_insert(families);
    spec.entry("ipFamilyPolicy").or_insert(json!(policy));
    if let Some(address) = spec.get("clusterIP").filter(|address| **address != "").cloned() {
        spec.entry("clusterIPs").or_insert(json!([address]));
    }
}

/// What a write of one part leaves as it is: a write of the object does not touch its status, a write of the status
/// nothing else, and neither the times and counters that are the server's.
pub(crate) fn update(object: &mut Value, old: &Value, part: Part, has_status: bool) {
    if part == Part::Status {
        let (status, metadata) = (object.get("status").cloned(), object.get("metadata").cloned());
        *object = old.clone();
        let Some(map) = object.as_object_mut() else { return };
        match status {
            Some(status) => map.insert("status".to_owned(), status),
            None => map.remove("status"),
        };
        for field in ["managedFields", "resourceVersion"] {
            keep(object_mut(map, "metadata"), metadata.as_ref(), field);
        }
        return;
    }
    let Some(map) = object.as_object_mut() else { return };
    if has_status {
        keep(map, Some(old), "status");
    }
    let metadata = object_mut(map, "metadata");
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        keep(metadata, old.get("metadata"), field);
    }
    for field in ["uid", "name", "namespace"] {
        if !metadata.contains_key(field) {
            keep(metadata, old.get("metadata"), field);
        }
    }
    if map.get("kind").is_some_and(|kind| kind == "CustomResourceDefinition") {
        store_version(map);
    }
    if map.get("kind").is_some_and(|kind| kind == "Pod") && map.get("apiVersion").is_some_and(|v| v == "v1") {
        admit_pod(object_mut(map, "spec"));
    }
}

/// Sets `field` to what it is in `from`.
fn keep(map: &mut Map<String, Value>, from: Option<&Value>, field: &str) {
    match from.and_then(|from| from.get(field)) {
        Some(value) => map.insert(field.to_owned(), value.clone()),
        None => map.remove(field),
    };
}

/// A version that objects are written in from now on is remembered in the CRD's status.
fn store_version(crd: &mut Map<String, Value>) {
    let versions = crd.get("spec").and_then(|spec| spec.get("versions")?.as_array()).into_iter().flatten();
    let is_storage = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    let Some(name) = versions.into_iter().find(is_storage).and_then(|version| version.get("name")).cloned()
    else {
        return;
    };
    let stored = object_mut(crd, "status").entry("storedVersions").or_insert(json!([]));
    if let Some(stored) = stored.as_array_mut().filter(|stored| !stored.contains(&name)) {
        stored.push(name);
    }
}
