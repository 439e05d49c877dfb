//! One scrape of one target: all of it is stored, or nothing.

use std::sync::Arc;

use promql::{Labels, STALE};

use super::target::ByText;
use super::{Column, Error, Series, SeriesRef, Slot, Store, Target};
use crate::Millis;

/// The samples of one scrape.
#[derive(Debug, Default, Clone)]
pub struct Batch {
    known: Vec<(SeriesRef, f64)>,
    fresh: Vec<Fresh>,
}

/// A sample whose series the caller cannot name yet.
#[derive(Debug, Clone)]
struct Fresh {
    labels: Labels,
    value: f64,
    /// How the target writes the series, and where in the scrape it stood: what a cache wants to learn.
    raw: Option<(Box<str>, u32)>,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub struct Committed {
    /// Samples stored.
    pub n_samples: usize,
    /// Texts of series and what to call them from now on, see [`crate::text::SeriesCache::finish`].
    pub learned: Vec<(Box<str>, SeriesRef, u32)>,
}

impl Batch {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn with_capacity(n: usize) -> Self {
        Self { known: Vec::with_capacity(n), fresh: Vec::new() }
    }

    pub fn push_known(&mut self, series: SeriesRef, value: f64) {
        self.known.push((series, value));
    }

    /// `labels` must hold the target's own labels, among them one that tells it from every other target: the store
    /// keeps series by target and does not compare them across.
    pub fn push_fresh(&mut self, labels: Labels, value: f64, raw: Option<(Box<str>, u32)>) {
        self.fresh.push(Fresh { labels, value, raw });
    }

    pub fn len(&self) -> usize {
        self.known.len() + self.fresh.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Store {
    /// Stores one scrape. Series of the target that the batch does not hold end here: an empty batch, as after a
    /// failed scrape or for a target that is gone, ends all of them.
    pub fn commit(&mut self, target: &str, time: Millis, batch: Batch) -> Result<Committed, Error> {
        let known_target = self.targets.get_key_value(target).map(|(name, _)| name.clone());
        if batch.known.iter().any(|(series, _)| !self.is_of(*series, target)) {
            return Err(Error::Gone);
        }
        let name = match known_target {
            Some(name) => name,
            None if batch.is_empty() => return Ok(Committed::default()),
            None => Arc::from(target),
        };
        let entry = self.targets.entry(name.clone()).or_default();
        if let Some(last) = entry.times.last().filter(|last| *last >= time) {
            return Err(Error::NotNewer { time, last });
        }
        if batch.is_empty() && !self.has_living(&name) {
            self.expire_target(&name, time);
            return Ok(Committed::default());
        }
        let Some(row) = self.targets.get_mut(&name).map(|t| t.times.push_row(time)) else {
            return Ok(Committed::default());
        };
        let mut committed = Committed::default();
        for (series, value) in batch.known {
            committed.n_samples += self.write(series.slot, row, value);
        }
        // Nothing ends while a batch is stored: once there is no room there will be none.
        let mut is_full = false;
        for Fresh { labels, value, raw } in batch.fresh {
            let Some(series) = self.resolve(&name, labels, row, &mut is_full) else { continue };
            committed.n_samples += self.write(series.slot, row, value);
            committed.learned.extend(raw.map(|(raw, position)| (raw, series, position)));
        }
        self.end_missing(&name, row);
        self.expire_target(&name, time);
        Ok(committed)
    }

    fn is_of(&self, series: SeriesRef, target: &str) -> bool {
        let slot = self.slots.get(series.slot as usize).filter(|_| series.store == self.id);
        slot.is_some_and(|slot| {
            slot.generation == series.generation && slot.series.as_ref().is_some_and(|s| *s.target == *target)
        })
    }

    fn has_living(&self, target: &str) -> bool {
        let slots = self.targets.get(target).map_or(&[][..], |t| &t.slots);
        slots.iter().filter_map(|&slot| self.series(slot)).any(|s| !s.is_ended())
    }

    /// Returns how many samples were stored: the first one of a series in a scrape counts.
    fn write(&mut self, slot: u32, row: u64, value: f64) -> usize {
        let Some(series) = self.series_mut(slot) else { return 0 };
        if series.end_row() > row {
            self.counters.duplicates += 1;
            return 0;
        }
        self.n_points += series.append(row, value);
        1
    }

    /// The series with these labels, made if there is room for it.
    pub(crate) fn resolve(
        &mut self,
        target: &Arc<str>,
        labels: Labels,
        row: u64,
        is_full: &mut bool,
    ) -> Option<SeriesRef> {
        let key = ByText(labels);
        let known = self.targets.get(target)?.by_labels.get(&key).copied();
        if let Some(slot) = known {
            let generation = self.slots.get(slot as usize)?.generation;
            return Some(SeriesRef { store: self.id, slot, generation });
        }
        if self.n_series() >= self.options.max_series && (*is_full || !self.make_room()) {
            *is_full = true;
            self.counters.refused += 1;
            return None;
        }
        let interner = &mut self.interner;
        let labels = Labels::from_pairs(key.0.iter().map(|(n, v)| (interner.intern(n), interner.intern(v))));
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        Arc::make_mut(&mut self.index).insert(&labels, slot, &mut self.interner);
        let owner = self.targets.get_mut(target)?;
        owner.slots.push(slot);
        owner.by_labels.insert(ByText(labels.clone()), slot);
        let entry = self.slots.get_mut(slot as usize)?;
        let series = Series { labels, target: target.clone(), first_row: row, column: Column::default() };
        entry.series = Some(Arc::new(series));
        Some(SeriesRef { store: self.id, slot, generation: entry.generation })
    }

    fn end_missing(&mut self, target: &str, row: u64) {
        let Some(target) = self.targets.get(target) else { return };
        for &slot in &target.slots {
            let Some(series) = self.slots.get_mut(slot as usize).and_then(|s| s.series.as_mut()) else {
                continue;
            };
            if series.end_row() <= row && !series.is_ended() {
                self.n_points += Arc::make_mut(series).append(row, STALE);
            }
        }
    }
}

/// For [`crate::snapshot`].
impl Store {
    /// False if there is such a target already.
    pub(crate) fn restore_target(&mut self, name: &Arc<str>, target: Target) -> bool {
        self.targets.insert(name.clone(), target).is_none()
    }

    /// Adds a column to a restored target; the limit on series if it is reached.
    pub(crate) fn restore_series(
        &mut self,
        target: &Arc<str>,
        labels: Labels,
        first_row: u64,
        values: Vec<f64>,
    ) -> Result<(), usize> {
        let limit = self.options.max_series;
        let n_before = self.n_series();
        let series = self.resolve(target, labels, first_row, &mut true).ok_or(limit)?;
        // Of two columns with one name the first one stands.
        if self.n_series() > n_before
            && let Some(entry) = self.series_mut(series.slot)
        {
            let n_points = values.len();
            entry.column = values.into();
            self.n_points += n_points;
        }
        Ok(())
    }
}
