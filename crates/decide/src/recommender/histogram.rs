//! Weighted histograms whose samples lose half their weight every half-life.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A bucket that weighs less counts as empty: a tenth of a percent of the lightest sample (CPU, 0.1).
pub const EPSILON: f64 = 0.001 * 0.1;

/// 2^100 is the largest factor a new sample may get relative to the reference time; past it the
/// histogram is rescaled to a younger reference.
const MAX_DECAY_EXPONENT: i64 = 100;

/// References are multiples of the half-life counted from 0001-01-01T00:00:00Z, so that two histograms
/// with the same half-life differ by a whole power of two.
const ORIGIN_NANOS: i128 = -62_135_596_800 * 1_000_000_000;

/// How values map to buckets. The last bucket takes everything above it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Buckets {
    Linear { size: f64, count: u16 },
    Exponential { first: f64, growth: f64, count: u16 },
}

/// Weights by bucket. Empty buckets are absent, so a steady container costs one entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Histogram {
    pub(super) weights: BTreeMap<u16, f64>,
    pub(super) total: f64,
}

/// A histogram in which a sample at `ts` weighs `2^((ts - reference) / half_life)`: newer samples weigh
/// more instead of older ones being rewritten at every tick.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decaying {
    pub(super) histogram: Histogram,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reference: Option<Timestamp>,
}

// === impl Buckets ===

impl Buckets {
    pub fn linear(max: f64, size: f64) -> Buckets {
        Buckets::Linear { size, count: bounded_count((max / size).ceil() + 1.0) }
    }

    /// Bucket `n` starts at `first * (growth^n - 1) / (growth - 1)`: sizes grow by `growth` each.
    pub fn exponential(max: f64, first: f64, growth: f64) -> Buckets {
        let count = ((max * (growth - 1.0) / first + 1.0).ln() / growth.ln()).ceil() + 1.0;
        Buckets::Exponential { first, growth, count: bounded_count(count) }
    }

    /// 0.01 to 1000 cores, 5 % apart.
    pub fn cpu() -> Buckets {
        Buckets::exponential(1000.0, 0.01, 1.05)
    }

    /// 10 MB to 1 TB, 5 % apart.
    pub fn memory() -> Buckets {
        Buckets::exponential(1e12, 1e7, 1.05)
    }

    pub fn count(&self) -> u16 {
        match *self {
            Buckets::Linear { count, .. } | Buckets::Exponential { count, .. } => count,
        }
    }

    pub fn start(&self, bucket: u16) -> f64 {
        match *self {
            Buckets::Linear { size, .. } => f64::from(bucket) * size,
            Buckets::Exponential { first, growth, .. } => {
                if bucket == 0 {
                    0.0
                } else {
                    first * (growth.powi(i32::from(bucket)) - 1.0) / (growth - 1.0)
                }
            }
        }
    }

    pub fn find(&self, value: f64) -> u16 {
        let bucket = match *self {
            Buckets::Linear { size, .. } => value / size,
            Buckets::Exponential { first, .. } if value < first => 0.0,
            Buckets::Exponential { first, growth, .. } => {
                (value * (growth - 1.0) / first + 1.0).ln() / growth.ln()
            }
        };
        // `as` saturates: a negative or NaN value lands in bucket 0, an infinite one in the last.
        (bucket as u16).min(self.count().saturating_sub(1))
    }

    /// The upper edge of a bucket; the last one is open, so its lower edge stands for it.
    fn end(&self, bucket: u16) -> f64 {
        self.start(bucket.saturating_add(1).min(self.count().saturating_sub(1)))
    }
}

fn bounded_count(count: f64) -> u16 {
    (count as u16).max(1)
}

// === impl Histogram ===

impl Histogram {
    pub fn add(&mut self, buckets: &Buckets, value: f64, weight: f64) {
        *self.weights.entry(buckets.find(value)).or_default() += weight;
        self.total += weight;
    }

    pub fn subtract(&mut self, buckets: &Buckets, value: f64, weight: f64) {
        let bucket = buckets.find(value);
        let left = snap_to_zero(self.weights.get(&bucket).copied().unwrap_or_default() - weight);
        if left > 0.0 {
            self.weights.insert(bucket, left);
        } else {
            self.weights.remove(&bucket);
        }
        self.total = snap_to_zero(self.total - weight);
    }

    pub fn merge(&mut self, other: &Histogram) {
        for (&bucket, &weight) in &other.weights {
            *self.weights.entry(bucket).or_default() += weight;
        }
        self.total += other.total;
    }

    pub fn is_empty(&self) -> bool {
        !self.weights.values().any(|&weight| weight >= EPSILON)
    }

    pub fn total(&self) -> f64 {
        self.total
    }

    /// The upper edge of the bucket in which the cumulated weight reaches `percentile` of the total;
    /// 0 when empty. There is no interpolation: an estimate errs upward by at most one bucket.
    pub fn percentile(&self, buckets: &Buckets, percentile: f64) -> f64 {
        let first = self.weights.iter().position(|(_, &weight)| weight >= EPSILON);
        let last =
            self.weights.iter().rev().find(|&(_, &weight)| weight >= EPSILON).map(|(&bucket, _)| bucket);
        let (Some(first), Some(last)) = (first, last) else { return 0.0 };
        let threshold = percentile * self.total;
        let mut cumulated = 0.0;
        for (&bucket, &weight) in self.weights.iter().skip(first) {
            cumulated += weight;
            if cumulated >= threshold || bucket >= last {
                return buckets.end(bucket);
            }
        }
        buckets.end(last)
    }

    fn scale(&mut self, factor: f64) {
        self.weights.retain(|_, weight| {
            *weight *= factor;
            *weight > 0.0
        });
        self.total *= factor;
    }
}

fn snap_to_zero(weight: f64) -> f64 {
    if weight < EPSILON { 0.0 } else { weight }
}

// === impl Decaying ===

impl Decaying {
    pub fn add(
        &mut self,
        buckets: &Buckets,
        half_life: SignedDuration,
        ts: Timestamp,
        value: f64,
        weight: f64,
    ) {
        let factor = self.decay_factor(half_life, ts);
        self.histogram.add(buckets, value, weight * factor);
    }

    pub fn subtract(
        &mut self,
        buckets: &Buckets,
        half_life: SignedDuration,
        ts: Timestamp,
        value: f64,
        weight: f64,
    ) {
        let factor = self.decay_factor(half_life, ts);
        self.histogram.subtract(buckets, value, weight * factor);
    }

    /// Adds another histogram of the same half-life; the older reference is aligned to the younger one.
    pub fn merge(&mut self, half_life: SignedDuration, mut other: Decaying) {
        match (self.reference, other.reference) {
            (_, None) => {}
            (None, Some(theirs)) => self.reference = Some(theirs),
            (Some(ours), Some(theirs)) if ours < theirs => self.shift_reference(half_life, theirs),
            (Some(ours), Some(_)) => other.shift_reference(half_life, ours),
        }
        self.histogram.merge(&other.histogram);
    }

    pub fn percentile(&self, buckets: &Buckets, percentile: f64) -> f64 {
        self.histogram.percentile(buckets, percentile)
    }

    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    fn decay_factor(&mut self, half_life: SignedDuration, ts: Timestamp) -> f64 {
        let half_life_nanos = positive_nanos(half_life);
        let limit = i128::from(MAX_DECAY_EXPONENT) * half_life_nanos;
        let too_far = self.reference.is_none_or(|reference| nanos_between(reference, ts) > limit);
        if too_far {
            self.shift_reference(half_life, ts);
        }
        let since = self.reference.map_or(0, |reference| nanos_between(reference, ts));
        (since as f64 / half_life_nanos as f64).exp2()
    }

    fn shift_reference(&mut self, half_life: SignedDuration, to: Timestamp) {
        let half_life_nanos = positive_nanos(half_life);
        let from_origin = to.as_nanosecond() - ORIGIN_NANOS;
        let multiples = (from_origin + half_life_nanos / 2).div_euclid(half_life_nanos);
        let rounded =
            Timestamp::from_nanosecond(ORIGIN_NANOS + multiples * half_life_nanos).unwrap_or(Timestamp::MAX);
        if let Some(old) = self.reference {
            let exponent = (nanos_between(rounded, old) as f64 / half_life_nanos as f64).round();
            self.histogram.scale(exponent.exp2());
        }
        self.reference = Some(rounded);
    }
}

fn positive_nanos(duration: SignedDuration) -> i128 {
    duration.as_nanos().max(1)
}

fn nanos_between(from: Timestamp, to: Timestamp) -> i128 {
    to.as_nanosecond() - from.as_nanosecond()
}
