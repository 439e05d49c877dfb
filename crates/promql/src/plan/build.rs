//! From the query as written to what the evaluator walks.

use std::sync::Arc;

use super::{Aggregate, Anchor, Binary, Matching, Node, Selector, Subquery};
use crate::error::{Error, Result};
use crate::functions::Function;
use crate::labels::{METRIC_NAME, Projection};
use crate::source::Matcher;
use crate::syntax::ast::{self, Expr, Select, When};

/// The plan, and how deep it is.
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
        Ok(match &expr.node {
            ast::Node::Number { value, .. } => Node::Number(*value),
            ast::Node::Text(text) => Node::Text(text.clone()),
            ast::Node::Paren(inner) => self.node(inner, depth + 1)?,
            ast::Node::Select(select) => Node::Select(selector(select)),
            ast::Node::Window { select, range } => Node::Window { select: selector(select), range: *range },
            ast::Node::Unary { is_minus: true, expr } => Node::Negate(Box::new(self.node(expr, depth + 1)?)),
            ast::Node::Unary { expr, .. } => self.node(expr, depth + 1)?,
            ast::Node::Subquery { expr, range, step, when } => {
                let expr = self.node(expr, depth + 1)?;
                Node::Subquery(Box::new(Subquery { expr, range: *range, step: *step, anchor: anchor(*when) }))
            }
            ast::Node::Call { function, args } => {
                let name = function.name;
                let function = Function::by_name(name)
                    .ok_or_else(|| Error::Unsupported(format!("the function {name}()")))?;
                let args = args.iter().map(|arg| self.node(arg, depth + 1)).collect::<Result<_>>()?;
                Node::Call { function, args }
            }
            ast::Node::Aggregate { op, param, expr, grouping } => {
                let param = param.as_deref().map(|p| self.node(p, depth + 1)).transpose()?;
                let expr = self.node(expr, depth + 1)?;
                let grouping = projection(&grouping.labels, !grouping.without);
                Node::Aggregate(Box::new(Aggregate { op: *op, param, expr, grouping }))
            }
            ast::Node::Binary(_) => self.chain(expr, depth)?,
        })
    }

    /// `a or b or c` is a tree that is deep on its left. It is no nesting, and no reason to recurse.
    fn chain(&mut self, expr: &Expr, depth: usize) -> Result<Node> {
        let mut links = Vec::new();
        let mut first = expr;
        while let ast::Node::Binary(link) = &first.node {
            links.push(link);
            first = &link.lhs;
        }
        let mut lhs = self.node(first, depth + 1)?;
        for link in links.into_iter().rev() {
            let rhs = self.node(&link.rhs, depth + 1)?;
            let ast::Binary { op, return_bool, matching, .. } = &**link;
            let matching = Matching {
                by: projection(&matching.labels, matching.on),
                cardinality: matching.cardinality,
                include: names(&matching.include),
                fill_left: matching.fill_left,
                fill_right: matching.fill_right,
            };
            lhs = Node::Binary(Box::new(Binary { op: *op, return_bool: *return_bool, lhs, rhs, matching }));
        }
        Ok(lhs)
    }
}

fn names(labels: &[String]) -> Vec<Arc<str>> {
    labels.iter().map(|l| l.as_str().into()).collect()
}

/// Of all labels but some, the name of the metric is always one that is left out.
fn projection(labels: &[String], only: bool) -> Projection {
    let mut names = names(labels);
    if only {
        return Projection::Only(names);
    }
    names.push(METRIC_NAME.into());
    Projection::AllBut(names)
}

fn selector(select: &Select) -> Selector {
    let name = select.name.iter().map(|name| Matcher::equal(METRIC_NAME, name));
    let matchers = name.chain(select.matchers.iter().cloned()).collect();
    Selector { matchers, anchor: anchor(select.when) }
}

fn anchor(when: When) -> Anchor {
    Anchor { at: when.at, offset: when.offset }
}
