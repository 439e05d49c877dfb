//! What an autoscaler scales.

use engine::{
    Cached, IndexId, Key,
    kind::{Kind, group_of},
    object::name,
};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

/// Finds autoscalers by what they scale: to ask costs the same however many there are.
pub(crate) fn targets(autoscalers: &Cached<HorizontalPodAutoscaler>) -> IndexId {
    autoscalers.index("scale target", |hpa| {
        let (namespace, target) = (hpa.metadata.namespace.as_deref(), &hpa.spec.scale_target_ref);
        let group = group_of(target.api_version.as_deref().unwrap_or_default());
        vec![place(group, &target.kind, namespace.unwrap_or_default(), &target.name)]
    })
}

/// The index's value for an object, in whichever version an autoscaler names it.
pub(crate) fn target_of(kind: &Kind, key: &Key) -> String {
    place(&kind.group, &kind.kind, &key.namespace, &key.name)
}

fn place(group: &str, kind: &str, namespace: &str, name: &str) -> String {
    format!("{group}/{kind} {namespace}/{name}")
}

/// Whether an HPA, whoever made it, scales the object of this kind and name in its namespace, in whichever version.
pub(crate) fn scales(hpa: &HorizontalPodAutoscaler, kind: &Kind, object: &str) -> bool {
    let target = &hpa.spec.scale_target_ref;
    let group = group_of(target.api_version.as_deref().unwrap_or_default());
    group == kind.group
        && target.kind == kind.kind
        && target.name == object
        && !name(&hpa.metadata).is_empty()
}
