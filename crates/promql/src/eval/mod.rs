//! Evaluation, series by series rather than step by step: each node turns whole rows of values into rows of values.

pub(crate) mod aggregate;
pub(crate) mod binary;
pub(crate) mod block;
pub(crate) mod grid;
mod matching;
mod pick;
pub(crate) mod select;
mod sets;

use std::cell::{Cell, RefCell};

use crate::annotations::{Annotation, Annotations};
use crate::engine::Options;
use crate::error::{Error, Result};
use crate::functions;
use crate::limits::Budget;
use crate::plan::{Anchor, At, Binary, Kind, Node};
use crate::source::SeriesSource;
use block::Block;
use grid::{Grid, Reference};

/// All that the parts of one running query share.
pub(crate) struct Evaluator<'a> {
    pub(crate) source: &'a dyn SeriesSource,
    pub(crate) options: Options,
    pub(crate) budget: &'a Budget<'a>,
    /// The times of the query as it was asked, which `start()`, `end()`, `step()` and `range()` speak of.
    pub(crate) query: QueryTimes,
    pub(crate) annotations: RefCell<Annotations>,
    /// Some selector found no samples.
    pub(crate) missing: Cell<bool>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct QueryTimes {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) step: i64,
}

#[derive(Debug)]
pub(crate) enum Evaluated {
    /// One value per step.
    Scalar(Vec<f64>),
    Vector(Block),
    Text(String),
}

impl Evaluator<'_> {
    pub(crate) fn eval(&self, node: &Node, grid: Grid) -> Result<Evaluated> {
        self.budget.check_time()?;
        Ok(match node {
            Node::Number(n) => Evaluated::Scalar(self.constant(*n, grid)?),
            Node::Text(text) => {
                self.budget.take(text.len())?;
                Evaluated::Text(text.clone())
            }
            Node::Select(select) => Evaluated::Vector(self.select_values(select, grid)?),
            Node::Negate(inner) => match self.eval(inner, grid)? {
                Evaluated::Scalar(values) => Evaluated::Scalar(values.into_iter().map(|v| -v).collect()),
                Evaluated::Vector(block) => Evaluated::Vector(block.map(self.budget, |v| -v)?),
                Evaluated::Text(_) => return Err(misplaced(Kind::String)),
            },
            Node::Invariant(inner) if grid.len > 1 => match self.eval(inner, grid.first())? {
                Evaluated::Scalar(values) => {
                    Evaluated::Scalar(self.constant(values.first().copied().unwrap_or(f64::NAN), grid)?)
                }
                Evaluated::Vector(block) => {
                    let n_cells = block.len().saturating_mul(grid.len);
                    self.budget.spend(n_cells)?;
                    self.budget.take_all::<f64>(n_cells)?;
                    Evaluated::Vector(block.repeat(grid.len))
                }
                text => text,
            },
            Node::Invariant(inner) => self.eval(inner, grid)?,
            Node::Call { function, args } => functions::call(self, *function, args, grid)?,
            Node::Aggregate(aggregate) => Evaluated::Vector(aggregate::eval(self, aggregate, grid)?),
            Node::Binary(binary) => self.binary(binary, grid)?,
            Node::Window { .. } | Node::Subquery(_) => return Err(misplaced(Kind::Matrix)),
        })
    }

    /// A chain of operators is deep on its left: it is walked from its first operand on.
    fn binary(&self, top: &Binary, grid: Grid) -> Result<Evaluated> {
        let mut chain = vec![top];
        let mut first = &top.lhs;
        while let Node::Binary(b) = first {
            chain.push(b);
            first = &b.lhs;
        }
        let mut value = self.eval(first, grid)?;
        for b in chain.into_iter().rev() {
            value = self.operate(b, value, grid)?;
        }
        Ok(value)
    }

    fn operate(&self, b: &Binary, lhs: Evaluated, grid: Grid) -> Result<Evaluated> {
        self.budget.check_time()?;
        let rhs = self.eval(&b.rhs, grid)?;
        Ok(match (lhs, rhs) {
            (Evaluated::Scalar(l), Evaluated::Scalar(r)) => {
                self.budget.row(grid.len)?;
                Evaluated::Scalar(binary::scalars(b.op, &l, &r))
            }
            (Evaluated::Vector(l), Evaluated::Scalar(r)) => {
                Evaluated::Vector(binary::vector_scalar(self.budget, b, l, &r, false)?)
            }
            (Evaluated::Scalar(l), Evaluated::Vector(r)) => {
                Evaluated::Vector(binary::vector_scalar(self.budget, b, r, &l, true)?)
            }
            (Evaluated::Vector(l), Evaluated::Vector(r)) if b.op.is_set() => {
                Evaluated::Vector(sets::eval(self.budget, b, l, r)?)
            }
            (Evaluated::Vector(l), Evaluated::Vector(r)) => {
                Evaluated::Vector(matching::eval(self.budget, b, l, r)?)
            }
            _ => return Err(misplaced(Kind::String)),
        })
    }

    pub(crate) fn vector(&self, node: &Node, grid: Grid) -> Result<Block> {
        match self.eval(node, grid)? {
            Evaluated::Vector(block) => Ok(block),
            _ => Err(misplaced(node.kind())),
        }
    }

    pub(crate) fn scalar(&self, node: &Node, grid: Grid) -> Result<Vec<f64>> {
        match self.eval(node, grid)? {
            Evaluated::Scalar(values) => Ok(values),
            _ => Err(misplaced(node.kind())),
        }
    }

    pub(crate) fn constant(&self, value: f64, grid: Grid) -> Result<Vec<f64>> {
        self.budget.spend(grid.len)?;
        self.budget.take_all::<f64>(grid.len)?;
        Ok(vec![value; grid.len])
    }

    pub(crate) fn reference(&self, anchor: Anchor) -> Reference {
        let at = anchor.at.map(|at| match at {
            At::Start => self.query.start,
            At::End => self.query.end,
            At::Time(time) => time,
        });
        Reference { at, offset: anchor.offset }
    }

    pub(crate) fn annotate(&self, annotation: Annotation) {
        self.annotations.borrow_mut().add(annotation);
    }
}

/// The plan has the types right, so this is never seen; it stands in for a panic.
fn misplaced(kind: Kind) -> Error {
    Error::Evaluation(format!("a value of type {kind:?} stands where it cannot be used"))
}

pub(crate) fn text_of(node: Option<&Node>) -> Result<&str> {
    match node {
        Some(Node::Text(text)) => Ok(text),
        _ => Err(Error::Evaluation("a string literal is missing".into())),
    }
}
