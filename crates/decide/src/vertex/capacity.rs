//! What a pod can do and what arrives, learned from samples of the lookback, so that a vertex that has caught up knows
//! how many pods keep it there.
//!
//! ```text
//! samples ──> longest stretch with a backlog ──> messages a pod does when busy ──┐
//!         ──> first and last ──> messages that arrive ──────────────────────────┴──> pods needed
//! ```
//!
//! The formulas alone never rest: a source with nothing pending asks for 1 pod, falls behind, and asks for many.

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Observed, Spec, pressure};
use crate::window::{Recommendations, before};

/// A stretch with a backlog has to be this long before it says how much a pod can do, ...
const SHORTEST_STRETCH: f64 = 30.0;

/// ... or at least this long if pods did so many batches each that the one they had in hand matters little. With 20000/s
/// a buffer of 24000 is full or empty before half a minute has passed.
const SHORTEST_FAST_STRETCH: f64 = 10.0;
const FAST_BATCHES: f64 = 20.0;

/// An arrival rate stands until it is off by more than this share, so that noise of a few percent moves nothing. The
/// headroom of the target saturation (15 %) is three times as much.
const ARRIVAL_TOLERANCE: f64 = 0.05;

/// A backlog that grows by more than this share of what is processed, and by more than pods have in hand, says that the
/// pods are too slow.
const GROWTH_TOLERANCE: f64 = 0.02;

/// Messages that pods have in hand are no backlog: so many seconds of work.
const IN_HAND_SECONDS: f64 = 2.0;

/// One look at the vertex, all partitions together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub at: Timestamp,
    /// Delivered to nobody yet.
    pub pending: i64,
    /// Delivered, but not acknowledged.
    pub ack_pending: i64,
    /// Messages processed so far by all pods; only differences count.
    pub processed: f64,
    pub ready: i32,
    /// Highest share of its usable length that a buffer directly downstream had.
    pub downstream_usage: f64,
}

/// What a vertex remembers from decision to decision. Its status says when it last changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Memory {
    /// What one busy pod does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// Messages that arrive a second, held while the measured rate is within 5 % of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival: Option<f64>,
    /// Pods that formula or floor asked for, over the last lookback.
    #[serde(default, skip_serializing_if = "Recommendations::is_empty")]
    pub recent: Recommendations,
    /// The pods' template that the capacity was learned with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<Arc<str>>,
    /// The number of partitions that the capacity was learned with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Capacity {
    /// Messages that one pod does a second while there is a backlog.
    pub per_pod: f64,
    /// The end of the stretch that says so.
    pub at: Timestamp,
}

/// A stretch of samples without a moment in which pods had nothing to do.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    per_pod: f64,
    end: Timestamp,
    /// Whether the backlog grew, or is so large that it cannot be what pods have in hand.
    is_behind: bool,
}

// === impl Memory ===

impl Memory {
    /// Takes in what the samples say. Figures that cannot be are forgotten, and so is a capacity of other pods.
    pub(super) fn learn(&mut self, now: Timestamp, spec: &Spec, observed: &Observed) {
        self.capacity = self.capacity.filter(|capacity| is_rate(capacity.per_pod) && capacity.per_pod > 0.0);
        self.arrival = self.arrival.filter(|arrival| is_rate(*arrival));
        self.forget_other_pods(observed);
        let samples = recent(now, spec, &observed.samples);
        let lookback = spec.scale.lookback_seconds() as f64;
        if let Some(measured) = arrival(samples, lookback)
            && self.arrival.is_none_or(|held| (measured - held).abs() > held * ARRIVAL_TOLERANCE)
        {
            self.arrival = Some(significant(measured));
        }
        // Pods that wait for room downstream do not show what they can do.
        let oldest = before(now, spec.scale.lookback_seconds());
        let is_pressed =
            pressure::strongest(&observed.downstream, spec.back_pressure_threshold, oldest).is_some();
        if let Some(stretch) = longest_stretch(spec, samples).filter(|_| !is_pressed) {
            self.take(stretch, lookback);
        }
    }

    fn forget_other_pods(&mut self, observed: &Observed) {
        let partitions = u32::try_from(observed.partitions.len()).ok().filter(|n| *n > 0);
        let other_template = matches!((&self.template, &observed.template), (Some(a), Some(b)) if a != b);
        let other_partitions = matches!((self.partitions, partitions), (Some(a), Some(b)) if a != b);
        if other_template || other_partitions {
            self.capacity = None;
            self.recent = Recommendations::default();
        }
        // Only what there is something to remember for.
        if !observed.samples.is_empty() || self.capacity.is_some() {
            self.template = observed.template.clone().or(self.template.take());
            self.partitions = partitions.or(self.partitions);
        }
    }

    /// A higher figure counts at once: a pod can do what it has done. The first and every lower one count only from pods
    /// that fall behind, and a lower one takes a lookback to count for half: were every slow stretch believed, a vertex
    /// with work in hand and no backlog would grow for ever.
    fn take(&mut self, stretch: Stretch, lookback: f64) {
        let per_pod = match self.capacity {
            Some(known) if stretch.end <= known.at => return,
            Some(known) if stretch.per_pod >= known.per_pod => stretch.per_pod,
            _ if !stretch.is_behind => return,
            None => stretch.per_pod,
            Some(known) => {
                let age = seconds_between(known.at, stretch.end).min(lookback);
                let share = 0.5f64.powf(age / lookback.max(1.0));
                stretch.per_pod + (known.per_pod - stretch.per_pod) * share
            }
        };
        self.capacity = Some(Capacity { per_pod: significant(per_pod), at: stretch.end });
    }
}

/// The samples within the lookback since processing was last counted anew.
fn recent<'a>(now: Timestamp, spec: &Spec, samples: &'a [Sample]) -> &'a [Sample] {
    let oldest = before(now, spec.scale.lookback_seconds());
    let first = samples.iter().position(|sample| sample.at >= oldest).unwrap_or(samples.len());
    let until = samples.iter().rposition(|sample| sample.at <= now).map_or(first, |last| last + 1).max(first);
    let samples = &samples[first..until];
    let broken = samples.windows(2).rposition(|pair| pair[1].processed < pair[0].processed);
    &samples[broken.map_or(0, |idx| idx + 1)..]
}

/// What was processed and by how much the backlog grew; none if the samples cover less than half of the lookback.
fn arrival(samples: &[Sample], lookback: f64) -> Option<f64> {
    let (first, last) = (samples.first()?, samples.last()?);
    let seconds = seconds_between(first.at, last.at);
    if seconds < lookback / 2.0 || seconds <= 0.0 {
        return None;
    }
    let arrived = last.processed - first.processed + last.waiting() - first.waiting();
    let rate = arrived / seconds;
    rate.is_finite().then(|| rate.max(0.0))
}

/// Whether there was nothing to do but what pods had in hand, for (nearly) the whole lookback.
pub(super) fn is_idle(now: Timestamp, spec: &Spec, samples: &[Sample]) -> bool {
    let samples = recent(now, spec, samples);
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return false };
    let seconds = seconds_between(first.at, last.at);
    let in_hand = in_hand(spec, first, last);
    seconds >= spec.scale.lookback_seconds() as f64 * 0.75
        && samples.iter().all(|sample| sample.pending as f64 <= in_hand)
}

fn longest_stretch(spec: &Spec, samples: &[Sample]) -> Option<Stretch> {
    let (first, last) = (samples.first()?, samples.last()?);
    let in_hand = in_hand(spec, first, last);
    let limit = spec.rate_limit();
    let is_busy = |sample: &Sample| {
        sample.pending as f64 > in_hand
            && sample.ready > 0
            && sample.downstream_usage < spec.back_pressure_threshold
    };
    let mut best: Option<&[Sample]> = None;
    for stretch in samples.split(|sample| !is_busy(sample)).filter(|stretch| stretch.len() > 2) {
        if best.is_none_or(|best| length(stretch) > length(best)) {
            best = Some(stretch);
        }
    }
    let stretch = best?;
    let (first, last) = (stretch.first()?, stretch.last()?);
    let pod_seconds: f64 = stretch
        .windows(2)
        .map(|pair| {
            f64::midpoint(pair[0].ready.into(), pair[1].ready.into())
                * seconds_between(pair[0].at, pair[1].at)
        })
        .sum();
    let processed = last.processed - first.processed;
    let (seconds, per_pod) = (length(stretch), processed / pod_seconds);
    let is_fast = seconds >= SHORTEST_FAST_STRETCH
        && per_pod * seconds >= FAST_BATCHES * spec.limits.read_batch_size as f64;
    if seconds < SHORTEST_STRETCH && !is_fast {
        return None;
    }
    let rate = processed / seconds;
    if !(is_rate(per_pod) && per_pod > 0.0) || limit.is_some_and(|limit| rate.ceil() >= limit as f64) {
        return None;
    }
    let lowest = stretch.iter().map(|sample| sample.pending).min().unwrap_or(0) as f64;
    let growth = last.waiting() - first.waiting();
    let large = match spec.is_source() {
        true => rate * spec.scale.target_processing_seconds() as f64,
        false => spec.usable_length() as f64 / 2.0,
    };
    let is_behind = growth > (processed * GROWTH_TOLERANCE).max(in_hand) || lowest >= large;
    Some(Stretch { per_pod, end: last.at, is_behind })
}

/// What pods have in hand at most: two seconds of work, or a tenth of the buffer if that is less.
fn in_hand(spec: &Spec, first: &Sample, last: &Sample) -> f64 {
    let seconds = seconds_between(first.at, last.at).max(1.0);
    let work = (last.processed - first.processed).max(0.0) / seconds * IN_HAND_SECONDS;
    match spec.is_source() {
        true => work,
        false => work.min(spec.usable_length() as f64 / 10.0),
    }
}

fn length(stretch: &[Sample]) -> f64 {
    match stretch {
        [first, .., last] => seconds_between(first.at, last.at),
        _ => 0.0,
    }
}

fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

fn is_rate(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

/// Four digits, as an explanation shows them: what is decided can be computed again from what is said.
fn significant(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 0.0;
    }
    let shown: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    if shown.is_finite() { shown } else { value }
}

// === impl Sample ===

impl Sample {
    fn waiting(&self) -> f64 {
        self.pending as f64 + self.ack_pending as f64
    }
}
