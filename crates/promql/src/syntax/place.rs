//! Where in a query something stands.

use crate::error::{Error, ParseError};

/// Bytes of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn to(self, end: Self) -> Self {
        Self { start: self.start, end: end.end }
    }
}

/// What is wrong, and where.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) span: Span,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    Wrong(String),
    /// Prometheus hides it behind a feature flag.
    Experimental(&'static str),
    TooDeep {
        limit: usize,
    },
}

impl Fault {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Self { span, what: What::Wrong(message.into()) }
    }

    pub(crate) fn experimental(span: Span, what: &'static str) -> Self {
        Self { span, what: What::Experimental(what) }
    }

    /// As an error that names line and column, both counted from 1.
    pub(crate) fn into_error(self, text: &str) -> Error {
        let before = &text[..self.span.start.min(text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        match self.what {
            What::Wrong(message) => Error::Parse(ParseError { line, column, message }),
            What::Experimental(what) => Error::Experimental { what, line, column },
            What::TooDeep { limit } => Error::TooComplex { what: "levels of nesting", got: limit + 1, limit },
        }
    }
}
