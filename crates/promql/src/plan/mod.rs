//! A query, checked and resolved: what the evaluator walks. Plans are immutable and shared, so callers cache them.

mod build;
pub(crate) mod escapes;
mod invariant;
mod pinned;

use std::sync::Arc;

use crate::error::Result;
use crate::functions::Function;
use crate::labels::Projection;
use crate::source::Matcher;
use crate::syntax;

/// A parsed query.
#[derive(Debug)]
pub struct Plan {
    text: String,
    pub(crate) root: Node,
    depth: usize,
}

/// Parses a query. The result is cheap to share and worth caching.
pub fn parse(query: &str) -> Result<Arc<Plan>> {
    let expr = syntax::expression(query)?;
    let (mut root, depth) = build::build(&expr)?;
    invariant::wrap(&mut root);
    Ok(Arc::new(Plan { text: query.to_string(), root, depth }))
}

/// Parses a query and pins all that it reads to one time, as if `@` stood behind every selector that has none; none if
/// its value would still change from step to step. The value at `at` must then be the value at any time.
pub(crate) fn parse_pinned(query: &str, at: i64) -> Result<Option<Plan>> {
    let (mut root, depth) = build::build(&syntax::expression(query)?)?;
    if !pinned::pin(&mut root, at) {
        return Ok(None);
    }
    invariant::wrap(&mut root);
    Ok(Some(Plan { text: format!("{query} @ {at}ms"), root, depth }))
}

impl Plan {
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn kind(&self) -> Kind {
        self.root.kind()
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Scalar,
    Vector,
    Matrix,
    String,
}

#[derive(Debug)]
pub(crate) enum Node {
    Number(f64),
    Text(String),
    Select(Selector),
    /// Samples of the last `range` milliseconds.
    Window {
        select: Selector,
        range: i64,
    },
    Subquery(Box<Subquery>),
    Call {
        function: Function,
        args: Vec<Node>,
    },
    Aggregate(Box<Aggregate>),
    Binary(Box<Binary>),
    Negate(Box<Node>),
    /// Has one value for all steps: evaluated once, then repeated.
    Invariant(Box<Node>),
}

#[derive(Debug)]
pub(crate) struct Selector {
    pub(crate) matchers: Vec<Matcher>,
    pub(crate) anchor: Anchor,
}

/// Which time a selector or subquery looks at: `@`, else the step's own; then `offset` before that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Anchor {
    pub(crate) at: Option<At>,
    pub(crate) offset: i64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum At {
    Start,
    End,
    Time(i64),
}

#[derive(Debug)]
pub(crate) struct Subquery {
    pub(crate) expr: Node,
    pub(crate) range: i64,
    pub(crate) step: Option<i64>,
    pub(crate) anchor: Anchor,
}

#[derive(Debug)]
pub(crate) struct Aggregate {
    pub(crate) op: AggregateOp,
    pub(crate) param: Option<Node>,
    pub(crate) expr: Node,
    pub(crate) grouping: Projection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateOp {
    Sum,
    Avg,
    Count,
    Min,
    Max,
    Group,
    Stddev,
    Stdvar,
    TopK,
    BottomK,
    CountValues,
    Quantile,
    LimitK,
    LimitRatio,
}

impl AggregateOp {
    const NAMES: [(Self, &str); 14] = [
        (Self::Sum, "sum"),
        (Self::Avg, "avg"),
        (Self::Count, "count"),
        (Self::Min, "min"),
        (Self::Max, "max"),
        (Self::Group, "group"),
        (Self::Stddev, "stddev"),
        (Self::Stdvar, "stdvar"),
        (Self::TopK, "topk"),
        (Self::BottomK, "bottomk"),
        (Self::CountValues, "count_values"),
        (Self::Quantile, "quantile"),
        (Self::LimitK, "limitk"),
        (Self::LimitRatio, "limit_ratio"),
    ];

    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, n)| *n == name).map(|(op, _)| *op)
    }

    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(op, _)| *op == self).map_or("", |(_, name)| name)
    }

    pub(crate) fn has_parameter(self) -> bool {
        use AggregateOp::{BottomK, CountValues, LimitK, LimitRatio, Quantile, TopK};
        matches!(self, TopK | BottomK | CountValues | Quantile | LimitK | LimitRatio)
    }
}

#[derive(Debug)]
pub(crate) struct Binary {
    pub(crate) op: BinaryOp,
    pub(crate) return_bool: bool,
    pub(crate) lhs: Node,
    pub(crate) rhs: Node,
    pub(crate) matching: Matching,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Atan2,
    Eq,
    Ne,
    Gt,
    Lt,
    Ge,
    Le,
    And,
    Or,
    Unless,
}

impl BinaryOp {
    const SIGNS: [(Self, &str); 16] = [
        (Self::Add, "+"),
        (Self::Sub, "-"),
        (Self::Mul, "*"),
        (Self::Div, "/"),
        (Self::Mod, "%"),
        (Self::Pow, "^"),
        (Self::Atan2, "atan2"),
        (Self::Eq, "=="),
        (Self::Ne, "!="),
        (Self::Gt, ">"),
        (Self::Lt, "<"),
        (Self::Ge, ">="),
        (Self::Le, "<="),
        (Self::And, "and"),
        (Self::Or, "or"),
        (Self::Unless, "unless"),
    ];

    pub(crate) fn by_sign(sign: &str) -> Option<Self> {
        Self::SIGNS.iter().find(|(_, s)| *s == sign).map(|(op, _)| *op)
    }

    pub(crate) fn sign(self) -> &'static str {
        Self::SIGNS.iter().find(|(op, _)| *op == self).map_or("", |(_, sign)| sign)
    }

    pub(crate) fn is_comparison(self) -> bool {
        matches!(self, Self::Eq | Self::Ne | Self::Gt | Self::Lt | Self::Ge | Self::Le)
    }

    pub(crate) fn is_set(self) -> bool {
        matches!(self, Self::And | Self::Or | Self::Unless)
    }
}

/// How the series of two vectors find each other.
#[derive(Debug)]
pub(crate) struct Matching {
    /// Series match if this part of their labels is equal.
    pub(crate) by: Projection,
    pub(crate) cardinality: Cardinality,
    /// `group_left(…)`, `group_right(…)`: labels taken over from the "one" side.
    pub(crate) include: Vec<Arc<str>>,
    /// Values for a side that has no series in the match group.
    pub(crate) fill_left: Option<f64>,
    pub(crate) fill_right: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cardinality {
    OneToOne,
    ManyToOne,
    OneToMany,
}

impl Node {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Number(_) => Kind::Scalar,
            Self::Text(_) => Kind::String,
            Self::Select(_) | Self::Aggregate(_) => Kind::Vector,
            Self::Window { .. } | Self::Subquery(_) => Kind::Matrix,
            Self::Call { function, .. } if function.is_scalar() => Kind::Scalar,
            Self::Call { .. } => Kind::Vector,
            Self::Binary(b) => match (b.lhs.kind(), b.rhs.kind()) {
                (Kind::Scalar, Kind::Scalar) => Kind::Scalar,
                _ => Kind::Vector,
            },
            Self::Negate(inner) | Self::Invariant(inner) => inner.kind(),
        }
    }

    /// The node without the mark that it is evaluated once.
    pub(crate) fn unwrapped(&self) -> &Node {
        match self {
            Self::Invariant(inner) => inner.unwrapped(),
            other => other,
        }
    }

    pub(crate) fn children(&self) -> Vec<&Node> {
        match self {
            Self::Number(_) | Self::Text(_) | Self::Select(_) | Self::Window { .. } => vec![],
            Self::Subquery(s) => vec![&s.expr],
            Self::Call { args, .. } => args.iter().collect(),
            Self::Aggregate(a) => a.param.iter().chain([&a.expr]).collect(),
            Self::Binary(b) => vec![&b.lhs, &b.rhs],
            Self::Negate(inner) | Self::Invariant(inner) => vec![inner],
        }
    }
}
