//! What a function asks for, in the names of its annotations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FlapGuard, Schedule};
use crate::{
    input::{InputError, check_range, null_as_default},
    window::{self, PolicyType},
};

#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The floor after idleness; zero lets the function sleep.
    pub min: i32,
    /// Replicas on waking up.
    pub at_start: i32,
    /// Idle time before the floor, where the schedule does not say otherwise.
    pub timeout_seconds: u32,
    pub schedule: Schedule,
    /// None, or one without triggers, leaves everything to activity.
    pub scale: Option<Scale>,
}

/// `SlimFaas/Scale`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Scale {
    /// No limit if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_max: Option<i32>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub triggers: Vec<Trigger>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub behavior: Behavior,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Trigger {
    #[serde(default)]
    pub metric_type: MetricType,
    /// What reasons call it.
    #[serde(default)]
    pub metric_name: String,
    #[serde(default)]
    pub query: String,
    #[serde(default)]
    pub threshold: f64,
    /// Whether the query gives a total or a figure for each pod, where its text does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<Per>,
    /// How far the figure may be from the threshold, as a share of it, without a change of the count.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub tolerance: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MetricType {
    /// The threshold is for each pod.
    #[default]
    AverageValue,
    /// The threshold is for the figure as it is; the count follows their ratio.
    Value,
}

/// What a query's figure stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Per {
    #[default]
    Total,
    Pod,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Behavior {
    #[serde(default, deserialize_with = "null_as_default")]
    pub scale_up: ScaleUp,
    #[serde(default, deserialize_with = "null_as_default")]
    pub scale_down: ScaleDown,
}

/// The most generous of the policies counts. Policies left out, null or empty are the default ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct ScaleUp {
    #[serde(default)]
    pub stabilization_window_seconds: u32,
    #[serde(default, deserialize_with = "null_as_default")]
    pub policies: Vec<Policy>,
}

/// The most careful of the policies counts. Left out as a whole it waits 300 s; once given, its window is 0 unless it
/// says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct ScaleDown {
    #[serde(default)]
    pub stabilization_window_seconds: u32,
    #[serde(default, deserialize_with = "null_as_default")]
    pub policies: Vec<Policy>,
    #[serde(default, skip_serializing_if = "FlapGuard::is_default")]
    pub flap_guard: FlapGuard,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Policy {
    #[serde(rename = "Type", default = "percent")]
    pub kind: PolicyType,
    #[serde(default = "hundred")]
    pub value: i32,
    #[serde(default = "fifteen")]
    pub period_seconds: i32,
}

impl Spec {
    pub fn max(&self) -> i32 {
        self.scale.as_ref().and_then(|scale| scale.replica_max).unwrap_or(i32::MAX).max(0)
    }

    /// Enough to start with, and never less than the floor or more than the ceiling.
    pub fn wake_target(&self) -> i32 {
        self.at_start.max(self.min).max(1).min(self.max())
    }
}

/// Ready pods with which those that depend on a function may start: as many as it wakes up with. Metrics may have made
/// it smaller since: then all that is asked for is enough.
pub fn needed(wake_target: i32, requested: i32) -> i32 {
    wake_target.min(requested.max(1))
}

impl Scale {
    /// # Errors
    /// If a count is negative.
    pub fn check(&self) -> Result<(), InputError> {
        if let Some(max) = self.replica_max {
            check_range("ReplicaMax", max, 0..=i32::MAX)?;
        }
        for (idx, trigger) in self.triggers.iter().enumerate() {
            check_range(&format!("Triggers[{idx}].Tolerance"), trigger.tolerance, 0.0..=1.0)?;
        }
        let Behavior { scale_up, scale_down } = &self.behavior;
        let FlapGuard { min_window_seconds, max_window_seconds, .. } = scale_down.flap_guard;
        for (field, seconds) in
            [("MinWindowSeconds", min_window_seconds), ("MaxWindowSeconds", max_window_seconds)]
        {
            check_range(&format!("Behavior.ScaleDown.FlapGuard.{field}"), seconds, 0..=86_400)?;
        }
        for (direction, policies) in [("ScaleUp", scale_up.policies()), ("ScaleDown", scale_down.policies())]
        {
            for (idx, policy) in policies.iter().enumerate() {
                let path = format!("Behavior.{direction}.Policies[{idx}]");
                check_range(&format!("{path}.Value"), policy.value, 0..=i32::MAX)?;
                check_range(&format!("{path}.PeriodSeconds"), policy.period_seconds, 0..=i32::MAX)?;
            }
        }
        Ok(())
    }
}

impl Behavior {
    pub(super) fn longest_period(&self) -> i64 {
        let policies = self.scale_up.policies().iter().chain(self.scale_down.policies());
        policies.map(|policy| i64::from(policy.period_seconds)).max().unwrap_or(0)
    }
}

const DEFAULT_UP: &[Policy] = &[
    Policy { kind: PolicyType::Percent, value: 100, period_seconds: 15 },
    Policy { kind: PolicyType::Pods, value: 4, period_seconds: 15 },
];
const DEFAULT_DOWN: &[Policy] = &[Policy { kind: PolicyType::Percent, value: 100, period_seconds: 15 }];

impl ScaleUp {
    pub fn policies(&self) -> &[Policy] {
        if self.policies.is_empty() { DEFAULT_UP } else { &self.policies }
    }
}

impl ScaleDown {
    pub fn policies(&self) -> &[Policy] {
        if self.policies.is_empty() { DEFAULT_DOWN } else { &self.policies }
    }

    pub(super) fn flap_window_seconds(&self) -> Option<(u32, u32)> {
        self.flap_guard.range(self.stabilization_window_seconds)
    }
}

impl Default for ScaleDown {
    fn default() -> Self {
        ScaleDown {
            stabilization_window_seconds: 300,
            policies: Vec::new(),
            flap_guard: FlapGuard::default(),
        }
    }
}

impl From<&Policy> for window::Policy {
    fn from(policy: &Policy) -> Self {
        window::Policy { kind: policy.kind, value: policy.value, period_seconds: policy.period_seconds }
    }
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn percent() -> PolicyType {
    PolicyType::Percent
}

fn hundred() -> i32 {
    100
}

fn fifteen() -> i32 {
    15
}
