//! `and`, `or`, `unless`: which series have a partner, step by step.

use super::block::{ABSENT, Block, Row, present};
use crate::error::Result;
use crate::labels::Grouper;
use crate::limits::Budget;
use crate::plan::{Binary, BinaryOp};

pub(super) fn eval(budget: &Budget<'_>, binary: &Binary, lhs: Block, rhs: Block) -> Result<Block> {
    let Binary { op, matching, .. } = binary;
    let mut grouper = Grouper::new(&matching.by, budget);
    let left = grouper.ordinals(&lhs.rows)?;
    let right = grouper.ordinals(&rhs.rows)?;
    let n_groups = grouper.len();
    Ok(match op {
        BinaryOp::Or => {
            let taken = Presence::of(budget, &lhs, &left, n_groups)?;
            let rest = taken.filter(budget, rhs, &right, false)?;
            let mut all = lhs;
            budget.take_all::<Row>(rest.rows.len())?;
            budget.take_all::<f64>(rest.cells.len())?;
            all.rows.extend(rest.rows);
            all.cells.extend(rest.cells);
            if all.width > 1 { all.merged(budget)? } else { all }
        }
        _ => {
            Presence::of(budget, &rhs, &right, n_groups)?.filter(budget, lhs, &left, *op == BinaryOp::And)?
        }
    })
}

/// For each match group and step whether any series of the group has a value.
struct Presence {
    width: usize,
    cells: Vec<bool>,
}

impl Presence {
    fn of(budget: &Budget<'_>, block: &Block, groups: &[usize], n_groups: usize) -> Result<Self> {
        let width = block.width;
        budget.take_all::<bool>(n_groups.saturating_mul(width))?;
        let mut cells = vec![false; n_groups * width];
        for ((_, row), &group) in block.iter().zip(groups) {
            budget.work(width)?;
            let any = &mut cells[group * width..(group + 1) * width];
            any.iter_mut().zip(row).for_each(|(a, &v)| *a |= present(v));
        }
        Ok(Self { width, cells })
    }

    /// Keeps the values whose group is (or is not) present.
    fn filter(&self, budget: &Budget<'_>, mut block: Block, groups: &[usize], wanted: bool) -> Result<Block> {
        for (at, &group) in groups.iter().enumerate() {
            budget.work(self.width)?;
            let there = &self.cells[group * self.width..(group + 1) * self.width];
            for (cell, _) in block.row_mut(at).iter_mut().zip(there).filter(|(_, there)| **there != wanted) {
                *cell = ABSENT;
            }
        }
        Ok(block.compacted())
    }
}
