/// Why a body was refused, and where. Nothing of a refused body is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct Error {
    /// Counted from one.
    pub line: usize,
    pub problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("{got} bytes are too long for one line, at most {limit} are read")]
    LineTooLong { got: usize, limit: usize },
    #[error("more than {limit} labels on one series")]
    TooManyLabels { limit: usize },
    #[error(
        "more than {limit} wanted series in one target: drop labels or narrow the queries that ask for them"
    )]
    TooManySeries { limit: usize },
    #[error("the body is not UTF-8")]
    InvalidUtf8,
    #[error("expected {expected} at column {column}, found {found}")]
    Syntax { expected: &'static str, column: usize, found: String },
    #[error("label {0:?} stands twice")]
    DuplicateLabel(String),
    #[error("{0:?} is not a number")]
    Value(String),
    #[error("{0:?} is not a timestamp")]
    Timestamp(String),
    #[error("the body ends without `# EOF`: it was cut off")]
    MissingEof,
    #[error("text after `# EOF`")]
    AfterEof,
}
