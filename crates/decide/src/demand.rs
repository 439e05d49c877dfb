//! Functions on demand: asleep without activity, awake with it, and in between as many as the metrics ask for.
//!
//! ```text
//! calls, schedule, dependents ──> idle? ────────────────┐
//! triggers ──> highest ──> stabilized ──> flap guard ──> budget ──> veto, wake, keep awake ──> room? ──> bounds ──> left to ──> desired
//! ```
//!
//! Only activity brings a function up from zero; only both sides together bring it down to zero. The metrics side works
//! on the running count and never from a proposed zero, or its veto could not work.
//!
//! Where a HorizontalPodAutoscaler scales the same workload, zero and the way from and to it stay with this decision:
//! such a scaler does not act at zero. Any other count is the other scaler's, or the two would undo each other's writes.

mod flaps;
mod graph;
pub mod input;
mod next;
mod rule;
mod schedule;
mod spec;
#[cfg(test)]
mod tests;

pub use flaps::{FlapGuard, Flaps};
pub use graph::{Activity, ActivitySource, Dependencies, Graph, Node};
pub use input::Input;
pub use rule::{Cause, Reading, Rule};
pub use schedule::{DayTime, Schedule, TimedTimeout, Times};
pub use spec::{Behavior, MetricType, Per, Policy, Scale, ScaleDown, ScaleUp, Spec, Trigger, needed};

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    decision::{Chain, sooner},
    window::{self, Changes, Direction, Rates, Recommendations, Select, Windows, after},
};

pub type Decision = crate::Decision<Memory, Rule>;

/// What was seen of one function; [`Graph`] answers for activity and dependencies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    pub current: i32,
    pub activity: Option<Activity>,
    /// When a schedule next wakes this function, its own or that of one that depends on it.
    pub next_wake_up: Option<Timestamp>,
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
    /// What the triggers asked for, as far back as a window looks.
    pub recommendations: Recommendations,
    /// What was applied, as far back as a policy looks.
    pub changes: Changes,
    /// How often the triggers have changed their mind.
    #[serde(skip_serializing_if = "Flaps::is_at_rest")]
    pub flaps: Flaps,
}

pub fn decide(now: Timestamp, spec: &Spec, observed: &Observed, mut memory: Memory) -> Decision {
    let current = observed.current.max(0);
    let mut chain = Chain::new(current);
    let idle = activity(now, spec, observed, &mut chain);
    let mut held_until = None;

    let scale = spec.scale.as_ref().filter(|scale| !scale.triggers.is_empty() && current > 0);
    let period = spec.scale.as_ref().map_or(0, |scale| scale.behavior.longest_period());
    let applied = memory.changes.settle(now, current, period);
    if let Some(scale) = scale {
        if let Some(change) = applied.filter(|change| current > 0 && current > change.by) {
            memory.flaps.note(change, current, scale.behavior.scale_down.flap_window_seconds());
        }
        memory.recommendations.begin(now, current);
        let may_sleep = idle && spec.min <= 0;
        propose(scale, observed, may_sleep, &mut chain);
        if observed.autoscaler.is_none() {
            held_until = calm(now, current, scale, spec, may_sleep, &mut memory, &mut chain);
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
            return chain.finish(memory, None);
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
            return chain.finish(memory, None);
        }
    }
    chain.push(Rule::Bounds { min: spec.min, max: spec.max() });
    if let Some(autoscaler) = autoscaler {
        chain.push(Rule::LeftTo { autoscaler: autoscaler.clone(), current });
    }
    // Waking up is no growth that a budget should pay for.
    memory.changes.decided(now, current, if waking { current } else { *chain.value() });
    let turns = next::turn(now, spec, observed, idle, *chain.value());
    chain.finish(memory, sooner(held_until, turns))
}

/// Whether the function is idle.
fn activity(now: Timestamp, spec: &Spec, observed: &Observed, chain: &mut Chain<Rule>) -> bool {
    let timeout_seconds = spec.schedule.timeout_seconds(now, spec.timeout_seconds);
    let last = observed.activity.clone().map(|last| Activity { at: last.at.min(now), ..last });
    let ends = last.as_ref().map(|last| after(last.at, timeout_seconds.into()));
    let idle = ends.is_none_or(|ends| ends < now);
    let seconds_ago = last.as_ref().map_or(0, |last| rule::seconds_between(last.at, now));
    chain.push(Rule::Activity { last, idle, timeout_seconds, seconds_ago });
    idle
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
            tolerance: trigger.tolerance,
        })),
    }
}

/// Windows, flap guard and budgets over what the triggers want.
fn calm(
    now: Timestamp,
    current: i32,
    scale: &Scale,
    spec: &Spec,
    may_sleep: bool,
    memory: &mut Memory,
    chain: &mut Chain<Rule>,
) -> Option<Timestamp> {
    // Remembered within the bounds, so that a window never argues with a number that could not have been.
    let wanted = (*chain.push(Rule::Bounds { min: spec.min, max: spec.max() })).max(0);
    let (up, down) = (&scale.behavior.scale_up, &scale.behavior.scale_down);
    let windows = Windows {
        up: up.stabilization_window_seconds.into(),
        down: down.stabilization_window_seconds.into(),
    };
    let guard = memory.flaps.guard(now, down.flap_window_seconds(), windows.down);
    let keep = guard.as_ref().map_or(0, |guard| guard.window_seconds);
    let stabilized = memory.recommendations.between(now, current, wanted, windows, keep);
    let mut held_until = stabilized.held_until();
    let mut calmed = *chain.push(Rule::Stabilized(stabilized));
    // Both sides agree on zero: nobody flaps there.
    if let Some(guard) = guard.filter(|_| !(may_sleep && wanted == 0)) {
        let guard = guard.over(now, current, calmed, &memory.recommendations);
        if guard.held.is_some() {
            // What the guard has to hold back has not come to rest.
            memory.flaps.hold(now);
            held_until = guard.held.map(|held| held.until);
        }
        calmed = *chain.push(Rule::FlapGuard(guard));
    }
    let (direction, select, policies) = match calmed.cmp(&current) {
        std::cmp::Ordering::Greater => (Direction::Up, Select::Max, up.policies()),
        std::cmp::Ordering::Less => (Direction::Down, Select::Min, down.policies()),
        std::cmp::Ordering::Equal => return held_until,
    };
    let policies: Vec<window::Policy> = policies.iter().map(Into::into).collect();
    let rates = Rates { direction, select, policies: &policies };
    let allowed = *chain.push(Rule::Budget(rates.budget(now, current, &memory.changes)));
    if allowed != calmed {
        held_until = sooner(held_until, rates.released(now, current, allowed, &memory.changes));
    }
    held_until
}
