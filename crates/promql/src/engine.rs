//! The way in: a plan, a source, a time and limits go in, a value comes out.

use std::cell::{Cell, RefCell};

use crate::annotations::Annotations;
use crate::error::{Error, Result};
use crate::eval::block::{Block, present};
use crate::eval::grid::{Grid, Windows};
use crate::eval::{Evaluated, Evaluator, QueryTimes};
use crate::labels::{ByHash, Labels};
use crate::limits::{Budget, Limits};
use crate::plan::{Kind, Node, Plan};
use crate::source::SeriesSource;
use crate::value::{Point, QueryResult, Sample, Series, Value};

/// Times beyond this (in milliseconds, about 285,000 years) are refused, so that no sum of times overflows.
const MAX_TIME: i64 = 1 << 53;

/// What holds for all queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How old, in milliseconds, the latest sample of a series may be to stand for its present value.
    pub lookback: i64,
    /// The step of a subquery that does not name one, in milliseconds.
    pub subquery_step: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self { lookback: 5 * 60_000, subquery_step: 60_000 }
    }
}

/// Evaluates plans.
#[derive(Debug, Clone, Copy, Default)]
pub struct Engine {
    pub options: Options,
}

/// The times of a range query in milliseconds; `end` is included if a step falls on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    pub start: i64,
    pub end: i64,
    pub step: i64,
}

impl Engine {
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    /// The value at one time, in milliseconds since the epoch.
    pub fn query_instant(
        &self,
        plan: &Plan,
        source: &dyn SeriesSource,
        time: i64,
        limits: Limits<'_>,
    ) -> Result<QueryResult> {
        self.query_instant_within(plan, source, time, &Budget::new(limits))
    }

    /// As `query_instant`, within what is left of a budget: what writes the result goes on with it.
    pub fn query_instant_within(
        &self,
        plan: &Plan,
        source: &dyn SeriesSource,
        time: i64,
        budget: &Budget<'_>,
    ) -> Result<QueryResult> {
        let (result, _) = self.run_instant(plan, source, time, budget)?;
        Ok(result)
    }

    /// As `query_instant`; says also whether some selector found nothing.
    pub(crate) fn run_instant(
        &self,
        plan: &Plan,
        source: &dyn SeriesSource,
        time: i64,
        budget: &Budget<'_>,
    ) -> Result<(QueryResult, bool)> {
        check_time(time)?;
        let ev = self.evaluator(plan, source, QueryTimes { start: time, end: time, step: 0 }, budget)?;
        let grid = Grid::instant(time);
        let value = match plan.kind() {
            Kind::Matrix => Value::Matrix(raw(&ev, &plan.root, grid)?),
            _ => match ev.eval(&plan.root, grid)? {
                Evaluated::Text(text) => Value::String(text),
                Evaluated::Scalar(values) => {
                    Value::Scalar(Point { time, value: values.first().copied().unwrap_or(f64::NAN) })
                }
                Evaluated::Vector(block) => Value::Vector(vector(budget, block, time)?),
            },
        };
        Ok((QueryResult { value, annotations: ev.annotations.take() }, ev.missing.get()))
    }

    /// The values at every step; always a matrix.
    pub fn query_range(
        &self,
        plan: &Plan,
        source: &dyn SeriesSource,
        steps: Steps,
        limits: Limits<'_>,
    ) -> Result<QueryResult> {
        self.query_range_within(plan, source, steps, &Budget::new(limits))
    }

    /// As `query_range`, within what is left of a budget.
    pub fn query_range_within(
        &self,
        plan: &Plan,
        source: &dyn SeriesSource,
        steps: Steps,
        budget: &Budget<'_>,
    ) -> Result<QueryResult> {
        let Steps { start, end, step } = steps;
        check_time(start)?;
        check_time(end)?;
        if step <= 0 || step > MAX_TIME || end < start {
            return Err(Error::InvalidRange(format!(
                "a range query needs a step above zero and an end that is not before its start; got {start} to {end} by \
                 {step} ms"
            )));
        }
        let what = match plan.kind() {
            Kind::Matrix => "range vector",
            Kind::String => "string",
            Kind::Scalar | Kind::Vector => "",
        };
        if !what.is_empty() {
            return Err(Error::InvalidRange(format!(
                "invalid expression type \"{what}\" for range query, must be Scalar or instant Vector"
            )));
        }
        let ev = self.evaluator(plan, source, QueryTimes { start, end, step }, budget)?;
        let n_steps = ((end - start) / step) as u64 + 1;
        ev.budget.check_steps(n_steps)?;
        let grid = Grid { start, step, len: n_steps as usize };
        let series = match ev.eval(&plan.root, grid)? {
            Evaluated::Vector(block) => matrix(budget, block, grid)?,
            Evaluated::Scalar(values) => {
                budget.take_all::<Point>(grid.len)?;
                let points = grid.times().zip(values).map(|(time, value)| Point { time, value }).collect();
                vec![Series { labels: Labels::empty(), points }]
            }
            Evaluated::Text(_) => vec![],
        };
        Ok(QueryResult { value: Value::Matrix(series), annotations: ev.annotations.take() })
    }

    fn evaluator<'a>(
        &self,
        plan: &Plan,
        source: &'a dyn SeriesSource,
        query: QueryTimes,
        budget: &'a Budget<'a>,
    ) -> Result<Evaluator<'a>> {
        let limit = budget.limits.depth;
        if plan.depth() > limit {
            return Err(Error::TooComplex { what: "levels of nesting", got: plan.depth(), limit });
        }
        for (what, length) in [("lookback", self.options.lookback), ("step", self.options.subquery_step)] {
            if !(1..=MAX_TIME).contains(&length) {
                return Err(Error::InvalidRange(format!("a {what} of {length} ms is out of range")));
            }
        }
        Ok(Evaluator {
            source,
            options: self.options,
            budget,
            query,
            annotations: RefCell::new(Annotations::default()),
            missing: Cell::new(false),
        })
    }
}

/// Parses and evaluates at one time with default options.
pub fn query_instant(
    query: &str,
    source: &dyn SeriesSource,
    time: i64,
    limits: Limits<'_>,
) -> Result<QueryResult> {
    Engine::default().query_instant(&*crate::plan::parse(query)?, source, time, limits)
}

/// Parses and evaluates at every step with default options.
pub fn query_range(
    query: &str,
    source: &dyn SeriesSource,
    steps: Steps,
    limits: Limits<'_>,
) -> Result<QueryResult> {
    Engine::default().query_range(&*crate::plan::parse(query)?, source, steps, limits)
}

fn check_time(time: i64) -> Result<()> {
    if time.unsigned_abs() > MAX_TIME.unsigned_abs() {
        return Err(Error::InvalidRange(format!("the time {time} ms is out of range")));
    }
    Ok(())
}

/// Lets the names fall that were to fall.
fn final_labels(budget: &Budget<'_>, block: &Block) -> Result<Vec<Labels>> {
    budget.take_all::<Labels>(block.len())?;
    let mut labels = Vec::with_capacity(block.len());
    for row in &block.rows {
        budget.work(4)?;
        labels.push(match row.drop_name {
            true => budget.labels(row.labels.without_metadata())?,
            false => row.labels.clone(),
        });
    }
    Ok(labels)
}

fn vector(budget: &Budget<'_>, block: Block, time: i64) -> Result<Vec<Sample>> {
    let labels = final_labels(budget, &block)?;
    budget.take_all::<(Sample, [usize; 4])>(labels.len())?;
    let mut seen: ByHash<&Labels, ()> = ByHash::default();
    if labels.iter().any(|l| seen.insert(l, ()).is_some()) {
        return Err(Error::DuplicateLabelset);
    }
    let sample = |(labels, value)| Sample { labels, point: Point { time, value } };
    Ok(labels.into_iter().zip(block.cells).filter(|(_, v)| present(*v)).map(sample).collect())
}

fn matrix(budget: &Budget<'_>, mut block: Block, grid: Grid) -> Result<Vec<Series>> {
    budget.take_all::<i64>(grid.len)?;
    let times: Vec<i64> = grid.times().collect();
    let labels = final_labels(budget, &block)?;
    block.rows.iter_mut().zip(labels).for_each(|(row, labels)| row.labels = labels);
    let block = block.merged(budget)?;
    budget.take_all::<Series>(block.len())?;
    let mut series: Vec<Series> = Vec::with_capacity(block.len());
    for (row, cells) in block.iter() {
        let n_points = cells.iter().filter(|v| present(**v)).count();
        budget.take_all::<Point>(n_points)?;
        budget.work(cells.len())?;
        let there = times.iter().zip(cells).filter(|(_, v)| present(**v));
        let mut points = Vec::with_capacity(n_points);
        points.extend(there.map(|(&time, &value)| Point { time, value }));
        if !points.is_empty() {
            series.push(Series { labels: row.labels.clone(), points });
        }
    }
    series.sort_by(|a, b| a.labels.cmp(&b.labels));
    Ok(series)
}

/// An instant query for a range vector answers with the samples themselves.
fn raw(ev: &Evaluator<'_>, root: &Node, grid: Grid) -> Result<Vec<Series>> {
    if let Node::Subquery(subquery) = root {
        let windows = Windows { grid, reference: ev.reference(subquery.anchor), range: subquery.range };
        let found = ev.subquery(subquery, &windows)?;
        return match found {
            Some((inner, block)) => matrix(ev.budget, block, inner),
            None => Ok(vec![]),
        };
    }
    let mut all = Vec::new();
    ev.select_ranges(root, grid, |series, windows| {
        ev.budget.take_all::<Point>(series.times.len())?;
        ev.budget.take_all::<Series>(1)?;
        let mut points = Vec::new();
        windows.run(series.times, series.values, &mut [0.0], |w| {
            points = w.times.iter().zip(w.values).map(|(&time, &value)| Point { time, value }).collect();
            1.0
        });
        if !points.is_empty() {
            all.push(Series { labels: series.labels.clone(), points });
        }
        Ok(())
    })?;
    all.sort_by(|a, b| a.labels.cmp(&b.labels));
    Ok(all)
}
