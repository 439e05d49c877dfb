//! The flap guard: a metric that falls as soon as pods are there would send them away again.
//!
//! Latency and queue lengths answer to the count, so a loop over them does not come to rest by itself: at five times the
//! base latency a constant load makes a function go up and down 22 times an hour. Each time it changes its mind soon
//! after the last time, it has to wait twice as long before it goes down.

use std::{borrow::Cow, fmt};

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::window::{Change, Held, Recommendations, after, span};

/// A way down that had to be taken back soon is remembered for so long, however short the window is, and small changes
/// to and fro within this time count as well: a load near the edge between two counts crosses it every now and then.
/// Large changes far apart are a load that comes and goes, such as a batch every half an hour, and are none of the
/// guard's business.
const NOISE_SECONDS: i64 = 3600;
/// From this many reversals on the window grows. One alone is a load that came and went.
const FIRST_TO_COUNT: u32 = 2;

/// `Behavior.ScaleDown.FlapGuard`: `true`, `false`, or an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FlapGuard {
    pub enabled: bool,
    /// What is doubled where the scale-down window is shorter. A window of 0 that nothing is said about stays 0: whoever
    /// wants no window gets none.
    pub min_window_seconds: u32,
    /// The longest that the scale-down window may become.
    pub max_window_seconds: u32,
}

/// How often the metrics side turned round, and how long it has to wait for that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Flaps {
    /// The last change that the triggers brought about.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Change>,
    /// Changes against the direction of the one before, within twice the window or, if small, within an hour.
    #[serde(skip_serializing_if = "is_zero")]
    reversals: u32,
    /// When the first of them and the last of them came.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latest: Option<Timestamp>,
    /// From when on there was nothing to hold back and no reversal.
    #[serde(skip_serializing_if = "Option::is_none")]
    quiet_since: Option<Timestamp>,
    /// Whether one of them took back a way down, or was a small one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    was_mistaken: bool,
    /// The scale-down window in force; 0 if it is the spec's own.
    #[serde(skip_serializing_if = "is_zero")]
    window_seconds: u32,
}

/// The longer window, as a step's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Guard {
    pub current: i32,
    pub reversals: u32,
    /// From the change before the first reversal to the last one.
    pub within_seconds: i64,
    pub window_seconds: i64,
    /// The highest recommendation within that window.
    pub highest: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
}

// === impl FlapGuard ===

impl Default for FlapGuard {
    fn default() -> Self {
        FlapGuard { enabled: true, min_window_seconds: 0, max_window_seconds: 3600 }
    }
}

impl FlapGuard {
    pub fn is_default(&self) -> bool {
        *self == FlapGuard::default()
    }

    /// The shortest and the longest window of the guard; none if it is switched off.
    pub(super) fn range(&self, window_seconds: u32) -> Option<(u32, u32)> {
        let shortest = window_seconds.max(self.min_window_seconds);
        (self.enabled && shortest > 0).then_some((shortest, self.max_window_seconds.max(shortest)))
    }
}

impl<'de> Deserialize<'de> for FlapGuard {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FlapGuardVisitor)
    }
}

struct FlapGuardVisitor;

impl<'de> de::Visitor<'de> for FlapGuardVisitor {
    type Value = FlapGuard;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false or an object with Enabled, MinWindowSeconds and MaxWindowSeconds")
    }

    fn visit_bool<E>(self, enabled: bool) -> Result<FlapGuard, E> {
        Ok(FlapGuard { enabled, ..FlapGuard::default() })
    }

    fn visit_unit<E>(self) -> Result<FlapGuard, E> {
        Ok(FlapGuard::default())
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<FlapGuard, A::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase", deny_unknown_fields)]
        struct Form {
            #[serde(default = "yes")]
            enabled: bool,
            #[serde(default)]
            min_window_seconds: u32,
            #[serde(default = "an_hour")]
            max_window_seconds: u32,
        }
        let form = Form::deserialize(de::value::MapAccessDeserializer::new(map))?;
        let Form { enabled, min_window_seconds, max_window_seconds } = form;
        Ok(FlapGuard { enabled, min_window_seconds, max_window_seconds })
    }
}

impl JsonSchema for FlapGuard {
    fn schema_name() -> Cow<'static, str> {
        "FlapGuard".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Doubles the scale-down window with each reversal from the second on, and halves it again when it is quiet; true, false or an object.",
            "type": ["boolean", "object"],
            "default": true,
            "properties": {
                "Enabled": { "description": "Whether there is a guard.", "type": "boolean", "default": true },
                "MinWindowSeconds": {
                    "description": "What is doubled where the scale-down window is shorter, in seconds.",
                    "type": "integer", "minimum": 0, "maximum": 86400, "default": 0,
                },
                "MaxWindowSeconds": {
                    "description": "The longest that the scale-down window may become, in seconds.",
                    "type": "integer", "minimum": 0, "maximum": 86400, "default": 3600,
                },
            },
            "additionalProperties": false,
        })
    }
}

// === impl Flaps ===

impl Flaps {
    pub fn is_at_rest(&self) -> bool {
        *self == Flaps::default()
    }

    /// Takes note of a change that was applied and led to `count`.
    pub(super) fn note(&mut self, change: Change, count: i32, range: Option<(u32, u32)>) {
        let Some((shortest, longest)) = range else {
            *self = Flaps::default();
            return;
        };
        let window = self.window_seconds.max(shortest);
        let from = count.saturating_sub(change.by);
        // One replica, or a quarter of them: 4 and 5, 12 and 15.
        let is_small = change.by.saturating_abs() <= (from.max(count) / 4).max(1);
        if let Some(last) = self.last {
            let gap = change.at.duration_since(last.at).as_secs();
            let is_soon = gap <= 2 * i64::from(window);
            let turned = (last.by > 0) != (change.by > 0);
            if turned && (is_soon || (is_small && gap <= NOISE_SECONDS)) {
                self.reversals = self.reversals.saturating_add(1);
                self.since.get_or_insert(last.at);
                (self.latest, self.quiet_since) = (Some(change.at), Some(change.at));
                self.was_mistaken |= !is_soon || change.by > 0;
                if self.reversals >= FIRST_TO_COUNT {
                    let doubled = window.saturating_mul(2);
                    // A window that did not reach from one to the other was too short by more than half.
                    let reaching = if is_soon { 0 } else { u32::try_from(gap).unwrap_or(u32::MAX) };
                    self.window_seconds = doubled.max(reaching).min(longest);
                }
            }
        }
        self.last = Some(change);
    }

    /// The window in force if it is longer than the spec's own. Quiet for twice its length, it halves: nothing within
    /// that time could have been a reversal.
    pub(super) fn guard(
        &mut self,
        now: Timestamp,
        range: Option<(u32, u32)>,
        own_window: i64,
    ) -> Option<Guard> {
        let (shortest, longest) = range?;
        self.window_seconds = self.window_seconds.min(longest);
        while let Some(quiet_since) = self.quiet_since {
            let window = self.window_seconds.max(shortest);
            let twice = 2 * i64::from(window);
            let quiet = if self.was_mistaken { twice.max(NOISE_SECONDS) } else { twice };
            let ends = after(quiet_since.min(now), quiet);
            if ends > now {
                break;
            }
            if self.window_seconds <= shortest {
                *self = Flaps { last: self.last, ..Flaps::default() };
                break;
            }
            (self.window_seconds, self.quiet_since) = (window / 2, Some(ends));
        }
        let window_seconds = i64::from(self.window_seconds);
        let within_seconds = match (self.since, self.latest) {
            (Some(since), Some(latest)) => latest.duration_since(since).as_secs(),
            _ => 0,
        };
        (self.window_seconds > 0 && window_seconds > own_window).then_some(Guard {
            current: 0,
            reversals: self.reversals,
            within_seconds,
            window_seconds,
            highest: 0,
            held: None,
        })
    }

    pub(super) fn hold(&mut self, now: Timestamp) {
        self.quiet_since = Some(now);
    }
}

// === impl Guard ===

impl Guard {
    /// On what the window makes of `value`.
    pub(super) fn over(self, now: Timestamp, current: i32, value: i32, past: &Recommendations) -> Guard {
        let highest = past.highest_within(now, self.window_seconds, value);
        let guard = Guard { current, highest, ..self };
        let result = guard.apply(value);
        let held = (result > value).then(|| past.holder_within(now, self.window_seconds, result)).flatten();
        Guard { held, ..guard }
    }

    pub fn apply(&self, before: i32) -> i32 {
        // Only the way down, and never above what is there.
        if before < self.current { before.max(self.highest.min(self.current)) } else { before }
    }

    pub fn words(&self, before: i32, after: i32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (within, window) = (span(self.within_seconds), span(self.window_seconds));
        let noun = if self.reversals == 1 { "reversal" } else { "reversals" };
        write!(out, "{} {noun} in {within}: the scale-down window is {window} now", self.reversals)?;
        match self.held {
            Some(held) if before != after => {
                write!(out, " and has seen a recommendation of {}, so not yet {before}", held.seen)
            }
            _ => Ok(()),
        }
    }
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

fn yes() -> bool {
    true
}

fn an_hour() -> u32 {
    3600
}
