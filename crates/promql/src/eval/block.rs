//! Values of many series over many steps, in one buffer: the form in which every part of a query hands on its result.

use crate::error::{Error, Result};
use crate::labels::{ByHash, Labels};
use crate::limits::Budget;
use crate::source::{STALE, is_stale};

/// A cell without a value. The stale marker can stand for it, since selectors never let one through and arithmetic only
/// makes quiet NaNs.
pub(crate) const ABSENT: f64 = STALE;

#[inline]
pub(crate) fn present(value: f64) -> bool {
    !is_stale(value)
}

#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) labels: Labels,
    /// The metric's name is to fall, but only once the whole query is evaluated: until then `label_replace` may still
    /// use it.
    pub(crate) drop_name: bool,
}

/// `rows.len()` × `width` cells, row by row.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) width: usize,
    pub(crate) rows: Vec<Row>,
    pub(crate) cells: Vec<f64>,
}

impl Block {
    pub(crate) fn new(width: usize) -> Self {
        Self { width, rows: Vec::new(), cells: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn row(&self, at: usize) -> &[f64] {
        &self.cells[at * self.width..(at + 1) * self.width]
    }

    pub(crate) fn row_mut(&mut self, at: usize) -> &mut [f64] {
        &mut self.cells[at * self.width..(at + 1) * self.width]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Row, &[f64])> {
        self.rows.iter().zip(self.cells.chunks_exact(self.width.max(1)))
    }

    /// Adds a row that `fill` writes; it is taken back if `fill` says that all its cells stayed absent.
    pub(crate) fn push_with(&mut self, row: impl FnOnce() -> Row, fill: impl FnOnce(&mut [f64]) -> bool) {
        let from = self.cells.len();
        self.cells.resize(from + self.width, ABSENT);
        if fill(&mut self.cells[from..]) {
            self.rows.push(row());
        } else {
            self.cells.truncate(from);
        }
    }

    /// Adds a row of the given cells, unless all are absent.
    pub(crate) fn push(&mut self, row: Row, cells: &[f64]) {
        if cells.iter().any(|&v| present(v)) {
            self.rows.push(row);
            self.cells.extend_from_slice(cells);
        }
    }

    /// Changes every value; what the series mean changes with it.
    pub(crate) fn map(self, budget: &Budget<'_>, f: impl Fn(f64) -> f64) -> Result<Self> {
        self.map_steps(budget, |_, value| f(value))
    }

    /// As `map`, with the number of the step.
    pub(crate) fn map_steps(mut self, budget: &Budget<'_>, f: impl Fn(usize, f64) -> f64) -> Result<Self> {
        for row in self.cells.chunks_exact_mut(self.width.max(1)) {
            budget.work(row.len())?;
            for (step, cell) in row.iter_mut().enumerate().filter(|(_, v)| present(**v)) {
                *cell = f(step, *cell);
            }
        }
        self.drop_names();
        Ok(self)
    }

    pub(crate) fn drop_names(&mut self) {
        self.rows.iter_mut().for_each(|row| row.drop_name = true);
    }

    /// One step's values, repeated over `width` steps.
    pub(crate) fn repeat(self, width: usize) -> Self {
        let cells = self.cells.iter().flat_map(|&v| std::iter::repeat_n(v, width)).collect();
        Self { width, rows: self.rows, cells }
    }

    /// Steps at which any row has a value.
    pub(crate) fn occupied(&self) -> Vec<bool> {
        let mut any = vec![false; self.width];
        for (_, row) in self.iter() {
            any.iter_mut().zip(row).for_each(|(a, &v)| *a |= present(v));
        }
        any
    }

    /// Without the rows that have no value at any step.
    pub(crate) fn compacted(mut self) -> Self {
        let width = self.width;
        let mut n_kept = 0;
        let mut at = 0;
        let cells = &mut self.cells;
        self.rows.retain(|_| {
            let from = at * width;
            at += 1;
            let keep = cells[from..from + width].iter().any(|&v| present(v));
            if keep {
                cells.copy_within(from..from + width, n_kept * width);
                n_kept += 1;
            }
            keep
        });
        self.cells.truncate(n_kept * width);
        self
    }

    /// Joins rows of equal labels into one, which must not both have a value at one step.
    pub(crate) fn merged(self, budget: &Budget<'_>) -> Result<Self> {
        budget.take_all::<(&Labels, [usize; 3])>(self.len())?;
        let mut first: ByHash<&Labels, usize> = ByHash::default();
        let mut into: Vec<usize> = Vec::with_capacity(self.len());
        for row in &self.rows {
            let next = first.len();
            into.push(*first.entry(&row.labels).or_insert(next));
        }
        if first.len() == self.len() {
            return Ok(self);
        }
        let mut merged = Self::new(self.width);
        for ((row, cells), &at) in self.iter().zip(&into) {
            budget.work(self.width)?;
            if at == merged.len() {
                budget.row(self.width)?;
                merged.rows.push(row.clone());
                merged.cells.extend_from_slice(cells);
                continue;
            }
            // Whether the name falls is decided by the row that has the first value.
            let begin = |cells: &[f64]| cells.iter().position(|&v| present(v)).unwrap_or(cells.len());
            if begin(cells) < begin(merged.row(at)) {
                merged.rows[at].drop_name = row.drop_name;
            }
            for (have, &new) in merged.row_mut(at).iter_mut().zip(cells).filter(|(_, new)| present(**new)) {
                if present(*have) {
                    return Err(Error::DuplicateLabelset);
                }
                *have = new;
            }
        }
        Ok(merged)
    }
}
