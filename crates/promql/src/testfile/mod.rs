//! Runs test files in the format of Prometheus (`load`, `clear`, `eval`): its own, which come with its Go module, and
//! yours, for the queries that your autoscaling depends on.
//!
//! As Prometheus's runner does, every instant query is run again in two ways that must not change its value: pinned to
//! its time by `@` and evaluated at other times, and as the middle step of a range query.
//!
//! Positions such as `(1:5)` at the end of expected annotations are not compared: annotations do not carry any.

mod check;
mod command;
mod run;
mod series;

pub use run::run;

/// What became of every evaluation of a file.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub cases: Vec<Case>,
}

#[derive(Debug, Clone)]
pub struct Case {
    pub line: usize,
    pub query: String,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed(String),
    Skipped(Skip),
}

/// Why an evaluation was not tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skip {
    /// It reads native histograms.
    NativeHistogram,
    /// It needs something that Prometheus itself hides behind a feature flag.
    Experimental(&'static str),
}

impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NativeHistogram => f.write_str("native histogram"),
            Self::Experimental(what) => write!(f, "experimental: {what}"),
        }
    }
}

impl Report {
    pub fn count(&self, wanted: impl Fn(&Outcome) -> bool) -> usize {
        self.cases.iter().filter(|c| wanted(&c.outcome)).count()
    }

    pub fn passed(&self) -> usize {
        self.count(|o| *o == Outcome::Passed)
    }

    pub fn failures(&self) -> impl Iterator<Item = (&Case, &str)> {
        self.cases.iter().filter_map(|c| match &c.outcome {
            Outcome::Failed(why) => Some((c, why.as_str())),
            _ => None,
        })
    }

    pub fn skipped(&self) -> impl Iterator<Item = (&Case, Skip)> {
        self.cases.iter().filter_map(|c| match &c.outcome {
            Outcome::Skipped(why) => Some((c, *why)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;

/// A file that is not in the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct SyntaxError {
    pub line: usize,
    pub message: String,
}
