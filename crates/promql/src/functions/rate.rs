//! How much a counter or gauge changed over a window, extrapolated to the window's ends.

use super::range::range_seconds;
use crate::eval::block::ABSENT;
use crate::eval::grid::{Window, Windows};

/// `rate` (per second) and `increase`.
pub(super) fn counter(
    windows: &Windows,
    times: &[i64],
    values: &[f64],
    out: &mut [f64],
    per_second: bool,
) -> bool {
    // Resets are found once. Most series have none, and then a step costs the same however long its window is.
    let mut resets: Vec<(usize, f64)> = Vec::new();
    for (at, pair) in values.windows(2).enumerate() {
        if pair[1] < pair[0] {
            resets.push((at + 1, pair[0]));
        }
    }
    let per_second = if per_second { 1.0 / range_seconds(windows) } else { 1.0 };
    let mut first_reset = 0;
    windows.run(times, values, out, |w| {
        let last = w.values.len() - 1;
        if last == 0 {
            return ABSENT;
        }
        let mut change = w.values[last] - w.values[0];
        if !resets.is_empty() {
            // A reset between the first two samples of the window is at position `from + 1`.
            while first_reset < resets.len() && resets[first_reset].0 <= w.from {
                first_reset += 1;
            }
            let within = resets[first_reset..].iter().take_while(|(at, _)| *at <= w.from + last);
            within.for_each(|(_, before)| change += before);
        }
        change * (stretch(&w, change, true) * per_second)
    })
}

/// `delta`
pub(super) fn gauge(windows: &Windows, times: &[i64], values: &[f64], out: &mut [f64]) -> bool {
    windows.run(times, values, out, |w| {
        let last = w.values.len() - 1;
        if last == 0 {
            return ABSENT;
        }
        let change = w.values[last] - w.values[0];
        change * stretch(&w, change, false)
    })
}

/// By which factor the change between the first and the last sample grows when it is carried on to the window's ends:
/// all the way if the next sample might have been just outside (within 1.1 average gaps), else by half a gap, since the
/// series seems to begin or end inside the window. A counter is not carried back below zero.
///
/// Lengths are in milliseconds, since only their ratio counts; products are compared in place of quotients, because a
/// division costs more than all the rest.
#[inline]
fn stretch(w: &Window<'_>, change: f64, counter: bool) -> f64 {
    let last = w.times.len() - 1;
    let gaps = last as f64;
    let sampled = (w.times[last] - w.times[0]) as f64;
    let mut to_start = (w.times[0] - w.start) as f64;
    let mut to_end = (w.end - w.times[last]) as f64;
    let threshold = sampled * 1.1;
    if to_start * gaps >= threshold {
        to_start = sampled / gaps / 2.0;
    }
    if counter && change > 0.0 && w.values[0] >= 0.0 && sampled * w.values[0] < to_start * change {
        to_start = sampled * (w.values[0] / change);
    }
    if to_end * gaps >= threshold {
        to_end = sampled / gaps / 2.0;
    }
    (sampled + to_start + to_end) / sampled
}

/// `irate` and `idelta`: between the last two samples.
pub(super) fn instant(w: &Window<'_>, rate: bool) -> f64 {
    let [.., before, last] = w.values else { return ABSENT };
    let [.., time_before, time_last] = w.times else { return ABSENT };
    let gap = (time_last - time_before) as f64 / 1000.0;
    match rate {
        // After a reset the counter began at zero.
        true if last < before => last / gap,
        true => (last - before) / gap,
        false => last - before,
    }
}
