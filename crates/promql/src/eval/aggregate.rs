//! Aggregation: every series is sent to a group once, then its row is folded into the group's row.

use super::block::{ABSENT, Block, Row, present};
use super::grid::Grid;
use super::{Evaluator, pick, text_of};
use crate::annotations::Annotation;
use crate::error::{Error, Result};
use crate::format;
use crate::functions::stats::{Mean, Neumaier, quantile};
use crate::labels::{Grouper, Projection};
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
    let groups = Groups::of(&input, grouping);
    match op {
        AggregateOp::Quantile => {
            check_quantile(ev, &param);
            Ok(groups.finish(&input, |cells| quantiles(&input, &groups, &param, cells)))
        }
        AggregateOp::TopK | AggregateOp::BottomK | AggregateOp::LimitK | AggregateOp::LimitRatio => {
            pick::eval(ev, *op, input, &groups, &param)
        }
        _ => Ok(groups.finish(&input, |cells| fold(*op, &input, &groups, cells))),
    }
}

/// Which group each row of a block belongs to.
pub(super) struct Groups<'g> {
    grouping: &'g Projection,
    pub(super) of_row: Vec<usize>,
    first: Vec<crate::labels::Labels>,
}

impl<'g> Groups<'g> {
    fn of(input: &Block, grouping: &'g Projection) -> Self {
        let mut grouper = Grouper::new(grouping);
        let of_row = input.rows.iter().map(|r| grouper.ordinal(&r.labels)).collect();
        Self { grouping, of_row, first: grouper.into_first() }
    }

    pub(super) fn len(&self) -> usize {
        self.first.len()
    }

    /// For each group its rows in order.
    pub(super) fn members(&self) -> Vec<Vec<usize>> {
        let mut members = vec![Vec::new(); self.len()];
        self.of_row.iter().enumerate().for_each(|(row, &group)| members[group].push(row));
        members
    }

    /// A block with one row per group, whose cells `fill` writes.
    fn finish(&self, input: &Block, fill: impl FnOnce(&mut [f64])) -> Block {
        let mut drop_name = vec![false; self.len()];
        self.of_row.iter().zip(&input.rows).for_each(|(&group, row)| drop_name[group] |= row.drop_name);
        let mut cells = vec![ABSENT; self.len() * input.width];
        fill(&mut cells);
        let label = |(first, drop_name): (&_, _)| Row { labels: self.grouping.apply(first), drop_name };
        Block { width: input.width, rows: self.first.iter().zip(drop_name).map(label).collect(), cells }
            .compacted()
    }
}

/// Folds every present cell into its group's state with `add`, then writes what `result` makes of it.
fn fold_with<S: Clone>(
    input: &Block,
    groups: &Groups<'_>,
    out: &mut [f64],
    start: impl Fn(f64) -> S,
    add: impl Fn(&mut S, f64),
    result: impl Fn(&S) -> f64,
) {
    let width = input.width;
    let mut states: Vec<Option<S>> = vec![None; out.len()];
    for ((_, cells), &group) in input.iter().zip(&groups.of_row) {
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
}

fn fold(op: AggregateOp, input: &Block, groups: &Groups<'_>, out: &mut [f64]) {
    let greatest = |keep_new: fn(f64, f64) -> bool, out: &mut [f64]| {
        fold_with(
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
        );
    };
    match op {
        AggregateOp::Sum => fold_with(input, groups, out, Neumaier::new, Neumaier::add, Neumaier::sum),
        AggregateOp::Avg => fold_with(input, groups, out, Mean::new, Mean::add, Mean::mean),
        AggregateOp::Count => fold_with(input, groups, out, |_| 1.0, |n, _| *n += 1.0, |n| *n),
        AggregateOp::Min => greatest(|best, v| best > v, out),
        AggregateOp::Max => greatest(|best, v| best < v, out),
        AggregateOp::Stddev => {
            fold_with(input, groups, out, Spread::new, Spread::add, |s| s.variance().sqrt())
        }
        AggregateOp::Stdvar => fold_with(input, groups, out, Spread::new, Spread::add, Spread::variance),
        _ => fold_with(input, groups, out, |_| (), |(), _| {}, |()| 1.0),
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

fn quantiles(input: &Block, groups: &Groups<'_>, param: &[f64], out: &mut [f64]) {
    let mut values = Vec::new();
    for (members, cells) in groups.members().iter().zip(out.chunks_exact_mut(input.width.max(1))) {
        for (step, cell) in cells.iter_mut().enumerate() {
            values.clear();
            values.extend(members.iter().map(|&r| input.row(r)[step]).filter(|&v| present(v)));
            if !values.is_empty() {
                *cell = quantile(param.get(step).copied().unwrap_or(f64::NAN), &mut values);
            }
        }
    }
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
    let mut grouper = Grouper::new(&grouping);
    let mut counts: Vec<f64> = Vec::new();
    for (row, cells) in input.iter() {
        let mut last: Option<(u64, usize)> = None;
        for (step, &value) in cells.iter().enumerate().filter(|(_, v)| present(**v)) {
            let group = match last {
                Some((bits, group)) if bits == value.to_bits() => group,
                _ => grouper.ordinal(&row.labels.with(label, &format::plain(value))),
            };
            last = Some((value.to_bits(), group));
            if counts.len() < grouper.len() * input.width {
                ev.budget.spend(input.width)?;
                counts.resize(grouper.len() * input.width, ABSENT);
            }
            let count = &mut counts[group * input.width + step];
            *count = if present(*count) { *count + 1.0 } else { 1.0 };
        }
    }
    let rows = grouper.into_first();
    let rows = rows.iter().map(|l| Row { labels: grouping.apply(l), drop_name: false }).collect();
    Ok(Block { width: input.width, rows, cells: counts })
}
