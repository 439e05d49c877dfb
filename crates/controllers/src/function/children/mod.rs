//! The objects that make a Function run: how each should look.

pub(super) mod autoscaler;
pub(super) mod config_map;
pub(super) mod deployment;
pub(super) mod service;

use std::{collections::BTreeMap, sync::Arc};

use api::function::{Function, GROUP};
use engine::{
    effect::{Effect, Target},
    kind::Kind,
    object::{being_deleted, controller_of, controller_reference, label, name, uid},
};
use kube::Resource;
use serde_json::{Value, json};

use super::{function_kind, repair};

/// An object of the name that one of ours would have.
pub(super) enum Found<K> {
    Ours(Arc<K>),
    /// Ours too, but on its way out: nothing can be done until it is gone.
    Leaving,
    Foreign,
    Absent,
}

impl<K: Resource> Found<K> {
    /// Ours is what the Function controls, and what bears its mark and is controlled by nobody: somebody took the
    /// owner away.
    pub fn new(function: &Function, object: Option<Arc<K>>) -> Self {
        let Some(object) = object else { return Self::Absent };
        let meta = object.meta();
        let own = uid(&function.metadata);
        let is_ours = match controller_of(meta) {
            Some(owner) => owner.uid == own,
            None => label(meta, &key("uuid")) == Some(own),
        };
        match (is_ours, being_deleted(meta)) {
            (true, true) => Self::Leaving,
            (true, false) => Self::Ours(object),
            (false, _) => Self::Foreign,
        }
    }
}

pub(super) fn key(word: &str) -> String {
    format!("{GROUP}/{word}")
}

/// The label by which all our objects are watched.
pub(super) const MANAGED_BY: (&str, &str) = ("serverless.kyma-project.io/managed-by", "function-controller");

/// On every child.
pub(super) fn labels(function: &Function) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> =
        function.metadata.labels.clone().unwrap_or_default().into_iter().collect();
    labels.extend([
        (key("function-name"), name(&function.metadata).to_owned()),
        (MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned()),
        (key("uuid"), uid(&function.metadata).to_owned()),
    ]);
    labels
}

/// What the Deployment and the Service select pods by.
pub(super) fn selector(function: &Function) -> BTreeMap<String, String> {
    BTreeMap::from([
        (key("function-name"), name(&function.metadata).to_owned()),
        (MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned()),
        (key("uuid"), uid(&function.metadata).to_owned()),
        (key("resource"), "deployment".to_owned()),
    ])
}

/// As an autoscaler wants it.
pub(super) fn selector_text(function: &Function) -> String {
    let terms: Vec<String> = selector(function).iter().map(|(key, value)| format!("{key}={value}")).collect();
    terms.join(",")
}

/// Of the ConfigMap, the Deployment and the autoscaler. It follows from the Function alone, so that a second one can
/// never come to be, and it has a part that nobody chooses by accident.
pub(super) fn child_name(function: &Function) -> String {
    let hash = fingerprint([uid(&function.metadata)]);
    format!("{}-{:05x}", name(&function.metadata), hash & 0xf_ffff)
}

/// FNV-1a: the same in every build, which a hasher of the standard library does not promise.
pub(super) fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        // a byte that is in no text keeps the parts apart
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash
}

/// Metadata that every child has.
fn metadata(function: &Function, name: &str) -> Value {
    json!({
        "name": name,
        "labels": labels(function),
        "ownerReferences": [controller_reference(&function_kind(), &function.metadata)],
    })
}

pub(super) fn create(function: &Function, kind: &Kind, body: Value) -> Effect {
    let namespace = function.metadata.namespace.clone();
    let mut body = body;
    body["apiVersion"] = json!(kind.api_version());
    body["kind"] = json!(kind.kind);
    Effect::Create { kind: kind.clone(), namespace, body, announce: None }
}

/// Brings labels, owner and `fields` of a child back; labels that others added stay.
pub(super) fn mend<K>(
    kind: &Kind,
    found: &K,
    wanted: &Value,
    fields: &[&str],
    spec_only_named: bool,
) -> Option<Effect>
where
    K: Resource + serde::Serialize,
{
    let live = json!(found);
    let mut patch = serde_json::Map::new();
    let mut metadata = serde_json::Map::new();
    if let Some(labels) = wanted["metadata"]["labels"].as_object()
        && let Some(change) = repair::mend_only(&live["metadata"]["labels"], labels)
    {
        metadata.insert("labels".into(), change);
    }
    let owners = "ownerReferences";
    if let Some(change) = repair::mend(&live["metadata"][owners], &wanted["metadata"][owners]) {
        metadata.insert(owners.into(), change);
    }
    if !metadata.is_empty() {
        patch.insert("metadata".into(), Value::Object(metadata));
    }
    for field in fields {
        let change = match wanted[field].as_object() {
            Some(named) if spec_only_named => repair::mend_only(&live[field], named),
            _ => repair::mend(&live[field], &wanted[field]),
        };
        if let Some(change) = change {
            patch.insert((*field).into(), change);
        }
    }
    (!patch.is_empty()).then(|| Effect::patch(Target::of(kind, found.meta()), Value::Object(patch)))
}

pub(super) fn delete(
    kind: &Kind,
    meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
) -> Effect {
    Effect::Delete {
        target: Target::of(kind, meta),
        propagation: Some(engine::effect::Propagation::Background),
        announce: None,
    }
}
