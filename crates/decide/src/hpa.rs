//! The Kubernetes horizontal pod autoscaler, as one pure function.
//!
//! ```text
//! metric ─┐
//! metric ─┼─> highest ─> stabilized ─> bounds ─> budget ─> desired
//! metric ─┘
//! ```
//!
//! Bounds come before the budget, so that the last link that cut something off names what really limits: at the maximum
//! it is `TooManyReplicas`, even where the budget would not have allowed more either.
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
pub use rule::{Cause, Model, PodCounts, Reading, Rule, Standing};
pub use spec::{Behavior, Metric, ResourceTarget, Rules, Settings, Source, Spec, Tolerance, TotalTarget};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    decision::{Chain, sooner},
    window::{Changes, Direction, Rates, Recommendations, Windows},
};
use calc::Context;

pub type Decision = crate::Decision<Memory, Rule>;

/// What one decision leaves for the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Memory {
    /// What the metrics asked for, as far back as a window looks.
    pub recommendations: Recommendations,
    /// What was applied, as far back as a policy looks.
    pub changes: Changes,
}

pub fn decide(now: Timestamp, spec: &Spec, observed: &Observed, mut memory: Memory) -> Decision {
    let current = observed.current;
    let mut chain = Chain::new(current);
    let keep =
        spec.behavior.as_ref().map_or(0, |rules| rules.up.longest_period().max(rules.down.longest_period()));
    memory.changes.settle(now, current, keep);
    memory.recommendations.begin(now, current);

    let can_wake = observed.scaled_to_zero && (spec.min != 0 || spec.works_without_pods());
    if current <= 0 && !can_wake {
        chain.push(Rule::SwitchedOff { scaled_to_zero: observed.scaled_to_zero });
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
        Some(behavior) => with_behavior(now, spec, current, behavior, &mut memory, &mut chain),
        None => legacy(now, spec, current, &mut memory, &mut chain),
    };
    if *chain.value() < spec.min {
        // Only from zero: the minimum was raised since, and no budget keeps the workload below it.
        chain.push(Rule::OutOfBounds { min: spec.min, max: spec.max });
    }
    memory.changes.decided(now, current, *chain.value());
    chain.finish(memory, sooner(held_until, context.next_warm()))
}

/// Asks every metric and takes the highest. False if that settles it: nothing valid, or a scale-down that an invalid
/// metric forbids.
fn propose(context: &Context<'_>, chain: &mut Chain<Rule>) -> bool {
    let (mut valid, mut invalid) = (0, 0);
    let mut highest: Option<(i32, usize, Standing)> = None;
    for (idx, metric) in context.spec.metrics.iter().enumerate() {
        match context.read(idx, metric) {
            Ok(reading) => {
                valid += 1;
                let standing = reading.standing();
                let proposed = *chain.push(Rule::Metric(reading));
                if highest.is_none_or(|(best, ..)| proposed > best) {
                    highest = Some((proposed, idx, standing));
                }
            }
            Err(cause) => {
                invalid += 1;
                chain.push(Rule::InvalidMetric { metric: metric.label.clone(), cause });
            }
        }
    }
    let metric = highest.map(|(_, idx, _)| context.spec.metrics[idx].label.clone());
    let proposed = highest.map(|(proposed, ..)| proposed);
    let standing = highest.map(|(_, _, standing)| standing);
    chain.push(Rule::Highest { proposed, metric, standing, valid, invalid });
    proposed.is_some_and(|proposed| invalid == 0 || proposed >= context.observed.current)
}

fn with_behavior(
    now: Timestamp,
    spec: &Spec,
    current: i32,
    behavior: &Behavior,
    memory: &mut Memory,
    chain: &mut Chain<Rule>,
) -> Option<Timestamp> {
    let Behavior { up, down } = behavior;
    let windows = Windows { up: up.window_seconds, down: down.window_seconds };
    let stabilized = memory.recommendations.between(now, current, *chain.value(), windows, 0);
    let mut held_until = stabilized.held_until();
    let (direction, rules) = match chain.push(Rule::Stabilized(stabilized)).cmp(&current) {
        std::cmp::Ordering::Greater => (Direction::Up, up),
        std::cmp::Ordering::Less => (Direction::Down, down),
        // A count that stays is measured against nothing.
        std::cmp::Ordering::Equal => return held_until,
    };
    let bounded = *chain.push(Rule::Bounds { min: spec.min, max: spec.max });
    let rates = Rates { direction, select: rules.select, policies: &rules.policies };
    let allowed = *chain.push(Rule::Budget(rates.budget(now, current, &memory.changes)));
    if allowed != bounded {
        held_until = sooner(held_until, rates.released(now, current, allowed, &memory.changes));
    }
    held_until
}

fn legacy(
    now: Timestamp,
    spec: &Spec,
    current: i32,
    memory: &mut Memory,
    chain: &mut Chain<Rule>,
) -> Option<Timestamp> {
    let window = i64::from(spec.settings.downscale_stabilization_seconds);
    let stabilized = memory.recommendations.at_least(now, *chain.value(), window);
    let held_until = stabilized.held_until();
    chain.push(Rule::Stabilized(stabilized));
    let bounded = *chain.push(Rule::Bounds { min: spec.min, max: spec.max });
    if bounded > current {
        chain.push(Rule::Doubling { limit: current.saturating_mul(2).max(4) });
    }
    held_until
}
