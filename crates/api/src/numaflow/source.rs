//! Where messages come from, what is done with them, and where they go.

use k8s_openapi::api::core::v1::SecretKeySelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Container;
use crate::{hvpa::optional_duration, kro::Raw};

/// One of `generator`, `http`, `jetstream` and `udsource`; the others are Numaflow's and refused by name.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Generator>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Http>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jetstream: Option<JetStreamSource>,
    /// A source of your own, in a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udsource: Option<UserDefined>,
    /// Changes messages before they are handed on, in a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transformer: Option<UserDefined>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nats: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulsar: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sqs: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serving: Option<Raw>,
}

/// Messages out of nothing, at a rate.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Generator {
    /// Messages in each `duration`: 5 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub rpu: Option<i64>,
    /// 1s if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_duration")]
    pub duration: Option<String>,
    /// Bytes of a generated message: 8 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_048_576))]
    pub msg_size: Option<i32>,
    /// So many keys, in turn; none if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub key_count: Option<i32>,
    /// The number that each message holds, instead of the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u64>,
    /// What each message holds, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1_398_104))]
    pub value_blob: Option<String>,
    /// Event times differ by up to so much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "optional_duration")]
    pub jitter: Option<String>,
}

/// Messages that others post.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Http {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<HttpAuth>,
    /// Whether a Service is made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<bool>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpAuth {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretKeySelector>,
}

/// A stream of a NATS server.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JetStreamSource {
    /// Addresses, with commas between them.
    #[schemars(length(min = 1))]
    pub url: String,
    #[schemars(length(min = 1))]
    pub stream: String,
    /// A durable consumer that is there already; one of the vertex's own if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    #[serde(rename = "deliver_policy", default, skip_serializing_if = "Option::is_none")]
    pub deliver_policy: Option<String>,
    #[serde(rename = "filter_subjects", default, skip_serializing_if = "Vec::is_empty")]
    pub filter_subjects: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<NatsAuth>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NatsAuth {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic: Option<NatsBasicAuth>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretKeySelector>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nkey: Option<SecretKeySelector>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NatsBasicAuth {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<SecretKeySelector>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretKeySelector>,
}

/// A container that speaks Numaflow's protocol.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserDefined {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// A transformer of Numaflow's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builtin: Option<Raw>,
}

/// Maps each message to any number of others.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Udf {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Container>,
    /// Makes it a reduce, which is not supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_by: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builtin: Option<Raw>,
}

/// One of `log`, `blackhole` and `udsink`; the others are Numaflow's and refused by name.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sink {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Log>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blackhole: Option<Log>,
    /// A sink of your own, in a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udsink: Option<UserDefined>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulsar: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sqs: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serve: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_success: Option<Raw>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_strategy: Option<Raw>,
}

/// It has no settings.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {}
