//! What is seen of the target and of both recommenders.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    quantity::Quantity,
    recommender::amount::{Resource, Resources},
};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Observed {
    /// The target's `spec.replicas`; 0 means paused.
    pub replicas: i32,
    #[serde(default)]
    pub containers: Vec<ContainerSize>,
    #[serde(default)]
    pub horizontal: Option<HorizontalRecommendation>,
    #[serde(default)]
    pub vertical: Option<VerticalRecommendation>,
    /// The target is rolling out a template, or resizing pods in place.
    #[serde(default)]
    pub rollout_in_progress: bool,
    /// Since when all pods run at this count and size. Samples from before describe another workload. If it is not known,
    /// the last change counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
    /// Out-of-memory kills and memory-pressure evictions of pods with the newest template.
    #[serde(default)]
    pub out_of_memory: Vec<OutOfMemory>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerSize {
    pub name: String,
    #[serde(default)]
    pub requests: Resources,
    #[serde(default)]
    pub limits: Resources,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HorizontalRecommendation {
    pub desired: i32,
    /// Who recommends it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// It knows its metrics.
    #[serde(default = "yes")]
    pub active: bool,
    /// It wants more than its maximum or less than its minimum, or more than its own rate limit lets it say.
    #[serde(default)]
    pub limited: bool,
    /// The oldest moment that its samples speak of: where they are averages, the beginning of their window.
    #[serde(default)]
    pub sampled_at: Option<Timestamp>,
    /// The metric that decided, if it is a resource of the pods. Without it both sides count as independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<ResourceMetric>,
}

/// A `Resource` or `ContainerResource` metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceMetric {
    pub resource: Resource,
    /// The one container that a `ContainerResource` metric reads; the whole pod if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    pub target: MetricTarget,
    /// What all pods used together. A count of replicas says it only to the nearest pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Quantity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MetricTarget {
    /// Percent of the requests.
    AverageUtilization(i32),
    /// So much for each pod, whatever it requests.
    AverageValue(Quantity),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VerticalRecommendation {
    #[serde(default = "yes")]
    pub provided: bool,
    #[serde(default)]
    pub low_confidence: bool,
    #[serde(default)]
    pub config_unsupported: bool,
    #[serde(default)]
    pub sampled_at: Option<Timestamp>,
    pub containers: Vec<ContainerRecommendation>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerRecommendation {
    pub container_name: String,
    pub target: Resources,
    #[serde(default)]
    pub lower_bound: Resources,
    #[serde(default)]
    pub upper_bound: Resources,
    #[serde(default)]
    pub uncapped_target: Resources,
    /// What all pods need together, learnt from sums over pods, so that it does not depend on how many there were.
    #[serde(default)]
    pub total: TotalRecommendation,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TotalRecommendation {
    #[serde(default)]
    pub target: Resources,
    #[serde(default)]
    pub lower_bound: Resources,
    #[serde(default)]
    pub upper_bound: Resources,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutOfMemory {
    pub at: Timestamp,
    /// None if the whole pod was evicted.
    #[serde(default)]
    pub container: Option<String>,
}

fn yes() -> bool {
    true
}
