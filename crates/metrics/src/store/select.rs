//! What queries read.

use std::collections::BTreeSet;

use promql::{Labels, Matcher, Result, SeriesSource, SeriesView, TimeRange, is_stale};

use super::Store;

impl SeriesSource for Store {
    fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        visit: &mut dyn FnMut(SeriesView<'_>) -> Result<()>,
    ) -> Result<()> {
        let (candidates, rest) = self.index.candidates(matchers);
        let mut visit_slot = |slot: u32| -> Result<()> {
            let Some(series) = self.series(slot) else { return Ok(()) };
            if !rest.iter().all(|m| m.matches(series.labels.get(&m.name))) {
                return Ok(());
            }
            let Some(target) = self.targets.get(&series.target) else { return Ok(()) };
            let (times, values) = target.columns(series);
            let from = times.partition_point(|&t| t < range.min);
            let to = from + times[from..].partition_point(|&t| t <= range.max);
            if from == to {
                return Ok(());
            }
            visit(SeriesView {
                labels: &series.labels,
                timestamps: &times[from..to],
                values: &values[from..to],
            })
        };
        match candidates {
            Some(slots) => slots.iter().try_for_each(|&slot| visit_slot(slot)),
            None => (0..self.slots.len() as u32).try_for_each(visit_slot),
        }
    }
}

impl Store {
    /// The series with samples in `range` that any of the selectors accepts, sorted.
    pub fn series_labels(&self, selectors: &[Vec<Matcher>], range: TimeRange) -> Result<Vec<Labels>> {
        let mut found = BTreeSet::new();
        for matchers in selectors {
            self.select(matchers, range, &mut |series| {
                if series.values.iter().any(|v| !is_stale(*v)) {
                    found.insert(series.labels.clone());
                }
                Ok(())
            })?;
        }
        Ok(found.into_iter().collect())
    }
}
