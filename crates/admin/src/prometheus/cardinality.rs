//! `status/tsdb`: where the series come from, the largest first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use metrics::{Millis, View};
use promql::{Budget, Labels, SeriesSource as _, TimeRange};
use serde_json::{Value as Json, json};

use super::answer::{Answer, ApiError, Result};
use crate::form::{self, Form};
use crate::operator::Shared;

const USUAL: usize = 10;
const MOST: usize = 10_000;

pub(super) async fn answer(shared: &Shared, form: &Form) -> Result<Answer> {
    let limit = match form.get("limit") {
        "" => USUAL,
        text => form::integer(text)
            .ok()
            .and_then(|limit| usize::try_from(limit).ok())
            .filter(|limit| *limit >= 1)
            .ok_or_else(|| ApiError::bad_data("limit must be a positive number"))?,
    };
    if limit > MOST {
        return Err(ApiError::bad_data(format!("limit must not exceed {MOST}")));
    }
    let counted = shared
        .runner
        .run(None, move |turn| Ok(Answer::new(&Counted::of(turn.view, turn.budget)?.shown(limit))));
    Ok(counted.await?)
}

struct Counted {
    n_series: usize,
    /// Label name → value → series that have it.
    series: BTreeMap<String, BTreeMap<String, usize>>,
    min: Millis,
    max: Millis,
}

impl Counted {
    fn of(view: &View, budget: &Budget<'_>) -> promql::Result<Self> {
        let mut counted = Self { n_series: 0, series: BTreeMap::new(), min: Millis::MAX, max: Millis::MIN };
        view.select(&[], TimeRange { min: Millis::MIN, max: Millis::MAX }, budget, &mut |series| {
            counted.add(series.labels, budget)?;
            counted.min = counted.min.min(series.timestamps.first().copied().unwrap_or(Millis::MAX));
            counted.max = counted.max.max(series.timestamps.last().copied().unwrap_or(Millis::MIN));
            Ok(())
        })?;
        Ok(counted)
    }

    fn add(&mut self, labels: &Labels, budget: &Budget<'_>) -> promql::Result<()> {
        /// What a map keeps for an entry.
        const ENTRY: usize = 96;
        self.n_series += 1;
        for (name, value) in labels.iter() {
            budget.work(4)?;
            if !self.series.contains_key(name) {
                self.series.insert(name.to_owned(), BTreeMap::new());
            }
            let Some(values) = self.series.get_mut(name) else { continue };
            match values.get_mut(value) {
                Some(n) => *n += 1,
                None => {
                    // Once here, and once more where the largest are looked for.
                    budget.take(2 * (ENTRY + name.len() + value.len()))?;
                    values.insert(value.to_owned(), 1);
                }
            }
        }
        Ok(())
    }

    fn shown(&self, limit: usize) -> Json {
        let values = || self.series.iter().map(|(name, values)| (name.clone(), values));
        let pairs = values()
            .flat_map(|(name, values)| values.iter().map(move |(value, n)| (format!("{name}={value}"), *n)));
        let metrics = self.series.get("__name__").into_iter().flatten().map(|(name, n)| (name.clone(), *n));
        // As Prometheus keeps them: each text with a byte for its length.
        let bytes = |name: &str, values: &BTreeMap<String, usize>| -> usize {
            values.iter().map(|(value, n)| (name.len() + value.len() + 2) * n).sum()
        };
        json!({
            "headStats": {
                "numSeries": self.n_series,
                "numLabelPairs": self.series.values().map(BTreeMap::len).sum::<usize>(),
                "chunkCount": 0,
                "minTime": self.min,
                "maxTime": self.max,
            },
            "seriesCountByMetricName": largest(metrics, limit),
            "labelValueCountByLabelName": largest(values().map(|(name, of)| (name, of.len())), limit),
            "memoryInBytesByLabelName": largest(
                values().map(|(name, of)| { let n = bytes(&name, of); (name, n) }),
                limit,
            ),
            "seriesCountByLabelValuePair": largest(pairs, limit),
        })
    }
}

fn largest(counts: impl Iterator<Item = (String, usize)>, limit: usize) -> Json {
    let mut all: Vec<(String, usize)> = counts.collect();
    all.sort_by_key(|(_, n)| Reverse(*n));
    all.into_iter().take(limit).map(|(name, n)| json!({ "name": name, "value": n })).collect()
}
