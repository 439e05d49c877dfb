//! `Vertex`: one step of a pipeline, as its Pipeline has made it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Conditions, ContainerTemplate, InterStepBuffer, OnFull, PodTemplate, Scale, Sink, Source, Udf,
    UpdateStrategy, Watermark, phases,
};
use crate::{hvpa::optional_duration, kro::Raw};

/// What a vertex does, and with what; exactly one of `source`, `udf` and `sink`.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AbstractVertex {
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<Sink>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udf: Option<Udf>,
    /// Settings of the container that moves messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_template: Option<ContainerTemplate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_container_template: Option<Raw>,
    #[serde(flatten)]
    pub pod_template: PodTemplate,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<VertexLimits>,
    #[serde(default)]
    pub scale: Scale,
    /// As a pod has them; run before messages are moved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<Raw>,
    /// As a pod has containers; run beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sidecars: Vec<Raw>,
    /// Buffers of the vertex: 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub partitions: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub side_inputs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_inputs_container_template: Option<Raw>,
    #[serde(default)]
    pub update_strategy: UpdateStrategy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<Ordered>,
}

#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ordered {
    #[serde(default)]
    pub enabled: bool,
}

/// What is left out comes from the pipeline's limits.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VertexLimits {
    /// Messages read at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub read_batch_size: Option<i64>,
    /// How long a read waits for messages, such as 1s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_duration")]
    pub read_timeout: Option<String>,
    /// Messages that each buffer of the vertex has room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub buffer_max_length: Option<i64>,
    /// Percent of that which may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub buffer_usage_limit: Option<i32>,
    /// Messages under way at once; as many as are read at once if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub concurrency: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<Raw>,
}

/// A step of a pipeline with the edges around it.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "numaflow.numaproj.io",
    version = "v1alpha1",
    kind = "Vertex",
    plural = "vertices",
    shortname = "vtx",
    namespaced,
    status = "VertexStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A Vertex: one step of a Pipeline, which makes and updates it.",
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
pub struct VertexSpec {
    #[serde(flatten)]
    pub vertex: AbstractVertex,
    pub pipeline_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inter_step_buffer_service_name: Option<String>,
    /// How many pods run; the only truth about it, whoever sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = 1))]
    pub replicas: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from_edges: Vec<CombinedEdge>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to_edges: Vec<CombinedEdge>,
    #[serde(default)]
    pub watermark: Watermark,
    #[serde(default)]
    pub lifecycle: VertexLifecycle,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inter_step_buffer: Option<InterStepBuffer>,
}

/// An edge with what both of its ends need to know of one another.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CombinedEdge {
    pub from: String,
    pub to: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_full: Option<OnFull>,
    pub from_vertex_type: VertexType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub from_vertex_partition_count: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_vertex_limits: Option<VertexLimits>,
    pub to_vertex_type: VertexType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub to_vertex_partition_count: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_vertex_limits: Option<VertexLimits>,
}

#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VertexType {
    #[default]
    Source,
    #[serde(rename = "MapUDF")]
    MapUdf,
    #[serde(rename = "ReduceUDF")]
    ReduceUdf,
    Sink,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VertexLifecycle {
    #[serde(default = "running")]
    #[schemars(extend("enum" = ["Running", "Paused"]))]
    pub desired_phase: String,
}

/// What is true of a Vertex or a MonoVertex now.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VertexStatus {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Pods that there are meant to be, as of the last change that was carried out.
    #[serde(default)]
    pub replicas: i32,
    #[serde(default)]
    pub desired_replicas: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the count last changed, by whomever; cooldowns begin with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scaled_at: Option<Time>,
    /// Of a MonoVertex: when this was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default)]
    pub ready_replicas: i32,
    /// Pods of the latest template.
    #[serde(default)]
    pub updated_replicas: i32,
    #[serde(default)]
    pub updated_ready_replicas: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

// === impl AbstractVertex ===

impl AbstractVertex {
    pub fn vertex_type(&self) -> VertexType {
        if self.source.is_some() {
            VertexType::Source
        } else if self.sink.is_some() {
            VertexType::Sink
        } else if self.udf.as_ref().is_some_and(|udf| udf.group_by.is_some()) {
            VertexType::ReduceUdf
        } else {
            VertexType::MapUdf
        }
    }

    pub fn is_source(&self) -> bool {
        self.source.is_some()
    }

    /// Buffers that the vertex reads, at least one; a source reads none.
    pub fn n_buffers(&self) -> usize {
        if self.is_source() {
            return 0;
        }
        usize::try_from(self.partitions.unwrap_or(1)).unwrap_or(1).max(1)
    }
}

// === impl VertexSpec ===

impl VertexSpec {
    /// What the API fills in where nothing is written.
    pub fn replicas(&self) -> i32 {
        self.replicas.unwrap_or(1)
    }

    pub fn is_paused(&self) -> bool {
        self.lifecycle.desired_phase == phases::PAUSED
    }

    pub fn isb_service_name(&self) -> &str {
        isb_service_name(self.inter_step_buffer_service_name.as_deref())
    }
}

pub(super) fn isb_service_name(given: Option<&str>) -> &str {
    given.filter(|name| !name.is_empty()).unwrap_or("default")
}

impl Default for VertexLifecycle {
    fn default() -> Self {
        Self { desired_phase: running() }
    }
}

pub(super) fn running() -> String {
    phases::RUNNING.to_owned()
}

impl VertexLimits {
    /// These, and where they say nothing, `other`.
    pub fn or(&self, other: &VertexLimits) -> VertexLimits {
        VertexLimits {
            read_batch_size: self.read_batch_size.or(other.read_batch_size),
            read_timeout: self.read_timeout.clone().or_else(|| other.read_timeout.clone()),
            buffer_max_length: self.buffer_max_length.or(other.buffer_max_length),
            buffer_usage_limit: self.buffer_usage_limit.or(other.buffer_usage_limit),
            concurrency: self.concurrency.or(other.concurrency),
            rate_limit: self.rate_limit.clone().or_else(|| other.rate_limit.clone()),
        }
    }

    /// Messages that a buffer has room for, and how many of them it may hold: 30000 and 24000 if nothing is said.
    pub fn buffer(&self) -> (i64, i64) {
        let length = self.buffer_max_length.unwrap_or(30_000).max(1);
        let percent = i128::from(self.buffer_usage_limit.unwrap_or(80).clamp(1, 100));
        (length, i64::try_from(i128::from(length) * percent / 100).unwrap_or(i64::MAX))
    }
}
