//! `MonoVertex`: source, map and sink in one pod.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ContainerTemplate, PodTemplate, Scale, Sink, Source, Udf, UpdateStrategy, VertexLifecycle, VertexLimits,
    VertexStatus, phases,
};
use crate::{hvpa::optional_duration, kro::Raw};

/// A pipeline in one pod, without buffers.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "numaflow.numaproj.io",
    version = "v1alpha1",
    kind = "MonoVertex",
    plural = "monovertices",
    shortname = "mvtx",
    namespaced,
    status = "VertexStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A MonoVertex: source, map and sink in one pod, without buffers.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Desired", "type": "integer", "jsonPath": ".status.desiredReplicas"}"#,
    printcolumn = r#"{"name": "Current", "type": "integer", "jsonPath": ".status.replicas"}"#,
    printcolumn = r#"{"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.reason"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MonoVertexSpec {
    /// How many pods run; the only truth about it, whoever sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = 1))]
    pub replicas: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<Sink>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udf: Option<Udf>,
    #[serde(flatten)]
    pub pod_template: PodTemplate,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_template: Option<ContainerTemplate>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<MonoVertexLimits>,
    #[serde(default)]
    pub scale: Scale,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<Raw>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sidecars: Vec<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon_template: Option<Raw>,
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    #[serde(default)]
    pub lifecycle: VertexLifecycle,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bypass: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MonoVertexLimits {
    /// Messages read at once: 500 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub read_batch_size: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_duration")]
    pub read_timeout: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub concurrency: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<Raw>,
}

impl MonoVertexSpec {
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }

    pub fn is_paused(&self) -> bool {
        self.lifecycle.desired_phase == phases::PAUSED
    }

    /// As those of a vertex.
    pub fn limits(&self) -> VertexLimits {
        let limits = self.limits.clone().unwrap_or_default();
        VertexLimits {
            read_batch_size: limits.read_batch_size,
            read_timeout: limits.read_timeout,
            concurrency: limits.concurrency,
            rate_limit: limits.rate_limit,
            ..VertexLimits::default()
        }
    }
}
