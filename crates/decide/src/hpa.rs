//! The Kubernetes horizontal pod autoscaler, as one pure function.
//!
//! ```text
//! metric ─┐
//! metric ─┼─> highest ─> stabilized ─> budget ─> bounds ─> desired
//! metric ─┘
//! ```
//!
//! The arithmetic is that of Kubernetes 1.36, to the last truncation, except where data is bad: a negative, non-finite
//! or stale value makes its metric invalid instead of shrinking the workload, sums never wrap, and windows and budgets
//! are memory that outlives the process.

mod calc;
pub mod input;
mod observed;
mod rule;
mod spec;
pub mod status;
#[cfg(test)]
mod tests;

pub use input::Input;
pub use observed::{Answer, Condition, Observed, Phase, Pod, Ready, Requests, Sample};
pub use rule::{Cause, Model, PodCounts, Reading, Rule};
pub use spec::{Behavior, Metric, ResourceTarget, Rules, Settings, Source, Spec, Tolerance, TotalTarget};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    decision::{Chain, sooner},
    window::{Budget, Changes, Direction, Edge, Recommendations, Stabilized},
};
use calc::Context;

pub type Decision = crate::Decision<Memory, Rule>;

/// What one decision leaves for the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Memory {
    pub recommendations: Recommendations,
    pub changes: Changes,
}

pub fn decide(now: Timestamp, spec: &Spec, observed: &Observed, mut memory: Memory) -> Decision {
    let current = observed.current;
    let mut chain = Chain::new(current);
    let keep =
        spec.behavior.as_ref().map_or(0, |rules| rules.up.longest_period().max(rules.down.longest_period()));
    memory.changes.settle(now, current, keep);
    if memory.recommendations.is_empty() {
        // Nothing is known of the past, so the count found counts as wanted: no scale-down right after a start.
        memory.recommendations.record(now, current, 0);
    }

    let can_wake = observed.scaled_to_zero && (spec.min != 0 || spec.works_without_pods());
    if current <= 0 && !can_wake {
        chain.push(Rule::SwitchedOff);
        return chain.finish(memory, None);
    }
    if current > 0 && (current > spec.max || current < spec.min) {
        chain.push(Rule::OutOfBounds { min: spec.min, max: spec.max });
        memory.changes.decided(now, current, *chain.value());
        return chain.finish(memory, None);
    }

    let context = Context::new(now, spec, observed);
    if !propose(&context, &mut chain) {
        return chain.finish(memory, context.next_warm());
    }
    let held_until = match &spec.behavior {
        Some(behavior) => with_behavior(now, current, behavior, &mut memory, &mut chain),
        None => legacy(now, current, spec.settings, &mut memory, &mut chain),
    };
    chain.push(Rule::Bounds { min: spec.min, max: spec.max });
    memory.changes.decided(now, current, *chain.value());
    chain.finish(memory, sooner(held_until, context.next_warm()))
}

/// Asks every metric and takes the highest. False if that settles it: nothing valid, or a scale-down that an invalid
/// metric forbids.
fn propose(context: &Context<'_>, chain: &mut Chain<Rule>) -> bool {
    let (mut valid, mut invalid) = (0, 0);
    let mut highest: Option<(i32, usize)> = None;
    for (idx, metric) in context.spec.metrics.iter().enumerate() {
        match context.read(idx, metric) {
            Ok(reading) => {
                valid += 1;
                let proposed = *chain.push(Rule::Metric(reading));
                if highest.is_none_or(|(best, _)| proposed > best) {
                    highest = Some((proposed, idx));
                }
            }
            Err(cause) => {
                invalid += 1;
                chain.push(Rule::InvalidMetric { metric: metric.label.clone(), cause });
            }
        }
    }
    let metric = highest.map(|(_, idx)| context.spec.metrics[idx].label.clone());
    let proposed = highest.map(|(proposed, _)| proposed);
    chain.push(Rule::Highest { proposed, metric, valid, invalid });
    proposed.is_some_and(|proposed| invalid == 0 || proposed >= context.observed.current)
}

fn with_behavior(
    now: Timestamp,
    current: i32,
    behavior: &Behavior,
    memory: &mut Memory,
    chain: &mut Chain<Rule>,
) -> Option<Timestamp> {
    let Behavior { up, down } = behavior;
    let wanted = *chain.value();
    let past = &mut memory.recommendations;
    let stabilized = *chain.push(Rule::Stabilized(Stabilized::Between {
        current,
        lowest: past.lowest(now, up.window_seconds, Edge::Outside, wanted),
        highest: past.highest(now, down.window_seconds, Edge::Outside, wanted),
    }));
    let mut held_until = None;
    if stabilized < wanted {
        held_until = past.released(now, up.window_seconds, Edge::Outside, |seen| seen < wanted);
    } else if stabilized > wanted {
        held_until = past.released(now, down.window_seconds, Edge::Outside, |seen| seen > wanted);
    }
    past.record(now, wanted, up.window_seconds.max(down.window_seconds));

    let (direction, rules) = match stabilized.cmp(&current) {
        std::cmp::Ordering::Greater => (Direction::Up, up),
        std::cmp::Ordering::Less => (Direction::Down, down),
        std::cmp::Ordering::Equal => return held_until,
    };
    let budget = Budget::new(now, current, direction, &rules.policies, rules.select, &memory.changes);
    if *chain.push(Rule::Budget(budget)) != stabilized {
        held_until = sooner(held_until, budget.released(now, &memory.changes));
    }
    held_until
}

fn legacy(
    now: Timestamp,
    current: i32,
    settings: Settings,
    memory: &mut Memory,
    chain: &mut Chain<Rule>,
) -> Option<Timestamp> {
    let window = i64::from(settings.downscale_stabilization_seconds);
    let wanted = *chain.value();
    let past = &mut memory.recommendations;
    let highest = past.highest(now, window, Edge::Inside, wanted);
    let stabilized = *chain.push(Rule::Stabilized(Stabilized::AtLeast { highest }));
    let held_until = match stabilized == wanted {
        true => None,
        false => past.released(now, window, Edge::Inside, |seen| seen > wanted),
    };
    past.record(now, wanted, window);
    if stabilized > current {
        chain.push(Rule::Doubling { limit: current.saturating_mul(2).max(4) });
    }
    held_until
}
