//! Remarks on a result: the query was answered, but perhaps not as its author meant it.
//!
//! The texts are those of Prometheus, which dashboards show to people who know them. Positions within the query are
//! left out.

use std::collections::BTreeMap;
use std::fmt;

use crate::format;
use crate::histogram::Lifted;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Info,
    Warning,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Annotation {
    InvalidQuantile { got: f64 },
    InvalidRatio { got: f64, capped: f64 },
    BadBucketLabel { value: String, metric: String },
    SortInRangeQuery,
    PossibleNonCounter { metric: String },
    ForcedMonotonicity { metric: String, fix: Fix },
}

/// How far the counts of a classic histogram had to be bent so that they rise with the bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fix {
    pub first: i64,
    pub last: i64,
    pub min_bound: f64,
    pub max_bound: f64,
    pub max_diff: f64,
    pub samples: u64,
}

/// The remarks on one result, each once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Annotations(BTreeMap<(Severity, String), Annotation>);

// === impl Annotation ===

impl Annotation {
    pub fn severity(&self) -> Severity {
        match self {
            Self::PossibleNonCounter { .. } | Self::ForcedMonotonicity { .. } => Severity::Info,
            _ => Severity::Warning,
        }
    }

    /// Remarks with one key say the same thing.
    fn key(&self) -> (Severity, String) {
        let text = match self {
            Self::ForcedMonotonicity { metric, .. } => format!("monotonicity {metric}"),
            other => other.to_string(),
        };
        (self.severity(), text)
    }
}

impl fmt::Display for Annotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let for_metric = |name: &str| match name {
            "" => String::new(),
            name => format!(" for metric name {name:?}"),
        };
        f.write_str(match self.severity() {
            Severity::Info => "PromQL info: ",
            Severity::Warning => "PromQL warning: ",
        })?;
        match self {
            Self::InvalidQuantile { got } => {
                write!(f, "quantile value should be between 0 and 1, got {}", format::short(*got))
            }
            Self::InvalidRatio { got, capped } => {
                let (got, capped) = (format::short(*got), format::short(*capped));
                write!(f, "ratio value should be between -1 and 1, got {got}, capping to {capped}")
            }
            Self::BadBucketLabel { value, metric } => {
                let metric = for_metric(metric);
                write!(f, "bucket label \"le\" is missing or has a malformed value of {value:?}{metric}")
            }
            Self::SortInRangeQuery => f.write_str(
                "sort is ineffective for range queries since results are always ordered by labels",
            ),
            Self::PossibleNonCounter { metric } => write!(
                f,
                "metric might not be a counter, name does not end in _total/_sum/_count/_bucket: {metric:?}"
            ),
            Self::ForcedMonotonicity { metric, fix } => write!(
                f,
                "input to histogram_quantile needed to be fixed for monotonicity (see \
                 https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile){}, from buckets \
                 {} to {}, with a max diff of {}, over {} samples from {} to {}",
                for_metric(metric),
                format::short(fix.min_bound),
                format::short(fix.max_bound),
                format::two_digits(fix.max_diff),
                fix.samples,
                format::time(fix.first),
                format::time(fix.last),
            ),
        }
    }
}

// === impl Annotations ===

impl Annotations {
    pub(crate) fn add(&mut self, annotation: Annotation) {
        /// Far more than anybody reads; each bucket of a store could bring one of its own.
        const MOST: usize = 1_000;
        if self.0.len() >= MOST && !self.0.contains_key(&annotation.key()) {
            return;
        }
        let merged = match (self.0.get(&annotation.key()), annotation) {
            (
                Some(Annotation::ForcedMonotonicity { fix: a, .. }),
                Annotation::ForcedMonotonicity { metric, fix: b },
            ) => Annotation::ForcedMonotonicity { metric, fix: a.merge(b) },
            (_, annotation) => annotation,
        };
        self.0.insert(merged.key(), merged);
    }

    pub fn iter(&self) -> impl Iterator<Item = &Annotation> {
        self.0.values()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn warnings(&self) -> Vec<String> {
        self.texts(Severity::Warning)
    }

    pub fn infos(&self) -> Vec<String> {
        self.texts(Severity::Info)
    }

    fn texts(&self, severity: Severity) -> Vec<String> {
        self.iter().filter(|a| a.severity() == severity).map(ToString::to_string).collect()
    }
}

impl Fix {
    pub(crate) fn at(time: i64, lifted: Lifted) -> Self {
        let Lifted { min_bound, max_bound, max_diff } = lifted;
        Self { first: time, last: time, min_bound, max_bound, max_diff, samples: 1 }
    }

    fn merge(self, other: Self) -> Self {
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            min_bound: self.min_bound.min(other.min_bound),
            max_bound: self.max_bound.max(other.max_bound),
            max_diff: self.max_diff.max(other.max_diff),
            samples: self.samples + other.samples,
        }
    }
}
