//! The store at one moment: what queries read, without a lock, while scrapes go on.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use promql::{Budget, Labels, Matcher, Result, SeriesSource, SeriesView, TimeRange, is_stale};

use super::index::Index;
use super::target::Times;
use super::{Figures, Options, Series, Store};
use crate::Millis;

/// Shares its columns with the store: it costs some bytes a series.
#[derive(Debug, Clone)]
pub struct View {
    options: Options,
    /// By slot.
    series: Vec<Option<Arc<Series>>>,
    times: HashMap<Arc<str>, Times>,
    index: Arc<Index>,
}

impl Store {
    pub fn view(&self) -> View {
        View {
            options: self.options,
            series: self.slots.iter().map(|slot| slot.series.clone()).collect(),
            times: self.targets.iter().map(|(name, target)| (name.clone(), target.times.clone())).collect(),
            index: self.index.clone(),
        }
    }
}

impl View {
    pub fn options(&self) -> Options {
        self.options
    }

    /// The time of the newest sample.
    pub fn latest(&self) -> Option<Millis> {
        self.times.values().filter_map(Times::last).max()
    }

    /// The series with samples in `range` that any of the selectors accepts, sorted.
    pub fn series_labels(
        &self,
        selectors: &[Vec<Matcher>],
        range: TimeRange,
        budget: &Budget<'_>,
    ) -> Result<Vec<Labels>> {
        /// What a set keeps for each of its elements, a copy for the answer included.
        const ENTRY: usize = 4 * size_of::<Labels>();
        let mut found = BTreeSet::new();
        for matchers in selectors {
            self.select(matchers, range, budget, &mut |series| {
                budget.work(16 + series.values.len() / 4)?;
                if series.values.iter().any(|v| !is_stale(*v)) && found.insert(series.labels.clone()) {
                    budget.take(ENTRY)?;
                }
                Ok(())
            })?;
        }
        Ok(found.into_iter().collect())
    }

    pub fn figures(&self) -> Figures {
        let mut seconds = HashSet::new();
        let mut figures = Figures::default();
        for times in self.times.values() {
            seconds.extend(times.visible().iter().map(|t| t.div_euclid(1000)));
        }
        for series in self.series.iter().flatten() {
            let Some(times) = self.times.get(&series.target) else { continue };
            let (_, rows) = times.of(series);
            let n = series.column.values(rows).filter(|v| !is_stale(*v)).count();
            figures.total_points += n;
            figures.series_count += usize::from(n > 0);
        }
        figures.timestamp_buckets = seconds.len();
        figures
    }

    /// Targets by name, each with its series.
    pub(crate) fn targets(&self) -> Vec<(&Arc<str>, &Times, Vec<&Series>)> {
        let mut series: HashMap<&str, Vec<&Series>> = HashMap::new();
        for one in self.series.iter().flatten() {
            series.entry(&one.target).or_default().push(one);
        }
        let with_series = |(name, times)| {
            let name: &Arc<str> = name;
            (name, times, series.remove(&**name).unwrap_or_default())
        };
        let mut all: Vec<_> = self.times.iter().map(with_series).collect();
        all.sort_by_key(|(name, ..)| *name);
        all
    }
}

impl SeriesSource for View {
    fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        budget: &Budget<'_>,
        visit: &mut dyn FnMut(SeriesView<'_>) -> Result<()>,
    ) -> Result<()> {
        let (candidates, rest) = self.index.candidates(matchers, budget)?;
        let mut read: Vec<f64> = Vec::new();
        let mut visit_slot = |slot: usize| -> Result<()> {
            budget.work(1 + rest.len())?;
            let Some(Some(series)) = self.series.get(slot) else { return Ok(()) };
            if !rest.iter().all(|m| m.matches(series.labels.get(&m.name))) {
                return Ok(());
            }
            let Some(times) = self.times.get(&series.target) else { return Ok(()) };
            let (times, rows) = times.of(series);
            let from = times.partition_point(|&t| t < range.min);
            let to = from + times[from..].partition_point(|&t| t <= range.max);
            if from == to {
                return Ok(());
            }
            read.clear();
            read.extend(series.column.values(rows.start + from..rows.start + to));
            visit(SeriesView { labels: &series.labels, timestamps: &times[from..to], values: &read })
        };
        match candidates {
            Some(slots) => slots.iter().try_for_each(|&slot| visit_slot(slot as usize)),
            None => (0..self.series.len()).try_for_each(visit_slot),
        }
    }
}
