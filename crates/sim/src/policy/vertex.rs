use std::collections::{BTreeMap, VecDeque};

use decide::vertex::{
    self, Kind, Limits, Memory, Observed, Partition, Sample, Scale, Spec,
    input::{SettingsForm, VertexForm},
};
use serde_json::Value;

use super::{Outcome, View, part};
use crate::Error;

/// The longest lookback.
const KEEP_SECONDS: f64 = 600.0;

#[derive(Clone, Debug)]
pub struct Scaler {
    spec: Spec,
    memory: Memory,
    /// What was seen at each tick: when, and what.
    samples: VecDeque<(f64, Sample)>,
}

impl Scaler {
    pub fn new(manifest: &Value) -> Result<Scaler, Error> {
        let has = |pointer: &str| manifest.pointer(pointer).is_some();
        let kind = match manifest.get("kind").and_then(Value::as_str) {
            Some("MonoVertex") => Kind::MonoVertex,
            _ if has("/spec/source") => Kind::Source,
            _ if has("/spec/udf/groupBy") => Kind::Reduce,
            _ if has("/spec/udf") => Kind::Udf,
            _ if has("/spec/sink") => Kind::Sink,
            _ => return Err(Error::field("spec", "expected one of source, udf and sink")),
        };
        let annotations: BTreeMap<String, String> = part(manifest, "/metadata/annotations")?;
        let settings = SettingsForm::from_annotations(
            annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())),
        )
        .map_err(|error| Error::from(error).under("metadata"))?;
        let form = VertexForm {
            name: String::new(),
            kind,
            scale: part::<Scale>(manifest, "/spec/scale")?,
            limits: part::<Limits>(manifest, "/spec/limits")?,
        };
        let spec = form.resolve(&settings).map_err(|error| {
            let path = error.path.replacen("vertex", "spec", 1);
            Error::field(path, error.message)
        })?;
        Ok(Scaler { spec, memory: Memory::default(), samples: VecDeque::new() })
    }

    pub fn kind(&self) -> &'static str {
        match self.spec.kind {
            Kind::Source => "source vertex",
            Kind::Udf => "UDF vertex",
            Kind::Sink => "sink vertex",
            Kind::Reduce => "reduce vertex",
            Kind::MonoVertex => "MonoVertex",
        }
    }

    /// Keeps what is new in the measurement that a policy sees.
    fn look(&mut self, view: &View<'_>) {
        let Some(seen) = view.sample else { return };
        if self.samples.back().is_some_and(|(at, _)| *at >= seen.at) {
            return;
        }
        let sample = Sample {
            at: view.moment(seen.at),
            pending: seen.backlog.round() as i64,
            ack_pending: 0,
            processed: seen.processed,
            ready: i32::try_from(seen.ready).unwrap_or(i32::MAX),
            downstream_usage: 0.0,
        };
        self.samples.push_back((seen.at, sample));
        while self.samples.front().is_some_and(|(at, _)| *at < view.t - KEEP_SECONDS) {
            self.samples.pop_front();
        }
    }

    pub fn decide(&mut self, view: &View<'_>) -> Outcome {
        self.look(view);
        let ready = i32::try_from(view.world.n_ready(view.t)).unwrap_or(i32::MAX);
        let partition = Partition {
            name: "partition 0".into(),
            pending: view.sample.map(|sample| sample.backlog.round() as i64),
            ack_pending: 0,
            rate: view.sample.map(|sample| sample.served),
            at: view.sample.map(|sample| view.moment(sample.at)),
        };
        let observed = Observed {
            current: view.replicas,
            desired: view.replicas,
            ready,
            phase: "Running".into(),
            rolling_update: false,
            last_scaled_at: view.last_scaled.map(|t| view.moment(t)),
            ready_since: view.world.ready_since(view.t).map(|t| view.moment(t)),
            partitions: vec![partition],
            downstream: Vec::new(),
            samples: self.samples.iter().map(|(_, sample)| *sample).collect(),
            template: None,
        };
        let decision = vertex::decide(view.now(), &self.spec, &observed, &self.memory);
        self.memory.clone_from(&decision.memory);
        Outcome::of(decision)
    }
}
