//! The steps of a query and the stretch of time each of them looks at.

use super::block::present;
use crate::source::TimeRange;

/// Evenly spaced times, at least one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Grid {
    pub(crate) start: i64,
    pub(crate) step: i64,
    pub(crate) len: usize,
}

impl Grid {
    pub(crate) fn instant(time: i64) -> Self {
        Self { start: time, step: 1, len: 1 }
    }

    pub(crate) fn time(&self, step: usize) -> i64 {
        self.start + self.step * step as i64
    }

    pub(crate) fn end(&self) -> i64 {
        self.time(self.len - 1)
    }

    pub(crate) fn first(&self) -> Self {
        Self { len: 1, ..*self }
    }

    pub(crate) fn times(&self) -> impl Iterator<Item = i64> {
        let Self { start, step, len } = *self;
        (0..len as i64).map(move |i| start + i * step)
    }
}

/// Where a selector looks from: a fixed time or the step's, `offset` earlier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reference {
    pub(crate) at: Option<i64>,
    pub(crate) offset: i64,
}

impl Reference {
    #[inline]
    pub(crate) fn time(&self, step_time: i64) -> i64 {
        self.at.unwrap_or(step_time) - self.offset
    }
}

/// For each step the samples in `(reference - range, reference]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    pub(crate) grid: Grid,
    pub(crate) reference: Reference,
    pub(crate) range: i64,
}

/// The samples of one step; never empty.
#[derive(Clone, Copy)]
pub(crate) struct Window<'a> {
    pub(crate) times: &'a [i64],
    pub(crate) values: &'a [f64],
    /// Position of the first sample within its series.
    pub(crate) from: usize,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) step: usize,
}

impl Windows {
    /// All samples that any step reads.
    pub(crate) fn time_range(&self) -> TimeRange {
        TimeRange {
            min: self.reference.time(self.grid.start) - self.range + 1,
            max: self.reference.time(self.grid.end()),
        }
    }

    /// Calls `f` for each step that has samples and writes what it returns; says whether there was any value.
    /// Both ends of the window only move forward, so that a series is passed once, however many steps there are.
    #[inline]
    pub(crate) fn run(
        &self,
        times: &[i64],
        values: &[f64],
        out: &mut [f64],
        mut f: impl FnMut(Window<'_>) -> f64,
    ) -> bool {
        let first = self.reference.time(self.grid.start);
        let mut from = times.partition_point(|&t| t <= first - self.range);
        let mut to = from + times[from..].partition_point(|&t| t <= first);
        let mut any = false;
        for (step, (cell, step_time)) in out.iter_mut().zip(self.grid.times()).enumerate() {
            let end = self.reference.time(step_time);
            let start = end - self.range;
            while to < times.len() && times[to] <= end {
                to += 1;
            }
            while from < to && times[from] <= start {
                from += 1;
            }
            if from < to {
                let window =
                    Window { times: &times[from..to], values: &values[from..to], from, start, end, step };
                *cell = f(window);
                any |= present(*cell);
            }
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_open_on_the_left() {
        let times = [0, 10, 20, 30, 40];
        let values = [0.0, 1.0, 2.0, 3.0, 4.0];
        let seen = |reference: Reference, grid: Grid| {
            let windows = Windows { grid, reference, range: 20 };
            let mut out = vec![-1.0; grid.len];
            windows.run(&times, &values, &mut out, |w| w.values.iter().sum::<f64>() + 100.0 * w.from as f64);
            out
        };
        let grid = Grid { start: 10, step: 10, len: 5 };
        // At 10 the window is (-10, 10]: samples 0 and 1. At 50 it is (30, 50]: sample 4 alone.
        assert_eq!(seen(Reference { at: None, offset: 0 }, grid), [1.0, 103.0, 205.0, 307.0, 404.0]);
        assert_eq!(seen(Reference { at: None, offset: 30 }, grid), [-1.0, -1.0, 0.0, 1.0, 103.0]);
        assert_eq!(seen(Reference { at: Some(20), offset: 0 }, grid), [103.0; 5]);
    }
}
