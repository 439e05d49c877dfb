//! `Pipeline`: vertices and the edges between them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AbstractVertex, ContainerTemplate, Ordered, PodTemplate, VertexLimits,
    vertex::{isb_service_name, running},
};
use crate::{hvpa::optional_duration, kro::Raw};

/// Vertices that hand messages on to one another.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "numaflow.numaproj.io",
    version = "v1alpha1",
    kind = "Pipeline",
    plural = "pipelines",
    shortname = "pl",
    namespaced,
    status = "PipelineStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A Pipeline: vertices that hand messages on to one another through buffers.",
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Vertices", "type": "integer", "jsonPath": ".status.vertexCount"}"#,
    printcolumn = r#"{"name": "Sources", "type": "integer", "jsonPath": ".status.sourceCount", "priority": 10}"#,
    printcolumn = r#"{"name": "Sinks", "type": "integer", "jsonPath": ".status.sinkCount", "priority": 10}"#,
    printcolumn = r#"{"name": "UDFs", "type": "integer", "jsonPath": ".status.udfCount", "priority": 10}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct PipelineSpec {
    /// Where the buffers are: `default` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inter_step_buffer_service_name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500))]
    pub vertices: Vec<AbstractVertex>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2000))]
    pub edges: Vec<Edge>,
    #[serde(default)]
    pub lifecycle: Lifecycle,
    #[serde(default)]
    pub limits: PipelineLimits,
    #[serde(default)]
    pub watermark: Watermark,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub templates: Option<Templates>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub side_inputs: Vec<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inter_step_buffer: Option<InterStepBuffer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered: Option<Ordered>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Edge {
    pub from: String,
    pub to: String,
    /// Which messages go along it; all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
    /// What becomes of a message for a buffer that is full. It waits, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_full: Option<OnFull>,
}

#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnFull {
    #[default]
    RetryUntilSuccess,
    DiscardLatest,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Conditions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Tags>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tags {
    /// `or` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<Operator>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Operator {
    And,
    #[default]
    Or,
    Not,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lifecycle {
    /// How long a deleted pipeline is given to work off what is in its buffers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub deletion_grace_period_seconds: Option<i64>,
    /// The older name of the above.
    #[schemars(range(min = 0))]
    pub delete_grace_period_seconds: Option<i64>,
    #[schemars(extend("enum" = ["Running", "Paused"]))]
    pub desired_phase: String,
    /// How long a pipeline that is paused is given to work off what is in its buffers.
    #[schemars(range(min = 0))]
    pub pause_grace_period_seconds: Option<i64>,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PipelineLimits {
    /// Messages read at once.
    #[schemars(range(min = 1))]
    pub read_batch_size: Option<i64>,
    /// Messages that each buffer has room for.
    #[schemars(range(min = 1))]
    pub buffer_max_length: Option<i64>,
    /// Percent of that which may be used.
    #[schemars(range(min = 1, max = 100))]
    pub buffer_usage_limit: Option<i32>,
    /// How long a read waits for messages: 1s if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_duration")]
    pub read_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<Raw>,
}

/// Watermarks are not kept: only reduce needs them.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Watermark {
    #[serde(default)]
    pub disabled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_duration")]
    pub max_delay: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_source: Option<Raw>,
}

/// Settings for several pods at once.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Templates {
    /// Of all vertices; what a vertex says itself goes before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vertex: Option<VertexTemplate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_inputs_manager: Option<Raw>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VertexTemplate {
    #[serde(flatten)]
    pub pod_template: PodTemplate,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_template: Option<ContainerTemplate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_container_template: Option<Raw>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterStepBuffer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Compression {
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["none", "gzip", "zstd", "lz4"]))]
    pub type_: Option<String>,
}

/// What is true of a Pipeline now.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PipelineStatus {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vertex_count: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_count: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink_count: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udf_count: Option<i32>,
    #[serde(rename = "mapUDFCount", default, skip_serializing_if = "Option::is_none")]
    pub map_udf_count: Option<i32>,
    #[serde(rename = "reduceUDFCount", default, skip_serializing_if = "Option::is_none")]
    pub reduce_udf_count: Option<i32>,
    /// Whether the buffers were empty when the pipeline was paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained_on_pause: Option<bool>,
    /// The buffers that were made, so that those of a vertex that is gone are deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buffers: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

impl PipelineSpec {
    pub fn isb_service_name(&self) -> &str {
        isb_service_name(self.inter_step_buffer_service_name.as_deref())
    }

    /// How long a vertex may take to work off its buffers before the pipeline is gone.
    pub fn deletion_grace_seconds(&self) -> i64 {
        let lifecycle = &self.lifecycle;
        lifecycle.deletion_grace_period_seconds.or(lifecycle.delete_grace_period_seconds).unwrap_or(30).max(0)
    }

    pub fn pause_grace_seconds(&self) -> i64 {
        self.lifecycle.pause_grace_period_seconds.unwrap_or(30).max(0)
    }
}

impl PipelineLimits {
    /// As the limits of a vertex that says nothing of its own.
    pub fn for_vertices(&self) -> VertexLimits {
        VertexLimits {
            read_batch_size: self.read_batch_size,
            read_timeout: self.read_timeout.clone(),
            buffer_max_length: self.buffer_max_length,
            buffer_usage_limit: self.buffer_usage_limit,
            concurrency: None,
            rate_limit: self.rate_limit.clone(),
        }
    }
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            deletion_grace_period_seconds: None,
            delete_grace_period_seconds: Some(30),
            desired_phase: running(),
            pause_grace_period_seconds: Some(30),
        }
    }
}

impl Default for PipelineLimits {
    fn default() -> Self {
        Self {
            read_batch_size: Some(500),
            buffer_max_length: Some(30_000),
            buffer_usage_limit: Some(80),
            read_timeout: None,
            rate_limit: None,
        }
    }
}
