//! The rules of the HPA, each with the figures it works on.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::spec::Tolerance;
use crate::{
    decision::Role,
    quantity::Quantity,
    window::{Budget, Stabilized},
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", content = "input", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Rule {
    /// What one metric asks for.
    Metric(Reading),
    /// A metric that could not be used.
    InvalidMetric {
        metric: Arc<str>,
        cause: Cause,
    },
    /// The highest of the valid proposals; with an invalid metric around, nothing shrinks.
    Highest {
        proposed: Option<i32>,
        metric: Option<Arc<str>>,
        /// How that metric stands to its target.
        standing: Option<Standing>,
        valid: u32,
        invalid: u32,
    },
    /// Zero replicas that this autoscaler cannot leave: they are not its own doing, or no metric works without pods.
    SwitchedOff {
        scaled_to_zero: bool,
    },
    /// Outside the bounds: straight to the nearer one, without reading metrics.
    OutOfBounds {
        min: i32,
        max: i32,
    },
    Stabilized(Stabilized),
    Budget(Budget),
    /// Without behavior: at most twice the count, or 4.
    Doubling {
        limit: i32,
    },
    Bounds {
        min: i32,
        max: i32,
    },
}

/// One metric's figures. Quantities are thousandths, utilization is percent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reading {
    pub metric: Arc<str>,
    pub model: Model,
    pub usage: i64,
    pub target: i64,
    /// Usage again, after missing and unready pods were filled in against the direction.
    pub refilled: Option<i64>,
    /// The pods that `refilled`, or else `usage`, speaks for.
    pub count: u32,
    pub status_replicas: i32,
    pub tolerance: Tolerance,
    pub pods: PodCounts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Model {
    /// Percent of requests; `average` is the usage behind it.
    Utilization { average: i64 },
    /// An average over pods.
    Average,
    /// A total against a total.
    Value,
    /// A total against so much for each pod.
    AverageValue,
}

/// A metric's figure against its target; within the tolerance it is on target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Standing {
    Below,
    OnTarget,
    Above,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodCounts {
    pub ready: u32,
    pub unready: u32,
    pub missing: u32,
    pub ignored: u32,
}

/// Why a metric is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Cause {
    NoAnswer,
    Failed {
        message: Arc<str>,
    },
    NoPods,
    /// Pods there are, but none with a sample that counts.
    NoSamples {
        unready: u32,
        /// Samples older than `max_age_seconds`.
        stale: u32,
        max_age_seconds: u32,
        /// Samples that are negative.
        unusable: u32,
        missing: u32,
        /// Pods that failed or are being deleted.
        ignored: u32,
    },
    /// The metrics API answered without a value.
    NoValue,
    Stale,
    /// Not a number, infinite or negative.
    Unusable,
    MissingRequest {
        pod: Arc<str>,
        container: Option<Arc<str>>,
    },
    ZeroRequests,
    BadTarget,
}

// === impl Reading ===

impl Reading {
    fn proposal(&self, current: i32) -> i32 {
        match self.model {
            Model::Utilization { .. } | Model::Average => self.per_pod(current),
            Model::Value => {
                let ratio = self.ratio(self.usage);
                if current == 0 {
                    ceil(ratio)
                } else if self.tolerance.includes(ratio) {
                    current
                } else {
                    ceil(ratio * f64::from(self.count))
                }
            }
            Model::AverageValue => {
                let share = self.usage as f64 / (self.target as f64 * f64::from(self.status_replicas));
                if self.tolerance.includes(share) {
                    self.status_replicas
                } else {
                    ceil(self.ratio(self.usage))
                }
            }
        }
    }

    fn per_pod(&self, current: i32) -> i32 {
        let first = self.ratio(self.usage);
        let Some(refilled) = self.refilled else {
            return if self.tolerance.includes(first) {
                current
            } else {
                ceil(first * f64::from(self.count))
            };
        };
        let ratio = self.ratio(refilled);
        let turned = (first < 1.0 && ratio > 1.0) || (first > 1.0 && ratio < 1.0);
        if turned || self.tolerance.includes(ratio) {
            return current;
        }
        let replicas = ceil(ratio * f64::from(self.count));
        let wrong_way = (ratio < 1.0 && replicas > current) || (ratio > 1.0 && replicas < current);
        if wrong_way { current } else { replicas }
    }

    /// By the figure itself, before pods without one are filled in.
    pub(super) fn standing(&self) -> Standing {
        let ratio = match self.model {
            // From zero there is no average: one pod's target is what the total is measured against.
            Model::AverageValue => self.ratio(self.usage) / f64::from(self.status_replicas.max(1)),
            _ => self.ratio(self.usage),
        };
        if self.tolerance.includes(ratio) {
            Standing::OnTarget
        } else if ratio > 1.0 {
            Standing::Above
        } else {
            Standing::Below
        }
    }

    fn ratio(&self, usage: i64) -> f64 {
        usage as f64 / self.target as f64
    }

    fn words(&self, before: i32, after: i32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reading { metric, pods, .. } = self;
        let (usage, target) = (Quantity(self.usage), Quantity(self.target));
        match self.model {
            Model::Utilization { .. } => {
                write!(out, "{metric} at {} % of requests, target {} %", self.usage, self.target)?;
            }
            Model::Average => write!(out, "{metric} at {usage} a pod, target {target}")?,
            Model::Value => write!(out, "{metric} at {usage}, target {target}")?,
            Model::AverageValue => write!(out, "{metric} at {usage} in all, target {target} a pod")?,
        }
        if self.model != Model::AverageValue && pods.ready > 0 {
            write!(out, ", {} ready", pods.ready)?;
        }
        for (count, class) in [(pods.unready, "unready"), (pods.missing, "without a sample")] {
            if count > 0 {
                write!(out, ", {count} {class}")?;
            }
        }
        match self.refilled {
            Some(refilled) if refilled != self.usage => match self.model {
                Model::Utilization { .. } => write!(out, ", {refilled} % with those filled in")?,
                _ => write!(out, ", {} with those filled in", Quantity(refilled))?,
            },
            _ => {}
        }
        if before == after { out.write_str(": no change") } else { write!(out, ": wants {after}") }
    }
}

fn ceil(replicas: f64) -> i32 {
    replicas.ceil() as i32
}

// === impl Rule ===

impl crate::Rule for Rule {
    type Value = i32;

    fn name(&self) -> &'static str {
        match self {
            Rule::Metric(_) => "metric",
            Rule::InvalidMetric { .. } => "invalidMetric",
            Rule::Highest { .. } => "highest",
            Rule::SwitchedOff { .. } => "switchedOff",
            Rule::OutOfBounds { .. } => "outOfBounds",
            Rule::Stabilized(_) => "stabilized",
            Rule::Budget(_) => "budget",
            Rule::Doubling { .. } => "doubling",
            Rule::Bounds { .. } => "bounds",
        }
    }

    fn role(&self) -> Role {
        match self {
            Rule::Metric(_) | Rule::InvalidMetric { .. } => Role::Proposal,
            _ => Role::Link,
        }
    }

    fn apply(&self, before: &i32) -> i32 {
        let before = *before;
        match self {
            Rule::Metric(reading) => reading.proposal(before),
            Rule::InvalidMetric { .. } | Rule::SwitchedOff { .. } => before,
            Rule::Highest { proposed, invalid, .. } => match *proposed {
                Some(proposed) if *invalid == 0 || proposed >= before => proposed,
                _ => before,
            },
            Rule::Stabilized(stabilized) => stabilized.apply(before),
            Rule::Budget(budget) => budget.apply(before),
            Rule::Doubling { limit } => before.min(*limit),
            Rule::OutOfBounds { min, max } | Rule::Bounds { min, max } => before.max(*min).min(*max),
        }
    }

    fn code(&self, before: &i32, after: &i32) -> &'static str {
        let (before, after) = (*before, *after);
        match self {
            Rule::Metric(_) => "MetricProposal",
            Rule::InvalidMetric { .. } => "InvalidMetric",
            Rule::Highest { proposed: None, .. } => "NoValidMetric",
            Rule::Highest { proposed: Some(proposed), .. } if *proposed < before && after == before => {
                "InvalidMetricBlocksScaleDown"
            }
            Rule::Highest { standing, .. } => match (after.cmp(&before), standing) {
                (std::cmp::Ordering::Greater, Some(Standing::Above)) => "AboveTarget",
                (std::cmp::Ordering::Greater, _) => "MetricAsksForMore",
                (std::cmp::Ordering::Less, Some(Standing::Below)) => "BelowTarget",
                (std::cmp::Ordering::Less, _) => "MetricAsksForFewer",
                (std::cmp::Ordering::Equal, Some(Standing::OnTarget)) => "OnTarget",
                (std::cmp::Ordering::Equal, _) => "MetricAsksForNoChange",
            },
            Rule::SwitchedOff { .. } => "ScalingDisabled",
            Rule::Stabilized(stabilized) => stabilized.code(before, after),
            Rule::Budget(budget) => budget.code(before, after),
            Rule::Doubling { .. } if before == after => "WithinBudget",
            Rule::Doubling { .. } => "ScaleUpLimit",
            Rule::OutOfBounds { .. } | Rule::Bounds { .. } => match after.cmp(&before) {
                std::cmp::Ordering::Less => "TooManyReplicas",
                std::cmp::Ordering::Greater => "TooFewReplicas",
                std::cmp::Ordering::Equal => "DesiredWithinRange",
            },
        }
    }

    fn words(&self, before: &i32, after: &i32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = (*before, *after);
        match self {
            Rule::Metric(reading) => reading.words(before, after, out),
            Rule::InvalidMetric { metric, cause } => write!(out, "{metric} cannot be used: {cause}"),
            Rule::Highest { proposed: None, invalid, .. } => {
                write!(out, "no metric can be used ({invalid} tried), so nothing changes")
            }
            Rule::Highest { proposed: Some(proposed), metric, standing, valid, invalid } => {
                let metric = metric.as_deref().unwrap_or("the metrics");
                if *proposed < before && after == before {
                    return write!(
                        out,
                        "{metric} would allow {proposed}, but not every metric can be used ({invalid} cannot), so \
                         nothing shrinks"
                    );
                }
                let most = if *valid > 1 { "asks for the most" } else { "asks for" };
                let colon = if *valid > 1 { ":" } else { "" };
                match (after.cmp(&before), standing) {
                    (std::cmp::Ordering::Equal, Some(Standing::OnTarget)) => {
                        write!(out, "{metric} is on target")
                    }
                    (std::cmp::Ordering::Equal, _) => write!(out, "{metric} asks for no change"),
                    (std::cmp::Ordering::Greater, Some(Standing::Above)) => {
                        write!(out, "{metric} is above target and {most}{colon} {after}")
                    }
                    (std::cmp::Ordering::Less, Some(Standing::Below)) => {
                        write!(out, "{metric} is below target and {most}{colon} {after}")
                    }
                    _ => write!(out, "{metric} {most}{colon} {after}"),
                }
            }
            Rule::SwitchedOff { scaled_to_zero: false } => out.write_str(
                "the target has zero replicas, which is not this autoscaler's doing; it acts again once they are set \
                 above zero",
            ),
            Rule::SwitchedOff { scaled_to_zero: true } => out.write_str(
                "the target has zero replicas and no metric that works without pods; it acts again once they are set \
                 above zero",
            ),
            Rule::Stabilized(stabilized) => stabilized.words(before, after, out),
            Rule::Budget(budget) => budget.words(before, after, out),
            Rule::Doubling { limit } if before == after => write!(out, "no more than {limit} in one go"),
            Rule::Doubling { limit } => write!(out, "no more than {limit} in one go, so not yet {before}"),
            Rule::OutOfBounds { min, max } | Rule::Bounds { min, max } => match after.cmp(&before) {
                std::cmp::Ordering::Less => write!(out, "{before} is above the maximum of {max}"),
                std::cmp::Ordering::Greater => write!(out, "{before} is below the minimum of {min}"),
                std::cmp::Ordering::Equal => write!(out, "between {min} and {max}"),
            },
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::NoAnswer => f.write_str("there is no answer for it"),
            Cause::Failed { message } => f.write_str(message),
            Cause::NoPods => f.write_str("there are no pods"),
            Cause::NoSamples { unready, stale, max_age_seconds, unusable, missing, ignored } => {
                f.write_str("no usable samples: ")?;
                let older = format!("older than {max_age_seconds} s");
                let mut separator = "";
                for (count, one, many, rest) in [
                    (*unready, "pod", "pods", "not ready"),
                    (*stale, "sample", "samples", older.as_str()),
                    (*unusable, "sample", "samples", "below zero"),
                    (*missing, "pod", "pods", "without a sample"),
                    (*ignored, "pod", "pods", "failed or being deleted"),
                ] {
                    if count > 0 {
                        let noun = if count == 1 { one } else { many };
                        write!(f, "{separator}{count} {noun} {rest}")?;
                        separator = ", ";
                    }
                }
                Ok(())
            }
            Cause::NoValue => f.write_str("the metrics API gave no value"),
            Cause::Stale => f.write_str("its last value is too old"),
            Cause::Unusable => f.write_str("its value is negative or not a number"),
            Cause::MissingRequest { pod, container: Some(container) } => {
                write!(f, "container {container} of pod {pod} has no request for it; set resources.requests")
            }
            Cause::MissingRequest { pod, container: None } => {
                write!(f, "pod {pod} has no request for it; set resources.requests")
            }
            Cause::ZeroRequests => f.write_str("the requests add up to zero"),
            Cause::BadTarget => f.write_str("its target is not positive"),
        }
    }
}
