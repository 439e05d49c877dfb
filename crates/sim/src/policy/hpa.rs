use std::sync::Arc;

use decide::{
    hpa::{
        self, Answer, Condition, Memory, Observed, Phase, Pod, Ready, Requests, Sample, Settings, Spec,
        input::{MetricForm, SpecForm},
    },
    quantity::{Figure, Quantity},
};
use serde_json::Value;

use super::{Outcome, View, part, signal};
use crate::{Error, Signal, scenario::Metrics};

#[derive(Clone, Debug)]
pub struct Scaler {
    spec: Spec,
    /// What each metric of the spec reads.
    sources: Vec<Source>,
    /// The time that a sample averages over: from one measurement to the next.
    window_seconds: i64,
    memory: Memory,
}

/// The resource that a decision follows.
#[derive(Clone, Debug)]
pub struct DecidingResource {
    /// Memory otherwise.
    pub is_cpu: bool,
    pub container: Option<Arc<str>>,
    pub target: hpa::ResourceTarget,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Cpu,
    Memory,
    PerPod(Signal),
    Total(Signal),
}

impl Scaler {
    pub fn new(manifest: &Value, metrics: &Metrics) -> Result<Scaler, Error> {
        Scaler::from_spec(part(manifest, "/spec")?, metrics).map_err(|error| error.under("spec"))
    }

    pub fn from_spec(form: SpecForm, metrics: &Metrics) -> Result<Scaler, Error> {
        let mut sources = Vec::with_capacity(form.metrics.len().max(1));
        for (idx, metric) in form.metrics.iter().enumerate() {
            sources.push(source(metric, metrics).map_err(|error| error.under(&format!("metrics[{idx}]")))?);
        }
        if sources.is_empty() {
            sources.push(Source::Cpu);
        }
        let spec = form.resolve(Settings::default())?;
        let window_seconds = metrics.interval.0.ceil() as i64;
        Ok(Scaler { spec, sources, window_seconds, memory: Memory::default() })
    }

    pub fn decide(&mut self, view: &View<'_>) -> Outcome {
        let mut decision = self.decision(view);
        self.memory = std::mem::take(&mut decision.memory);
        Outcome::of(decision)
    }

    /// The decision with its memory still in it.
    pub fn decision(&mut self, view: &View<'_>) -> hpa::Decision {
        let observed = self.observed(view);
        hpa::decide(view.now(), &self.spec, &observed, std::mem::take(&mut self.memory))
    }

    pub fn remember(&mut self, memory: Memory) {
        self.memory = memory;
    }

    /// The metric that a decision follows, if it is a resource of the pods, and whether more was wanted than it could say.
    pub fn deciding_resource(&self, decision: &hpa::Decision) -> (Option<DecidingResource>, bool) {
        let Some((metric, proposed)) = self.spec.deciding(decision) else { return (None, false) };
        let resource = match &metric.source {
            hpa::Source::Resource { resource, container, target } => Some(DecidingResource {
                is_cpu: **resource == *"cpu",
                container: container.clone(),
                target: *target,
            }),
            _ => None,
        };
        (resource, proposed > decision.desired)
    }

    fn observed(&self, view: &View<'_>) -> Observed {
        let pods = view.world.pods().iter().map(|pod| {
            let ready = pod.ready_at <= view.t;
            let since = view.moment(if ready { pod.ready_at } else { pod.created });
            let status = if ready { Condition::True } else { Condition::False };
            Pod {
                phase: Phase::Running,
                deleting: false,
                start: Some(view.moment(pod.created)),
                ready: Some(Ready { status, since }),
            }
        });
        let current = view.replicas;
        Observed {
            current,
            status_replicas: i32::try_from(view.world.pods().len()).unwrap_or(i32::MAX),
            // At zero only a scaler that went there itself comes back; in a simulation nobody else does.
            scaled_to_zero: current == 0,
            pods: pods.collect(),
            answers: self.sources.iter().map(|source| source.answer(view, self.window_seconds)).collect(),
        }
    }
}

fn source(metric: &MetricForm, metrics: &Metrics) -> Result<Source, Error> {
    let resource = |name: &str, path: &str| match name {
        "cpu" => Ok(Source::Cpu),
        "memory" => Ok(Source::Memory),
        name => Err(Error::field(path, format!("expected cpu or memory, found {name:?}"))),
    };
    let named = |name: &str, path: &str| signal(metrics, &[name], path);
    match metric {
        MetricForm { resource: Some(form), .. } => resource(&form.name, "resource.name"),
        MetricForm { container_resource: Some(form), .. } => resource(&form.name, "containerResource.name"),
        MetricForm { pods: Some(form), .. } => {
            named(&form.metric.name, "pods.metric.name").map(Source::PerPod)
        }
        MetricForm { object: Some(form), .. } => {
            named(&form.metric.name, "object.metric.name").map(Source::Total)
        }
        MetricForm { external: Some(form), .. } => {
            named(&form.metric.name, "external.metric.name").map(Source::Total)
        }
        _ => Err(Error::field("type", "no metric source is given")),
    }
}

impl Source {
    fn answer(self, view: &View<'_>, window_seconds: i64) -> Answer {
        let Some(sample) = view.sample else {
            return Answer::Failed(Arc::from("no sample has come through yet"));
        };
        let at = Some(view.moment(sample.at));
        let pods = view.world.pods();
        let per_pod = |value: &dyn Fn(&crate::world::Pod) -> Option<f64>,
                       request: fn(&crate::world::Pod) -> u64| {
            let samples = pods
                .iter()
                .map(|pod| value(pod).map(|value| Sample { value: value as i64, at, window_seconds }));
            let requests = pods.iter().map(|pod| i64::try_from(request(pod)).unwrap_or(i64::MAX));
            Answer::Pods { samples: samples.collect(), requests: Requests::Known(requests.collect()) }
        };
        match self {
            Source::Cpu => per_pod(&|pod| sample.cpu(view.pods, pod), |pod| pod.size.cpu),
            Source::Memory => {
                let bytes = view.pods.memory();
                let of = |pod: &crate::world::Pod| (pod.ready_at <= sample.at).then_some(bytes * 1000.0);
                per_pod(&of, |pod| pod.size.memory.saturating_mul(1000))
            }
            Source::PerPod(signal) => {
                let ready = pods.iter().filter(|pod| pod.ready_at <= sample.at).count().max(1) as f64;
                let of = |pod: &crate::world::Pod| {
                    (pod.ready_at <= sample.at).then(|| sample.value(signal) / ready * 1000.0)
                };
                per_pod(&of, |_| 0)
            }
            Source::Total(signal) => {
                let milli = (sample.value(signal) * 1000.0) as i64;
                Answer::Total { values: vec![Figure(Some(Quantity(milli)))], at }
            }
        }
    }
}
