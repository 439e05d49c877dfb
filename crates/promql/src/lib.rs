//! The query language of Prometheus: parse, plan, evaluate.
//!
//! ```text
//! text ── parse ──▶ Plan ── Engine + SeriesSource + time + Limits ──▶ QueryResult
//!                    ├── names: which metrics it reads
//!                    └── scalar: one number for autoscaling, and whether it is a total or a figure per pod
//! ```
//!
//! A query means here what it means in Prometheus 3: `testfile` runs Prometheus's own test files against this engine.
//! Values are floats; a series with native histogram samples is refused with an error that says so.
//!
//! Evaluation is series-major: each part of a query turns whole rows (one series, all steps) into rows, labels are
//! grouped and matched once per query rather than once per step, and windows slide along a series only forward.
//!
//! ```
//! use promql::{AutoscalingValue, Engine, Labels, Limits, MemorySource, Per, autoscaling_value, parse};
//!
//! let mut source = MemorySource::new();
//! for (pod, values) in [("a", [0.0, 60.0, 180.0]), ("b", [0.0, 30.0, 90.0])] {
//!     let labels = Labels::from_pairs([("__name__", "http_requests_total"), ("pod", pod)]);
//!     source.push_all(&labels, 0, 15_000, &values)?;
//! }
//! let plan = parse("sum(rate(http_requests_total[1m]))")?;
//! assert_eq!(plan.per(), Per::Total);
//! let value = autoscaling_value(&Engine::default(), &plan, &source, 30_000, Limits::default())?;
//! // 180 and 90 requests within the minute, and none before, since both counters began at zero: 270 / 60 s.
//! assert_eq!(value, AutoscalingValue::Value(4.5));
//! # Ok::<(), promql::Error>(())
//! ```
//!
//! The crate has no clock, no I/O and no threads: time, data and limits come in as values.

mod almost;
mod annotations;
mod engine;
mod error;
mod eval;
mod format;
mod functions;
mod histogram;
mod labels;
mod limits;
mod memory;
mod names;
mod pattern;
mod plan;
mod scalar;
mod shape;
mod source;
mod syntax;
pub mod testfile;
mod value;

pub use annotations::{Annotation, Annotations, Fix, Severity};
pub use engine::{Engine, Options, Steps, query_instant, query_range};
pub use error::{Error, ParseError, Result};
pub use format::plain as format_value;
pub use histogram::{Bucket, Lifted, bucket_fraction, bucket_quantile};
pub use labels::{BUCKET, Interner, Label, Labels, METRIC_NAME};
pub use limits::{Budget, Limits};
pub use memory::{MemorySource, Refusal};
pub use names::MetricNames;
pub use plan::{Kind, Plan, parse};
pub use scalar::{AutoscalingValue, Per, autoscaling_value, autoscaling_value_within};
pub use source::{MatchOp, Matcher, STALE, SeriesSource, SeriesView, TimeRange, is_stale};
pub use syntax::{TRAILING, parse_duration, parse_selector, pretty, syntax_tree};
pub use value::{Point, QueryResult, Sample, Series, Value};
