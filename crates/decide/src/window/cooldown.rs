use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::after;

/// A pause after a change: the value returns to `current` until it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cooldown {
    pub current: i32,
    pub until: Timestamp,
    pub seconds_left: i64,
}

/// The end of a cooldown that began with the change at `last`; none if it is over or nothing ever changed.
pub fn cooling(now: Timestamp, last: Option<Timestamp>, seconds: i64) -> Option<Timestamp> {
    let until = after(last?.min(now), seconds);
    (until > now).then_some(until)
}

impl Cooldown {
    pub fn new(now: Timestamp, current: i32, until: Timestamp) -> Self {
        // Rounded up: a cooldown with 0.4 s left has not ended.
        let left = until.duration_since(now);
        let seconds_left = left.as_secs().saturating_add(i64::from(left.subsec_nanos() > 0));
        Cooldown { current, until, seconds_left }
    }

    pub fn apply(&self, _before: i32) -> i32 {
        self.current
    }

    pub fn words(&self, before: i32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if before != self.current {
            write!(out, "held at {} instead of {before}: ", self.current)?;
        }
        write!(out, "cooldown, {} s left", self.seconds_left)
    }
}
