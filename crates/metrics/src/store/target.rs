//! One target: the times of its scrapes and the series it brought.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use promql::Labels;

use super::Series;
use crate::Millis;

/// Rows are numbered from the target's first scrape on and never renumbered.
#[derive(Debug, Default)]
pub(crate) struct Target {
    /// One time per kept row, ascending.
    all_times: Vec<Millis>,
    /// The number of the first kept row.
    first_row: u64,
    /// How many kept rows are too old to be seen; they are removed in batches.
    n_expired: usize,
    pub(crate) slots: Vec<u32>,
    pub(super) by_labels: HashMap<ByText, u32>,
}

/// Hashes the text of the labels with the map's own keys: the hash that labels carry could be made to collide.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ByText(pub(super) Labels);

impl Hash for ByText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for pair in self.0.iter() {
            pair.hash(state);
        }
    }
}

impl Target {
    pub(crate) fn restored(times: Vec<Millis>) -> Self {
        Self { all_times: times, ..Self::default() }
    }

    /// The times that queries may see.
    pub(crate) fn times(&self) -> &[Millis] {
        &self.all_times[self.n_expired..]
    }

    pub(crate) fn last_time(&self) -> Option<Millis> {
        self.all_times.last().copied()
    }

    /// The row of the first time that queries may see.
    pub(crate) fn first_visible_row(&self) -> u64 {
        self.first_row + self.n_expired as u64
    }

    /// Starts a row and returns its number.
    pub(super) fn push_row(&mut self, time: Millis) -> u64 {
        self.all_times.push(time);
        self.first_row + self.all_times.len() as u64 - 1
    }

    /// The visible part of a series, with its times.
    pub(crate) fn columns<'a>(&'a self, series: &'a Series) -> (&'a [Millis], &'a [f64]) {
        let from = self.first_visible_row().max(series.first_row);
        let values = series.values.get((from - series.first_row) as usize..).unwrap_or_default();
        let times = self.all_times.get((from - self.first_row) as usize..).unwrap_or_default();
        let n = values.len().min(times.len());
        (&times[..n], &values[..n])
    }

    /// Hides rows older than `oldest` and all but the newest `max_rows`. Says from which row on columns should be
    /// kept, once enough rows are hidden to be worth moving the rest.
    pub(super) fn expire(&mut self, oldest: Millis, max_rows: usize) -> Option<u64> {
        let n_old = self.all_times.partition_point(|&t| t < oldest);
        let n_excess = self.all_times.len().saturating_sub(max_rows);
        self.n_expired = self.n_expired.max(n_old).max(n_excess);
        let n_kept = self.all_times.len() - self.n_expired;
        // One move per 24 rows or more: 360 rows of 8 bytes, 120 bytes moved per value at most.
        if self.n_expired < 24.max(n_kept / 16) && n_kept > 0 {
            return None;
        }
        self.all_times.drain(..self.n_expired);
        self.first_row += self.n_expired as u64;
        self.n_expired = 0;
        Some(self.first_row)
    }
}

impl Series {
    /// Removes values of rows before `first_row`; says how many.
    pub(super) fn cut_before(&mut self, first_row: u64) -> usize {
        let n = first_row.saturating_sub(self.first_row).min(self.values.len() as u64) as usize;
        self.values.drain(..n);
        self.first_row += n as u64;
        // A column that ended, or was longer once, should not hold memory for rows that will not come.
        if self.values.capacity() > self.values.len() + 64 {
            self.values.shrink_to(self.values.len() + 24);
        }
        n
    }
}
