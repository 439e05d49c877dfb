//! Functions on demand: asleep without activity, awake with it, and in between as many as the metrics ask for.
//!
//! ```text
//! calls, schedule, dependents ──> idle? ────────────────┐
//! triggers ──> highest ──> stabilized ──> budget ──> veto, wake, keep awake ──> room? ──> bounds ──> left to ──> desired
//! ```
//!
//! Only activity brings a function up from zero; only both sides together bring it down to zero. The metrics side works
//! on the running count and never from a proposed zero, or its veto could not work.
//!
//! Where a HorizontalPodAutoscaler scales the same workload, zero and the way from and to it stay with this decision:
//! such a scaler does not act at zero. Any other count is the other scaler's, or the two would undo each other's writes.

mod graph;
pub mod input;
mod rule;
mod schedule;
mod spec;
#[cfg(test)]
mod tests;

pub use graph::{Activity, ActivitySource, Dependencies, Graph, Node};
pub use input::Input;
pub use rule::{Cause, Reading, Rule};
pub use schedule::{DayTime, Schedule, TimedTimeout, Times};
pub use spec::{Behavior, MetricType, Per, Policy, Scale, ScaleDown, ScaleUp, Spec, Trigger};

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    decision::{Chain, sooner},
    window::{self, Budget, Changes, Direction, Edge, Recommendations, Select, Stabilized, after},
};

pub type Decision = crate::Decision<Memory, Rule>;

/// What was seen of one function; [`Graph`] answers for activity and dependencies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    pub current: i32,
    pub activity: Option<Activity>,
    pub dependencies: Dependencies,
    /// Why pods that are already asked for find no place.
    pub unschedulable: Option<Arc<str>>,
    /// The HorizontalPodAutoscaler that scales the same workload.
    pub autoscaler: Option<Arc<str>>,
    /// In the order of the triggers.
    pub readings: Vec<Answer>,
}

/// What a trigger's query gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A number, which may turn out to be none; `per` is what the query's text says it stands for.
    Value { value: f64, per: Option<Per> },
    /// A number that leaves out series without one, such as the latency of an idle pod: it may raise the count, but is
    /// no reason to lower it.
    AtLeast { value: f64, per: Option<Per> },
    /// Fresh series without observations: no demand, which is not the same as no data.
    Quiet,
    /// No series, old series, or a query that cannot be evaluated.
    Failed(Arc<str>),
}

/// What one decision leaves for the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Memory {
    pub recommendations: Recommendations,
    pub changes: Changes,
}

pub fn decide(now: Timestamp, spec: &Spec, observed: &Observed, mut memory: Memory) -> Decision {
    let current = observed.current.max(0);
    let mut chain = Chain::new(current);
    let (idle, idle_from) = activity(now, spec, observed, &mut chain);
    let mut next_check = sooner(idle_from, spec.schedule.next_change(now));

    let scale = spec.scale.as_ref().filter(|scale| !scale.triggers.is_empty() && current > 0);
    let period = spec.scale.as_ref().map_or(0, |scale| scale.behavior.longest_period());
    memory.changes.settle(now, current, period);
    if let Some(scale) = scale {
        if memory.recommendations.is_empty() {
            // Nothing is known of the past, so the count found counts as wanted.
            memory.recommendations.record(now, current, 0);
        }
        let may_sleep = idle && spec.min <= 0;
        propose(scale, observed, may_sleep, &mut chain);
        if observed.autoscaler.is_none() {
            let held_until = calm(now, current, &scale.behavior, spec, &mut memory, &mut chain);
            next_check = sooner(next_check, held_until);
        }
    }

    let autoscaler = observed.autoscaler.as_ref().filter(|_| current > 0);
    let is_below = current == 0 || (current < spec.min && autoscaler.is_none());
    let mut waking = false;
    if idle {
        chain.push(match scale {
            Some(_) => Rule::Veto { min: spec.min },
            None => Rule::ToFloor { min: spec.min },
        });
    } else if is_below {
        let Dependencies { waiting_for, unknown, cycle } = &observed.dependencies;
        if !unknown.is_empty() || !cycle.is_empty() {
            chain.push(Rule::Dependencies { unknown: unknown.clone(), cycle: cycle.clone() });
        }
        waking = waiting_for.is_empty();
        chain.push(match waking {
            true => Rule::Wake { target: spec.wake_target() },
            false => Rule::Waiting { current, waiting_for: waiting_for.clone() },
        });
        if !waking {
            return chain.finish(memory, next_check);
        }
    } else {
        chain.push(Rule::KeepAwake);
    }
    if let Some(message) = &observed.unschedulable
        && *chain.value() > current
    {
        chain.push(Rule::Unschedulable { current, message: message.clone() });
        if is_below {
            // The floor would only ask for more pods that find no place.
            return chain.finish(memory, next_check);
        }
    }
    chain.push(Rule::Bounds { min: spec.min, max: spec.max() });
    if let Some(autoscaler) = autoscaler {
        chain.push(Rule::LeftTo { autoscaler: autoscaler.clone(), current });
    }
    // Waking up is no growth that a budget should pay for.
    memory.changes.decided(now, current, if waking { current } else { *chain.value() });
    chain.finish(memory, next_check)
}

/// Whether the function is idle, and if not, when it will be.
fn activity(
    now: Timestamp,
    spec: &Spec,
    observed: &Observed,
    chain: &mut Chain<Rule>,
) -> (bool, Option<Timestamp>) {
    let timeout_seconds = spec.schedule.timeout_seconds(now, spec.timeout_seconds);
    let last = observed.activity.clone().map(|last| Activity { at: last.at.min(now), ..last });
    let ends = last.as_ref().map(|last| after(last.at, timeout_seconds.into()));
    let idle = ends.is_none_or(|ends| ends < now);
    let seconds_ago = last.as_ref().map_or(0, |last| rule::seconds_between(last.at, now));
    chain.push(Rule::Activity { last, idle, timeout_seconds, seconds_ago });
    // A function is still active in the very moment its timeout ends.
    let just_after = |at: Timestamp| at.checked_add(SignedDuration::from_millis(1)).unwrap_or(Timestamp::MAX);
    (idle, ends.filter(|_| !idle).map(just_after))
}

fn propose(scale: &Scale, observed: &Observed, may_sleep: bool, chain: &mut Chain<Rule>) {
    let (mut invalid, mut quiet) = (0, 0);
    let mut highest: Option<(i32, Arc<str>)> = None;
    for (idx, trigger) in scale.triggers.iter().enumerate() {
        let name: Arc<str> = match trigger.metric_name.as_str() {
            "" => format!("trigger {idx}").into(),
            name => name.into(),
        };
        match read(trigger, observed.readings.get(idx), &name) {
            Ok(Some(reading)) => {
                quiet += u32::from(matches!(observed.readings.get(idx), Some(Answer::AtLeast { .. })));
                let proposed = *chain.push(Rule::Trigger(reading));
                if highest.as_ref().is_none_or(|(best, _)| proposed > *best) {
                    highest = Some((proposed, name));
                }
            }
            Ok(None) => {
                quiet += 1;
                chain.push(Rule::QuietTrigger { trigger: name });
            }
            Err(cause) => {
                invalid += 1;
                chain.push(Rule::InvalidTrigger { trigger: name, cause });
            }
        }
    }
    if may_sleep && quiet > 0 && highest.is_none() {
        highest = Some((0, "no demand".into()));
    }
    let may_shrink =
        invalid == 0 && (quiet == 0 || (may_sleep && highest.as_ref().is_some_and(|(best, _)| *best == 0)));
    let (proposed, trigger) = highest.unzip();
    chain.push(Rule::Highest { proposed, trigger, invalid, quiet, may_shrink });
}

/// The trigger's figures; none if it is quiet.
fn read(trigger: &Trigger, answer: Option<&Answer>, name: &Arc<str>) -> Result<Option<Reading>, Cause> {
    if !(trigger.threshold.is_finite() && trigger.threshold > 0.0) {
        return Err(Cause::BadThreshold);
    }
    match answer {
        None => Err(Cause::NoReading),
        Some(Answer::Failed(message)) => Err(Cause::Failed { message: message.clone() }),
        Some(Answer::Quiet) => Ok(None),
        Some(Answer::Value { value, .. } | Answer::AtLeast { value, .. })
            if !value.is_finite() || *value < 0.0 =>
        {
            Err(Cause::Unusable)
        }
        Some(Answer::Value { value, per } | Answer::AtLeast { value, per }) => Ok(Some(Reading {
            trigger: name.clone(),
            metric_type: trigger.metric_type,
            per: trigger.per.or(*per).unwrap_or_default(),
            value: *value,
            threshold: trigger.threshold,
        })),
    }
}

/// Windows and budgets over what the triggers want.
fn calm(
    now: Timestamp,
    current: i32,
    behavior: &Behavior,
    spec: &Spec,
    memory: &mut Memory,
    chain: &mut Chain<Rule>,
) -> Option<Timestamp> {
    // Remembered within the bounds, so that a window never argues with a number that could not have been.
    let wanted = (*chain.push(Rule::Bounds { min: spec.min, max: spec.max() })).max(0);
    let (up, down) = (&behavior.scale_up, &behavior.scale_down);
    let (up_window, down_window) =
        (i64::from(up.stabilization_window_seconds), i64::from(down.stabilization_window_seconds));
    let past = &mut memory.recommendations;
    let stabilized = *chain.push(Rule::Stabilized(Stabilized::Between {
        current,
        lowest: past.lowest(now, up_window, Edge::Outside, wanted),
        highest: past.highest(now, down_window, Edge::Outside, wanted),
    }));
    let mut held_until = None;
    if stabilized < wanted {
        held_until = past.released(now, up_window, Edge::Outside, |seen| seen < wanted);
    } else if stabilized > wanted {
        held_until = past.released(now, down_window, Edge::Outside, |seen| seen > wanted);
    }
    past.record(now, wanted, up_window.max(down_window));

    let (direction, select, policies) = match stabilized.cmp(&current) {
        std::cmp::Ordering::Greater => (Direction::Up, Select::Max, up.policies()),
        std::cmp::Ordering::Less => (Direction::Down, Select::Min, down.policies()),
        std::cmp::Ordering::Equal => return held_until,
    };
    let policies: Vec<window::Policy> = policies.iter().map(Into::into).collect();
    let budget = Budget::new(now, current, direction, &policies, select, &memory.changes);
    if *chain.push(Rule::Budget(budget)) != stabilized {
        held_until = sooner(held_until, budget.released(now, &memory.changes));
    }
    held_until
}
