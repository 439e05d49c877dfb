//! Facts about API objects that several controllers need. Pure.

pub(crate) mod claim;
pub(crate) mod hash;
pub(crate) mod numbers;

pub(crate) mod selector;
pub(crate) mod template;

pub(crate) use engine::object::{
    annotation, being_deleted, by_age, controller_of, controller_reference, created, label, name, nonzero,
    time, uid,
};
pub(crate) use engine::pods;
use k8s_openapi::api::core::v1::PodTemplateSpec;

pub(crate) fn template_labels(template: &PodTemplateSpec) -> std::collections::BTreeMap<String, String> {
    template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default()
}
