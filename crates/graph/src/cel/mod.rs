//! Expressions: read, priced, run.
//!
//! ```text
//! "${schema.spec.name}-${string(port)}" ─ scan ─ parse ─ Expr ─ eval(names, budget) ─ Cel ─ to_json ─ value
//! ```
//!
//! Values are those of the `cel` crate, so that the Kubernetes libraries of `kube-cel` can be called; the tree and the
//! machine are our own, because an expression of a definition has to have a price while it runs, and macros of two
//! variables.

pub(crate) mod ast;
mod budget;
pub(crate) mod eval;
pub(crate) mod functions;
mod lex;
mod operators;
mod parse;
pub(crate) mod value;

pub(crate) use budget::Budget;
pub(crate) use eval::{Failure, Names};
pub(crate) use parse::{RESERVED, parse};

#[cfg(test)]
mod tests;
