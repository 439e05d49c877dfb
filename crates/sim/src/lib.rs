//! What would a policy do? A load, a model of pods and a virtual clock in; a timeline of decisions out.
//!
//! ```text
//! load ──> world (pods, backlog) ──> metrics (delay, loss) ──> policy (a real manifest, decide::*) ──┐
//!            ^                                                                                     │
//!            └──────────────────────── replicas, sizes ────────────────────────────────────────────┘
//! ```
//!
//! The policies are the ones the controllers run; only pods and metrics are made up. Everything is a function of the
//! scenario: the same file gives the same report, to the last digit. There is no clock, no I/O and no hidden randomness.

mod load;
mod metrics;
mod policy;
mod random;
mod report;
mod run;
mod scenario;
mod seconds;
mod series;
pub mod vertices;
mod world;

pub use load::{Load, Shape};
pub use report::{Change, Happening, Point, Report, Run, Summary};
pub use run::run;
pub use scenario::{Metrics, Outage, Pods, Scenario, Signal};
pub use seconds::Seconds;
pub use series::{Follows, SeriesForm};

/// Why a scenario cannot be run: where, and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the scenario cannot be read: {0}")]
    Yaml(String),
    #[error("{path}: {message}")]
    Field { path: String, message: String },
}

impl Error {
    fn field(path: impl Into<String>, message: impl Into<String>) -> Error {
        Error::Field { path: path.into(), message: message.into() }
    }

    fn under(self, parent: &str) -> Error {
        match self {
            Error::Yaml(message) => Error::field(parent, message),
            Error::Field { path, message } if path.is_empty() => Error::field(parent, message),
            Error::Field { path, message } => Error::field(format!("{parent}.{path}"), message),
        }
    }
}

impl From<decide::input::InputError> for Error {
    fn from(error: decide::input::InputError) -> Error {
        Error::field(error.path, error.message)
    }
}
