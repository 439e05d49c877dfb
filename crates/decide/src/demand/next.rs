//! When time alone turns a function from active to idle or back.

use jiff::Timestamp;

use super::{Observed, Spec};
use crate::{
    decision::sooner,
    window::{after, just_after},
};

/// A schedule has at most so many times a day that matter here; beyond them any moment will do to look again.
const MOST_TIMES: usize = 100;

/// The first moment at which the other state can lead to something else than `desired`.
pub(super) fn turn(
    now: Timestamp,
    spec: &Spec,
    observed: &Observed,
    idle: bool,
    desired: i32,
) -> Option<Timestamp> {
    let has_triggers = spec.scale.as_ref().is_some_and(|scale| !scale.triggers.is_empty());
    let matters = match idle {
        // Active, a function that is up stays up, which an idle one with this count does too.
        true => desired == 0 || observed.current < spec.min,
        // Idle, it goes to its floor; with triggers the metrics keep what they ask for, unless they ask for nothing.
        false if has_triggers && observed.current > 0 => spec.min <= 0,
        false => desired != spec.min.min(spec.max()),
    };
    if !matters || spec.max() == 0 {
        return None;
    }
    let of_others = observed.next_wake_up.filter(|_| idle);
    sooner(own_turn(now, spec, observed, idle), of_others)
}

/// By the function's own schedule and last sign of life.
fn own_turn(now: Timestamp, spec: &Spec, observed: &Observed, idle: bool) -> Option<Timestamp> {
    let schedule = &spec.schedule;
    let mut at = now;
    let mut last = observed.activity.as_ref().map(|last| last.at.min(now));
    for _ in 0..MOST_TIMES {
        let change = schedule.next_change(at);
        let ends = last.map(|last| after(last, schedule.timeout_seconds(at, spec.timeout_seconds).into()));
        // A function is still active in the very moment its timeout ends.
        let idle_from =
            ends.map(just_after).filter(|from| !idle && change.is_none_or(|change| *from < change));
        if let Some(from) = idle_from {
            return Some(from.max(just_after(now)));
        }
        at = change?;
        last = last.max(schedule.last_wake_up(at));
        let timeout = schedule.timeout_seconds(at, spec.timeout_seconds);
        let is_idle = last.is_none_or(|last| after(last, timeout.into()) < at);
        if is_idle != idle {
            return Some(at);
        }
    }
    Some(at)
}
