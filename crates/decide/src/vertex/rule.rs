//! The rules of a vertex, each with the figures it works on.

use std::{cmp::Ordering, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::floor::{Careful, Floor, Recent};
use crate::{
    decision::{Role, Weight},
    window::Cooldown,
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", content = "input", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Rule {
    /// What one partition asks for.
    Partition(Reading),
    /// What one partition can use.
    Cap(Cap),
    /// The partition that asks for the most.
    Highest {
        proposed: i32,
        partition: Arc<str>,
    },
    /// Nothing waits and nothing moves.
    Quiet,
    /// What arrives needs so many.
    Floor(Floor),
    /// So many were asked for lately.
    Recent(Recent),
    /// What is needed is not known.
    Careful(Careful),
    Hold {
        current: i32,
        because: Because,
    },
    /// Asleep, and messages wait.
    Wake {
        pending: i64,
        min: i32,
    },
    /// A sleeping source cannot know what waits, so it looks now and then.
    Peek {
        slept_seconds: i64,
        min: i32,
    },
    RateLimited {
        current: i32,
        rate: f64,
        limit: u64,
    },
    /// Outside the bounds: straight to the nearer one.
    OutOfBounds {
        min: i32,
        max: i32,
    },
    Bounds {
        min: i32,
        max: i32,
        window: Option<u32>,
    },
    BackPressure(Pressure),
    Step {
        current: i32,
        up: i32,
        down: i32,
    },
    Cooldown(Cooldown),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reading {
    pub partition: Arc<str>,
    pub pending: i64,
    /// Messages a second.
    pub rate: f64,
    pub ready: i32,
    pub model: Model,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Model {
    /// As many as work off what is pending in time.
    ProcessingTime { target_seconds: i64 },
    /// As many as keep so many places of the buffer free; `step` more when none is.
    BufferAvailability { usable: i64, target: i64, step: i32 },
}

/// Why nothing is decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Because {
    Disabled,
    Reduce,
    NotRunning { phase: Arc<str> },
    RollingUpdate,
    ChangeUnderWay { replicas: i32, desired: i32 },
    Fixed { replicas: i32 },
    NothingPending,
    Asleep { seconds_left: i64 },
    NoneReady,
    UnknownPending { partition: Arc<str> },
    UnknownRate { partition: Arc<str> },
    NoPartitions,
    Stuck { pending: i64, ready: i32, seconds: i64 },
}

/// Never none while there is traffic, never more pods than messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cap {
    pub partition: Arc<str>,
    pub wanted: i32,
    pub pending: i64,
}

/// A full buffer further down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pressure {
    pub current: i32,
    pub min: i32,
    /// Whether it is the next vertex, or one behind it.
    pub direct: bool,
    pub vertex: Arc<str>,
    pub pending: i64,
    pub usable: i64,
    /// What arrives needs so many; none as long as that is not known.
    pub needed: Option<i32>,
}

impl Reading {
    fn proposal(&self, current: i32) -> i32 {
        let ready = f64::from(self.ready);
        let wanted = match self.model {
            // Pending messages and no progress say that this is not the time to shrink, but not how many would help.
            Model::ProcessingTime { .. } if self.is_still() => return current.max(1),
            Model::ProcessingTime { target_seconds } => {
                self.pending as f64 / self.rate.max(f64::MIN_POSITIVE) / target_seconds as f64 * ready
            }
            Model::BufferAvailability { usable, step, .. } if self.pending >= usable => {
                return current.saturating_add(step);
            }
            Model::BufferAvailability { usable, target, .. } => {
                let available = usable.saturating_sub(self.pending);
                target as f64 / (available as f64 / ready)
            }
        };
        // A float cast saturates; rounding is half away from zero.
        wanted.round() as i32
    }

    fn is_still(&self) -> bool {
        self.rate <= 0.0 && self.pending > 0
    }

    /// Whether a formula gave the proposal, and not a formula's end of sense.
    pub(super) fn is_computed(&self) -> bool {
        match self.model {
            Model::ProcessingTime { .. } => !self.is_still(),
            Model::BufferAvailability { usable, .. } => self.pending < usable,
        }
    }

    fn words(&self, before: i32, after: i32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reading { partition, pending, rate, ready, .. } = self;
        write!(out, "{partition}: {pending} pending, ")?;
        match self.model {
            Model::ProcessingTime { .. } if self.is_still() => {
                return write!(out, "nothing processed with {ready} ready: as many as now");
            }
            Model::ProcessingTime { target_seconds } => {
                write!(out, "{rate}/s with {ready} ready, to be done in {target_seconds} s")?;
            }
            Model::BufferAvailability { usable, step, .. } if *pending >= usable => {
                return write!(
                    out,
                    "the {usable} usable places are full: wants {step} more than {before}, {after}"
                );
            }
            Model::BufferAvailability { usable, target, .. } => {
                write!(
                    out,
                    "{} of {usable} places free with {ready} ready, {target} wanted",
                    usable - pending
                )?;
            }
        }
        write!(out, ": wants {after}")
    }
}

impl Cap {
    pub(super) fn allowed(&self) -> i32 {
        i32::try_from(i64::from(self.wanted).min(self.pending).max(1)).unwrap_or(i32::MAX)
    }
}

impl Pressure {
    pub(super) fn apply(&self) -> i32 {
        let Pressure { current, min, needed, .. } = *self;
        match (self.direct, needed) {
            // One fewer now is one to be added as soon as there is room.
            (true, Some(_)) | (false, _) => current,
            (true, None) => current.saturating_sub(1).max(min).max(1).min(current),
        }
    }
}

impl crate::Rule for Rule {
    type Value = i32;

    fn name(&self) -> &'static str {
        match self {
            Rule::Partition(_) => "partition",
            Rule::Cap(_) => "cap",
            Rule::Highest { .. } => "highest",
            Rule::Quiet => "quiet",
            Rule::Floor(_) => "floor",
            Rule::Recent(_) => "recent",
            Rule::Careful(_) => "careful",
            Rule::Hold { .. } => "hold",
            Rule::Wake { .. } => "wake",
            Rule::Peek { .. } => "peek",
            Rule::RateLimited { .. } => "rateLimited",
            Rule::OutOfBounds { .. } => "outOfBounds",
            Rule::Bounds { .. } => "bounds",
            Rule::BackPressure(_) => "backPressure",
            Rule::Step { .. } => "step",
            Rule::Cooldown(_) => "cooldown",
        }
    }

    fn role(&self) -> Role {
        match self {
            Rule::Partition(_) | Rule::Cap(_) => Role::Proposal,
            _ => Role::Link,
        }
    }

    fn apply(&self, before: &i32) -> i32 {
        let before = *before;
        match self {
            Rule::Partition(reading) => reading.proposal(before),
            Rule::Cap(cap) => cap.allowed(),
            Rule::Highest { proposed, .. } => *proposed,
            Rule::Quiet => 0,
            Rule::Floor(floor) => floor.apply(before),
            Rule::Recent(recent) => recent.apply(before),
            Rule::Careful(careful) => careful.apply(before),
            Rule::Hold { current, .. } => *current,
            Rule::Wake { min, .. } | Rule::Peek { min, .. } => (*min).max(1),
            Rule::RateLimited { current, .. } => before.min(*current),
            Rule::OutOfBounds { min, max } | Rule::Bounds { min, max, .. } => before.max(*min).min(*max),
            Rule::BackPressure(pressure) => pressure.apply(),
            Rule::Step { current, up, down } => {
                before.max(current.saturating_sub(*down)).min(current.saturating_add(*up))
            }
            Rule::Cooldown(cooldown) => cooldown.apply(before),
        }
    }

    fn weight(&self, _before: &i32, _after: &i32) -> Weight {
        match self {
            Rule::Hold { .. } | Rule::BackPressure(_) => Weight::Decides,
            _ => Weight::Plain,
        }
    }

    fn code(&self, before: &i32, after: &i32) -> &'static str {
        match self {
            Rule::Partition(_) => "PartitionProposal",
            Rule::Cap(_) => "PartitionCap",
            Rule::Highest { .. } => match after.cmp(before) {
                Ordering::Greater => "TooSlow",
                Ordering::Less => "MoreThanNeeded",
                Ordering::Equal => "OnTarget",
            },
            Rule::Quiet => "Quiet",
            Rule::Floor(_) => "CapacityFloor",
            Rule::Recent(_) => "NeededLately",
            Rule::Careful(_) => "CapacityUnknown",
            Rule::Hold { because, .. } => because.code(),
            Rule::Wake { .. } => "WakeUp",
            Rule::Peek { .. } => "Peek",
            Rule::RateLimited { .. } => "RateLimited",
            Rule::OutOfBounds { .. } | Rule::Bounds { .. } => match after.cmp(before) {
                Ordering::Less => "TooManyReplicas",
                Ordering::Greater => "TooFewReplicas",
                Ordering::Equal => "WithinBounds",
            },
            Rule::BackPressure(Pressure { direct: true, .. }) => "DirectBackPressure",
            Rule::BackPressure(_) => "DownstreamBackPressure",
            Rule::Step { .. } => "StepLimit",
            Rule::Cooldown(_) => "Cooldown",
        }
    }

    fn words(&self, before: &i32, after: &i32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Partition(reading) => reading.words(*before, *after, out),
            Rule::Cap(Cap { partition, wanted, pending }) => match after.cmp(wanted) {
                Ordering::Less => {
                    write!(out, "{partition}: no more pods than the {pending} messages, not {wanted}")
                }
                _ => write!(out, "{partition}: one at least while there is traffic"),
            },
            Rule::Highest { proposed, partition } => write!(out, "{partition} asks for {proposed}"),
            Rule::Quiet => out.write_str("nothing is pending and nothing is processed"),
            Rule::Floor(floor) => floor.words(out),
            Rule::Recent(recent) => recent.words(*before, out),
            Rule::Careful(careful) => careful.words(*before, out),
            Rule::Hold { because, .. } => write!(out, "{because}"),
            Rule::Wake { pending, .. } => write!(out, "{pending} messages wait"),
            Rule::Peek { slept_seconds, .. } => write!(out, "asleep for {slept_seconds} s: look for work"),
            Rule::RateLimited { rate, limit, .. } => {
                write!(out, "{rate}/s is at the rate limit of {limit}/s, so more pods would not help")
            }
            Rule::OutOfBounds { min, max } | Rule::Bounds { min, max, .. } => {
                match after.cmp(before) {
                    Ordering::Less => write!(out, "{before} is above the maximum of {max}")?,
                    Ordering::Greater => write!(out, "{before} is below the minimum of {min}")?,
                    Ordering::Equal => write!(out, "between {min} and {max}")?,
                }
                match self {
                    Rule::Bounds { window: Some(window), .. } => write!(out, ", by cron window {window}"),
                    _ => Ok(()),
                }
            }
            Rule::BackPressure(Pressure { current, direct, vertex, pending, usable, needed, .. }) => {
                write!(out, "{vertex} is full ({pending} of {usable}), so ")?;
                match (direct, needed) {
                    (true, Some(needed)) => write!(out, "no more feed it; what arrives needs {needed}"),
                    (true, None) if after < current => out.write_str("one fewer feeds it"),
                    (true, None) => out.write_str("no more feed it"),
                    (false, _) => out.write_str("more would only fill what lies between"),
                }
            }
            Rule::Step { up, down, .. } => match after.cmp(before) {
                Ordering::Less => write!(out, "up by at most {up} at a time, so not yet {before}"),
                Ordering::Greater => write!(out, "down by at most {down} at a time, so not yet {before}"),
                Ordering::Equal => out.write_str("in one step"),
            },
            Rule::Cooldown(cooldown) => cooldown.words(*before, out),
        }
    }
}

impl Because {
    fn code(&self) -> &'static str {
        match self {
            Because::Disabled => "Disabled",
            Because::Reduce => "NotScalable",
            Because::NotRunning { .. } => "NotRunning",
            Because::RollingUpdate => "RollingUpdate",
            Because::ChangeUnderWay { .. } => "ChangeUnderWay",
            Because::Fixed { .. } => "FixedSize",
            Because::NothingPending => "NothingPending",
            Because::Asleep { .. } => "Asleep",
            Because::NoneReady => "NoneReady",
            Because::UnknownPending { .. } => "UnknownPending",
            Because::UnknownRate { .. } => "UnknownRate",
            Because::NoPartitions => "NoPartitions",
            Because::Stuck { .. } => "Stuck",
        }
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Because::Disabled => f.write_str("scaling is disabled"),
            Because::Reduce => f.write_str("a reduce vertex has as many replicas as partitions"),
            Because::NotRunning { phase } if phase.is_empty() => f.write_str("the vertex does not run yet"),
            Because::NotRunning { phase } => write!(f, "the vertex is {phase}, not Running"),
            Because::RollingUpdate => f.write_str("a rolling update is under way"),
            Because::ChangeUnderWay { replicas, desired } => {
                write!(f, "still on the way from {replicas} to {desired} replicas")
            }
            Because::Fixed { replicas } => write!(f, "minimum and maximum are both {replicas}"),
            Because::NothingPending => f.write_str("asleep, and nothing waits"),
            Because::Asleep { seconds_left } => write!(f, "asleep, looks for work in {seconds_left} s"),
            Because::NoneReady => f.write_str("no replica is ready"),
            Because::UnknownPending { partition } => {
                write!(f, "it is not known what is pending in {partition}")
            }
            Because::UnknownRate { partition } => {
                write!(f, "it is not known how fast {partition} is processed")
            }
            Because::NoPartitions => f.write_str("there are no figures at all"),
            Because::Stuck { pending, ready, seconds } => {
                write!(f, "{pending} pending, {ready} ready, and nothing processed for {seconds} s")
            }
        }
    }
}
