//! Facts about API objects that several controllers need. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};

use crate::kind::Kind;

/// The owner that manages the object, if there is one.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

pub fn controller_reference(kind: &Kind, owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: kind.api_version(),
        kind: kind.kind.to_string(),
        name: owner.name.clone().unwrap_or_default(),
        uid: owner.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

pub fn uid(meta: &ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or_default()
}

pub fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

pub fn being_deleted(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

pub fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

pub fn label<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.labels.as_ref()?.get(key).map(String::as_str)
}

/// When the object was created; the present for one that does not exist yet.
pub fn created(meta: &ObjectMeta, now: Timestamp) -> Timestamp {
    meta.creation_timestamp.as_ref().map_or(now, |time| time.0)
}

/// Oldest first, by name among those of one second.
pub fn by_age(a: &ObjectMeta, b: &ObjectMeta) -> std::cmp::Ordering {
    let at = |meta: &ObjectMeta| meta.creation_timestamp.as_ref().map(|time| time.0);
    at(a).cmp(&at(b)).then_with(|| a.name.cmp(&b.name))
}

pub fn time(at: Timestamp) -> Time {
    Time(crate::events::whole_second(at))
}

/// Counters that the API leaves out when they are zero.
pub fn nonzero(n: i32) -> Option<i32> {
    (n != 0).then_some(n)
}
