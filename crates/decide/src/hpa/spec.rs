//! What an autoscaler is asked to do, with every default filled in.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Decision, Rule};
use crate::{
    quantity::Quantity,
    window::{Policy, PolicyType, Select},
};

#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub min: i32,
    pub max: i32,
    pub metrics: Vec<Metric>,
    /// None is the legacy way: a scale-down window from [`Settings`], and scale-up to twice the count or 4.
    pub behavior: Option<Behavior>,
    pub settings: Settings,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// How reasons call it, such as `cpu` or `external queue_length`.
    pub label: Arc<str>,
    pub source: Source,
}

/// Where a metric comes from and what is wanted of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A resource of the pods, or of one container in each.
    Resource { resource: Arc<str>, container: Option<Arc<str>>, target: ResourceTarget },
    /// A figure that each pod reports.
    Pods { target: Quantity },
    /// One figure of another object.
    Object { target: TotalTarget },
    /// Figures from outside the cluster, added up.
    External { target: TotalTarget },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceTarget {
    /// Percent of the requests.
    Utilization(i32),
    AverageValue(Quantity),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TotalTarget {
    Value(Quantity),
    AverageValue(Quantity),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Behavior {
    pub up: Rules,
    pub down: Rules,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    pub window_seconds: i64,
    pub policies: Vec<Policy>,
    pub select: Select,
    pub tolerance: Option<f64>,
}

/// What kube-controller-manager takes as flags, with its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// How far a ratio may be from 1 without a change, where behavior does not say.
    pub tolerance: f64,
    /// The scale-down window where behavior does not say.
    pub downscale_stabilization_seconds: u32,
    /// For so long after its start a pod's CPU counts only if it is ready and was sampled since.
    pub cpu_initialization_period_seconds: u32,
    /// A pod that became unready within this time after its start was never ready.
    pub initial_readiness_delay_seconds: u32,
    /// A sample older than this is no sample. (The upstream controller takes samples of any age.) Shorter than the
    /// scale-down window of 300 s, so that an outage of the metrics shrinks nothing; longer than the 60 s or so that a
    /// figure of metrics-server may be old.
    pub metric_max_age_seconds: u32,
}

/// How far the ratio of usage to target may be from 1, each way, without a change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tolerance {
    pub up: f64,
    pub down: f64,
}

// === impl Spec ===

impl Spec {
    pub fn tolerance(&self) -> Tolerance {
        let of = |rules: fn(&Behavior) -> &Rules| {
            self.behavior
                .as_ref()
                .and_then(|behavior| rules(behavior).tolerance)
                .unwrap_or(self.settings.tolerance)
        };
        Tolerance { up: of(|behavior| &behavior.up), down: of(|behavior| &behavior.down) }
    }

    /// Of a decision by this spec: the metric that asked for the most, and how many it asked for, before windows, bounds
    /// and budgets. None if no metric could be read.
    pub fn deciding(&self, decision: &Decision) -> Option<(&Metric, i32)> {
        let (label, proposed) = decision.steps.iter().find_map(|step| match &step.rule {
            Rule::Highest { proposed: Some(proposed), metric: Some(metric), .. } => Some((metric, *proposed)),
            _ => None,
        })?;
        Some((self.metrics.iter().find(|metric| metric.label == *label)?, proposed))
    }

    /// Only a figure that exists without pods can bring a workload back from zero.
    pub fn works_without_pods(&self) -> bool {
        self.metrics.iter().any(|metric| metric.source.works_without_pods())
    }
}

impl Source {
    pub fn works_without_pods(&self) -> bool {
        matches!(self, Source::Object { .. } | Source::External { .. })
    }
}

// === impl Rules ===

impl Rules {
    /// The most of twice the count and 4 more, every 15 s, at once.
    pub fn default_up() -> Self {
        Rules {
            window_seconds: 0,
            policies: vec![
                Policy { kind: PolicyType::Pods, value: 4, period_seconds: 15 },
                Policy { kind: PolicyType::Percent, value: 100, period_seconds: 15 },
            ],
            select: Select::Max,
            tolerance: None,
        }
    }

    /// Everything at once, after the window of the settings.
    pub fn default_down(settings: &Settings) -> Self {
        Rules {
            window_seconds: settings.downscale_stabilization_seconds.into(),
            policies: vec![Policy { kind: PolicyType::Percent, value: 100, period_seconds: 15 }],
            select: Select::Max,
            tolerance: None,
        }
    }

    pub(super) fn longest_period(&self) -> i64 {
        self.policies.iter().map(|policy| i64::from(policy.period_seconds)).max().unwrap_or(0)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            tolerance: 0.1,
            downscale_stabilization_seconds: 300,
            cpu_initialization_period_seconds: 300,
            initial_readiness_delay_seconds: 30,
            metric_max_age_seconds: 90,
        }
    }
}

impl Tolerance {
    /// The deadband includes its ends.
    pub fn includes(&self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}
