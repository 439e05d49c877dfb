//! A decision in the terms of a HorizontalPodAutoscaler's status: conditions, current metrics, the Event's reason.

use super::{Decision, Model, Rule, Source, Spec};
use crate::{Step, quantity::Quantity};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Conditions to set; those not listed stay as they are.
    pub conditions: Vec<Condition>,
    /// In the order of the spec's metrics; none where a metric could not be used or was not read.
    pub metrics: Vec<Option<Current>>,
    /// Why the count changes, for the Event.
    pub rescale: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `ScalingActive`, `AbleToScale` or `ScalingLimited`.
    pub kind: &'static str,
    pub status: bool,
    pub reason: &'static str,
    pub message: String,
}

/// The `current` of a metric status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Current {
    pub average_utilization: Option<i32>,
    pub average_value: Option<Quantity>,
    pub value: Option<Quantity>,
}

pub fn report(spec: &Spec, decision: &Decision) -> Report {
    let mut conditions = Vec::new();
    let mut metrics = Vec::new();
    let mut first_failure = None;
    let mut rescale = None;
    for step in &decision.steps {
        let words = || step.words().to_string();
        let moved = step.before != step.after;
        match &step.rule {
            Rule::Metric(reading) => {
                metrics.push(Some(match reading.model {
                    Model::Utilization { average } => Current {
                        average_utilization: Some(i32::try_from(reading.usage).unwrap_or(i32::MAX)),
                        average_value: Some(Quantity(average)),
                        value: None,
                    },
                    Model::Average => {
                        Current { average_value: Some(Quantity(reading.usage)), ..Current::default() }
                    }
                    Model::Value => Current { value: Some(Quantity(reading.usage)), ..Current::default() },
                    Model::AverageValue => Current {
                        average_value: Some(Quantity(share(reading.usage, reading.status_replicas))),
                        ..Current::default()
                    },
                }));
            }
            Rule::InvalidMetric { .. } => {
                let source = spec.metrics.get(metrics.len()).map(|metric| &metric.source);
                first_failure.get_or_insert_with(|| (failure(source), words()));
                metrics.push(None);
            }
            Rule::Highest { proposed, .. } => {
                let blocked = proposed.is_none_or(|proposed| proposed != step.after);
                conditions.push(match first_failure.take().filter(|_| blocked) {
                    Some((reason, message)) => {
                        Condition { kind: "ScalingActive", status: false, reason, message }
                    }
                    None => condition("ScalingActive", true, "ValidMetricFound", words()),
                });
                rescale = moved.then(words);
            }
            Rule::SwitchedOff { .. } => {
                conditions.push(condition("ScalingActive", false, "ScalingDisabled", words()));
            }
            Rule::OutOfBounds { .. } => rescale = rescale.or_else(|| Some(words())),
            Rule::Stabilized(_) => {
                conditions.push(match moved {
                    true => condition("AbleToScale", true, step.code(), words()),
                    false => condition("AbleToScale", true, "ReadyForNewScale", words()),
                });
                conditions.push(limited(&decision.steps));
            }
            Rule::Bounds { .. } => rescale = rescale.or_else(|| moved.then(words)),
            Rule::Budget(_) | Rule::Doubling { .. } => {}
        }
    }
    Report { conditions, metrics, rescale: rescale.filter(|_| decision.changes()) }
}

/// The last step that cut the recommendation short, if any.
fn limited(steps: &[Step<Rule>]) -> Condition {
    let limits = |step: &&Step<Rule>| {
        matches!(step.rule, Rule::Budget(_) | Rule::Doubling { .. } | Rule::Bounds { .. })
            && step.before != step.after
    };
    match steps.iter().rfind(limits) {
        None => condition(
            "ScalingLimited",
            false,
            "DesiredWithinRange",
            "nothing limits the recommendation".into(),
        ),
        Some(step) => condition("ScalingLimited", true, step.code(), step.words().to_string()),
    }
}

fn condition(kind: &'static str, status: bool, reason: &'static str, message: String) -> Condition {
    Condition { kind, status, reason, message }
}

fn failure(source: Option<&Source>) -> &'static str {
    match source {
        Some(Source::Resource { container: None, .. }) => "FailedGetResourceMetric",
        Some(Source::Resource { .. }) => "FailedGetContainerResourceMetric",
        Some(Source::Pods { .. }) => "FailedGetPodsMetric",
        Some(Source::Object { .. }) => "FailedGetObjectMetric",
        Some(Source::External { .. }) | None => "FailedGetExternalMetric",
    }
}

/// A total as an average over the replicas, rounded up.
fn share(total: i64, replicas: i32) -> i64 {
    if total == i64::MAX || replicas <= 0 {
        total
    } else {
        (total as f64 / f64::from(replicas)).ceil() as i64
    }
}
