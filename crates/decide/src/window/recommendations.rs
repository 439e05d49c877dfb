use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::before;

/// Past recommendations, kept only as far as a window can still see them.
///
/// A window asks for the lowest or highest value between a cutoff and now. A sample that lies within the range of
/// the samples after it can answer neither question for any cutoff, so it is dropped at once: 3 5 4 6 2 is kept
/// as 6 2. The list is bounded by the count of distinct values, not by time, at no loss.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Recommendations(Vec<Recommendation>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recommendation {
    pub at: Timestamp,
    pub replicas: i32,
}

/// Whether a sample exactly as old as the window still counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Inside,
    Outside,
}

/// What a stabilization window makes of a recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "window", rename_all = "camelCase")]
pub enum Stabilized {
    /// Both windows: the current count moves no further than the lowest recommendation of the scale-up window
    /// and the highest of the scale-down window allow.
    Between { current: i32, lowest: i32, highest: i32 },
    /// Scale-down only: the highest recommendation of the window stands.
    AtLeast { highest: i32 },
}

// === impl Recommendations ===

impl Recommendations {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a recommendation and drops what is older than `keep_seconds` or can never matter again.
    pub fn record(&mut self, now: Timestamp, replicas: i32, keep_seconds: i64) {
        let cutoff = before(now, keep_seconds);
        let (mut low, mut high) = (replicas, replicas);
        // Newest to oldest: the survivors are those that widen the range of everything newer.
        let mut kept = self.0.len();
        for idx in (0..self.0.len()).rev() {
            let mut sample = self.0[idx];
            sample.at = sample.at.min(now);
            if sample.at >= cutoff && (sample.replicas < low || sample.replicas > high) {
                low = low.min(sample.replicas);
                high = high.max(sample.replicas);
                kept -= 1;
                self.0[kept] = sample;
            }
        }
        self.0.drain(..kept);
        self.0.push(Recommendation { at: now, replicas });
    }

    /// The lowest of `replicas` and what the last `seconds` recommended.
    pub fn lowest(&self, now: Timestamp, seconds: i64, edge: Edge, replicas: i32) -> i32 {
        self.within(now, seconds, edge).map(|sample| sample.replicas).fold(replicas, i32::min)
    }

    /// The highest of `replicas` and what the last `seconds` recommended.
    pub fn highest(&self, now: Timestamp, seconds: i64, edge: Edge, replicas: i32) -> i32 {
        self.within(now, seconds, edge).map(|sample| sample.replicas).fold(replicas, i32::max)
    }

    /// When the first of the samples that hold the value back leaves a window of `seconds`.
    pub fn released(
        &self,
        now: Timestamp,
        seconds: i64,
        edge: Edge,
        holds: impl Fn(i32) -> bool,
    ) -> Option<Timestamp> {
        self.within(now, seconds, edge)
            .filter(|sample| holds(sample.replicas))
            .map(|sample| super::after(sample.at.min(now), seconds))
            .min()
    }

    fn within(&self, now: Timestamp, seconds: i64, edge: Edge) -> impl Iterator<Item = &Recommendation> {
        let cutoff = before(now, seconds);
        self.0.iter().filter(move |sample| {
            let at = sample.at.min(now);
            at > cutoff || (edge == Edge::Inside && at == cutoff)
        })
    }
}

// === impl Stabilized ===

impl Stabilized {
    pub fn apply(&self, before: i32) -> i32 {
        match *self {
            Stabilized::Between { current, lowest, highest } => current.max(lowest).min(highest.max(lowest)),
            Stabilized::AtLeast { highest } => before.max(highest),
        }
    }

    pub fn code(&self, before: i32, after: i32) -> &'static str {
        match before.cmp(&after) {
            std::cmp::Ordering::Equal => "NotStabilized",
            std::cmp::Ordering::Greater => "ScaleUpStabilized",
            std::cmp::Ordering::Less => "ScaleDownStabilized",
        }
    }

    pub fn words(&self, before: i32, after: i32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match before.cmp(&after) {
            std::cmp::Ordering::Equal => out.write_str("no recent recommendation disagrees"),
            std::cmp::Ordering::Greater => {
                write!(out, "the scale-up window has seen a recommendation of {after}, so not yet {before}")
            }
            std::cmp::Ordering::Less => {
                write!(out, "the scale-down window has seen a recommendation of {after}, so not yet {before}")
            }
        }
    }
}
