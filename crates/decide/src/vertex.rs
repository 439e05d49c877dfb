//! The pods of a pipeline's vertex, by what is pending, how fast it goes, and how full the buffers are.
//!
//! ```text
//! holds ──> bounds by the clock ──> asleep? ──> partitions ──> highest ──> rate limit ──> bounds
//!                                                         ──> back pressure ──> step ──> cooldown ──> desired
//! ```
//!
//! A source has to work off what is pending in time. What is pending for a UDF or sink says little, because back pressure
//! holds it down, so these keep a share of their buffer free instead. All figures are per partition, and the partition
//! that asks for the most decides.

pub mod input;
mod pressure;
mod rule;
mod spec;
#[cfg(test)]
mod tests;

pub use input::Input;
pub use pressure::{Buffer, Downstream, Edge, OnFull, downstream};
pub use rule::{Because, Model, Pressure, Reading, Rule};
pub use spec::{Bounds, CronScale, CronWindow, Kind, Limits, RateLimit, Scale, Spec};

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    decision::{Chain, sooner},
    window::{Cooldown, after, before, cooling},
};

pub type Decision = crate::Decision<Memory, Rule>;

#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// `status.replicas`.
    pub current: i32,
    /// `status.desiredReplicas`.
    pub desired: i32,
    pub ready: i32,
    /// Only a vertex that is `Running`, and wanted so, is scaled.
    pub phase: Arc<str>,
    pub rolling_update: bool,
    /// When the count last changed, by whomever.
    pub last_scaled_at: Option<Timestamp>,
    pub partitions: Vec<Partition>,
    /// What the vertex feeds; see [`downstream`].
    pub downstream: Vec<Downstream>,
}

/// One partition's figures over the lookback.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    pub name: Arc<str>,
    /// Delivered to nobody yet; none or negative is unknown.
    pub pending: Option<i64>,
    /// Delivered, but not acknowledged.
    pub ack_pending: i64,
    /// Messages a second; none, negative or not finite is unknown.
    pub rate: Option<f64>,
    /// When this was seen; none is as good as now.
    pub at: Option<Timestamp>,
}

/// A vertex remembers nothing: its status says when it last changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {}

pub fn decide(now: Timestamp, spec: &Spec, observed: &Observed) -> Decision {
    let current = observed.current.max(0);
    let mut chain = Chain::new(current);
    let next_window = spec.next_window(now);
    let next_check = run(now, spec, observed, current, &mut chain);
    chain.finish(Memory {}, sooner(next_check, next_window))
}

/// Pushes the steps; the moment returned is when time alone may change the outcome.
fn run(
    now: Timestamp,
    spec: &Spec,
    observed: &Observed,
    current: i32,
    chain: &mut Chain<Rule>,
) -> Option<Timestamp> {
    let hold = |chain: &mut Chain<Rule>, because: Because| {
        chain.push(Rule::Hold { current, because });
    };
    if let Some(because) = standstill(spec, observed) {
        hold(chain, because);
        return None;
    }
    let last = observed.last_scaled_at;
    let up_until = cooling(now, last, spec.scale.up_cooldown_seconds());
    let down_until = cooling(now, last, spec.scale.down_cooldown_seconds());

    let bounds = spec.bounds(now);
    let max = bounds.max.max(bounds.min);
    if current < bounds.min || current > max {
        chain.push(Rule::OutOfBounds { min: bounds.min, max });
        // A window that opens moves a vertex like load does, in steps; base bounds hold at once.
        return match bounds.window {
            Some(_) => step(now, spec, current, up_until, down_until, chain),
            None => None,
        };
    }
    if let (Some(up), Some(down)) = (up_until, down_until) {
        let until = up.min(down);
        chain.push(Rule::Cooldown(Cooldown::new(now, current, until)));
        return Some(until);
    }
    if bounds.min == max {
        hold(chain, Because::Fixed { replicas: max });
        return None;
    }
    let oldest = before(now, spec.scale.lookback_seconds());
    if current == 0 {
        return asleep(now, spec, observed, bounds.min, oldest, chain);
    }
    if observed.ready <= 0 {
        hold(chain, Because::NoneReady);
        return None;
    }
    let rate = match propose(spec, observed, oldest, chain) {
        Ok(rate) => rate,
        Err(because) => {
            hold(chain, because);
            return None;
        }
    };
    if let Some(limit) = spec.rate_limit()
        && *chain.value() > current
        && rate.ceil() >= limit as f64
    {
        chain.push(Rule::RateLimited { current, rate, limit });
    }
    let wanted = *chain.push(Rule::Bounds { min: bounds.min, max, window: bounds.window });
    if wanted > current
        && spec.kind != Kind::MonoVertex
        && let Some((vertex, buffer)) =
            pressure::strongest(&observed.downstream, spec.back_pressure_threshold, oldest)
    {
        chain.push(Rule::BackPressure(Pressure {
            current,
            min: bounds.min,
            direct: vertex.direct,
            vertex: vertex.vertex.clone(),
            pending: buffer.pending.unwrap_or(0),
            usable: buffer.usable,
        }));
        return None;
    }
    step(now, spec, current, up_until, down_until, chain)
}

/// Conditions in which nobody should touch the count.
fn standstill(spec: &Spec, observed: &Observed) -> Option<Because> {
    let (replicas, desired) = (observed.current, observed.desired);
    if spec.scale.disabled {
        Some(Because::Disabled)
    } else if spec.kind == Kind::Reduce {
        Some(Because::Reduce)
    } else if &*observed.phase != "Running" {
        Some(Because::NotRunning { phase: observed.phase.clone() })
    } else if observed.rolling_update {
        Some(Because::RollingUpdate)
    } else if replicas != desired {
        Some(Because::ChangeUnderWay { replicas, desired })
    } else {
        None
    }
}

fn asleep(
    now: Timestamp,
    spec: &Spec,
    observed: &Observed,
    min: i32,
    oldest: Timestamp,
    chain: &mut Chain<Rule>,
) -> Option<Timestamp> {
    if spec.is_source() {
        let sleep = spec.scale.zero_replica_sleep_seconds();
        match cooling(now, observed.last_scaled_at, sleep) {
            Some(until) => {
                let Cooldown { seconds_left, .. } = Cooldown::new(now, 0, until);
                chain.push(Rule::Hold { current: 0, because: Because::Asleep { seconds_left } });
                return Some(until);
            }
            None => {
                let slept = observed.last_scaled_at.map_or(sleep, |last| now.duration_since(last).as_secs());
                chain.push(Rule::Peek { slept_seconds: slept, min });
            }
        }
        return None;
    }
    let waiting = observed.partitions.iter().filter_map(|partition| partition.waiting(oldest));
    let pending = waiting.fold(0i64, i64::saturating_add);
    let unknown = observed.partitions.iter().find(|partition| partition.waiting(oldest).is_none());
    chain.push(match (pending, unknown) {
        (1.., _) => Rule::Wake { pending, min },
        (_, Some(Partition { name, .. })) => {
            Rule::Hold { current: 0, because: Because::UnknownPending { partition: name.clone() } }
        }
        (_, None) => Rule::Hold { current: 0, because: Because::NothingPending },
    });
    None
}

/// Asks every partition; the total rate comes back. A single unknown figure and nothing is decided.
fn propose(
    spec: &Spec,
    observed: &Observed,
    oldest: Timestamp,
    chain: &mut Chain<Rule>,
) -> Result<f64, Because> {
    if observed.partitions.is_empty() {
        return Err(Because::NoPartitions);
    }
    let mut figures = Vec::with_capacity(observed.partitions.len());
    for partition in &observed.partitions {
        let Partition { name, rate, .. } = partition;
        let pending =
            partition.waiting(oldest).ok_or_else(|| Because::UnknownPending { partition: name.clone() })?;
        let rate = rate.filter(|rate| rate.is_finite() && *rate >= 0.0);
        let rate = rate.ok_or_else(|| Because::UnknownRate { partition: name.clone() })?;
        figures.push((name, pending, rate));
    }
    let total_rate: f64 = figures.iter().map(|(.., rate)| rate).sum();
    if total_rate <= 0.0 && figures.iter().all(|(_, pending, _)| *pending == 0) {
        chain.push(Rule::Quiet);
        return Ok(0.0);
    }
    let mut highest: Option<(i32, &Arc<str>)> = None;
    for (name, pending, rate) in figures {
        let model = model(spec, pending);
        let reading = Reading { partition: name.clone(), pending, rate, ready: observed.ready, model };
        let proposed = *chain.push(Rule::Partition(reading));
        if highest.is_none_or(|(best, _)| proposed > best) {
            highest = Some((proposed, name));
        }
    }
    let (proposed, partition) = highest.ok_or(Because::NoPartitions)?;
    chain.push(Rule::Highest { proposed, partition: partition.clone() });
    // An endless sum of large rates is still a rate.
    Ok(total_rate.min(f64::MAX))
}

/// A UDF or sink that names a processing time goes by it until the buffer fills up.
fn model(spec: &Spec, pending: i64) -> Model {
    let (usable, target) = (spec.usable_length(), spec.target_available());
    let length = i64::try_from(spec.limits.buffer_max_length).unwrap_or(i64::MAX);
    let hybrid = spec.scale.target_processing_seconds.is_some() && pending <= length.saturating_sub(target);
    if spec.is_source() || hybrid {
        Model::ProcessingTime { target_seconds: spec.scale.target_processing_seconds() }
    } else {
        Model::BufferAvailability { usable, target, step: spec.scale.step_up() }
    }
}

/// A step towards the value, once the direction's cooldown is over.
fn step(
    now: Timestamp,
    spec: &Spec,
    current: i32,
    up_until: Option<Timestamp>,
    down_until: Option<Timestamp>,
    chain: &mut Chain<Rule>,
) -> Option<Timestamp> {
    let (up, down) = (spec.scale.step_up(), spec.scale.step_down());
    let (until, cooldown) = match (*chain.value()).cmp(&current) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Greater => (up_until, spec.scale.up_cooldown_seconds()),
        std::cmp::Ordering::Less => (down_until, spec.scale.down_cooldown_seconds()),
    };
    let wanted = *chain.value();
    let stepped = *chain.push(Rule::Step { current, up, down });
    if let Some(until) = until {
        chain.push(Rule::Cooldown(Cooldown::new(now, current, until)));
        return Some(until);
    }
    (stepped != wanted).then(|| after(now, cooldown))
}

impl Partition {
    /// What waits here, delivered or not; none if that is not known or too old to count.
    fn waiting(&self, oldest: Timestamp) -> Option<i64> {
        let pending = self.pending.filter(|pending| *pending >= 0)?;
        let fresh = self.at.is_none_or(|at| at >= oldest);
        (fresh && self.ack_pending >= 0).then(|| pending.saturating_add(self.ack_pending))
    }
}
