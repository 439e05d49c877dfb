//! `and`, `or`, `unless`: which series have a partner, step by step.

use super::block::{ABSENT, Block, present};
use crate::error::Result;
use crate::labels::Grouper;
use crate::plan::{BinaryOp, Matching};

pub(super) fn eval(op: BinaryOp, matching: &Matching, lhs: Block, rhs: Block) -> Result<Block> {
    let mut grouper = Grouper::new(&matching.by);
    let left: Vec<usize> = lhs.rows.iter().map(|r| grouper.ordinal(&r.labels)).collect();
    let right: Vec<usize> = rhs.rows.iter().map(|r| grouper.ordinal(&r.labels)).collect();
    let n_groups = grouper.len();
    Ok(match op {
        BinaryOp::Or => {
            let taken = Presence::of(&lhs, &left, n_groups);
            let rest = taken.filter(rhs, &right, false);
            let mut all = lhs;
            all.rows.extend(rest.rows);
            all.cells.extend(rest.cells);
            if all.width > 1 { all.merged()? } else { all }
        }
        _ => Presence::of(&rhs, &right, n_groups).filter(lhs, &left, op == BinaryOp::And),
    })
}

/// For each match group and step whether any series of the group has a value.
struct Presence {
    width: usize,
    cells: Vec<bool>,
}

impl Presence {
    fn of(block: &Block, groups: &[usize], n_groups: usize) -> Self {
        let width = block.width;
        let mut cells = vec![false; n_groups * width];
        for ((_, row), &group) in block.iter().zip(groups) {
            let any = &mut cells[group * width..(group + 1) * width];
            any.iter_mut().zip(row).for_each(|(a, &v)| *a |= present(v));
        }
        Self { width, cells }
    }

    /// Keeps the values whose group is (or is not) present.
    fn filter(&self, mut block: Block, groups: &[usize], wanted: bool) -> Block {
        for (at, &group) in groups.iter().enumerate() {
            let there = &self.cells[group * self.width..(group + 1) * self.width];
            for (cell, _) in block.row_mut(at).iter_mut().zip(there).filter(|(_, there)| **there != wanted) {
                *cell = ABSENT;
            }
        }
        block.compacted()
    }
}
