//! The HPA of built-in scaling. It targets the Function, so that `spec.replicas` stays the only truth.

use api::function::{Function, ScaleConfig};
use engine::object::name;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::{Value, json};

use super::{child_name, metadata};
use crate::function::function_kind;

pub(in crate::function) fn wanted(function: &Function, scale: &ScaleConfig, cpu_percent: i32) -> Value {
    let kind = function_kind();
    json!({
        "metadata": metadata(function, &child_name(function)),
        "spec": {
            "scaleTargetRef": {
                "apiVersion": kind.api_version(),
                "kind": kind.kind,
                "name": name(&function.metadata),
            },
            "minReplicas": scale.min_replicas,
            "maxReplicas": scale.max_replicas,
            "metrics": [{
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "target": { "type": "Utilization", "averageUtilization": cpu_percent },
                },
            }],
        },
    })
}

/// Whether an HPA, whoever made it, scales this Function.
pub(in crate::function) fn targets(hpa: &HorizontalPodAutoscaler, function: &Function) -> bool {
    let (kind, target) = (function_kind(), &hpa.spec.scale_target_ref);
    let group = engine::kind::group_of(target.api_version.as_deref().unwrap_or_default());
    group == kind.group && target.kind == kind.kind && target.name == name(&function.metadata)
}
