//! Finds the parts of a query whose value is the same at every step, because `@` pins all that they read, and marks the
//! largest of them to be evaluated once.

use super::Node;
use crate::functions::{Function, info};

pub(super) fn wrap(root: &mut Node) {
    let found = visit(root);
    found.mark(root);
}

/// What holds of a part of the tree.
struct Found {
    /// Its value is the same at every step.
    invariant: bool,
    /// Evaluating it once saves something: literals are as cheap as their copies, and ranges are read by the function
    /// around them.
    worth: bool,
}

impl Found {
    fn mark(&self, node: &mut Node) {
        if self.worth {
            let inner = std::mem::replace(node, Node::Number(0.0));
            *node = Node::Invariant(Box::new(inner));
        }
    }
}

fn visit(node: &mut Node) -> Found {
    const VARIES: Found = Found { invariant: false, worth: false };
    match node {
        Node::Number(_) | Node::Text(_) | Node::Call { function: Function::Context(_), .. } => {
            Found { invariant: true, worth: false }
        }
        Node::Select(select) => {
            let pinned = select.anchor.at.is_some();
            Found { invariant: pinned, worth: pinned }
        }
        Node::Window { select, .. } => Found { invariant: select.anchor.at.is_some(), worth: false },
        Node::Subquery(subquery) => {
            // Marked whether or not the subquery itself is pinned: its many inner steps share one value.
            let inner = visit(&mut subquery.expr);
            Found { invariant: true, worth: inner.invariant }.mark(&mut subquery.expr);
            Found { invariant: subquery.anchor.at.is_some(), worth: false }
        }
        Node::Negate(inner) => visit(inner),
        Node::Aggregate(aggregate) => {
            let varying_param = aggregate.param.as_mut().is_some_and(|p| !visit(p).invariant);
            let inner = visit(&mut aggregate.expr);
            if varying_param {
                inner.mark(&mut aggregate.expr);
                return VARIES;
            }
            inner
        }
        Node::Binary(binary) => {
            let (lhs, rhs) = (visit(&mut binary.lhs), visit(&mut binary.rhs));
            if lhs.invariant && rhs.invariant {
                return Found { invariant: true, worth: true };
            }
            lhs.mark(&mut binary.lhs);
            rhs.mark(&mut binary.rhs);
            VARIES
        }
        Node::Call { function, args } => {
            let found: Vec<Found> = args.iter_mut().map(visit).collect();
            // The second argument of info() is only a list of matchers.
            let read = if *function == Function::Info { 1 } else { found.len() };
            let pinned = found.iter().take(read).all(|f| f.invariant);
            let invariant = match function {
                // timestamp(x @ 1) is the time of a sample; timestamp(abs(x @ 1)) is the time of the step.
                Function::Timestamp => pinned && args.iter().all(|a| matches!(a, Node::Select(_))),
                Function::Info => pinned && args.first().is_some_and(|a| info::shared_anchor(a).is_some()),
                function => pinned && !function.depends_on_time(args.len()),
            };
            if invariant {
                return Found { invariant: true, worth: true };
            }
            found.iter().zip(args.iter_mut()).take(read).for_each(|(f, arg)| f.mark(arg));
            VARIES
        }
        // Only made here, on the way up.
        Node::Invariant(_) => Found { invariant: true, worth: false },
    }
}
