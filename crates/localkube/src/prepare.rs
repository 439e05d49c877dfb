//! What the server itself fills into objects of certain kinds before it stores them. Rows name these functions.

mod priority;
mod storage;
mod workload;

use base64::{Engine, prelude::BASE64_STANDARD};
use schema::builtin::quality_of_service;
use serde_json::{Value, json};

use crate::{ApiServer, error::Result, limits, object, registry::Kind, storage::ReadAt};

pub use self::{
    priority::{NAMES as PRIORITY_CLASSES, class as priority_class, system as system_priority_classes},
    storage::{claim, volume},
    workload::{daemon_set, daemon_set_mark, ingress, job},
};

/// `old` is the object that is about to be replaced, if there is one.
pub type Prepare = fn(&mut Value, old: Option<&Value>, &Context<'_>) -> Result<()>;

pub struct Context<'a> {
    pub server: &'a ApiServer,
    pub kind: &'a Kind,
    pub subresource: Option<&'a str>,
}

/// The newest class whose annotation `mark` is true: whoever names no class gets that one.
fn newest_marked(context: &Context<'_>, (group, plural): (&str, &str), mark: &str) -> Option<String> {
    let registry = context.server.registry();
    let kind = registry.resource(group, plural)?;
    let all = context.server.store().list(kind.table, "", None, ReadAt::Latest, usize::MAX, |_| true).ok()?;
    let newest = all
        .records
        .iter()
        .map(|record| record.to_value())
        .filter(|class| class["metadata"]["annotations"][mark] == "true")
        .max_by_key(|class| object::text(class, &["metadata", "creationTimestamp"]).to_owned())?;
    Some(object::name(&newest).to_owned())
}

pub fn namespace(new: &mut Value, old: Option<&Value>, context: &Context<'_>) -> Result<()> {
    let name = object::name(new).to_owned();
    if !name.is_empty() {
        object::map_at(new, &["metadata", "labels"])
            .insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
    match old {
        None => {
            let finalizers = object::map_at(new, &["spec"]).entry("finalizers").or_insert_with(|| json!([]));
            if let Some(list) = finalizers.as_array_mut()
                && !list.iter().any(|finalizer| finalizer == "kubernetes")
            {
                list.push("kubernetes".into());
            }
            new["status"] = json!({"phase": "Active"});
        }
        // Only /finalize changes the finalizers of the spec.
        Some(old) if context.subresource != Some("finalize") => {
            if let Some(finalizers) = object::at(old, &["spec", "finalizers"]) {
                object::map_at(new, &["spec"]).insert("finalizers".to_owned(), finalizers.clone());
            }
        }
        Some(_) => {}
    }
    Ok(())
}

pub fn pod(new: &mut Value, old: Option<&Value>, context: &Context<'_>) -> Result<()> {
    if old.is_none() {
        limits::fill_in(new, context.server);
        // again: a LimitRange may have filled in amounts
        new["status"] = json!({"phase": "Pending", "qosClass": quality_of_service(new.get("spec"))});
        tolerate_short_outages(new);
        let spec = object::map_at(new, &["spec"]);
        if spec
            .get("terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
            .is_some_and(|seconds| seconds < 0)
        {
            spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
        }
        priority::establish(new, context)?;
    }
    if let (Some(old), Some("status")) = (old, context.subresource) {
        let status = object::map_at(new, &["status"]);
        if !status.contains_key("qosClass")
            && let Some(class) = old["status"].get("qosClass")
        {
            status.insert("qosClass".to_owned(), class.clone());
        }
        if status.get("observedGeneration").and_then(Value::as_i64).unwrap_or_default() == 0
            && let Some(observed) = old["status"].get("observedGeneration")
        {
            status.insert("observedGeneration".to_owned(), observed.clone());
        }
    }
    Ok(())
}

/// A pod stays five minutes on a node that is not ready or not reachable, unless it says otherwise.
fn tolerate_short_outages(pod: &mut Value) {
    let list = object::map_at(pod, &["spec"]).entry("tolerations").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list.iter().any(|one| {
            let effect = one["effect"].as_str().unwrap_or_default();
            let any_key = one["key"].as_str().unwrap_or_default().is_empty();
            (one["key"] == key || any_key) && (effect == "NoExecute" || effect.is_empty())
        });
        if !tolerated {
            list.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
}

/// The one address and the list of addresses say the same.
pub fn pod_addresses(pod: &mut Value) {
    let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) else { return };
    match status.get("podIP").and_then(Value::as_str).unwrap_or_default().to_owned() {
        address if address.is_empty() => {
            let first = status.get("podIPs").and_then(|list| list[0].get("ip")).cloned();
            if let Some(first) = first {
                status.insert("podIP".to_owned(), first);
            }
        }
        address => {
            let listed = status.get("podIPs").is_some_and(|list| list[0]["ip"] == address.as_str());
            if !listed {
                status.insert("podIPs".to_owned(), json!([{"ip": address}]));
            }
        }
    }
}

pub fn secret(new: &mut Value) {
    if let Some(Value::Object(plain)) = object::remove(new, &["stringData"]) {
        let data = object::map_at(new, &["data"]);
        for (key, value) in plain {
            data.insert(key, BASE64_STANDARD.encode(value.as_str().unwrap_or_default()).into());
        }
    }
}

pub fn service(new: &mut Value, old: Option<&Value>, context: &Context<'_>) -> Result<()> {
    crate::service_ips::assign(new, old, context)
}

pub fn definition(new: &mut Value, old: Option<&Value>, context: &Context<'_>) -> Result<()> {
    crate::crd::prepare(new, old, context);
    Ok(())
}
