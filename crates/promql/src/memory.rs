//! A source that holds its series in memory, for tests, files and tools.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::labels::{ByHash, Interner, Labels, METRIC_NAME};
use crate::limits::Budget;
use crate::source::{Matcher, SeriesSource, SeriesView, TimeRange};

/// Series in the order in which they were added.
#[derive(Debug, Default)]
pub struct MemorySource {
    series: Vec<Series>,
    by_labels: ByHash<Labels, usize>,
    /// Nearly every selector names its metric.
    by_name: HashMap<Arc<str>, Vec<usize>>,
    strings: Interner,
}

#[derive(Debug)]
struct Series {
    labels: Labels,
    timestamps: Vec<i64>,
    values: Vec<f64>,
    /// Samples that are kept only so that a query which would read them is refused, see [`Refusal`].
    refused: Vec<(i64, Refusal)>,
}

/// Why a stored sample cannot be evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    NativeHistogram,
    /// The sample says when its counter began; taking that into account is an experiment of Prometheus.
    StartTimestamp,
}

impl MemorySource {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sample. Samples of one series must come in the order of their times.
    pub fn push(&mut self, labels: &Labels, timestamp: i64, value: f64) -> Result<()> {
        let series = self.series_mut(labels);
        if series.timestamps.last().is_some_and(|&last| last >= timestamp) {
            return Err(Error::Source(format!(
                "sample of {labels} at {timestamp} ms is not newer than the last one"
            )));
        }
        series.timestamps.push(timestamp);
        series.values.push(value);
        Ok(())
    }

    /// Adds samples at `start`, `start + interval`, …
    pub fn push_all(&mut self, labels: &Labels, start: i64, interval: i64, values: &[f64]) -> Result<()> {
        values.iter().zip(0..).try_for_each(|(&v, i)| self.push(labels, start + i * interval, v))
    }

    /// Notes a sample that no query may read.
    pub fn push_refused(&mut self, labels: &Labels, timestamp: i64, why: Refusal) {
        self.series_mut(labels).refused.push((timestamp, why));
    }

    fn series_mut(&mut self, labels: &Labels) -> &mut Series {
        let at = *self.by_labels.entry(labels.clone()).or_insert_with(|| {
            let labels = self.strings.share(labels);
            self.by_name.entry(labels.metric_name().into()).or_default().push(self.series.len());
            self.series.push(Series {
                labels,
                timestamps: Vec::new(),
                values: Vec::new(),
                refused: Vec::new(),
            });
            self.series.len() - 1
        });
        &mut self.series[at]
    }

    /// Series that may match, in the order in which they were added, and the matchers that are left to check.
    fn candidates<'m>(&self, matchers: &'m [Matcher]) -> (Vec<usize>, Vec<&'m Matcher>) {
        let exact = |m: &&Matcher| m.name == METRIC_NAME && m.exact_values().is_some();
        let Some(used) = matchers.iter().find(exact) else {
            return ((0..self.series.len()).collect(), matchers.iter().collect());
        };
        let names = used.exact_values().unwrap_or_default();
        let mut found: Vec<usize> =
            names.iter().filter_map(|n| self.by_name.get(n.as_str())).flatten().copied().collect();
        found.sort_unstable();
        found.dedup();
        (found, matchers.iter().filter(|m| !std::ptr::eq(*m, used)).collect())
    }
}

/// How many times come before the first that is not `early`. Looks from the end, in growing strides: most queries ask for
/// what was last, and a search by halves would touch memory all over the column.
fn count_early(times: &[i64], early: impl Fn(i64) -> bool) -> usize {
    let mut stride = 1;
    let mut high = times.len();
    while high > 0 {
        let low = high.saturating_sub(stride);
        if early(times[low]) {
            return low + times[low..high].partition_point(|&t| early(t));
        }
        high = low;
        stride *= 2;
    }
    0
}

impl SeriesSource for MemorySource {
    fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        budget: &Budget<'_>,
        visit: &mut dyn FnMut(SeriesView<'_>) -> Result<()>,
    ) -> Result<()> {
        let (candidates, rest) = self.candidates(matchers);
        for series in candidates.into_iter().map(|at| &self.series[at]) {
            budget.work(1 + rest.len())?;
            if !rest.iter().all(|m| m.matches(series.labels.get(&m.name))) {
                continue;
            }
            let asked = series.refused.iter().find(|(t, _)| (range.min..=range.max).contains(t));
            match asked {
                Some((_, Refusal::NativeHistogram)) => {
                    return Err(Error::NativeHistogram(series.labels.clone()));
                }
                Some((_, Refusal::StartTimestamp)) => {
                    return Err(Error::Experimental { what: "start timestamps", line: 1, column: 1 });
                }
                None => {}
            }
            let to = count_early(&series.timestamps, |t| t <= range.max);
            let from = count_early(&series.timestamps[..to], |t| t < range.min);
            if from < to {
                visit(SeriesView {
                    labels: &series.labels,
                    timestamps: &series.timestamps[from..to],
                    values: &series.values[from..to],
                })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_asked_samples_are_found_wherever_they_are() {
        for n in 0..20i64 {
            let times: Vec<i64> = (0..n).map(|i| i * 10).collect();
            for bound in -5..n * 10 + 5 {
                let expected = times.iter().filter(|&&t| t < bound).count();
                assert_eq!(count_early(&times, |t| t < bound), expected, "{bound} in {n}");
            }
        }
    }
}
