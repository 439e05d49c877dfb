//! Reading series: the latest sample at each step, and windows of samples.

use super::Evaluator;
use super::block::{Block, Row};
use super::grid::{Grid, Windows};
use crate::error::Result;
use crate::labels::Labels;
use crate::plan::{Node, Selector, Subquery};
use crate::source::{Matcher, SeriesView, TimeRange, is_stale};

/// One series with all samples that its windows may need, without stale markers.
pub(crate) struct Ranged<'a> {
    pub(crate) labels: &'a Labels,
    /// The name is already to fall (a subquery over something that changed the meaning).
    pub(crate) drop_name: bool,
    pub(crate) times: &'a [i64],
    pub(crate) values: &'a [f64],
}

impl Evaluator<'_> {
    pub(crate) fn select_values(&self, selector: &Selector, grid: Grid) -> Result<Block> {
        self.select_latest(selector, grid, |_, value| value)
    }

    /// For each step the latest sample that is not older than the lookback, as `pick(time, value)`.
    pub(crate) fn select_latest(
        &self,
        selector: &Selector,
        grid: Grid,
        pick: impl Fn(i64, f64) -> f64,
    ) -> Result<Block> {
        let reference = self.reference(selector.anchor);
        let lookback = self.options.lookback;
        let windows = Windows { grid, reference, range: lookback };
        let mut block = Block::new(grid.len);
        self.read(&selector.matchers, windows.time_range(), &mut |series| {
            self.budget.spend(grid.len)?;
            self.budget.row(grid.len)?;
            block.push_with(
                || Row { labels: series.labels.clone(), drop_name: false },
                |out| latest(&series, &windows, out, &pick),
            );
            Ok(())
        })?;
        if block.rows.is_empty() {
            self.missing.set(true);
        }
        Ok(block)
    }

    /// Hands every series that a range selector or subquery yields to `visit`, and returns the windows to look through.
    pub(crate) fn select_ranges(
        &self,
        node: &Node,
        grid: Grid,
        mut visit: impl FnMut(Ranged<'_>, &Windows) -> Result<()>,
    ) -> Result<()> {
        match node.unwrapped() {
            Node::Window { select, range } => {
                let windows = Windows { grid, reference: self.reference(select.anchor), range: *range };
                let mut clean = Columns::default();
                let mut found = false;
                self.read(&select.matchers, windows.time_range(), &mut |series| {
                    let SeriesView { labels, mut timestamps, mut values } = series;
                    if values.iter().any(|&v| is_stale(v)) {
                        clean.fill(timestamps, values, |v| !is_stale(v));
                        (timestamps, values) = (&clean.times, &clean.values);
                    }
                    found |= !values.is_empty();
                    visit(Ranged { labels, drop_name: false, times: timestamps, values }, &windows)
                })?;
                if !found {
                    self.missing.set(true);
                }
                Ok(())
            }
            Node::Subquery(subquery) => {
                let windows =
                    Windows { grid, reference: self.reference(subquery.anchor), range: subquery.range };
                let Some((inner, block)) = self.subquery(subquery, &windows)? else { return Ok(()) };
                self.budget.take_all::<[i64; 3]>(inner.len)?;
                let times: Vec<i64> = inner.times().collect();
                let mut dense = Columns::default();
                for (row, cells) in block.iter() {
                    self.budget.work(inner.len + grid.len)?;
                    dense.fill(&times, cells, |v| !is_stale(v));
                    let ranged = Ranged {
                        labels: &row.labels,
                        drop_name: row.drop_name,
                        times: &dense.times,
                        values: &dense.values,
                    };
                    visit(ranged, &windows)?;
                }
                Ok(())
            }
            _ => Err(super::misplaced(node.kind())),
        }
    }

    /// Evaluates a subquery on all its steps that any window needs; none if there is no such step.
    pub(crate) fn subquery(&self, subquery: &Subquery, windows: &Windows) -> Result<Option<(Grid, Block)>> {
        let step = subquery.step.unwrap_or(self.options.subquery_step).max(1);
        let span = windows.time_range();
        // Steps are multiples of the step's length since the epoch, whatever the outer steps are.
        let start = (span.min - 1).div_euclid(step) * step + step;
        if start > span.max {
            return Ok(None);
        }
        let steps = ((span.max - start) / step) as u64 + 1;
        self.budget.check_steps(steps)?;
        let grid = Grid { start, step, len: steps as usize };
        Ok(Some((grid, self.vector(&subquery.expr, grid)?)))
    }

    fn read(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        visit: &mut dyn FnMut(SeriesView<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut n_series = 0;
        self.source.select(matchers, range, self.budget, &mut |series| {
            n_series += 1;
            self.budget.check_series(n_series)?;
            // A series costs something even without samples.
            self.budget.work(8)?;
            self.budget.spend(series.values.len())?;
            visit(series)
        })
    }
}

fn latest(
    series: &SeriesView<'_>,
    windows: &Windows,
    out: &mut [f64],
    pick: &impl Fn(i64, f64) -> f64,
) -> bool {
    windows.run(series.timestamps, series.values, out, |window| {
        let last = window.values.len() - 1;
        // A stale marker ends the series at once: what came before it does not count any more.
        if is_stale(window.values[last]) {
            super::block::ABSENT
        } else {
            pick(window.times[last], window.values[last])
        }
    })
}

/// A reused pair of columns.
#[derive(Default)]
struct Columns {
    times: Vec<i64>,
    values: Vec<f64>,
}

impl Columns {
    fn fill(&mut self, times: &[i64], values: &[f64], keep: impl Fn(f64) -> bool) {
        self.times.clear();
        self.values.clear();
        for (&t, &v) in times.iter().zip(values).filter(|(_, v)| keep(**v)) {
            self.times.push(t);
            self.values.push(v);
        }
    }
}
