//! `Hvpa` (`autoscaling.k8s.io/v1alpha1`): replicas and request sizes of one workload, scaled together.
//!
//! The fields are those of the public type and of the proposal that it grew out of (`ratioBasedScalingSpec`, `initialScaling`,
//! `finalScaling`, `hpaSpec`, `vpaSpec`), and beside them `mode`, `updateMode`, `coupling` and `combination`. What an API server
//! can check by itself stands here as schema and CEL rules; [`Spec::resolve`] checks all of it again, and makes of it what `decide`
//! takes.

mod metrics;
mod resolve;
mod scale;
mod status;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use metrics::{ContainerResource, External, Metric, Object, Pods, Resource};
pub use resolve::Resolved;
pub(crate) use scale::optional_duration;
pub use scale::{
    ChangeParams, ContainerPolicy, MaintenanceTimeWindow, ResourceAmounts, ResourcePolicy, ScaleParams,
    ScaleType, UpdatePolicy,
};
pub use status::{
    Applied, Blocked, BlockedScaling, ContainerStatus, HorizontalStatus, LastScaling, NeedStatus, Status,
    VerticalStatus,
};

/// How replicas and request sizes of one workload are scaled together.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "autoscaling.k8s.io",
    version = "v1alpha1",
    kind = "Hvpa",
    plural = "hvpas",
    namespaced,
    status = "Status",
    derive = "PartialEq",
    doc = "An Hvpa takes a horizontal and a vertical recommendation and applies them as one decision.",
    annotation("api-approved.kubernetes.io", "unapproved, a kind of Gardener's hvpa-controller"),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.targetSelector"
    ),
    printcolumn = r#"{"name": "Mode", "type": "string", "jsonPath": ".spec.mode"}"#,
    printcolumn = r#"{"name": "Target", "type": "string", "jsonPath": ".spec.targetRef.name"}"#,
    printcolumn = r#"{"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[x_kube(
    validation = Rule::new("has(self.hpa) != has(self.hpaSpec)").message("give exactly one of hpa and hpaSpec"),
    validation = Rule::new("!(has(self.vpa) && has(self.vpaSpec))").message("give vpa or vpaSpec, not both"),
    validation = Rule::new(
        "!(has(self.ratioBasedScalingSpec) && has(self.weightBasedScalingIntervals) \
         && size(self.weightBasedScalingIntervals) > 0)"
    )
    .message("give ratioBasedScalingSpec or weightBasedScalingIntervals, not both"),
    validation = Rule::new(
        "(has(self.mode) && self.mode != 'RatioBased') || has(self.ratioBasedScalingSpec) \
         || (has(self.weightBasedScalingIntervals) && size(self.weightBasedScalingIntervals) > 0)"
    )
    .message("mode RatioBased needs ratioBasedScalingSpec or weightBasedScalingIntervals"),
    validation = Rule::new("!has(self.mixed) || (has(self.mode) && self.mode == 'Mixed')")
        .message("mixed is for mode Mixed"),
    validation = Rule::new("!has(self.mode) || self.mode != 'Mixed' || has(self.mixed)")
        .message("mode Mixed needs mixed"),
    validation = Rule::new(
        "has(self.maintenanceTimeWindow) || !((has(self.hpa) && has(self.hpa.scaleUp) && has(self.hpa.scaleUp.updatePolicy) && has(self.hpa.scaleUp.updatePolicy.updateMode) \
         && self.hpa.scaleUp.updatePolicy.updateMode == 'MaintenanceWindow') \
         || (has(self.hpa) && has(self.hpa.scaleDown) && has(self.hpa.scaleDown.updatePolicy) && has(self.hpa.scaleDown.updatePolicy.updateMode) \
         && self.hpa.scaleDown.updatePolicy.updateMode == 'MaintenanceWindow') \
         || (has(self.vpa) && has(self.vpa.scaleUp) && has(self.vpa.scaleUp.updatePolicy) && has(self.vpa.scaleUp.updatePolicy.updateMode) \
         && self.vpa.scaleUp.updatePolicy.updateMode == 'MaintenanceWindow') \
         || (has(self.vpa) && has(self.vpa.scaleDown) && has(self.vpa.scaleDown.updatePolicy) && has(self.vpa.scaleDown.updatePolicy.updateMode) \
         && self.vpa.scaleDown.updatePolicy.updateMode == 'MaintenanceWindow'))"
    )
    .message("updateMode MaintenanceWindow needs maintenanceTimeWindow")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// The horizontal recommendation, written through the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,

    /// What is scaled.
    pub target_ref: TargetRef,

    /// Which side carries a change. RatioBased if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,

    /// Thresholds and preference of mode Mixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixed: Option<Mixed>,

    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpa_preferred: Option<HpaPreferred>,

    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpa_biased: Option<VpaBiased>,

    /// How new sizes reach the pods.
    #[serde(default)]
    pub update_mode: UpdateMode,

    /// Whether both sides count as two opinions about one load where they follow the same resource.
    #[serde(default)]
    pub coupling: Coupling,

    /// What a ratio makes of two recommendations.
    #[serde(default)]
    pub combination: Combination,

    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_based_scaling_spec: Option<RatioBasedScaling>,

    /// Fewer replicas than startReplicaCount scale this way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_scaling: Option<ScalingType>,

    /// More replicas than finishReplicaCount scale this way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_scaling: Option<ScalingType>,

    /// Weights by replica count, the first match counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub weight_based_scaling_intervals: Vec<WeightBasedScalingInterval>,

    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance_time_window: Option<MaintenanceTimeWindow>,

    /// A container killed for memory gets more at once, whatever the mode says.
    #[serde(default = "yes")]
    pub oom_override: bool,

    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpa: Option<Hpa>,

    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpa: Option<Vpa>,

    /// A HorizontalPodAutoscaler (autoscaling/v1) instead of hpa.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpa_spec: Option<EmbeddedHpa>,

    /// A VerticalPodAutoscaler (autoscaling.k8s.io/v1) instead of vpa.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpa_spec: Option<EmbeddedVpa>,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TargetRef {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    #[schemars(length(min = 1))]
    pub kind: String,
    #[schemars(length(min = 1))]
    pub name: String,
}

#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    HpaPreferred,
    HpaBiased,
    VpaBiased,
    Mixed,
    #[default]
    RatioBased,
}

#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpdateMode {
    #[default]
    InPlaceOrRecreate,
    InPlace,
    Template,
    Off,
}

#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Coupling {
    #[default]
    Auto,
    Off,
}

#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Combination {
    #[default]
    Path,
    Additive,
    Multiplicative,
}

#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ScalingType {
    Vertical,
    Horizontal,
}

/// Where both sides want a change, only one that is larger than its threshold counts.
#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mixed {
    /// What settles a draw.
    pub preference: ScalingType,
    /// The replicas by which the horizontal side must differ by more.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    #[serde(default)]
    pub cpu: ChangeParams,
    #[serde(default)]
    pub memory: ChangeParams,
}

#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HpaPreferred {
    /// Also wait until the horizontal side says that it wants more than the maximum.
    #[serde(default)]
    pub require_scaling_limited: bool,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VpaBiased {
    /// How long a size that has to wait may hold back the replicas, such as 5m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scale::optional_duration")]
    pub max_suppression: Option<String>,
}

#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new(
        "!has(self.startReplicaCount) || !has(self.finishReplicaCount) || self.finishReplicaCount == 0 \
         || self.startReplicaCount <= self.finishReplicaCount"
    )
    .message("startReplicaCount must not be above finishReplicaCount"),
    validation = Rule::new("has(self.vToHScalingRatio) != has(self.vpaWeight)")
        .message("give exactly one of vToHScalingRatio and vpaWeight")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RatioBasedScaling {
    /// Vertical to horizontal: 1 is half and half, 3 is three quarters vertical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub v_to_h_scaling_ratio: Option<f64>,
    /// The same in percent, which can also say 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub vpa_weight: Option<f64>,
    /// 0 or nothing: the ratio holds down to the fewest replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub start_replica_count: Option<i32>,
    /// 0 or nothing: the ratio holds up to the most replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub finish_replica_count: Option<i32>,
}

#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new(
        "!has(self.startReplicaCount) || !has(self.lastReplicaCount) || self.lastReplicaCount == 0 \
         || self.startReplicaCount <= self.lastReplicaCount"
    )
    .message("startReplicaCount must not be above lastReplicaCount")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WeightBasedScalingInterval {
    #[schemars(range(min = 0, max = 100))]
    pub vpa_weight: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub start_replica_count: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub last_replica_count: Option<i32>,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hpa {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Without it the replicas are whoever's business writes them.
    #[serde(default = "yes")]
    pub deploy: bool,
    #[serde(default)]
    pub scale_up: ScaleType,
    #[serde(default)]
    pub scale_down: ScaleType,
    pub template: HpaTemplate,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HpaTemplate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    pub spec: HpaTemplateSpec,
}

#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!has(self.minReplicas) || self.minReplicas <= self.maxReplicas")
        .message("minReplicas must not be above maxReplicas")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HpaTemplateSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_replicas: Option<i32>,
    #[schemars(range(min = 1))]
    pub max_replicas: i32,
    /// As in autoscaling/v2, or as in autoscaling/v2beta1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    pub metrics: Vec<Metric>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Vpa {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    #[serde(default = "yes")]
    pub deploy: bool,
    #[serde(default)]
    pub scale_up: ScaleType,
    #[serde(default)]
    pub scale_down: ScaleType,
    #[serde(default)]
    pub template: VpaTemplate,
    /// The distance that limits keep from requests; without it they keep their proportion.
    #[serde(default)]
    pub limits_requests_gap_scale_params: ScaleParams,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VpaTemplate {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    #[serde(default)]
    pub spec: VpaTemplateSpec,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VpaTemplateSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_policy: Option<ResourcePolicy>,
}

/// Labels and annotations of an object that is made from a template.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TemplateMetadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub labels: std::collections::BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub annotations: std::collections::BTreeMap<String, String>,
}

#[derive(JsonSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EmbeddedHpa {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    pub spec: EmbeddedHpaSpec,
}

#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!has(self.minReplicas) || self.minReplicas <= self.maxReplicas")
        .message("minReplicas must not be above maxReplicas")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EmbeddedHpaSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_target_ref: Option<TargetRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_replicas: Option<i32>,
    #[schemars(range(min = 1))]
    pub max_replicas: i32,
    #[serde(default, rename = "targetCPUUtilizationPercentage", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub target_cpu_utilization_percentage: Option<i32>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EmbeddedVpa {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    #[serde(default)]
    pub spec: EmbeddedVpaSpec,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EmbeddedVpaSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// An Hvpa only reads the recommendation: it has to be Off, or left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<EmbeddedUpdatePolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_policy: Option<ResourcePolicy>,
}

#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EmbeddedUpdatePolicy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Off"]))]
    pub update_mode: Option<String>,
}

impl Spec {
    /// A spec with everything left out that can be.
    pub fn of(target_ref: TargetRef) -> Spec {
        Spec {
            replicas: None,
            target_ref,
            mode: None,
            mixed: None,
            hpa_preferred: None,
            vpa_biased: None,
            update_mode: UpdateMode::default(),
            coupling: Coupling::default(),
            combination: Combination::default(),
            ratio_based_scaling_spec: None,
            initial_scaling: None,
            final_scaling: None,
            weight_based_scaling_intervals: Vec::new(),
            maintenance_time_window: None,
            oom_override: true,
            hpa: None,
            vpa: None,
            hpa_spec: None,
            vpa_spec: None,
        }
    }
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests;
