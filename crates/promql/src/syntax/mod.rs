//! A query as written, for people and editors: laid out, as a tree, or as the selector that it is.
//!
//! ```text
//! text ── token ──▶ tokens ── parse ──▶ ast::Expr ──▶ plan (to be evaluated), print (laid out), JSON
//! ```
//! The parser is our own, so that every error names its place and what was expected there, so that nothing is compiled
//! or recursed into before it is known to be small, and so that strings and patterns mean what they mean in Prometheus.

pub(crate) mod ast;
mod literal;
mod parse;
pub(crate) mod place;
mod print;
mod signature;
mod token;
mod tree;

use serde_json::Value as Json;

use crate::error::{Error, ParseError, Result};
use crate::labels::METRIC_NAME;
use crate::source::Matcher;
use ast::{Expr, Node, Select, When};

/// What was expected where a query is complete but does not end.
pub const TRAILING: &str = "an operator or the end of the query";

const MAX_LENGTH: usize = 64 * 1024;
/// A chain of operators is a tree as deep as it is long: JSON is written by recursion.
const MAX_TREE: usize = 300;

/// The query with its types checked.
pub(crate) fn expression(query: &str) -> Result<Expr> {
    if query.len() > MAX_LENGTH {
        return Err(Error::TooComplex { what: "characters", got: query.len(), limit: MAX_LENGTH });
    }
    parse::parse(query).map_err(|fault| fault.into_error(query))
}

/// The query laid out over as many lines as it needs.
pub fn pretty(query: &str) -> Result<String> {
    Ok(print::pretty(&drawable(query)?, 0))
}

/// The query as the tree that Prometheus's `/api/v1/parse_query` answers with.
pub fn syntax_tree(query: &str) -> Result<Json> {
    Ok(tree::json(&drawable(query)?))
}

fn drawable(query: &str) -> Result<Expr> {
    let expr = expression(query)?;
    let mut n_levels = 0;
    let mut first = &expr;
    while let Node::Binary(b) = &first.node {
        (n_levels, first) = (n_levels + 1, &b.lhs);
    }
    match n_levels > MAX_TREE {
        true => Err(Error::TooComplex { what: "operators in a row", got: n_levels, limit: MAX_TREE }),
        false => Ok(expr),
    }
}

/// The matchers of a selector such as `up{job="x"}`, without range, offset or anything around it.
pub fn parse_selector(text: &str) -> Result<Vec<Matcher>> {
    match expression(text)?.node {
        Node::Select(Select { name, mut matchers, when }) if when == When::default() => {
            if let Some(name) = name {
                matchers.insert(0, Matcher::equal(METRIC_NAME, &name));
            }
            Ok(matchers)
        }
        _ => {
            let shown: String = text.chars().take(80).collect();
            let message = format!("{shown:?} is not a selector: write for example up{{job=\"x\"}}");
            Err(Error::Parse(ParseError { line: 1, column: 1, message }))
        }
    }
}

/// `1h30m`, `50s`, `0`, in milliseconds.
pub fn parse_duration(text: &str) -> Option<i64> {
    match text.trim() {
        "0" => Some(0),
        text => literal::duration(text)?.ok(),
    }
}

#[cfg(test)]
mod tests;
