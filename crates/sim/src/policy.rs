//! Real manifests as policies of a simulated workload.

mod demand;
mod hpa;
mod hvpa;
mod unsynchronized;
mod vertex;
mod vpa;

use jiff::{SignedDuration, Timestamp};
use promql::MemorySource;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    Error, Signal,
    metrics::Sample,
    scenario::{Metrics, Pods},
    world::{Size, World},
};

#[derive(Clone, Debug)]
pub struct Policy {
    pub name: String,
    pub scaler: Scaler,
}

/// A policy with its memory.
#[derive(Clone, Debug)]
pub enum Scaler {
    Hpa(Box<hpa::Scaler>),
    Demand(Box<demand::Scaler>),
    Vertex(Box<vertex::Scaler>),
    Hvpa(Box<hvpa::Scaler>),
    Vpa(Box<hvpa::Scaler>),
    Unsynchronized(Box<unsynchronized::Scaler>),
}

/// What a policy sees.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub start: Timestamp,
    pub t: f64,
    pub world: &'a World,
    pub pods: &'a Pods,
    /// The replicas that were last decided.
    pub replicas: i32,
    pub sample: Option<Sample>,
    /// What has arrived, for queries.
    pub series: &'a MemorySource,
    /// When demand last came, in seconds.
    pub last_call: Option<f64>,
    pub last_scaled: Option<f64>,
}

/// What a policy wants, and why.
#[derive(Debug)]
pub struct Outcome {
    pub replicas: i32,
    pub size: Option<Size>,
    pub code: &'static str,
    pub words: Box<dyn Words>,
}

/// The words of a decision, made when somebody reads them.
pub trait Words: std::fmt::Debug {
    fn why(&self) -> String;
    fn explain(&self) -> String;
}

impl<M: std::fmt::Debug, R: decide::Rule> Words for decide::Decision<M, R> {
    fn why(&self) -> String {
        decide::Decision::why(self)
    }

    fn explain(&self) -> String {
        decide::Decision::explain(self).to_string()
    }
}

impl Scaler {
    pub fn from_manifest(manifest: &Value, pods: &Pods, metrics: &Metrics) -> Result<Scaler, Error> {
        let field = |name: &str| manifest.get(name).and_then(Value::as_str).unwrap_or_default();
        match (field("apiVersion"), field("kind")) {
            ("autoscaling/v2", "HorizontalPodAutoscaler") => {
                hpa::Scaler::new(manifest, metrics).map(|scaler| Scaler::Hpa(Box::new(scaler)))
            }
            ("apps/v1", "Deployment" | "StatefulSet") => {
                demand::Scaler::new(manifest, metrics).map(|scaler| Scaler::Demand(Box::new(scaler)))
            }
            ("numaflow.numaproj.io/v1alpha1", "Vertex" | "MonoVertex") => {
                vertex::Scaler::new(manifest).map(|scaler| Scaler::Vertex(Box::new(scaler)))
            }
            ("autoscaling.k8s.io/v1alpha1", "Hvpa") => {
                hvpa::Scaler::new(manifest, pods, metrics).map(|scaler| Scaler::Hvpa(Box::new(scaler)))
            }
            ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler") => {
                vpa::scaler(manifest, pods, metrics).map(|scaler| Scaler::Vpa(Box::new(scaler)))
            }
            ("v1", "List") => unsynchronized::Scaler::new(manifest, pods, metrics)
                .map(|scaler| Scaler::Unsynchronized(Box::new(scaler))),
            (api_version, kind) => Err(Error::field(
                "kind",
                format!(
                    "expected an autoscaling/v2 HorizontalPodAutoscaler, an apps/v1 Deployment or StatefulSet, a \
                     numaflow.numaproj.io/v1alpha1 Vertex or MonoVertex, an autoscaling.k8s.io/v1alpha1 Hvpa, an \
                     autoscaling.k8s.io/v1 VerticalPodAutoscaler, or a v1 List of a HorizontalPodAutoscaler and a \
                     VerticalPodAutoscaler, found {api_version:?} {kind:?}"
                ),
            )),
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Scaler::Hpa(_) => "HorizontalPodAutoscaler",
            Scaler::Demand(_) => "function on demand",
            Scaler::Vertex(scaler) => scaler.kind(),
            Scaler::Hvpa(_) => "Hvpa",
            Scaler::Vpa(_) => "VerticalPodAutoscaler",
            Scaler::Unsynchronized(_) => "HorizontalPodAutoscaler and VerticalPodAutoscaler",
        }
    }

    /// A call wakes a function at once; it does not wait for the next look.
    pub fn wakes_on_calls(&self) -> bool {
        matches!(self, Scaler::Demand(_))
    }

    pub fn decide(&mut self, view: &View<'_>) -> Outcome {
        match self {
            Scaler::Hpa(scaler) => scaler.decide(view),
            Scaler::Demand(scaler) => scaler.decide(view),
            Scaler::Vertex(scaler) => scaler.decide(view),
            Scaler::Hvpa(scaler) | Scaler::Vpa(scaler) => scaler.decide(view),
            Scaler::Unsynchronized(scaler) => scaler.decide(view),
        }
    }
}

impl View<'_> {
    pub fn now(&self) -> Timestamp {
        self.moment(self.t)
    }

    /// A moment of the run as a time; what was there from the beginning is a day older.
    pub fn moment(&self, t: f64) -> Timestamp {
        moment(self.start, t)
    }
}

/// `t` seconds after the start.
pub fn moment(start: Timestamp, t: f64) -> Timestamp {
    const LONG_AGO: f64 = -86_400.0;
    let millis = (t.max(LONG_AGO) * 1000.0).round() as i64;
    start.checked_add(SignedDuration::from_millis(millis)).unwrap_or(start)
}

impl Outcome {
    fn of<M, R>(decision: decide::Decision<M, R>) -> Outcome
    where
        M: std::fmt::Debug + 'static,
        R: decide::Rule<Value = i32> + 'static,
    {
        Outcome {
            replicas: decision.desired,
            size: None,
            code: decision.reason.code,
            words: Box::new(decision),
        }
    }
}

/// One part of a manifest as a type; what is missing is its default.
fn part<T: DeserializeOwned>(manifest: &Value, pointer: &str) -> Result<T, Error> {
    let value = manifest.pointer(pointer).cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    let path = pointer.trim_start_matches('/').replace('/', ".");
    serde_path_to_error::deserialize(value).map_err(|error| {
        let at = error.path().to_string();
        Error::field(if at == "." { String::new() } else { at }, error.inner().to_string()).under(&path)
    })
}

fn signal(metrics: &Metrics, names: &[&str], path: &str) -> Result<Signal, Error> {
    names.iter().find_map(|&name| metrics.signals.get(name)).copied().ok_or_else(|| {
        let name = names.first().copied().unwrap_or_default();
        let message = format!(
            "nothing is known of {name:?}; say under metrics.signals whether it stands for load, served or backlog"
        );
        Error::field(path, message)
    })
}
