use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{after, before, just_after};

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
    /// When it was made.
    pub at: Timestamp,
    /// The count it asked for.
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// Not a recommendation but the count found at first sight.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_seen: bool,
}

/// The lengths of both windows, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    pub up: i64,
    pub down: i64,
}

/// What keeps a window from letting go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// The first moment at which time alone gives another result.
    pub until: Timestamp,
    /// The newest count in the window that holds.
    pub seen: i32,
    /// It is no recommendation but the count found at first sight.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_seen: bool,
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
    Between {
        current: i32,
        lowest: i32,
        highest: i32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<Held>,
    },
    /// Scale-down only: the highest recommendation of the window stands.
    AtLeast {
        highest: i32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held: Option<Held>,
    },
}

// === impl Recommendations ===

impl Recommendations {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Nothing is known of the past: the count found stands as if it had just been recommended, or a new leader
    /// would shrink at once.
    pub fn begin(&mut self, now: Timestamp, current: i32) {
        if self.0.is_empty() {
            self.0.push(Recommendation { at: now, replicas: current, first_seen: true });
        }
    }

    /// What both windows make of `wanted`, which is remembered.
    /// It is remembered for `keep_seconds` where that is longer than both windows.
    pub fn between(
        &mut self,
        now: Timestamp,
        current: i32,
        wanted: i32,
        windows: Windows,
        keep_seconds: i64,
    ) -> Stabilized {
        let Windows { up, down } = windows;
        let lowest = self.lowest(now, up, Edge::Outside, wanted);
        let highest = self.highest(now, down, Edge::Outside, wanted);
        let mut stabilized = Stabilized::Between { current, lowest, highest, held: None };
        let result = stabilized.apply(wanted);
        if let Stabilized::Between { held, .. } = &mut stabilized {
            // While the scale-down window holds the count, that is until all that ask for as many have left it.
            *held = match result.cmp(&wanted) {
                std::cmp::Ordering::Less => self.held(now, up, Edge::Outside, |seen| seen <= result),
                std::cmp::Ordering::Greater => self.held(now, down, Edge::Outside, |seen| seen >= result),
                std::cmp::Ordering::Equal => None,
            };
        }
        self.record(now, wanted, up.max(down).max(keep_seconds));
        stabilized
    }

    /// What a scale-down window alone makes of `wanted`, which is remembered.
    pub fn at_least(&mut self, now: Timestamp, wanted: i32, seconds: i64) -> Stabilized {
        let highest = self.highest(now, seconds, Edge::Inside, wanted);
        let held = match highest > wanted {
            true => self.held(now, seconds, Edge::Inside, |seen| seen >= highest),
            false => None,
        };
        self.record(now, wanted, seconds);
        Stabilized::AtLeast { highest, held }
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
        self.0.push(Recommendation { at: now, replicas, first_seen: false });
    }

    /// The lowest of `replicas` and what the last `seconds` recommended.
    pub fn lowest(&self, now: Timestamp, seconds: i64, edge: Edge, replicas: i32) -> i32 {
        self.within(now, seconds, edge).map(|sample| sample.replicas).fold(replicas, i32::min)
    }

    /// The highest of `replicas` and what the last `seconds` recommended.
    pub fn highest(&self, now: Timestamp, seconds: i64, edge: Edge, replicas: i32) -> i32 {
        self.within(now, seconds, edge).map(|sample| sample.replicas).fold(replicas, i32::max)
    }

    /// The highest of `replicas` and what a scale-down window of its own has seen.
    pub fn highest_within(&self, now: Timestamp, seconds: i64, replicas: i32) -> i32 {
        self.highest(now, seconds, Edge::Outside, replicas)
    }

    /// What keeps such a window from going below `replicas`.
    pub fn holder_within(&self, now: Timestamp, seconds: i64, replicas: i32) -> Option<Held> {
        self.held(now, seconds, Edge::Outside, |seen| seen >= replicas)
    }

    /// The newest sample of those that hold the value back: with it the last one leaves the window.
    fn held(&self, now: Timestamp, seconds: i64, edge: Edge, holds: impl Fn(i32) -> bool) -> Option<Held> {
        let newest = self
            .within(now, seconds, edge)
            .filter(|sample| holds(sample.replicas))
            .max_by_key(|sample| sample.at.min(now))?;
        let end = after(newest.at.min(now), seconds);
        Some(Held {
            until: if edge == Edge::Inside { just_after(end) } else { end },
            seen: newest.replicas,
            first_seen: newest.first_seen,
        })
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
            Stabilized::Between { current, lowest, highest, .. } => {
                current.max(lowest).min(highest.max(lowest))
            }
            Stabilized::AtLeast { highest, .. } => before.max(highest),
        }
    }

    fn held(&self) -> Option<Held> {
        match *self {
            Stabilized::Between { held, .. } | Stabilized::AtLeast { held, .. } => held,
        }
    }

    pub fn held_until(&self) -> Option<Timestamp> {
        self.held().map(|held| held.until)
    }

    pub fn code(&self, before: i32, after: i32) -> &'static str {
        match before.cmp(&after) {
            std::cmp::Ordering::Equal => "NotStabilized",
            std::cmp::Ordering::Greater => "ScaleUpStabilized",
            std::cmp::Ordering::Less => "ScaleDownStabilized",
        }
    }

    pub fn words(&self, before: i32, after: i32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = match before.cmp(&after) {
            std::cmp::Ordering::Equal => return out.write_str("no recent recommendation disagrees"),
            std::cmp::Ordering::Greater => "scale-up",
            std::cmp::Ordering::Less => "scale-down",
        };
        match self.held() {
            Some(Held { until, seen, first_seen: true }) => {
                write!(out, "first seen at {seen} replicas; the {window} window ends at {until}")
            }
            Some(Held { seen, .. }) if seen == after => {
                write!(out, "the {window} window has seen a recommendation of {seen}, so not yet {before}")
            }
            Some(Held { seen, .. }) => write!(
                out,
                "the {window} window has seen a recommendation of {seen}, so {after} stays and not yet {before}"
            ),
            None => write!(out, "the {window} window holds {after}, so not yet {before}"),
        }
    }
}
