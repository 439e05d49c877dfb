//! Label selectors.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::core::{Selector, SelectorExt};

/// `None` for a selector that cannot be understood; it selects nothing.
pub(crate) fn parse(selector: &LabelSelector) -> Option<Selector> {
    Selector::try_from(selector.clone()).ok()
}

pub(crate) fn matches(selector: &Selector, meta: &ObjectMeta) -> bool {
    match &meta.labels {
        Some(labels) => selector.matches(labels),
        None => selector.matches(&BTreeMap::new()),
    }
}

/// Whether two maps can be told to agree: every pair of `wanted` is in the labels.
pub(crate) fn contains(meta: &ObjectMeta, wanted: &BTreeMap<String, String>) -> bool {
    let labels = meta.labels.as_ref();
    wanted.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
}
