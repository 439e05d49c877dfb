//! What an autoscaler scales.

use engine::kind::{Kind, group_of};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

/// Whether an HPA, whoever made it, scales the object of this kind and name in its namespace, in whichever version.
pub(crate) fn scales(hpa: &HorizontalPodAutoscaler, kind: &Kind, name: &str) -> bool {
    let target = &hpa.spec.scale_target_ref;
    let group = group_of(target.api_version.as_deref().unwrap_or_default());
    group == kind.group && target.kind == kind.kind && target.name == name
}
