//! The Prometheus text format and OpenMetrics, line by line, without copying.
//!
//! Both formats share one grammar here; they differ in the unit of timestamps (milliseconds, seconds) and in that an
//! OpenMetrics body must end with `# EOF`. Comments, metadata and exemplars are passed over.

mod cache;
mod error;
mod line;
mod parser;
#[cfg(test)]
mod tests;

pub use cache::SeriesCache;
pub use error::{Error, Problem};
pub use line::{Label, Sample};
pub use parser::{Line, Parser};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `text/plain`; timestamps are milliseconds.
    #[default]
    Prometheus,
    /// `application/openmetrics-text`; timestamps are seconds, the end is marked.
    OpenMetrics,
}

impl Format {
    pub fn from_content_type(content_type: &str) -> Self {
        let media = content_type.split(';').next().unwrap_or_default().trim();
        if media.eq_ignore_ascii_case("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }
}

/// What one line may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one line, comments included.
    pub line: usize,
    /// Labels of one series.
    pub labels: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { line: 64 << 10, labels: 64 }
    }
}
