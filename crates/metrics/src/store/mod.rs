//! The last half hour of every wanted series, in memory.
//!
//! All series of a target are read in one scrape, so they share one column of times; each series has a column of
//! values beside it. A value costs 8 bytes and needs no decoding. Where a series was missing from a scrape, its column
//! holds a stale marker, which ends it for queries. Queries read a [`View`], which shares the columns: scrapes do not
//! wait for them.
//!
//! A sample gets the time of its scrape: timestamps that targets write are read and dropped. That keeps the columns
//! aligned, and an autoscaler wants to know when a figure was seen.

mod batch;
mod column;
mod evict;
mod index;
mod target;
#[cfg(test)]
mod tests;
mod view;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use promql::{Interner, Labels};
use serde::Serialize;

pub use batch::{Batch, Committed};
pub(crate) use column::Column;
use index::Index;
pub(crate) use target::Target;
pub use view::View;

use crate::Millis;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How long samples are kept, in milliseconds.
    pub retention: Millis,
    /// Series of all targets. A series of 30 minutes at 5 s takes 3 KB.
    pub max_series: usize,
    /// Scrapes of one target, whatever its interval: 1,801 are 30 minutes at 1 s.
    pub max_rows: usize,
    /// Values of all series, 8 bytes each. Beyond it the targets that are scraped lose their oldest rows first.
    pub max_points: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { retention: 30 * 60_000, max_series: 50_000, max_rows: 1_801, max_points: 25_000_000 }
    }
}

/// A series in the store. It stays valid until the series is evicted or expires; the store notices when it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeriesRef {
    store: u32,
    slot: u32,
    generation: u32,
}

#[derive(Debug)]
pub struct Store {
    /// Tells its references from those of a store that was replaced by a snapshot.
    id: u32,
    options: Options,
    slots: Vec<Slot>,
    free: Vec<u32>,
    targets: HashMap<Arc<str>, Target>,
    index: Arc<Index>,
    interner: Interner,
    /// Values held, hidden ones and stale markers included.
    n_points: usize,
    counters: Counters,
}

/// What happened since the store was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Ended series that had to make room before they expired.
    pub evicted: u64,
    /// New series that found the store full of living ones.
    pub refused: u64,
    /// Samples of a series that the same scrape had brought already.
    pub duplicates: u64,
}

/// What is in the store, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Distinct seconds in which something was scraped.
    pub timestamp_buckets: usize,
    /// Distinct series with samples.
    pub series_count: usize,
    /// Samples, without stale markers.
    pub total_points: usize,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    series: Option<Arc<Series>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) labels: Labels,
    target: Arc<str>,
    /// The row of its target that its first value belongs to.
    pub(crate) first_row: u64,
    pub(crate) column: Column,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("a scrape at {time} ms is not newer than the last one at {last} ms")]
    NotNewer { time: Millis, last: Millis },
    /// The caller's cache is older than the store: it should forget it and read the body again.
    #[error("a series reference points to a series that is gone")]
    Gone,
}

// === impl Store ===

impl Store {
    pub fn new(options: Options) -> Self {
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            options,
            slots: Vec::new(),
            free: Vec::new(),
            targets: HashMap::new(),
            index: Arc::default(),
            interner: Interner::default(),
            n_points: 0,
            counters: Counters::default(),
        }
    }

    pub fn options(&self) -> Options {
        self.options
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Forgets what is older than the retention, also of targets that are scraped no more.
    pub fn expire(&mut self, now: Millis) {
        let names: Vec<Arc<str>> = self.targets.keys().cloned().collect();
        for name in names {
            self.expire_target(&name, now);
        }
        self.interner.shrink();
    }

    pub(crate) fn series(&self, slot: u32) -> Option<&Series> {
        self.slots.get(slot as usize)?.series.as_deref()
    }

    fn series_mut(&mut self, slot: u32) -> Option<&mut Series> {
        self.slots.get_mut(slot as usize)?.series.as_mut().map(Arc::make_mut)
    }

    pub(crate) fn n_series(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Series {
    /// The first row behind its values.
    pub(crate) fn end_row(&self) -> u64 {
        self.first_row + self.column.len() as u64
    }

    fn is_ended(&self) -> bool {
        self.column.last().is_none_or(promql::is_stale)
    }

    /// Appends at `row`, with stale markers where the series was missing in between. Returns how many values that makes.
    fn append(&mut self, row: u64, value: f64) -> usize {
        let n_missing = row.saturating_sub(self.end_row()) as usize;
        self.column.reserve(n_missing + 1);
        for _ in 0..n_missing {
            self.column.push(promql::STALE);
        }
        self.column.push(value);
        n_missing + 1
    }
}
