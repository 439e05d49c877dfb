//! From the parser's tree to ours.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use promql_parser::label::{MatchOp as ParsedOp, Matchers};
use promql_parser::parser::token::{self, TokenId};
use promql_parser::parser::{
    AggregateExpr, AtModifier, BinaryExpr, Call, Expr, LabelModifier, Offset, SubqueryExpr,
    VectorMatchCardinality, VectorSelector,
};

use super::{
    Aggregate, AggregateOp, Anchor, At, Binary, BinaryOp, Cardinality, Kind, Matching, Node, Selector,
    Subquery,
};
use crate::error::{Error, Result};
use crate::functions::Function;
use crate::labels::{METRIC_NAME, Projection};
use crate::source::{MatchOp, Matcher};

/// Times and durations stay below this, so that sums of some of them cannot overflow: about 285,000 years.
const MAX_MILLIS: i64 = 1 << 53;
/// Deeper than any query a person writes; the evaluator's own limit is lower.
const MAX_DEPTH: usize = 400;

pub(super) fn build(expr: &Expr) -> Result<(Node, usize)> {
    let mut builder = Builder { deepest: 0 };
    let node = builder.node(expr, 1)?;
    Ok((node, builder.deepest))
}

struct Builder {
    deepest: usize,
}

impl Builder {
    fn node(&mut self, expr: &Expr, depth: usize) -> Result<Node> {
        self.deepest = self.deepest.max(depth);
        if depth > MAX_DEPTH {
            return Err(Error::TooComplex { what: "levels of nesting", got: depth, limit: MAX_DEPTH });
        }
        match expr {
            Expr::NumberLiteral(n) => Ok(Node::Number(n.val)),
            Expr::StringLiteral(s) => Ok(Node::Text(s.val.clone())),
            Expr::Paren(p) => self.node(&p.expr, depth + 1),
            Expr::VectorSelector(vs) => Ok(Node::Select(selector(vs)?)),
            Expr::MatrixSelector(ms) => {
                Ok(Node::Window { select: selector(&ms.vs)?, range: millis(ms.range)? })
            }
            Expr::Unary(u) => Ok(Node::Negate(Box::new(self.node(&u.expr, depth + 1)?))),
            Expr::Subquery(s) => self.subquery(s, depth),
            Expr::Call(call) => self.call(call, depth),
            Expr::Aggregate(a) => self.aggregate(a, depth),
            Expr::Binary(b) => self.binary(b, depth),
            Expr::Extension(_) => Err(Error::Unsupported("an extension of the syntax".into())),
        }
    }

    fn subquery(&mut self, s: &SubqueryExpr, depth: usize) -> Result<Node> {
        let step = match s.step.map(millis).transpose()? {
            Some(0) => return Err(Error::Parse("the step of a subquery must not be zero".into())),
            step => step,
        };
        let anchor = anchor(s.at.as_ref(), s.offset.as_ref())?;
        let expr = self.node(&s.expr, depth + 1)?;
        Ok(Node::Subquery(Box::new(Subquery { expr, range: millis(s.range)?, step, anchor })))
    }

    fn call(&mut self, call: &Call, depth: usize) -> Result<Node> {
        let function = Function::by_name(call.func.name)
            .ok_or_else(|| Error::Unsupported(format!("the function {}()", call.func.name)))?;
        let mut args = Vec::with_capacity(call.args.args.len());
        for (arg, at) in call.args.args.iter().zip(0..) {
            let node = self.node(arg, depth + 1)?;
            // The parser lets some numbers through where a vector belongs, and forgets to look behind brackets.
            let expected = call.func.arg_types.get(at).or(call.func.arg_types.last());
            if expected.is_some_and(|e| kind_of(*e) != node.kind()) {
                return Err(Error::Parse(format!(
                    "argument {} of {}() must be a {}",
                    at + 1,
                    call.func.name,
                    expected.map(ToString::to_string).unwrap_or_default()
                )));
            }
            args.push(node);
        }
        Ok(Node::Call { function, args })
    }

    fn aggregate(&mut self, a: &AggregateExpr, depth: usize) -> Result<Node> {
        let op =
            aggregate_op(a.op.id()).ok_or_else(|| Error::Unsupported(format!("the aggregation {}", a.op)))?;
        let grouping = match &a.modifier {
            None => Projection::Only(vec![]),
            Some(LabelModifier::Include(l)) => Projection::Only(names(&l.labels)),
            Some(LabelModifier::Exclude(l)) => without_name(&l.labels),
        };
        let param = a.param.as_deref().map(|p| self.node(p, depth + 1)).transpose()?;
        let expr = self.node(&a.expr, depth + 1)?;
        let wanted = match op {
            AggregateOp::CountValues => Some(Kind::String),
            _ if param.is_some() => Some(Kind::Scalar),
            _ => None,
        };
        if expr.kind() != Kind::Vector || param.as_ref().map(Node::kind) != wanted {
            return Err(Error::Parse(format!("the arguments of {} have the wrong type", a.op)));
        }
        Ok(Node::Aggregate(Box::new(Aggregate { op, param, expr, grouping })))
    }

    fn binary(&mut self, b: &BinaryExpr, depth: usize) -> Result<Node> {
        let op = binary_op(b.op.id()).ok_or_else(|| Error::Unsupported(format!("the operator {}", b.op)))?;
        let modifier = b.modifier.as_ref();
        let by = match modifier.and_then(|m| m.matching.as_ref()) {
            Some(LabelModifier::Include(l)) => Projection::Only(names(&l.labels)),
            Some(LabelModifier::Exclude(l)) => without_name(&l.labels),
            None => without_name(&[]),
        };
        let (cardinality, include) = match modifier.map(|m| &m.card) {
            Some(VectorMatchCardinality::ManyToOne(l)) => (Cardinality::ManyToOne, names(&l.labels)),
            Some(VectorMatchCardinality::OneToMany(l)) => (Cardinality::OneToMany, names(&l.labels)),
            _ => (Cardinality::OneToOne, vec![]),
        };
        let fill = modifier.map(|m| &m.fill_values);
        let matching = Matching {
            by,
            cardinality,
            include,
            fill_left: fill.and_then(|f| f.lhs),
            fill_right: fill.and_then(|f| f.rhs),
        };
        let (lhs, rhs) = (self.node(&b.lhs, depth + 1)?, self.node(&b.rhs, depth + 1)?);
        let operand = |node: &Node| matches!(node.kind(), Kind::Scalar | Kind::Vector);
        if !operand(&lhs) || !operand(&rhs) {
            return Err(Error::Parse("a binary operator takes scalars and instant vectors only".into()));
        }
        if op.is_set() && (matching.fill_left.is_some() || matching.fill_right.is_some()) {
            return Err(Error::Parse("a set operator takes no fill value".into()));
        }
        Ok(Node::Binary(Box::new(Binary { op, return_bool: b.return_bool(), lhs, rhs, matching })))
    }
}

fn kind_of(parsed: promql_parser::parser::value::ValueType) -> Kind {
    use promql_parser::parser::value::ValueType;
    match parsed {
        ValueType::Vector => Kind::Vector,
        ValueType::Scalar => Kind::Scalar,
        ValueType::Matrix => Kind::Matrix,
        ValueType::String => Kind::String,
    }
}

fn names(labels: &[String]) -> Vec<Arc<str>> {
    labels.iter().map(|l| l.as_str().into()).collect()
}

fn without_name(labels: &[String]) -> Projection {
    let mut all = names(labels);
    all.push(METRIC_NAME.into());
    Projection::AllBut(all)
}

fn selector(vs: &VectorSelector) -> Result<Selector> {
    let mut matchers = matchers(&vs.matchers)?;
    if let Some(name) = &vs.name {
        matchers.insert(0, Matcher::equal(METRIC_NAME, name));
    }
    Ok(Selector { matchers, anchor: anchor(vs.at.as_ref(), vs.offset.as_ref())? })
}

fn matchers(parsed: &Matchers) -> Result<Vec<Matcher>> {
    if !parsed.or_matchers.is_empty() {
        return Err(Error::Unsupported("`or` between matchers".into()));
    }
    let convert = |m: &promql_parser::label::Matcher| match &m.op {
        ParsedOp::Equal => Matcher::new(&m.name, MatchOp::Equal, &m.value),
        ParsedOp::NotEqual => Matcher::new(&m.name, MatchOp::NotEqual, &m.value),
        // The parser accepts what Go would and Rust would not (`a{b}`): its reading is the fallback.
        ParsedOp::Re(regex) => Ok(Matcher::from_regex(&m.name, MatchOp::Regex, &m.value, regex)),
        ParsedOp::NotRe(regex) => Ok(Matcher::from_regex(&m.name, MatchOp::NotRegex, &m.value, regex)),
    };
    parsed.matchers.iter().map(convert).collect()
}

fn anchor(at: Option<&AtModifier>, offset: Option<&Offset>) -> Result<Anchor> {
    let at = match at {
        None => None,
        Some(AtModifier::Start) => Some(At::Start),
        Some(AtModifier::End) => Some(At::End),
        Some(AtModifier::At(time)) => Some(At::Time(match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => millis(after)?,
            Err(before) => -millis(before.duration())?,
        })),
    };
    let offset = match offset {
        None => 0,
        Some(Offset::Pos(d)) => millis(*d)?,
        Some(Offset::Neg(d)) => -millis(*d)?,
    };
    Ok(Anchor { at, offset })
}

fn millis(duration: Duration) -> Result<i64> {
    i64::try_from(duration.as_millis()).ok().filter(|&ms| ms <= MAX_MILLIS).ok_or_else(|| {
        Error::Parse(format!("a duration or time of {} s is out of range", duration.as_secs()))
    })
}

fn aggregate_op(id: TokenId) -> Option<AggregateOp> {
    Some(match id {
        token::T_SUM => AggregateOp::Sum,
        token::T_AVG => AggregateOp::Avg,
        token::T_COUNT => AggregateOp::Count,
        token::T_MIN => AggregateOp::Min,
        token::T_MAX => AggregateOp::Max,
        token::T_GROUP => AggregateOp::Group,
        token::T_STDDEV => AggregateOp::Stddev,
        token::T_STDVAR => AggregateOp::Stdvar,
        token::T_TOPK => AggregateOp::TopK,
        token::T_BOTTOMK => AggregateOp::BottomK,
        token::T_COUNT_VALUES => AggregateOp::CountValues,
        token::T_QUANTILE => AggregateOp::Quantile,
        token::T_LIMITK => AggregateOp::LimitK,
        token::T_LIMIT_RATIO => AggregateOp::LimitRatio,
        _ => return None,
    })
}

fn binary_op(id: TokenId) -> Option<BinaryOp> {
    Some(match id {
        token::T_ADD => BinaryOp::Add,
        token::T_SUB => BinaryOp::Sub,
        token::T_MUL => BinaryOp::Mul,
        token::T_DIV => BinaryOp::Div,
        token::T_MOD => BinaryOp::Mod,
        token::T_POW => BinaryOp::Pow,
        token::T_ATAN2 => BinaryOp::Atan2,
        token::T_EQLC => BinaryOp::Eq,
        token::T_NEQ => BinaryOp::Ne,
        token::T_GTR => BinaryOp::Gt,
        token::T_LSS => BinaryOp::Lt,
        token::T_GTE => BinaryOp::Ge,
        token::T_LTE => BinaryOp::Le,
        token::T_LAND => BinaryOp::And,
        token::T_LOR => BinaryOp::Or,
        token::T_LUNLESS => BinaryOp::Unless,
        _ => return None,
    })
}
