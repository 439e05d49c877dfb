//! Aggregation: every series is sent to a group once, then its row is folded into the group's row.

use super::block::{ABSENT, Block, Row, present};
use super::grid::Grid;
use super::{Evaluator, pick, text_of};
use crate::annotations::Annotation;
use crate::error::{Error, Result};
use crate::format;
use crate::functions::stats::{Mean, Neumaier, quantile};
use crate::labels::{Grouper, Projection};
use crate::limits::Budget;
use crate::plan::{Aggregate, AggregateOp, escapes};

pub(crate) fn eval(ev: &Evaluator<'_>, aggregate: &Aggregate, grid: Grid) -> Result<Block> {
    let Aggregate { op, param, expr, grouping } = aggregate;
    if *op == AggregateOp::CountValues {
        let label = text_of(param.as_ref())?;
        let input = ev.vector(expr, grid)?;
        return count_values(ev, &input, label, grouping);
    }
    let param = param.as_ref().map(|p| ev.scalar(p, grid)).transpose()?.unwrap_or_default();
    let input = ev.vector(expr, grid)?;
    let groups = Groups::of(ev.budget, &input, grouping)?;
    match op {
        AggregateOp::Quantile => {
            check_quantile(ev, &param);
            groups.finish(ev.budget, &input, |cells| quantiles(ev.budget, &input, &groups, &param, cells))
        }
        AggregateOp::TopK | AggregateOp::BottomK | AggregateOp::LimitK | AggregateOp::LimitRatio => {
            pick::eval(ev, *op, input, &groups, &param)
        }
        _ => groups.finish(ev.budget, &input, |cells| fold(ev.budget, *op, &input, &groups, cells)),
    }
}

/// Which group each row of a block belongs to.
pub(super) struct Groups<'g> {
    grouping: &'g Projection,
    pub(super) of_row: Vec<usize>,
    first: Vec<crate::labels::Labels>,
}

impl<'g> Groups<'g> {
    fn of(budget: &Budget<'_>, input: &Block, grouping: &'g Projection) -> Result<Self> {
        let mut grouper = Grouper::new(grouping, budget);
        let of_row = grouper.ordinals(&input.rows)?;
        Ok(Self { grouping, of_row, first: grouper.into_first() })
    }

    pub(super) fn len(&self) -> usize {
        self.first.len()
    }

    /// For each group its rows in order.
    pub(super) fn members(&self, budget: &Budget<'_>) -> Result<Vec<Vec<usize>>> {
        budget.take_all::<Vec<usize>>(self.len())?;
        budget.take_all::<usize>(2 * self.of_row.len())?;
        let mut members = vec![Vec::new(); self.len()];
        self.of_row.iter().enumerate().for_each(|(row, &group)| members[group].push(row));
        Ok(members)
    }

    /// A block with one row per group, whose cells `fill` writes.
    fn finish(
        &self,
        budget: &Budget<'_>,
        input: &Block,
        fill: impl FnOnce(&mut [f64]) -> Result<()>,
    ) -> Result<Block> {
        budget.take_all::<Row>(self.len())?;
        budget.take_all::<f64>(self.len().saturating_mul(input.width))?;
        let mut drop_name = vec![false; self.len()];
        self.of_row.iter().zip(&input.rows).for_each(|(&group, row)| drop_name[group] |= row.drop_name);
        let mut cells = vec![ABSENT; self.len() * input.width];
        fill(&mut cells)?;
        let label = |(first, drop_name): (&_, _)| {
            budget.work(1)?;
            Ok(Row { labels: budget.labels(self.grouping.apply(first))?, drop_name })
        };
        let rows = self.first.iter().zip(drop_name).map(label).collect::<Result<_>>()?;
        Ok(Block { width: input.width, rows, cells }.compacted())
    }
}

/// Folds every present cell into its group's state with `add`, then writes what `result` makes of it.
fn fold_with<S: Clone>(
    budget: &Budget<'_>,
    input: &Block,
    groups: &Groups<'_>,
    out: &mut [f64],
    start: impl Fn(f64) -> S,
    add: impl Fn(&mut S, f64),
    result: impl Fn(&S) -> f64,
) -> Result<()> {
    let width = input.width;
    budget.take_all::<Option<S>>(out.len())?;
    let mut states: Vec<Option<S>> = vec![None; out.len()];
    for ((_, cells), &group) in input.iter().zip(&groups.of_row) {
        budget.work(width)?;
        let states = &mut states[group * width..(group + 1) * width];
        for (state, &value) in states.iter_mut().zip(cells).filter(|(_, v)| present(**v)) {
            match state {
                Some(state) => add(state, value),
                None => *state = Some(start(value)),
            }
        }
    }
    for (cell, state) in out.iter_mut().zip(&states) {
        if let Some(state) = state {
            *cell = result(state);
        }
    }
    Ok(())
}

fn fold(
    budget: &Budget<'_>,
    op: AggregateOp,
    input: &Block,
    groups: &Groups<'_>,
    out: &mut [f64],
) -> Result<()> {
    let greatest = |keep_new: fn(f64, f64) -> bool, out: &mut [f64]| {
        fold_with(
            budget,
            input,
            groups,
            out,
            |v| v,
            |best, v| {
                if keep_new(*best, v) || best.is_nan() {
                    *best = v;
                }
            },
            |best| *best,
        )
    };
    match op {
        AggregateOp::Sum => {
            fold_with(budget, input, groups, out, Neumaier::new, Neumaier::add, Neumaier::sum)
        }
        AggregateOp::Avg => fold_with(budget, input, groups, out, Mean::new, Mean::add, Mean::mean),
        AggregateOp::Count => fold_with(budget, input, groups, out, |_| 1.0, |n, _| *n += 1.0, |n| *n),
        AggregateOp::Min => greatest(|best, v| best > v, out),
        AggregateOp::Max => greatest(|best, v| best < v, out),
        AggregateOp::Stddev => {
            fold_with(budget, input, groups, out, Spread::new, Spread::add, |s| s.variance().sqrt())
        }
        AggregateOp::Stdvar => {
            fold_with(budget, input, groups, out, Spread::new, Spread::add, Spread::variance)
        }
        _ => fold_with(budget, input, groups, out, |_| (), |(), _| {}, |()| 1.0),
    }
}

/// Welford's running variance.
#[derive(Clone)]
struct Spread {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Spread {
    fn new(value: f64) -> Self {
        Self { count: 1.0, mean: value, squares: if value.is_finite() { 0.0 } else { f64::NAN } }
    }

    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let delta = value - self.mean;
        self.mean += delta / self.count;
        self.squares += delta * (value - self.mean);
    }

    fn variance(&self) -> f64 {
        self.squares / self.count
    }
}

fn check_quantile(ev: &Evaluator<'_>, param: &[f64]) {
    let outside = |q: &&f64| !(0.0..=1.0).contains(*q);
    for &got in param.iter().filter(outside) {
        ev.annotate(Annotation::InvalidQuantile { got });
    }
}

fn quantiles(
    budget: &Budget<'_>,
    input: &Block,
    groups: &Groups<'_>,
    param: &[f64],
    out: &mut [f64],
) -> Result<()> {
    let mut values = Vec::new();
    for (members, cells) in groups.members(budget)?.iter().zip(out.chunks_exact_mut(input.width.max(1))) {
        budget.take_all::<f64>(members.len())?;
        for (step, cell) in cells.iter_mut().enumerate() {
            // Sorting a thousand values compares ten thousand times.
            budget.work(8 * members.len() + 1)?;
            values.clear();
            values.extend(members.iter().map(|&r| input.row(r)[step]).filter(|&v| present(v)));
            if !values.is_empty() {
                *cell = quantile(param.get(step).copied().unwrap_or(f64::NAN), &mut values);
            }
        }
    }
    Ok(())
}

/// One series per value that occurs: how many series of the group have it.
fn count_values(ev: &Evaluator<'_>, input: &Block, label: &str, grouping: &Projection) -> Result<Block> {
    if label.is_empty() || !escapes::is_text(label) {
        return Err(Error::Evaluation(format!("invalid label name {}", escapes::show(label))));
    }
    let grouping = match grouping {
        Projection::Only(names) => {
            let mut names = names.clone();
            names.push(label.into());
            Projection::Only(names)
        }
        without => without.clone(),
    };
    let mut grouper = Grouper::new(&grouping, ev.budget);
    let mut counts: Vec<f64> = Vec::new();
    for (row, cells) in input.iter() {
        let mut last: Option<(u64, usize)> = None;
        ev.budget.work(input.width)?;
        for (step, &value) in cells.iter().enumerate().filter(|(_, v)| present(**v)) {
            let group = match last {
                Some((bits, group)) if bits == value.to_bits() => group,
                _ => {
                    let shown = format::plain(value);
                    let labels = row.labels.with(label, &shown);
                    ev.budget.take(labels.footprint() + shown.len())?;
                    grouper.ordinal(&labels)?
                }
            };
            last = Some((value.to_bits(), group));
            if counts.len() < grouper.len() * input.width {
                ev.budget.spend(input.width)?;
                ev.budget.row(input.width)?;
                counts.resize(grouper.len() * input.width, ABSENT);
            }
            let count = &mut counts[group * input.width + step];
            *count = if present(*count) { *count + 1.0 } else { 1.0 };
        }
    }
    let rows = grouper.into_first();
    let row = |l| Ok(Row { labels: ev.budget.labels(grouping.apply(l))?, drop_name: false });
    let rows = rows.iter().map(row).collect::<Result<_>>()?;
    Ok(Block { width: input.width, rows, cells: counts })
}
