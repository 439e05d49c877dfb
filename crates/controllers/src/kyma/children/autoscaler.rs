//! The HPA of built-in scaling. It targets the Function, so that `spec.replicas` stays the only truth.

use api::kyma::{Function, ScaleConfig};
use engine::object::name;
use serde_json::{Value, json};

use super::{child_name, metadata};
use crate::catalog::FUNCTION;

pub(in crate::kyma) fn wanted(function: &Function, scale: &ScaleConfig, cpu_percent: i32) -> Value {
    let kind = FUNCTION;
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
