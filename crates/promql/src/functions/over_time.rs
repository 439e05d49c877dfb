//! `*_over_time`, `changes` and `resets`.

use std::collections::VecDeque;

use super::stats::{self, Mean, Neumaier};
use crate::eval::grid::{Window, Windows};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extreme {
    Max,
    Min,
}

impl Extreme {
    #[inline]
    fn prefers(self, new: f64, old: f64) -> bool {
        match self {
            Self::Max => new > old,
            Self::Min => new < old,
        }
    }
}

/// `max_over_time`, `min_over_time`. NaN counts only where there is nothing else.
///
/// `best` holds the positions that may still become the extreme of a later window, best first: each sample enters and
/// leaves once, whatever the length of the windows.
pub(super) fn extreme(
    windows: &Windows,
    times: &[i64],
    values: &[f64],
    out: &mut [f64],
    which: Extreme,
) -> bool {
    let mut best: VecDeque<usize> = VecDeque::new();
    let mut next = 0;
    windows.run(times, values, out, |w| {
        let end = w.from + w.values.len();
        next = next.max(w.from);
        while next < end {
            if !values[next].is_nan() {
                while best.back().is_some_and(|&b| !which.prefers(values[b], values[next])) {
                    best.pop_back();
                }
                best.push_back(next);
            }
            next += 1;
        }
        while best.front().is_some_and(|&b| b < w.from) {
            best.pop_front();
        }
        best.front().map_or(f64::NAN, |&b| values[b])
    })
}

/// When the extreme was seen last, in seconds.
pub(super) fn time_of(w: &Window<'_>, which: Extreme) -> f64 {
    let mut at = 0;
    for (i, &value) in w.values.iter().enumerate() {
        let best = w.values[at];
        if which.prefers(value, best) || value == best || best.is_nan() {
            at = i;
        }
    }
    w.times[at] as f64 / 1000.0
}

pub(super) fn sum(w: &Window<'_>) -> f64 {
    let mut sum = Neumaier::new(0.0);
    w.values.iter().for_each(|&v| sum.add(v));
    sum.sum()
}

pub(super) fn avg(w: &Window<'_>) -> f64 {
    let mut mean = Mean::new(w.values[0]);
    w.values[1..].iter().for_each(|&v| mean.add(v));
    mean.mean()
}

pub(super) fn variance(w: &Window<'_>) -> f64 {
    let mut mean = Neumaier::new(0.0);
    let mut squares = Neumaier::new(0.0);
    for (&value, count) in w.values.iter().zip(1..) {
        let delta = value - mean.sum();
        mean.add(delta / f64::from(count));
        squares.add(delta * (value - mean.sum()));
    }
    squares.sum() / w.values.len() as f64
}

pub(super) fn quantile(w: &Window<'_>, q: f64, scratch: &mut Vec<f64>) -> f64 {
    scratch.clear();
    scratch.extend_from_slice(w.values);
    stats::quantile(q, scratch)
}

/// Median absolute deviation; one NaN makes it NaN.
pub(super) fn mad(w: &Window<'_>, scratch: &mut Vec<f64>) -> f64 {
    if w.values.iter().any(|v| v.is_nan()) {
        return f64::NAN;
    }
    let median = quantile(w, 0.5, scratch);
    scratch.iter_mut().for_each(|v| *v = (*v - median).abs());
    stats::quantile(0.5, scratch)
}

pub(super) fn resets(w: &Window<'_>) -> f64 {
    w.values.windows(2).filter(|pair| pair[1] < pair[0]).count() as f64
}

pub(super) fn changes(w: &Window<'_>) -> f64 {
    let differ = |pair: &&[f64]| pair[0] != pair[1] && !(pair[0].is_nan() && pair[1].is_nan());
    w.values.windows(2).filter(differ).count() as f64
}
