//! A source that holds its series in memory, for tests, files and tools.

use crate::error::{Error, Result};
use crate::labels::{ByHash, Labels};
use crate::source::{Matcher, SeriesSource, SeriesView, TimeRange};

/// Series in the order in which they were added.
#[derive(Debug, Default)]
pub struct MemorySource {
    series: Vec<Series>,
    by_labels: ByHash<Labels, usize>,
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
            let labels = labels.clone();
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
}

impl SeriesSource for MemorySource {
    fn select(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        visit: &mut dyn FnMut(SeriesView<'_>) -> Result<()>,
    ) -> Result<()> {
        let matching =
            self.series.iter().filter(|s| matchers.iter().all(|m| m.matches(s.labels.get(&m.name))));
        for series in matching {
            let asked = series.refused.iter().find(|(t, _)| (range.min..=range.max).contains(t));
            match asked {
                Some((_, Refusal::NativeHistogram)) => {
                    return Err(Error::NativeHistogram(series.labels.clone()));
                }
                Some((_, Refusal::StartTimestamp)) => {
                    return Err(Error::Unsupported(format!("a start timestamp on {}", series.labels)));
                }
                None => {}
            }
            let from = series.timestamps.partition_point(|&t| t < range.min);
            let to = series.timestamps.partition_point(|&t| t <= range.max);
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
