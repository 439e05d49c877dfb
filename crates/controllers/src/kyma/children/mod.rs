//! The objects that make a Function run: how each should look.

pub(super) mod autoscaler;
pub(super) mod config_map;
pub(super) mod deployment;
pub(super) mod service;

use std::{collections::BTreeMap, sync::Arc};

use api::kyma::{Function, GROUP};
use engine::{
    effect::{Effect, Target},
    kind::Kind,
    object::{being_deleted, controller_of, controller_reference, label, name, uid},
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Resource;
use serde_json::{Value, json};

use crate::catalog::FUNCTION;
use crate::{fingerprint::fingerprint, repair};

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

/// Metadata that every child has.
fn metadata(function: &Function, name: &str) -> Value {
    json!({
        "name": name,
        "labels": labels(function),
        "ownerReferences": [controller_reference(&FUNCTION, &function.metadata)],
    })
}

/// The mark of what was applied last. Without it nobody could see that something wanted before is wanted no more.
fn applied_key() -> String {
    key("applied")
}

/// Puts the mark on. Its second part is that of the pods; the count has none, since it is always compared.
fn marked(mut wanted: Value) -> Value {
    let mut rest = wanted.clone();
    let template = rest["spec"]["template"].take();
    if let Some(spec) = rest["spec"].as_object_mut() {
        spec.remove("replicas");
    }
    let mark =
        format!("{:016x}-{:016x}", fingerprint([&*rest.to_string()]), fingerprint([&*template.to_string()]));
    wanted["metadata"]["annotations"][applied_key()] = json!(mark);
    wanted
}

/// Makes a child. With `must_be_absent` its name may be taken by somebody else, which a live read has to rule out.
pub(super) fn create(function: &Function, kind: &Kind, wanted: Value, must_be_absent: bool) -> Effect {
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    let target = Target::absent(kind, function.metadata.namespace.as_deref(), name);
    Effect::Apply { target, must_be_absent, body: marked(wanted) }
}

/// Brings a child back to what it should be; what others added stays, but for entries in the lists at `exact`, where
/// they would be in the way.
pub(super) fn mend<K>(kind: &Kind, found: &K, wanted: Value, exact: &[&str]) -> Vec<Effect>
where
    K: Resource + serde::Serialize,
{
    let (live, wanted) = (json!(found), marked(wanted));
    let target = Target::of(kind, found.meta());
    let mut effects = Vec::new();
    for path in exact {
        let (Some(there), Some(list)) = (live.pointer(path), wanted.pointer(path)) else { continue };
        if repair::has_others(there, list) {
            effects.push(Effect::patch(target.clone(), repair::patch_at(path, list.clone())));
        }
    }
    if !effects.is_empty() || !repair::holds(&live, &wanted) {
        effects.push(Effect::Apply { target, must_be_absent: false, body: wanted });
    }
    effects
}

/// Whether a change of the Deployment replaces its pods. A change of the count alone replaces none.
pub(super) fn replaces_pods(found: &Deployment, effects: &[Effect]) -> bool {
    let live = json!(found);
    let mark = |object: &Value| {
        let mark = object["metadata"]["annotations"][applied_key()].as_str();
        mark.and_then(|mark| mark.split_once('-')).map(|(_, template)| template.to_owned())
    };
    effects.iter().any(|effect| match effect {
        Effect::Apply { body, .. } => {
            mark(&live) != mark(body) || !repair::holds(&live["spec"]["template"], &body["spec"]["template"])
        }
        Effect::Patch { body, .. } => body["spec"]["template"].is_object(),
        _ => false,
    })
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
