//! The rules that keep a vertex where it is enough: steps of a decision, with the figures they work on.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// As many pods as do what arrives, none of them busier than the target saturation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Floor {
    /// Messages that arrive a second.
    pub arrival: f64,
    /// Messages that a busy pod does a second.
    pub capacity: f64,
    /// The share of the capacity that is aimed at.
    pub saturation: f64,
    /// The count that a full buffer downstream allows at most.
    pub at_most: Option<i32>,
}

/// The most that was asked for in the last lookback, by formula or floor, for a vertex that would shrink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recent {
    pub current: i32,
    pub highest: i32,
    pub lookback_seconds: i64,
}

/// Shrinking while it is not known what a pod can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Careful {
    pub current: i32,
    /// How many fewer at once.
    pub step: i32,
    /// Whether nothing was pending for a whole lookback.
    pub idle: bool,
    /// The end of the lookback that began with the last change.
    pub until: Option<Timestamp>,
    pub lookback_seconds: i64,
}

impl Floor {
    /// 1000/s at 85 % of 100/s are 11.8 pods: 12.
    pub fn replicas(&self) -> i32 {
        let pods = self.arrival / (self.capacity * self.saturation);
        // Half a millionth of a pod is rounding: 1020 / (100 * 0.85) is 12, not 13. A float cast saturates.
        let pods = if pods.is_finite() { (pods - 5e-7).ceil().max(0.0) as i32 } else { 0 };
        self.at_most.map_or(pods, |most| pods.min(most))
    }

    pub fn apply(&self, before: i32) -> i32 {
        before.max(self.replicas())
    }

    pub fn words(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Floor { arrival, capacity, saturation, at_most } = self;
        write!(out, "{arrival}/s arrive and a busy pod does {capacity}/s: at {saturation} of that, ")?;
        let unlimited = Floor { at_most: None, ..*self }.replicas();
        match at_most {
            Some(most) if *most < unlimited => {
                write!(
                    out,
                    "{unlimited} are needed, but no more than {most} while a buffer downstream is full"
                )
            }
            _ => write!(out, "{unlimited} are needed"),
        }
    }
}

impl Recent {
    pub fn apply(&self, before: i32) -> i32 {
        before.max(self.highest.min(self.current))
    }

    pub fn words(&self, before: i32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recent { highest, lookback_seconds, .. } = self;
        write!(out, "{highest} were asked for within the last {lookback_seconds} s, so not yet {before}")
    }
}

impl Careful {
    pub fn apply(&self, before: i32) -> i32 {
        let step = if self.idle && self.until.is_none() { self.step } else { 0 };
        before.max(self.current.saturating_sub(step))
    }

    pub fn words(&self, before: i32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Careful { step, idle, until, lookback_seconds, .. } = self;
        out.write_str("it is not known yet what a busy pod does, so ")?;
        match (idle, until) {
            (true, None) => write!(out, "down by {step} at a time and not yet to {before}"),
            (true, Some(until)) => write!(out, "the last change is looked at until {until}"),
            (false, _) => {
                write!(out, "not down to {before} before nothing was pending for {lookback_seconds} s")
            }
        }
    }
}
