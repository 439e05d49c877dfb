//! Instances of a Set: how each should look, and what it looks like to the planner.

use std::collections::BTreeMap;

use decide::rollout;
use engine::{
    kind::Kind,
    object::{annotation, being_deleted, controller_reference, created, label, name, uid},
};
use graph::{crd::OBSERVED_TEMPLATE_HASH, labels, plan::without_scaled_fields};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::{fingerprint::fingerprint, graphs::object};

/// Labels end after 63 characters, names do not: a longer name is cut and marked.
pub(super) fn label_value(set: &str) -> String {
    match set.len() {
        0..=63 => set.to_owned(),
        _ => rollout::instance_name(set, fingerprint([set])),
    }
}

/// The hash of what instances are made of. Values are sorted by name, so that it follows from the content alone.
pub(super) fn revision(template: &Value) -> String {
    format!("{:016x}", fingerprint([&*template.to_string()]))
}

/// Names of new instances are drawn from this: from the Set and a running number, so that whoever makes the same
/// instance twice gives it the same name.
pub(super) fn seed(set: &ObjectMeta, instances: &[rollout::Instance]) -> u64 {
    let next = instances.iter().map(|one| one.sequence.saturating_add(1)).max().unwrap_or(0);
    fingerprint([uid(set)]).wrapping_add(next)
}

/// As the planner sees it.
pub(super) fn observed(instance: &DynamicObject, now: Timestamp) -> rollout::Instance {
    let meta = &instance.metadata;
    let conditions = instance.data["status"]["conditions"].as_array();
    let ready = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == "Ready"));
    let revision = label(meta, labels::TEMPLATE_HASH);
    let is_of_this = |seen: &str| Some(seen) == revision;
    let ready = ready.filter(|_| {
        // a template of other labels alone is no new generation: the status tells which one it is about
        instance.data["status"][OBSERVED_TEMPLATE_HASH].as_str().is_none_or(is_of_this)
    });
    rollout::Instance {
        name: name(meta).to_owned(),
        uid: uid(meta).to_owned(),
        created_at: created(meta, now),
        sequence: annotation(meta, labels::SET_SEQUENCE).and_then(|text| text.parse().ok()).unwrap_or(0),
        revision: revision.map(str::to_owned),
        updated: annotation(meta, labels::SET_UPDATED).is_some(),
        generation: meta.generation.unwrap_or(0),
        ready: ready.map(|ready| rollout::Ready {
            status: ready["status"] == "True",
            observed_generation: ready["observedGeneration"].as_i64().unwrap_or(-1),
        }),
        terminating: being_deleted(meta),
    }
}

pub(super) struct Wanted<'a> {
    pub set_kind: &'a Kind,
    pub set: &'a ObjectMeta,
    pub template: &'a Value,
    pub revision: &'a str,
}

impl Wanted<'_> {
    /// One that does not exist yet.
    pub fn new_instance(&self, sequence: u64) -> Value {
        self.body(sequence, None)
    }

    /// What an existing one is to become. A count that somebody has set through its scale subresource stays theirs.
    pub fn updated(&self, kind: &Kind, instance: &DynamicObject, sequence: u64) -> Value {
        let body = self.body(sequence, Some(self.revision));
        without_scaled_fields(body, Some(&object::value(kind, instance)))
    }

    fn body(&self, sequence: u64, updated_to: Option<&str>) -> Value {
        let texts = |part: &str| -> BTreeMap<String, String> {
            let map = self.template["metadata"][part].as_object();
            let all = map.into_iter().flatten();
            all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
        };
        let mut labels = texts("labels");
        labels.insert(labels::SET_NAME.to_owned(), label_value(name(self.set)));
        labels.insert(labels::TEMPLATE_HASH.to_owned(), self.revision.to_owned());
        let mut annotations = texts("annotations");
        annotations.insert(labels::SET_SEQUENCE.to_owned(), sequence.to_string());
        if let Some(revision) = updated_to {
            annotations.insert(labels::SET_UPDATED.to_owned(), revision.to_owned());
        }
        let mut body = json!({
            "metadata": {
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [controller_reference(self.set_kind, self.set)],
            },
        });
        if let Some(spec) = self.template.get("spec") {
            body["spec"] = spec.clone();
        }
        body
    }
}
