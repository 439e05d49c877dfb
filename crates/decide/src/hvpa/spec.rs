//! What the user wants, in plain values.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::maintenance::MaintenanceWindow;
use crate::{
    input::InputError,
    quantity::Quantity,
    recommender::{
        ContainerPolicy,
        amount::{self, Resource, Resources},
    },
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    pub mode: Mode,
    #[serde(default = "one")]
    pub min_replicas: i32,
    pub max_replicas: i32,
    #[serde(default)]
    pub horizontal: Horizontal,
    #[serde(default)]
    pub vertical: Vertical,
    #[serde(default)]
    pub maintenance_time_window: Option<MaintenanceWindow>,
    /// Whether both sides count as two opinions about one load where they follow the same resource.
    #[serde(default)]
    pub coupling: Coupling,
    /// A container killed for memory gets more at once, whatever the mode, stabilization and minimum change say.
    #[serde(default = "yes")]
    pub oom_override: bool,
    /// A recommendation older than this is not used.
    #[serde(default = "five_minutes")]
    pub staleness_seconds: i64,
    /// A consumed pair of recommendations counts as new when one of them differs by more than this share. Coupled, a need
    /// that differs from what is held by no more than this is no reason to change anything.
    #[serde(default = "ten_percent")]
    pub tolerance: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Mode {
    /// Bigger pods only at the most replicas, smaller pods only at the fewest.
    HpaPreferred {
        /// Also wait until the horizontal side says it wants more than the maximum.
        #[serde(default)]
        require_scaling_limited: bool,
    },
    /// The horizontal recommendation whenever there is one.
    HpaBiased,
    /// The vertical recommendation whenever there is one.
    VpaBiased {
        /// How long a vertical change that has to wait may hold back a horizontal one; by default its stabilization time.
        #[serde(default)]
        max_suppression_seconds: Option<i64>,
    },
    /// Where both want a change, only a large enough one counts; the preference settles a draw.
    Mixed {
        preference: Axis,
        /// The replicas by which the horizontal side must differ by more.
        #[serde(default)]
        replicas: i32,
        #[serde(default)]
        thresholds: ScaleParams,
    },
    /// Both, weighted by the current number of replicas.
    Ratio(Ratio),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ratio {
    /// Vertical to horizontal: 1 is half and half, 3 is three quarters vertical.
    #[serde(default)]
    pub v_to_h_scaling_ratio: Option<f64>,
    /// The same as a percentage, which can also say 100.
    #[serde(default)]
    pub vpa_weight: Option<f64>,
    /// Fewer replicas than this scale by `initialScaling`; 0 or absent means there is no such region.
    #[serde(default)]
    pub start_replica_count: i32,
    /// More replicas than this scale by `finalScaling`; 0 or absent means there is no such region.
    #[serde(default)]
    pub finish_replica_count: i32,
    #[serde(default)]
    pub initial_scaling: Option<Axis>,
    #[serde(default)]
    pub final_scaling: Option<Axis>,
    /// Instead of all the above: weights by replica count, the first match counts.
    #[serde(default)]
    pub intervals: Vec<Interval>,
    #[serde(default)]
    pub combination: Combination,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Interval {
    pub vpa_weight: f64,
    /// 0 stands for the fewest replicas.
    #[serde(default)]
    pub start_replica_count: i32,
    /// 0 stands for the most replicas.
    #[serde(default)]
    pub last_replica_count: i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Combination {
    /// One pair for each need, on a path whose slope is the ratio. Where the two sides follow different things there is no
    /// common need, and it is as `Additive`.
    #[default]
    Path,
    /// A share of each difference.
    Additive,
    /// A root of each factor, so that the total grows by what is needed: a need of 5 from 1 x 1 core becomes
    /// 3 x 1.67 cores, where the additive way gives 3 x 3.
    Multiplicative,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Coupling {
    /// A resource that the deciding metric of the horizontal side and the vertical side both follow is one need.
    #[default]
    Auto,
    /// Two independent recommendations, whatever they follow.
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Axis {
    Horizontal,
    Vertical,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Horizontal {
    /// Without it the replica count is nobody's business here.
    #[serde(default = "yes")]
    pub deployed: bool,
    #[serde(default)]
    pub scale_up: ScaleType,
    #[serde(default)]
    pub scale_down: ScaleType,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Vertical {
    #[serde(default)]
    pub scale_up: ScaleType,
    #[serde(default)]
    pub scale_down: ScaleType,
    #[serde(default)]
    pub container_policies: Vec<ContainerPolicy>,
    /// The distance limits keep from requests; without it they keep their proportion.
    #[serde(default)]
    pub limits_requests_gap: ScaleParams,
    /// The namespace's bounds for containers.
    #[serde(default)]
    pub limit_range: LimitRange,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitRange {
    #[serde(default)]
    pub min: Resources,
    #[serde(default)]
    pub max: Resources,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScaleType {
    #[serde(default)]
    pub update_mode: UpdateMode,
    #[serde(default)]
    pub stabilization_seconds: i64,
    #[serde(default)]
    pub min_change: ScaleParams,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateMode {
    #[default]
    Auto,
    Off,
    MaintenanceWindow,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScaleParams {
    #[serde(default)]
    pub cpu: ChangeParams,
    #[serde(default)]
    pub memory: ChangeParams,
}

/// A value, a percentage of what is there, or the smaller of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeParams {
    /// Cores or bytes as a quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentage: Option<i32>,
}

// === impl Spec ===

impl Spec {
    /// # Errors
    /// If a field cannot work, alone or beside another.
    pub fn validate(&self) -> Result<(), InputError> {
        let ensure = |holds: bool, field: &str, expected: &str| {
            if holds { Ok(()) } else { Err(expected_at(field, expected)) }
        };
        ensure(self.min_replicas >= 1, "minReplicas", "1 or more")?;
        ensure(self.max_replicas >= self.min_replicas, "maxReplicas", "no fewer than minReplicas")?;
        ensure(self.staleness_seconds >= 1, "stalenessSeconds", "1 second or more")?;
        ensure(self.tolerance >= 0.0, "tolerance", "a number of 0 or more")?;
        for (path, scale) in [
            ("horizontal.scaleUp", &self.horizontal.scale_up),
            ("horizontal.scaleDown", &self.horizontal.scale_down),
            ("vertical.scaleUp", &self.vertical.scale_up),
            ("vertical.scaleDown", &self.vertical.scale_down),
        ] {
            ensure(scale.stabilization_seconds >= 0, &format!("{path}.stabilizationSeconds"), "0 or more")?;
            scale.min_change.validate(&format!("{path}.minChange"))?;
            ensure(
                scale.update_mode != UpdateMode::MaintenanceWindow || self.maintenance_time_window.is_some(),
                &format!("{path}.updateMode"),
                "a maintenanceTimeWindow beside it",
            )?;
        }
        self.vertical.limits_requests_gap.validate("vertical.limitsRequestsGap")?;
        match &self.mode {
            Mode::Mixed { replicas, thresholds, .. } => {
                ensure(*replicas >= 0, "mode.replicas", "0 or more")?;
                thresholds.validate("mode.thresholds")
            }
            Mode::VpaBiased { max_suppression_seconds: Some(seconds) } => {
                ensure(*seconds >= 0, "mode.maxSuppressionSeconds", "0 or more")
            }
            Mode::Ratio(ratio) => ratio
                .regions(self.min_replicas, self.max_replicas)
                .map(drop)
                .map_err(|error| error.under("mode")),
            _ => Ok(()),
        }
    }
}

impl Default for Horizontal {
    fn default() -> Self {
        Horizontal { deployed: true, scale_up: ScaleType::default(), scale_down: ScaleType::default() }
    }
}

// === impl ScaleParams ===

impl ScaleParams {
    pub fn get(&self, resource: Resource) -> ChangeParams {
        match resource {
            Resource::Cpu => self.cpu,
            Resource::Memory => self.memory,
        }
    }

    fn validate(&self, path: &str) -> Result<(), InputError> {
        for resource in Resource::ALL {
            let params = self.get(resource);
            if params.percentage.is_some_and(|percentage| percentage < 0) {
                return Err(expected_at(&format!("{path}.{resource}.percentage"), "0 or more"));
            }
            if params.value.is_some_and(|value| value.0 < 0) {
                return Err(expected_at(&format!("{path}.{resource}.value"), "a quantity of 0 or more"));
            }
        }
        Ok(())
    }
}

// === impl ChangeParams ===

impl ChangeParams {
    pub fn value(&self, resource: Resource) -> Option<u64> {
        self.value.map(|quantity| resource.amount_of(quantity))
    }

    /// The smaller of both; none if neither is set.
    pub fn threshold(&self, resource: Resource, current: u64) -> Option<u64> {
        let share = self.percentage.map(|percent| amount::scaled(current, f64::from(percent) / 100.0));
        match (self.value(resource), share) {
            (Some(value), Some(share)) => Some(value.min(share)),
            (value, share) => value.or(share),
        }
    }
}

/// The error for a field that cannot work.
pub(super) fn expected_at(field: &str, expected: &str) -> InputError {
    InputError::new(field, format!("expected {expected}"))
}

/// The moment a sample may be no older than.
pub(super) fn stale_before(now: Timestamp, staleness_seconds: i64) -> Timestamp {
    crate::window::before(now, staleness_seconds)
}

fn one() -> i32 {
    1
}

fn yes() -> bool {
    true
}

fn five_minutes() -> i64 {
    300
}

fn ten_percent() -> f64 {
    0.1
}
