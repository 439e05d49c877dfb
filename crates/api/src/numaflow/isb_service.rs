//! `InterStepBufferService`: where the buffers between vertices are.

use k8s_openapi::{api::core::v1::SecretKeySelector, apimachinery::pkg::apis::meta::v1::Condition};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kro::Raw;

/// Where the buffers of pipelines are; pipelines name it, or take the one called `default`.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "numaflow.numaproj.io",
    version = "v1alpha1",
    kind = "InterStepBufferService",
    plural = "interstepbufferservices",
    shortname = "isbsvc",
    namespaced,
    status = "IsbServiceStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "An InterStepBufferService: where the buffers between the vertices of pipelines are.",
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".status.type"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct IsbServiceSpec {
    /// Streams of a NATS server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jetstream: Option<JetStream>,
    /// Buffers that Ballast keeps itself, for one machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedded: Option<Embedded>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redis: Option<Raw>,
}

/// It has no settings.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Embedded {}

/// A NATS server with JetStream that is there already: none is deployed, so that what Numaflow has for that (`version`,
/// `persistence`, pod templates) is refused by name.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JetStream {
    /// Addresses, with commas between them: nats://nats.nats:4222.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Who connects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<super::NatsAuth>,
    /// How many servers keep each stream: 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 5))]
    pub stream_replicas: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_config: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<bool>,
}

/// What is true of an InterStepBufferService now.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IsbServiceStatus {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// `jetstream` or `embedded`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What pods need to know to reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<BufferConfig>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// How buffers are reached; in pods as `NUMAFLOW_ISBSVC_CONFIG`, base64 of its JSON.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BufferConfig {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jetstream: Option<JetStreamConfig>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedded: Option<EmbeddedConfig>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JetStreamConfig {
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<SecretKeySelector>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretKeySelector>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_replicas: Option<i32>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EmbeddedConfig {
    /// Where Ballast serves it, host and port.
    pub address: String,
}

impl IsbServiceSpec {
    pub fn type_(&self) -> Option<&'static str> {
        match (&self.jetstream, &self.embedded) {
            (Some(_), None) => Some("jetstream"),
            (None, Some(_)) => Some("embedded"),
            _ => None,
        }
    }
}
