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
mod plan;
mod scalar;
mod source;
pub mod testfile;
mod value;

pub use annotations::{Annotation, Annotations, Fix, Severity};
pub use engine::{Engine, Options, Steps, query_instant, query_range};
pub use error::{Error, Result};
pub use histogram::{Bucket, Lifted, bucket_fraction, bucket_quantile};
pub use labels::{BUCKET, Interner, Label, Labels, METRIC_NAME};
pub use limits::Limits;
pub use memory::{MemorySource, Refusal};
pub use names::MetricNames;
pub use plan::{Kind, Plan, parse};
pub use scalar::{AutoscalingValue, Per, autoscaling_value};
pub use source::{MatchOp, Matcher, STALE, SeriesSource, SeriesView, TimeRange, is_stale};
pub use value::{Point, QueryResult, Sample, Series, Value};
