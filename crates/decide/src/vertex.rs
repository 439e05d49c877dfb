//! The pods of a pipeline's vertex, by what is pending, how fast it goes, and how full the buffers are.
//!
//! ```text
//! holds ──> bounds by the clock ──> asleep? ──> partitions ──> highest ──> floor ──> rate limit ──> bounds
//!                                                         ──> back pressure ──> step ──> cooldown ──> desired
//! ```
//!
//! A source has to work off what is pending in time. What is pending for a UDF or sink says little, because back pressure
//! holds it down, so these keep a share of their buffer free instead. All figures are per partition, and the partition
//! that asks for the most decides.
//!
//! Both formulas ask for too few once the vertex has caught up. So the policy learns what a busy pod does and what arrives
//! (`capacity`), and never goes below the pods that this takes (`floor`).

mod capacity;
mod floor;
pub mod input;
mod pressure;
mod rule;
mod spec;
#[cfg(test)]
mod tests;

pub use capacity::{Capacity, Memory, Sample};
pub use floor::{Careful, Floor, Recent};
pub use input::Input;
pub use pressure::{Buffer, Downstream, Edge, OnFull, downstream};
pub use rule::{Because, Cap, Model, Pressure, Reading, Rule};
pub use spec::{Bounds, CronScale, CronWindow, Kind, Limits, RateLimit, Scale, Spec, VertexModel};

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

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
    /// Since when a pod has been ready without a break; none is as good as for ever.
    pub ready_since: Option<Timestamp>,
    pub partitions: Vec<Partition>,
    /// What the vertex feeds; see [`downstream`].
    pub downstream: Vec<Downstream>,
    /// Looks at the vertex over the last lookback, oldest first; none and nothing is learned.
    pub samples: Vec<Sample>,
    /// What tells these pods from those of another template.
    pub template: Option<Arc<str>>,
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

pub fn decide(now: Timestamp, spec: &Spec, observed: &Observed, memory: &Memory) -> Decision {
    let current = observed.current.max(0);
    let mut chain = Chain::new(current);
    let next_window = spec.next_window(now);
    let standstill = standstill(spec, observed);
    let mut memory = if spec.learns() { memory.clone() } else { Memory::default() };
    if spec.learns() && standstill.is_none() {
        memory.learn(now, spec, observed);
    }
    let next_check = match standstill {
        Some(because) => {
            chain.push(Rule::Hold { current, because });
            None
        }
        None => run(now, spec, observed, &mut memory, current, &mut chain),
    };
    chain.finish(memory, sooner(next_check, next_window))
}

/// None as long as it is not known what arrives and what a pod does.
fn floor(spec: &Spec, memory: &Memory, at_most: Option<i32>) -> Option<Floor> {
    let (Some(capacity), Some(arrival)) = (memory.capacity, memory.arrival) else { return None };
    Some(Floor { arrival, capacity: capacity.per_pod, saturation: spec.target_saturation, at_most })
}

/// Pushes the steps; the moment returned is when time alone may change the outcome.
fn run(
    now: Timestamp,
    spec: &Spec,
    observed: &Observed,
    memory: &mut Memory,
    current: i32,
    chain: &mut Chain<Rule>,
) -> Option<Timestamp> {
    let hold = |chain: &mut Chain<Rule>, because: Because| {
        chain.push(Rule::Hold { current, because });
    };
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
    let figures = match figures(observed, oldest) {
        Ok(figures) => figures,
        Err(because) => {
            hold(chain, because);
            return None;
        }
    };
    let pressed = match spec.kind {
        Kind::MonoVertex => None,
        _ => pressure::strongest(&observed.downstream, spec.back_pressure_threshold, oldest),
    };
    let pending = figures.iter().fold(0i64, |sum, figure| sum.saturating_add(figure.pending));
    // An endless sum of large rates is still a rate.
    let rate = figures.iter().map(|figure| figure.rate).sum::<f64>().min(f64::MAX);
    let mut next_check = None;
    if rate <= 0.0 && pending > 0 && pressed.is_none() {
        let seconds = spec.scale.lookback_seconds();
        // Pods get a lookback to begin, and one that starts slowly has not begun when the count changed.
        next_check = cooling(now, last.max(observed.ready_since), seconds);
        if next_check.is_none() {
            hold(chain, Because::Stuck { pending, ready: observed.ready, seconds });
            return None;
        }
    }
    if rate <= 0.0 && pending == 0 {
        chain.push(Rule::Quiet);
    } else {
        propose(spec, observed.ready, &figures, chain);
    }
    let at_most = pressed.is_some().then_some(current);
    next_check = sooner(next_check, keep_up(now, spec, observed, memory, (current, rate), at_most, chain));
    if let Some(limit) = spec.rate_limit()
        && *chain.value() > current
        && rate.ceil() >= limit as f64
    {
        chain.push(Rule::RateLimited { current, rate, limit });
    }
    let wanted = *chain.push(Rule::Bounds { min: bounds.min, max, window: bounds.window });
    if wanted > current
        && let Some((vertex, buffer)) = pressed
    {
        let pressure = Pressure {
            current,
            min: bounds.min,
            direct: vertex.direct,
            vertex: vertex.vertex.clone(),
            pending: buffer.pending.unwrap_or(0),
            usable: buffer.usable,
            needed: floor(spec, memory, None).map(|floor| floor.replicas()),
        };
        let lifts = pressure::changes(&pressure, spec, observed, now, up_until);
        chain.push(Rule::BackPressure(pressure));
        return lifts;
    }
    sooner(next_check, step(now, spec, current, up_until, down_until, chain))
}

/// Never fewer than what arrives needs; while that is not known, shrinks with care. The moment returned is when a past
/// need is forgotten.
fn keep_up(
    now: Timestamp,
    spec: &Spec,
    observed: &Observed,
    memory: &mut Memory,
    (current, rate): (i32, f64),
    at_most: Option<i32>,
    chain: &mut Chain<Rule>,
) -> Option<Timestamp> {
    let lookback_seconds = spec.scale.lookback_seconds();
    if let Some(floor) = floor(spec, memory, at_most) {
        let value = *chain.push(Rule::Floor(floor));
        memory.recent.record(now, value, lookback_seconds);
        let highest = memory.recent.highest_within(now, lookback_seconds, 0);
        if value >= current || highest <= value {
            return None;
        }
        let value = *chain.push(Rule::Recent(Recent { current, highest, lookback_seconds }));
        return memory.recent.holder_within(now, lookback_seconds, value).map(|held| held.until);
    }
    // No message in a whole lookback needs no pod, whatever it can do.
    if *chain.value() >= current || rate <= 0.0 || observed.samples.is_empty() || !spec.learns() {
        return None;
    }
    let idle = capacity::is_idle(now, spec, &observed.samples);
    let until = cooling(now, observed.last_scaled_at, lookback_seconds);
    // No deeper than a tenth at once: what comes next is a backlog that teaches what a pod can do.
    let step = spec.scale.step_down().min((current / 10).max(1));
    chain.push(Rule::Careful(Careful { current, step, idle, until, lookback_seconds }));
    until.filter(|_| idle)
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

/// What is known of one partition.
struct Figure<'a> {
    name: &'a Arc<str>,
    pending: i64,
    rate: f64,
}

/// A single unknown figure and nothing is decided.
fn figures(observed: &Observed, oldest: Timestamp) -> Result<Vec<Figure<'_>>, Because> {
    if observed.partitions.is_empty() {
        return Err(Because::NoPartitions);
    }
    let figure = |partition: &'_ Partition| {
        let name = || partition.name.clone();
        let pending =
            partition.waiting(oldest).ok_or_else(|| Because::UnknownPending { partition: name() })?;
        let rate = partition.rate.filter(|rate| rate.is_finite() && *rate >= 0.0);
        Ok((pending, rate.ok_or_else(|| Because::UnknownRate { partition: name() })?))
    };
    let known = observed.partitions.iter().map(|partition| {
        figure(partition).map(|(pending, rate)| Figure { name: &partition.name, pending, rate })
    });
    known.collect()
}

/// Asks every partition.
fn propose(spec: &Spec, ready: i32, figures: &[Figure<'_>], chain: &mut Chain<Rule>) {
    let mut highest: Option<(i32, &Arc<str>)> = None;
    for &Figure { name, pending, rate } in figures {
        let reading = Reading { partition: name.clone(), pending, rate, ready, model: model(spec, pending) };
        let is_computed = reading.is_computed();
        let mut proposed = *chain.push(Rule::Partition(reading));
        let cap = Cap { partition: name.clone(), wanted: proposed, pending };
        if is_computed && cap.allowed() != proposed {
            proposed = *chain.push(Rule::Cap(cap));
        }
        if highest.is_none_or(|(best, _)| proposed > best) {
            highest = Some((proposed, name));
        }
    }
    if let Some((proposed, partition)) = highest {
        chain.push(Rule::Highest { proposed, partition: partition.clone() });
    }
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

/// The first moment at which something seen at `at` is older than `seconds`.
fn older_than(at: Timestamp, seconds: i64) -> Timestamp {
    after(at, seconds).checked_add(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MAX)
}

impl Partition {
    /// What waits here, delivered or not; none if that is not known or too old to count.
    fn waiting(&self, oldest: Timestamp) -> Option<i64> {
        let pending = self.pending.filter(|pending| *pending >= 0)?;
        let fresh = self.at.is_none_or(|at| at >= oldest);
        (fresh && self.ack_pending >= 0).then(|| pending.saturating_add(self.ack_pending))
    }
}
