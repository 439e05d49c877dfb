//! One number for autoscaling, and what kind of number it is.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::functions::{Function, Range};
use crate::limits::{Budget, Limits};
use crate::plan::{Aggregate, AggregateOp, Binary, BinaryOp, Kind, Node, Plan};
use crate::source::SeriesSource;
use crate::value::Value;

/// What a trigger's query says right now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AutoscalingValue {
    Value(f64),
    /// Part of the series have no number (an idle pod's latency is NaN): the sum of the others. It may be a reason to
    /// scale up, but what it leaves out must not be a reason to scale down.
    AtLeast(f64),
    /// All series are there and fresh, but observed nothing (an idle histogram, 0 / 0 of idle counters): no demand.
    Idle,
    /// Nothing was found, or the number is missing because something that the query reads is missing.
    NoData,
}

/// Whether a number stands for the whole workload or for one pod of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// Grows with the load, however many pods share it.
    Total,
    /// What one pod sees: an average, a maximum, a quantile, a ratio.
    Pod,
}

/// Evaluates a query to one number: a scalar is taken as it is, a vector is summed, except that the maximum is taken of
/// `max_over_time(…)` at the top.
pub fn autoscaling_value(
    engine: &Engine,
    plan: &Plan,
    source: &dyn SeriesSource,
    time: i64,
    limits: Limits<'_>,
) -> Result<AutoscalingValue> {
    autoscaling_value_within(engine, plan, source, time, &Budget::new(limits))
}

/// As `autoscaling_value`, within what is left of a budget.
pub fn autoscaling_value_within(
    engine: &Engine,
    plan: &Plan,
    source: &dyn SeriesSource,
    time: i64,
    budget: &Budget<'_>,
) -> Result<AutoscalingValue> {
    let (result, missing) = engine.run_instant(plan, source, time, budget)?;
    let values: Vec<f64> = match result.value {
        Value::Scalar(point) => vec![point.value],
        Value::Vector(samples) => samples.iter().map(|s| s.point.value).collect(),
        Value::Matrix(_) | Value::String(_) => {
            return Err(Error::Evaluation(format!(
                "{} does not give a number: an autoscaling query must end as a scalar or an instant vector",
                plan.text()
            )));
        }
    };
    let numbers = || values.iter().copied().filter(|v| !v.is_nan());
    let combined = match takes_maximum(plan) {
        true => numbers().fold(f64::NEG_INFINITY, f64::max),
        false => numbers().sum(),
    };
    Ok(match (values.len(), numbers().count()) {
        (0, _) => AutoscalingValue::NoData,
        (_, 0) if missing => AutoscalingValue::NoData,
        (_, 0) => AutoscalingValue::Idle,
        // +Inf and -Inf together.
        _ if combined.is_nan() => AutoscalingValue::NoData,
        (all, some) if some < all => AutoscalingValue::AtLeast(combined),
        _ => AutoscalingValue::Value(combined),
    })
}

fn takes_maximum(plan: &Plan) -> bool {
    matches!(plan.root.unwrapped(), Node::Call { function: Function::Range(Range::Max), .. })
}

impl Plan {
    /// Reads off the expression whether its number is a total or a figure per pod. Where both readings are possible it
    /// is a total, because treating a total as a figure per pod makes the count run away: more pods, same total, more
    /// pods.
    pub fn per(&self) -> Per {
        if takes_maximum(self) {
            // The maximum over the series of a selector is one pod's; over time, a total stays a total.
            let over = self.root.unwrapped().children();
            return match over.first().map(|n| n.unwrapped()) {
                Some(Node::Subquery(subquery)) => quantity(&subquery.expr).into(),
                _ => Per::Pod,
            };
        }
        quantity(&self.root).into()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    /// Says nothing of the load: takes on the meaning of what it is combined with.
    Constant,
    Total,
    Pod,
}

impl From<Quantity> for Per {
    fn from(quantity: Quantity) -> Self {
        match quantity {
            Quantity::Pod => Self::Pod,
            Quantity::Total | Quantity::Constant => Self::Total,
        }
    }
}

fn quantity(node: &Node) -> Quantity {
    match node {
        Node::Number(_) | Node::Text(_) => Quantity::Constant,
        Node::Select(_) | Node::Window { .. } => Quantity::Total,
        Node::Subquery(subquery) => quantity(&subquery.expr),
        Node::Negate(inner) | Node::Invariant(inner) => quantity(inner),
        Node::Aggregate(aggregate) => of_aggregate(aggregate),
        Node::Binary(binary) => of_binary(binary),
        Node::Call { function, args } => of_call(*function, args),
    }
}

fn of_aggregate(aggregate: &Aggregate) -> Quantity {
    let picks_one = matches!(aggregate.param, Some(Node::Number(k)) if k < 2.0);
    match aggregate.op {
        AggregateOp::Sum | AggregateOp::Count | AggregateOp::CountValues | AggregateOp::Group => {
            Quantity::Total
        }
        AggregateOp::TopK | AggregateOp::BottomK | AggregateOp::LimitK if !picks_one => {
            quantity(&aggregate.expr)
        }
        AggregateOp::LimitRatio => quantity(&aggregate.expr),
        _ => Quantity::Pod,
    }
}

fn of_call(function: Function, args: &[Node]) -> Quantity {
    match function {
        Function::Time | Function::Pi | Function::Context(_) | Function::Date(_) => Quantity::Constant,
        Function::HistogramQuantile
        | Function::HistogramQuantiles
        | Function::HistogramFraction
        | Function::Timestamp => Quantity::Pod,
        Function::Range(Range::TimeOfFirst | Range::TimeOfLast | Range::TimeOfMax | Range::TimeOfMin) => {
            Quantity::Pod
        }
        // Everything else keeps the meaning of what it is applied to.
        _ => {
            let all = args.iter().filter(|a| a.kind() != Kind::String).map(quantity);
            all.reduce(sum_of).unwrap_or(Quantity::Constant)
        }
    }
}

fn of_binary(binary: &Binary) -> Quantity {
    use Quantity::{Constant, Pod, Total};
    let (l, r) = (quantity(&binary.lhs), quantity(&binary.rhs));
    match (binary.op, l, r) {
        (_, x, Constant) => x,
        (BinaryOp::Div, Total, Total) => Pod,
        (BinaryOp::Div, x, _) => x,
        (BinaryOp::Mul, Total, _) | (BinaryOp::Mul, _, Total) => Total,
        (BinaryOp::And | BinaryOp::Unless, x, _) => x,
        (op, x, _) if op.is_comparison() => x,
        (_, x, y) => sum_of(x, y),
    }
}

/// Something that holds a total anywhere is taken as a total.
fn sum_of(a: Quantity, b: Quantity) -> Quantity {
    match (a, b) {
        (Quantity::Constant, x) | (x, Quantity::Constant) => x,
        (Quantity::Pod, Quantity::Pod) => Quantity::Pod,
        _ => Quantity::Total,
    }
}

#[cfg(test)]
mod tests;
