//! The envelope around every answer.

use std::fmt::Write as _;

use http::StatusCode;
use promql::{Error, ParseError};
use serde_json::{Value as Json, json};

use crate::reply::{self, Reply};
use crate::run::Failure;

/// As many remarks as Prometheus shows of each kind.
const MAX_REMARKS: usize = 10;

#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The answer up to its warnings, written already: results may be long.
    pub(super) body: String,
    warnings: Vec<String>,
    infos: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorType {
    BadData,
    Execution,
    Timeout,
    Internal,
    Unavailable,
    Busy,
}

#[derive(Debug)]
pub(crate) struct ApiError {
    kind: ErrorType,
    message: String,
}

pub(crate) type Result<T> = std::result::Result<T, ApiError>;

// === impl Answer ===

impl Answer {
    pub(crate) fn new(data: &Json) -> Self {
        let mut answer = Self::begun();
        let _ = write!(answer.body, "{data}");
        answer
    }

    pub(crate) fn empty_list() -> Self {
        Self::new(&json!([]))
    }

    /// The data is to be written into the body.
    pub(crate) fn begun() -> Self {
        Self { body: r#"{"status":"success","data":"#.to_string(), ..Self::default() }
    }

    pub(crate) fn remark(mut self, annotations: &promql::Annotations) -> Self {
        self.warnings = shown(annotations.warnings(), "warning");
        self.infos = shown(annotations.infos(), "info");
        self
    }

    pub(crate) fn warn(mut self, warning: Option<String>) -> Self {
        self.warnings.extend(warning);
        self
    }

    pub(crate) fn truncated(mut self, is_truncated: bool) -> Self {
        if is_truncated {
            self.warnings.push("results truncated due to limit".into());
        }
        self
    }

    pub(crate) fn reply(self) -> Reply {
        let mut body = self.body;
        for (name, remarks) in [("warnings", self.warnings), ("infos", self.infos)] {
            if !remarks.is_empty() {
                body += &format!(",{name:?}:{}", json!(remarks));
            }
        }
        body.push('}');
        reply::of_type(StatusCode::OK, "application/json", body)
    }
}

fn shown(mut remarks: Vec<String>, kind: &str) -> Vec<String> {
    let n_more = remarks.len().saturating_sub(MAX_REMARKS);
    if n_more > 0 {
        remarks.truncate(MAX_REMARKS);
        remarks.push(format!("{n_more} more {kind} annotations omitted"));
    }
    remarks
}

// === impl ApiError ===

impl ApiError {
    pub(crate) fn new(kind: ErrorType, message: impl std::fmt::Display) -> Self {
        Self { kind, message: message.to_string() }
    }

    pub(crate) fn bad_data(message: impl std::fmt::Display) -> Self {
        Self::new(ErrorType::BadData, message)
    }

    pub(crate) fn parameter(name: &str, problem: impl std::fmt::Display) -> Self {
        Self::bad_data(format!("invalid parameter {name:?}: {problem}"))
    }

    pub(crate) fn reply(self) -> Reply {
        let (status, kind) = match self.kind {
            ErrorType::BadData => (StatusCode::BAD_REQUEST, "bad_data"),
            ErrorType::Execution => (StatusCode::UNPROCESSABLE_ENTITY, "execution"),
            ErrorType::Timeout => (StatusCode::SERVICE_UNAVAILABLE, "timeout"),
            ErrorType::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
            ErrorType::Busy => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            ErrorType::Unavailable => (StatusCode::INTERNAL_SERVER_ERROR, "unavailable"),
        };
        reply::json(status, &json!({ "status": "error", "errorType": kind, "error": self.message }))
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        let error = match failure {
            Failure::Query(error) => error,
            Failure::Lost(why) => return Self::new(ErrorType::Internal, why),
            Failure::Busy { .. } => return Self::new(ErrorType::Busy, failure),
        };
        match &error {
            Error::Parse(_)
            | Error::Experimental { .. }
            | Error::TooComplex { .. }
            | Error::Unsupported(_)
            | Error::InvalidRange(_) => Self::parameter("query", said(&error)),
            Error::Interrupted => Self::new(ErrorType::Timeout, "query timed out in expression evaluation"),
            Error::Source(_) => Self::new(ErrorType::Internal, error),
            Error::Limit { .. }
            | Error::NativeHistogram(_)
            | Error::DuplicateLabelset
            | Error::Evaluation(_) => Self::new(ErrorType::Execution, error),
        }
    }
}

/// As Prometheus begins it.
pub(super) fn said(error: &Error) -> String {
    match error {
        Error::Parse(ParseError { line, column, message }) => {
            format!("{line}:{column}: parse error: {message}")
        }
        other => other.to_string(),
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Failure::Query(error).into()
    }
}
