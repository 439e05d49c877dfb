//! Operators on values, and between a vector and a scalar.

use super::block::{ABSENT, Block, present};
use crate::error::Result;
use crate::limits::Budget;
use crate::plan::{Binary, BinaryOp};

/// The value of an arithmetic operator, or 1 and 0 for a comparison.
#[inline]
pub(crate) fn apply(op: BinaryOp, l: f64, r: f64) -> f64 {
    match op {
        BinaryOp::Add => l + r,
        BinaryOp::Sub => l - r,
        BinaryOp::Mul => l * r,
        BinaryOp::Div => l / r,
        BinaryOp::Mod => l % r,
        BinaryOp::Pow => l.powf(r),
        BinaryOp::Atan2 => l.atan2(r),
        BinaryOp::Eq => f64::from(l == r),
        BinaryOp::Ne => f64::from(l != r),
        BinaryOp::Gt => f64::from(l > r),
        BinaryOp::Lt => f64::from(l < r),
        BinaryOp::Ge => f64::from(l >= r),
        BinaryOp::Le => f64::from(l <= r),
        // Set operators look at whether there is a value, not at what it is.
        BinaryOp::And | BinaryOp::Or | BinaryOp::Unless => f64::NAN,
    }
}

pub(crate) fn scalars(op: BinaryOp, lhs: &[f64], rhs: &[f64]) -> Vec<f64> {
    lhs.iter().zip(rhs).map(|(&l, &r)| apply(op, l, r)).collect()
}

/// `vector op scalar`, or `scalar op vector` if `swapped`. A comparison without `bool` filters the vector.
pub(crate) fn vector_scalar(
    budget: &Budget<'_>,
    binary: &Binary,
    vector: Block,
    scalar: &[f64],
    swapped: bool,
) -> Result<Block> {
    let Binary { op, return_bool, .. } = *binary;
    let operate = |step: usize, v: f64| {
        let (l, r) = if swapped { (scalar[step], v) } else { (v, scalar[step]) };
        apply(op, l, r)
    };
    if !op.is_comparison() || return_bool {
        return vector.map_steps(budget, operate);
    }
    let mut filtered = vector;
    for row in filtered.cells.chunks_exact_mut(filtered.width.max(1)) {
        budget.work(row.len())?;
        for (step, cell) in row.iter_mut().enumerate() {
            if present(*cell) && operate(step, *cell) == 0.0 {
                *cell = ABSENT;
            }
        }
    }
    Ok(filtered.compacted())
}
