//! One target: the times of its scrapes and the series it brought.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use promql::Labels;

use super::Series;
use crate::Millis;

#[derive(Debug, Default)]
pub(crate) struct Target {
    pub(super) times: Times,
    pub(crate) slots: Vec<u32>,
    pub(super) by_labels: HashMap<ByText, u32>,
}

/// When the target was scraped. Rows are numbered from the first scrape on and never renumbered. A clone is cheap.
#[derive(Debug, Default, Clone)]
pub(crate) struct Times {
    /// One time per kept row, ascending.
    all: Arc<Vec<Millis>>,
    /// The number of the first kept row.
    first_row: u64,
    /// How many kept rows are too old to be seen; they are removed in batches.
    n_expired: usize,
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
        let times = Times { all: times.into(), ..Times::default() };
        Self { times, ..Self::default() }
    }
}

impl Times {
    /// The times that queries may see.
    pub(crate) fn visible(&self) -> &[Millis] {
        &self.all[self.n_expired..]
    }

    pub(crate) fn last(&self) -> Option<Millis> {
        self.all.last().copied()
    }

    /// The row of the first time that queries may see.
    pub(crate) fn first_visible_row(&self) -> u64 {
        self.first_row + self.n_expired as u64
    }

    /// Starts a row and returns its number.
    pub(super) fn push_row(&mut self, time: Millis) -> u64 {
        Arc::make_mut(&mut self.all).push(time);
        self.first_row + self.all.len() as u64 - 1
    }

    /// The visible times of a series, and where in its column their values are.
    pub(crate) fn of(&self, series: &Series) -> (&[Millis], Range<usize>) {
        let from = self.first_visible_row().max(series.first_row);
        let first = ((from - series.first_row) as usize).min(series.column.len());
        let times = self.all.get((from - self.first_row) as usize..).unwrap_or_default();
        let n = (series.column.len() - first).min(times.len());
        (&times[..n], first..first + n)
    }

    /// Hides rows older than `oldest` and all but the newest `max_rows`. Says from which row on columns should be
    /// kept, once enough rows are hidden to be worth the walk over all series.
    pub(super) fn expire(&mut self, oldest: Millis, max_rows: usize) -> Option<u64> {
        let n_old = self.all.partition_point(|&t| t < oldest);
        let n_excess = self.all.len().saturating_sub(max_rows);
        self.n_expired = self.n_expired.max(n_old).max(n_excess);
        let n_kept = self.all.len() - self.n_expired;
        if self.n_expired < 24.max(n_kept / 16) && n_kept > 0 {
            return None;
        }
        Arc::make_mut(&mut self.all).drain(..self.n_expired);
        self.first_row += self.n_expired as u64;
        self.n_expired = 0;
        Some(self.first_row)
    }
}

impl Series {
    /// Removes values of rows before `first_row`; says how many.
    pub(super) fn cut_before(&mut self, first_row: u64) -> usize {
        let n = first_row.saturating_sub(self.first_row).min(self.column.len() as u64) as usize;
        self.column.cut(n);
        self.first_row += n as u64;
        n
    }
}
