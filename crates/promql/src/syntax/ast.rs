//! A query as it is written: types are checked, nothing is resolved.

use super::place::Span;
use super::signature::Signature;
use crate::plan::{AggregateOp, At, BinaryOp, Cardinality, Kind};
use crate::source::Matcher;

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) node: Node,
    pub(crate) span: Span,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Node {
    Number { value: f64, is_duration: bool },
    Text(String),
    Select(Select),
    Window { select: Select, range: i64 },
    Subquery { expr: Box<Expr>, range: i64, step: Option<i64>, when: When },
    Call { function: &'static Signature, args: Vec<Expr> },
    Aggregate { op: AggregateOp, param: Option<Box<Expr>>, expr: Box<Expr>, grouping: Grouping },
    Binary(Box<Binary>),
    Unary { is_minus: bool, expr: Box<Expr> },
    Paren(Box<Expr>),
}

/// Times and durations are in milliseconds.
#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) name: Option<String>,
    /// Without the one for `name`.
    pub(crate) matchers: Vec<Matcher>,
    pub(crate) when: When,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct When {
    pub(crate) at: Option<At>,
    pub(crate) offset: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Grouping {
    pub(crate) labels: Vec<String>,
    pub(crate) without: bool,
}

#[derive(Debug)]
pub(crate) struct Binary {
    pub(crate) op: BinaryOp,
    pub(crate) op_span: Span,
    pub(crate) lhs: Expr,
    pub(crate) rhs: Expr,
    pub(crate) return_bool: bool,
    pub(crate) matching: Matching,
}

#[derive(Debug)]
pub(crate) struct Matching {
    pub(crate) cardinality: Cardinality,
    pub(crate) on: bool,
    pub(crate) labels: Vec<String>,
    pub(crate) include: Vec<String>,
    pub(crate) fill_left: Option<f64>,
    pub(crate) fill_right: Option<f64>,
}

impl Kind {
    /// As the documentation of Prometheus calls it.
    pub(crate) fn documented(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Vector => "instant vector",
            Self::Matrix => "range vector",
            Self::String => "string",
        }
    }
}
