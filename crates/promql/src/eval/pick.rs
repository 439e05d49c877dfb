//! Aggregations that pick series rather than combine them: `topk`, `bottomk`, `limitk`, `limit_ratio`.

use std::cmp::Ordering;

use super::Evaluator;
use super::aggregate::Groups;
use super::block::{ABSENT, Block, Row, present};
use crate::annotations::Annotation;
use crate::error::{Error, Result};
use crate::format;
use crate::plan::AggregateOp;

pub(super) fn eval(
    ev: &Evaluator<'_>,
    op: AggregateOp,
    input: Block,
    groups: &Groups<'_>,
    param: &[f64],
) -> Result<Block> {
    check(ev, op, param)?;
    let budget = ev.budget;
    // Which cells stay, a copy of them, and for one step the order of the rows.
    budget.take_all::<(bool, f64)>(input.cells.len())?;
    budget.take_all::<(usize, Row)>(input.len())?;
    let mut chosen = vec![false; input.cells.len()];
    // For one step the order of the result is the order of the values.
    let mut order: Vec<usize> = Vec::new();
    if op == AggregateOp::LimitRatio {
        let mut offsets: Vec<f64> = Vec::with_capacity(input.len());
        for row in &input.rows {
            budget.work(16)?;
            offsets.push(row.labels.ratio_offset());
        }
        for members in groups.members(budget)? {
            for (step, &ratio) in param.iter().enumerate() {
                budget.work(members.len() + 1)?;
                let there = members.iter().filter(|&&r| present(input.row(r)[step]));
                for &row in there.filter(|&&r| within_ratio(ratio, offsets[r])) {
                    chosen[row * input.width + step] = true;
                    if input.width == 1 {
                        order.push(row);
                    }
                }
            }
        }
    } else {
        let mut candidates: Vec<usize> = Vec::new();
        for members in groups.members(budget)? {
            for (step, &k) in param.iter().enumerate() {
                // What is chosen is sorted too.
                budget.work(4 * members.len() + 1)?;
                let k = (k as i64).clamp(0, members.len() as i64) as usize;
                candidates.clear();
                candidates.extend(members.iter().filter(|&&r| present(input.row(r)[step])));
                best(&input, op, step, k, &mut candidates);
                for &row in &candidates {
                    chosen[row * input.width + step] = true;
                }
                if input.width == 1 {
                    order.extend_from_slice(&candidates);
                }
            }
        }
    }
    let mut picked = Block::new(input.width);
    if input.width == 1 {
        for row in order {
            picked.push(input.rows[row].clone(), input.row(row));
        }
        return Ok(picked);
    }
    let masked = Block {
        cells: input.cells.iter().zip(&chosen).map(|(&v, &keep)| if keep { v } else { ABSENT }).collect(),
        ..input
    };
    Ok(masked.compacted())
}

/// Leaves the `k` rows that the operator wants, the most wanted first.
fn best(input: &Block, op: AggregateOp, step: usize, k: usize, rows: &mut Vec<usize>) {
    if op == AggregateOp::LimitK || k == 0 {
        rows.truncate(k);
        return;
    }
    // Of equal values the earlier series wins; NaN is chosen only if nothing else is left.
    let wanted = |&a: &usize, &b: &usize| {
        let (x, y) = (input.row(a)[step], input.row(b)[step]);
        let by_value = match (x.is_nan(), y.is_nan()) {
            (false, false) if op == AggregateOp::TopK => y.total_cmp(&x),
            (false, false) => x.total_cmp(&y),
            (x_nan, y_nan) => x_nan.cmp(&y_nan),
        };
        // Zeroes of both signs are one value.
        let by_value = if x == y { Ordering::Equal } else { by_value };
        by_value.then(a.cmp(&b))
    };
    if k < rows.len() {
        rows.select_nth_unstable_by(k - 1, wanted);
        rows.truncate(k);
    }
    rows.sort_unstable_by(wanted);
}

/// A ratio of 0.1 takes the lowest tenth of the hashes, -0.9 the nine tenths that 0.1 leaves.
fn within_ratio(ratio: f64, offset: f64) -> bool {
    let ratio = ratio.clamp(-1.0, 1.0);
    if ratio >= 0.0 { offset < ratio } else { offset >= 1.0 + ratio }
}

fn check(ev: &Evaluator<'_>, op: AggregateOp, param: &[f64]) -> Result<()> {
    let (min, max) =
        param.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), &p| (lo.min(p), hi.max(p)));
    let any_nan = param.iter().any(|p| p.is_nan());
    if op == AggregateOp::LimitRatio {
        if any_nan {
            return Err(Error::Evaluation("Ratio value is NaN".into()));
        }
        for (got, capped) in [(max, 1.0), (min, -1.0)] {
            if got.abs() > 1.0 && (got > 0.0) == (capped > 0.0) {
                ev.annotate(Annotation::InvalidRatio { got, capped });
            }
        }
        return Ok(());
    }
    if any_nan {
        return Err(Error::Evaluation("Parameter value is NaN".into()));
    }
    if max < 1.0 {
        return Ok(());
    }
    let (low, high) = (i64::MIN as f64, i64::MAX as f64);
    match () {
        () if min <= low => {
            Err(Error::Evaluation(format!("Scalar value {} underflows int64", format::short(min))))
        }
        () if max >= high => {
            Err(Error::Evaluation(format!("Scalar value {} overflows int64", format::short(max))))
        }
        () => Ok(()),
    }
}
