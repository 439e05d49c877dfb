//! Puts `@` behind everything that lacks it.

use super::{Anchor, At, Node};
use crate::functions::{Function, Range};

/// False if the query holds a function of the step's time or of the query's times.
pub(super) fn pin(node: &mut Node, time: i64) -> bool {
    // The start and the end of an instant are its time.
    let set = |anchor: &mut Anchor| {
        if !matches!(anchor.at, Some(At::Time(_))) {
            anchor.at = Some(At::Time(time));
        }
    };
    match node {
        Node::Number(_) | Node::Text(_) => true,
        Node::Select(select) | Node::Window { select, .. } => {
            set(&mut select.anchor);
            true
        }
        // What is inside a pinned subquery moves with the subquery's own steps.
        Node::Subquery(subquery) => {
            set(&mut subquery.anchor);
            timeless(&subquery.expr)
        }
        Node::Call { function, args } => is_timeless(*function) & args.iter_mut().all(|arg| pin(arg, time)),
        Node::Aggregate(a) => a.param.as_mut().is_none_or(|param| pin(param, time)) && pin(&mut a.expr, time),
        Node::Binary(b) => pin(&mut b.lhs, time) && pin(&mut b.rhs, time),
        Node::Negate(inner) | Node::Invariant(inner) => pin(inner, time),
    }
}

fn timeless(node: &Node) -> bool {
    if let Node::Select(select) | Node::Window { select, .. } = node
        && matches!(select.anchor.at, Some(At::Start | At::End))
    {
        return false;
    }
    let itself = !matches!(node, Node::Call { function, .. } if !is_timeless(*function));
    itself && node.children().into_iter().all(timeless)
}

fn is_timeless(function: Function) -> bool {
    !matches!(
        function,
        Function::Date(_)
            | Function::Time
            | Function::Timestamp
            | Function::Context(_)
            | Function::Range(Range::PredictLinear)
    )
}
