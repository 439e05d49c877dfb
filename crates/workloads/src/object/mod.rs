//! Facts about API objects that several controllers need. Pure.

pub(crate) mod claim;
pub(crate) mod hash;
pub(crate) mod numbers;
pub(crate) mod pods;
pub(crate) mod selector;
pub(crate) mod template;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::PodTemplateSpec,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};

use crate::kind::Kind;

/// The owner that manages the object, if there is one.
pub(crate) fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

pub(crate) fn controller_reference(kind: &Kind, owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind.to_string(),
        name: owner.name.clone().unwrap_or_default(),
        uid: owner.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

pub(crate) fn uid(meta: &ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or_default()
}

pub(crate) fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

pub(crate) fn being_deleted(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

pub(crate) fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

pub(crate) fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

/// When the object was created; the present for one that does not exist yet.
pub(crate) fn created(meta: &ObjectMeta, now: Timestamp) -> Timestamp {
    meta.creation_timestamp.as_ref().map_or(now, |time| time.0)
}

/// Oldest first, by name among those of one second.
pub(crate) fn by_age(a: &ObjectMeta, b: &ObjectMeta) -> std::cmp::Ordering {
    let at = |meta: &ObjectMeta| meta.creation_timestamp.as_ref().map(|time| time.0);
    at(a).cmp(&at(b)).then_with(|| a.name.cmp(&b.name))
}

pub(crate) fn time(at: Timestamp) -> Time {
    Time(crate::engine::events::whole_second(at))
}

/// Counters that the API leaves out when they are zero.
pub(crate) fn nonzero(n: i32) -> Option<i32> {
    (n != 0).then_some(n)
}

pub(crate) fn template_labels(template: &PodTemplateSpec) -> std::collections::BTreeMap<String, String> {
    template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default()
}
