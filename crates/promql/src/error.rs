//! What can go wrong with a query, in words a person can act on.

use crate::labels::Labels;

/// A query that could not be answered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    #[error("cannot parse the query: {0}")]
    Parse(ParseError),
    /// Prometheus has it behind a feature flag.
    #[error("{line}:{column}: {what}, an experiment of Prometheus, is not supported")]
    Experimental { what: &'static str, line: usize, column: usize },
    #[error("the query has {got} {what}, at most {limit} are allowed: split it or shorten it")]
    TooComplex { what: &'static str, got: usize, limit: usize },
    #[error("{0} is not supported")]
    Unsupported(String),
    /// A selected series carries native histogram samples, which this engine cannot evaluate yet.
    #[error(
        "{0} has native histogram samples, which are not supported yet: expose it as a classic histogram (buckets with `le`)"
    )]
    NativeHistogram(Labels),
    #[error("the query needs more than {limit} {what}: narrow its selectors, its range or its steps")]
    Limit { what: &'static str, limit: u64 },
    #[error("the query was cut off: it ran longer than it was allowed to")]
    Interrupted,
    #[error("{0}")]
    InvalidRange(String),
    #[error("vector cannot contain metrics with the same labelset")]
    DuplicateLabelset,
    /// The query is well formed but has no value on this data, e.g. an ambiguous match.
    #[error("{0}")]
    Evaluation(String),
    #[error("reading series failed: {0}")]
    Source(String),
}

/// What is wrong with the text of a query, and where: line and column count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct ParseError {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;
