//! What is true of a Function now.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{PodSecurityContext, SecurityContext},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The generation of the spec that this was said about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_image_override: Option<String>,
    /// Pods that exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Which pods are this Function's: what an autoscaler needs to measure them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<String>,
    /// The profile in use; `custom` for resources given in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function_resource_profile: Option<String>,
    /// The annotations that the pods have from spec.annotations, so that they can be taken away again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function_annotations: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_repository: Option<GitStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_security_context: Option<PodSecurityContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_security_context: Option<SecurityContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

/// The source that runs.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_dir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}
