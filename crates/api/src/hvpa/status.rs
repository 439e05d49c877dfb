//! What is true of an Hvpa now.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ResourceAmounts;

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The generation of the spec that this was said about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pods of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Which pods are the target's: what an autoscaler needs to measure them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_selector: Option<String>,
    /// The HorizontalPodAutoscaler that scales the target itself, is switched off, and whose metrics are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adopted_autoscaler: Option<String>,
    /// What the horizontal side recommends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub horizontal: Option<HorizontalStatus>,
    /// What the vertical side recommends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vertical: Option<VerticalStatus>,
    /// What both together say is needed of the resources that they both follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub need: Vec<NeedStatus>,
    /// The pair that was last applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
    /// What is held back now, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<Blocked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hpa_scale_up_update_policy: Option<super::UpdatePolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hpa_scale_down_update_policy: Option<super::UpdatePolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpa_scale_up_update_policy: Option<super::UpdatePolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpa_scale_down_update_policy: Option<super::UpdatePolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hpa_weight: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpa_weight: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub override_scale_up_stabilization: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_blocked_scaling: Vec<BlockedScaling>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scaling: Option<LastScaling>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HorizontalStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// The metric that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled_at: Option<Time>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerticalStatus {
    #[serde(default)]
    pub containers: Vec<ContainerStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled_at: Option<Time>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatus {
    pub container_name: String,
    #[serde(default)]
    pub target: ResourceAmounts,
    #[serde(default)]
    pub lower_bound: ResourceAmounts,
    #[serde(default)]
    pub upper_bound: ResourceAmounts,
    /// What all pods need together.
    #[serde(default)]
    pub total: ResourceAmounts,
}

/// Amounts over all pods.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NeedStatus {
    pub container_name: String,
    #[serde(default)]
    pub need: ResourceAmounts,
    #[serde(default)]
    pub held: ResourceAmounts,
    #[serde(default)]
    pub horizontal: ResourceAmounts,
    #[serde(default)]
    pub vertical: ResourceAmounts,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    pub replicas: i32,
    #[serde(default)]
    pub requests: Vec<ContainerStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    /// horizontal or vertical.
    pub axis: String,
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockedScaling {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hpa_status: Option<HorizontalStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpa_status: Option<VerticalStatus>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastScaling {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hpa_status: Option<HorizontalStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpa_status: Option<VerticalStatus>,
}
