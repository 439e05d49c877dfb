//! The rules of demand, each with the figures it works on.

use std::{cmp::Ordering, fmt, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    flaps::Guard,
    graph::{Activity, ActivitySource},
    spec::{MetricType, Per},
};
use crate::{
    decision::{Role, Weight},
    window::{Budget, Stabilized},
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", content = "input", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Rule {
    /// What one trigger asks for.
    Trigger(Reading),
    /// A trigger that could not be used.
    InvalidTrigger {
        trigger: Arc<str>,
        cause: Cause,
    },
    /// A trigger whose series are there but have seen nothing: it agrees to sleep and asks for nothing else.
    QuietTrigger {
        trigger: Arc<str>,
    },
    /// Whether calls, schedule and dependents have gone quiet.
    Activity {
        last: Option<Activity>,
        idle: bool,
        timeout_seconds: u32,
        seconds_ago: i64,
    },
    /// The highest of the valid proposals; below the current count only if every trigger has spoken.
    Highest {
        proposed: Option<i32>,
        trigger: Option<Arc<str>>,
        invalid: u32,
        quiet: u32,
        may_shrink: bool,
    },
    Stabilized(Stabilized),
    /// The metrics turned round too often lately: down only after a longer window.
    FlapGuard(Guard),
    Budget(Budget),
    /// Idle, and nothing else has a say: down to the floor.
    ToFloor {
        min: i32,
    },
    /// Idle, and the metrics have a say: not below what they ask for.
    Veto {
        min: i32,
    },
    /// Up from zero, or from below the floor.
    Wake {
        target: i32,
    },
    /// Waking up has to wait for dependencies.
    Waiting {
        current: i32,
        waiting_for: Vec<Arc<str>>,
    },
    /// Dependencies that cannot be waited for.
    Dependencies {
        unknown: Vec<Arc<str>>,
        cycle: Vec<Arc<str>>,
    },
    /// As long as there is activity, metrics alone do not put the last replica to sleep.
    KeepAwake,
    /// No room for what is already asked for: no more is asked.
    Unschedulable {
        current: i32,
        message: Arc<str>,
    },
    Bounds {
        min: i32,
        max: i32,
    },
    /// Somebody else scales between one and many; only zero is decided here.
    LeftTo {
        autoscaler: Arc<str>,
        current: i32,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reading {
    pub trigger: Arc<str>,
    pub metric_type: MetricType,
    pub per: Per,
    pub value: f64,
    pub threshold: f64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tolerance: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Cause {
    Failed {
        message: Arc<str>,
    },
    NoReading,
    /// NaN, infinite or negative.
    Unusable,
    BadThreshold,
}

impl Reading {
    /// `Value` and figures for each pod follow the ratio; a total is shared out, so it cannot run away: 120 calls at
    /// 50 a pod make 3, whatever runs now.
    fn proposal(&self, current: i32) -> i32 {
        let wanted = self.value / self.threshold;
        let running = f64::from(current.max(1));
        let (ratio, wanted) = match (self.metric_type, self.per) {
            (MetricType::AverageValue, Per::Total) => (wanted / running, wanted),
            _ => (wanted, running * wanted),
        };
        // Up to and including the tolerance, float noise aside.
        let stays = self.tolerance > 0.0 && (ratio - 1.0).abs() <= self.tolerance + 1e-9;
        if stays { current } else { ceil(wanted) }
    }

    fn words(&self, before: i32, after: i32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reading { trigger, value, threshold, .. } = self;
        match (self.metric_type, self.per) {
            (MetricType::Value, _) => {
                write!(out, "{trigger} at {value} against {threshold}, {before} running")?
            }
            (_, Per::Total) => write!(out, "{trigger} at {value} in all against {threshold} a pod")?,
            (_, Per::Pod) => write!(out, "{trigger} at {value} a pod against {threshold}, {before} running")?,
        }
        if self.tolerance > 0.0 {
            write!(out, ", tolerance {}", self.tolerance)?;
        }
        write!(out, ": wants {after}")
    }
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

/// Rounds up, but not for float noise: (0.1 + 0.2) / 0.1 is 3, not 4.
fn ceil(replicas: f64) -> i32 {
    (replicas * (1.0 - 1e-9)).ceil() as i32
}

impl crate::Rule for Rule {
    type Value = i32;

    fn name(&self) -> &'static str {
        match self {
            Rule::Trigger(_) => "trigger",
            Rule::InvalidTrigger { .. } => "invalidTrigger",
            Rule::QuietTrigger { .. } => "quietTrigger",
            Rule::Activity { .. } => "activity",
            Rule::Highest { .. } => "highest",
            Rule::Stabilized(_) => "stabilized",
            Rule::FlapGuard(_) => "flapGuard",
            Rule::Budget(_) => "budget",
            Rule::ToFloor { .. } => "toFloor",
            Rule::Veto { .. } => "veto",
            Rule::Wake { .. } => "wake",
            Rule::Waiting { .. } => "waiting",
            Rule::Dependencies { .. } => "dependencies",
            Rule::KeepAwake => "keepAwake",
            Rule::Unschedulable { .. } => "unschedulable",
            Rule::Bounds { .. } => "bounds",
            Rule::LeftTo { .. } => "leftTo",
        }
    }

    fn role(&self) -> Role {
        match self {
            Rule::Trigger(_) | Rule::InvalidTrigger { .. } | Rule::QuietTrigger { .. } => Role::Proposal,
            _ => Role::Link,
        }
    }

    fn apply(&self, before: &i32) -> i32 {
        let before = *before;
        match self {
            Rule::Trigger(reading) => reading.proposal(before),
            Rule::InvalidTrigger { .. } | Rule::QuietTrigger { .. } => before,
            Rule::Activity { .. } | Rule::Dependencies { .. } => before,
            Rule::Highest { proposed, may_shrink, .. } => match *proposed {
                Some(proposed) if *may_shrink || proposed >= before => proposed,
                _ => before,
            },
            Rule::Stabilized(stabilized) => stabilized.apply(before),
            Rule::FlapGuard(guard) => guard.apply(before),
            Rule::Budget(budget) => budget.apply(before),
            Rule::ToFloor { min } => *min,
            Rule::Veto { min } => before.max(*min),
            Rule::Wake { target } => before.max(*target),
            Rule::Waiting { current, .. } => *current,
            Rule::KeepAwake => before.max(1),
            Rule::Unschedulable { current, .. } => before.min(*current),
            Rule::Bounds { min, max } => before.max(*min).min(*max),
            Rule::LeftTo { .. } if before == 0 => 0,
            Rule::LeftTo { current, .. } => *current,
        }
    }

    fn weight(&self, before: &i32, after: &i32) -> Weight {
        match self {
            Rule::Waiting { .. } | Rule::Wake { target: 0 } => Weight::Decides,
            Rule::Veto { .. } if *after == 0 => Weight::Decides,
            Rule::Veto { .. } | Rule::Highest { proposed: None, .. } => Weight::Holds,
            Rule::Highest { proposed: Some(proposed), .. } if proposed < before => Weight::Holds,
            _ => Weight::Plain,
        }
    }

    fn code(&self, before: &i32, after: &i32) -> &'static str {
        let (before, after) = (*before, *after);
        match self {
            Rule::Trigger(_) => "TriggerProposal",
            Rule::InvalidTrigger { .. } => "InvalidTrigger",
            Rule::QuietTrigger { .. } => "QuietTrigger",
            Rule::Activity { idle: true, .. } => "Idle",
            Rule::Activity { .. } => "Active",
            Rule::Highest { proposed: None, invalid: 0, .. } => "NoDemand",
            Rule::Highest { proposed: None, .. } => "NoValidTrigger",
            Rule::Highest { proposed: Some(proposed), invalid, .. } => match after.cmp(&before) {
                Ordering::Greater => "AboveThreshold",
                Ordering::Less => "BelowThreshold",
                Ordering::Equal if *proposed < before && *invalid == 0 => "QuietTriggerBlocksScaleDown",
                Ordering::Equal if *proposed < before => "InvalidTriggerBlocksScaleDown",
                Ordering::Equal => "OnThreshold",
            },
            Rule::Stabilized(stabilized) => stabilized.code(before, after),
            Rule::FlapGuard(_) => "FlapGuard",
            Rule::Budget(budget) => budget.code(before, after),
            Rule::ToFloor { .. } => "Idle",
            Rule::Veto { .. } if after > 0 => "MetricsVeto",
            Rule::Veto { .. } => "BothAgreeOnZero",
            Rule::Wake { target: 0 } => "MaximumIsZero",
            Rule::Wake { .. } => "WakeUp",
            Rule::Waiting { .. } => "WaitingForDependencies",
            Rule::Dependencies { cycle, .. } if cycle.is_empty() => "UnknownDependency",
            Rule::Dependencies { .. } => "DependencyCycle",
            Rule::KeepAwake => "Active",
            Rule::Unschedulable { .. } => "Unschedulable",
            Rule::Bounds { .. } => match after.cmp(&before) {
                Ordering::Less => "TooManyReplicas",
                Ordering::Greater => "TooFewReplicas",
                Ordering::Equal => "WithinBounds",
            },
            Rule::LeftTo { .. } => "LeftToAutoscaler",
        }
    }

    fn words(&self, before: &i32, after: &i32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = (*before, *after);
        match self {
            Rule::Trigger(reading) => reading.words(before, after, out),
            Rule::InvalidTrigger { trigger, cause } => write!(out, "{trigger} cannot be used: {cause}"),
            Rule::QuietTrigger { trigger } => {
                write!(out, "{trigger} has series but no observations: no demand")
            }
            Rule::Activity { last, idle, timeout_seconds, seconds_ago } => {
                activity(last.as_ref(), *idle, *timeout_seconds, *seconds_ago, out)
            }
            Rule::Highest { proposed: None, invalid: 0, .. } => {
                out.write_str("the triggers see no demand, which alone shrinks nothing")
            }
            Rule::Highest { proposed: None, .. } => {
                out.write_str("no trigger can be used, so nothing changes")
            }
            Rule::Highest { proposed: Some(proposed), trigger, invalid, quiet, .. } => {
                let trigger = trigger.as_deref().unwrap_or("the triggers");
                match after.cmp(&before) {
                    Ordering::Greater => write!(out, "{trigger} asks for {after}"),
                    Ordering::Less => write!(out, "{trigger} asks for the most: {after}"),
                    Ordering::Equal if *proposed < before && *invalid == 0 => write!(
                        out,
                        "{trigger} would allow {proposed}, but not every trigger has observations ({quiet} without), so \
                         nothing shrinks"
                    ),
                    Ordering::Equal if *proposed < before => write!(
                        out,
                        "{trigger} would allow {proposed}, but not every trigger can be used ({invalid} cannot), so \
                         nothing shrinks"
                    ),
                    Ordering::Equal => out.write_str("the triggers are content"),
                }
            }
            Rule::Stabilized(stabilized) => stabilized.words(before, after, out),
            Rule::FlapGuard(guard) => guard.words(before, after, out),
            Rule::Budget(budget) => budget.words(before, after, out),
            Rule::ToFloor { min } if after > before => write!(out, "up to the minimum of {min}"),
            Rule::ToFloor { min } => write!(out, "idle, so down to the minimum of {min}"),
            Rule::Veto { .. } if after == 0 => out.write_str("idle, and the metrics agree on zero"),
            Rule::Veto { .. } => write!(out, "idle, but the metrics do not agree to fewer than {after}"),
            Rule::Wake { target: 0 } => {
                out.write_str("there is activity, but the maximum is 0, so nothing wakes up")
            }
            Rule::Wake { target } => write!(out, "wakes up with {target}"),
            Rule::Waiting { waiting_for, .. } => {
                write!(out, "would wake up, but waits for {}", waiting_for.join(", "))
            }
            Rule::Dependencies { unknown, cycle } => {
                if !cycle.is_empty() {
                    write!(out, "depends on {} in a circle, so does not wait for it", cycle.join(", "))?;
                }
                if !unknown.is_empty() {
                    let and = if cycle.is_empty() { "" } else { "; " };
                    write!(out, "{and}{} is not there, so not waited for", unknown.join(", "))?;
                }
                Ok(())
            }
            Rule::KeepAwake if before == after => out.write_str("active, and at least one replica is up"),
            Rule::KeepAwake => {
                out.write_str("the metrics ask for none, but there is activity, so one stays up")
            }
            Rule::Unschedulable { message, .. } => {
                write!(out, "no more are asked for while pods find no place: {message}")
            }
            Rule::Bounds { min, max } => match after.cmp(&before) {
                Ordering::Less => write!(out, "{before} is above the maximum of {max}"),
                Ordering::Greater => write!(out, "{before} is below the minimum of {min}"),
                Ordering::Equal if *max == i32::MAX => write!(out, "at least {min}"),
                Ordering::Equal => write!(out, "between {min} and {max}"),
            },
            Rule::LeftTo { .. } if after == 0 => out.write_str("zero is not the autoscaler's to decide"),
            Rule::LeftTo { autoscaler, .. } => {
                write!(out, "HorizontalPodAutoscaler {autoscaler} decides above zero, so {after} stays")
            }
        }
    }
}

fn activity(
    last: Option<&Activity>,
    idle: bool,
    timeout: u32,
    ago: i64,
    out: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let Some(Activity { source, of, .. }) = last else {
        return out.write_str("never called");
    };
    let what = match source {
        ActivitySource::AnyCall => "a call to some function",
        ActivitySource::Schedule => "a scheduled wake-up",
        ActivitySource::Call => "a call",
        ActivitySource::CallUnderWay => "a call under way",
    };
    if idle {
        write!(out, "nothing for {ago} s, timeout {timeout} s; the last was {what}")?;
    } else {
        out.write_str(what)?;
    }
    if let Some(dependent) = of {
        write!(out, " of {dependent}, which depends on this")?;
    }
    match source {
        ActivitySource::CallUnderWay => Ok(()),
        _ if idle => Ok(()),
        _ => write!(out, " {ago} s ago, timeout {timeout} s"),
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Failed { message } => f.write_str(message),
            Cause::NoReading => f.write_str("there is no reading of it"),
            Cause::Unusable => f.write_str("its value is negative or not a finite number"),
            Cause::BadThreshold => f.write_str("its threshold is not a positive number"),
        }
    }
}

/// Whole seconds from `at` to `now`.
pub(super) fn seconds_between(at: Timestamp, now: Timestamp) -> i64 {
    now.duration_since(at).as_secs()
}
