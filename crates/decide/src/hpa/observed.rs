//! What was seen, aligned by index: samples follow the order of the pods, answers the order of the spec's metrics.

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{input::moment, quantity::Figure};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The target's `spec.replicas`.
    pub current: i32,
    /// The target's `status.replicas`.
    pub status_replicas: i32,
    /// Whether it was this autoscaler that went to zero; a person's zero switches it off.
    pub scaled_to_zero: bool,
    pub pods: Vec<Pod>,
    pub answers: Vec<Answer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pod {
    pub phase: Phase,
    pub deleting: bool,
    pub start: Option<Timestamp>,
    pub ready: Option<Ready>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    Pending,
    #[default]
    Running,
    Succeeded,
    Failed,
    Unknown,
}

/// The pod's Ready condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ready {
    pub status: Condition,
    #[serde(rename = "lastTransitionTime", deserialize_with = "moment")]
    pub since: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Condition {
    True,
    False,
    Unknown,
}

/// What came back for one metric of the spec.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A sample for each pod, and for utilization each pod's request.
    Pods { samples: Vec<Option<Sample>>, requests: Requests },
    /// The figures of an object or of an external source.
    Total { values: Vec<Figure>, at: Option<Timestamp> },
    /// The metrics API said no.
    Failed(Arc<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Thousandths.
    pub value: i64,
    /// None is as good as now.
    pub at: Option<Timestamp>,
    pub window_seconds: i64,
}

/// Requests in thousandths by pod, or the first one that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requests {
    Known(Vec<i64>),
    Missing { pod: Arc<str>, container: Option<Arc<str>> },
}
