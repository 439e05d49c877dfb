use decide::vertex::{
    self, Kind, Limits, Memory, Observed, Partition, Scale, Spec,
    input::{ObservedForm, PipelineForm, SettingsForm, VertexForm},
};
use serde_json::Value;

use super::{Outcome, View, part};
use crate::Error;

#[derive(Clone, Debug)]
pub struct Scaler {
    spec: Spec,
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
        let input = vertex::Input {
            now: jiff::Timestamp::UNIX_EPOCH,
            vertex: VertexForm {
                name: String::new(),
                kind,
                scale: part::<Scale>(manifest, "/spec/scale")?,
                limits: part::<Limits>(manifest, "/spec/limits")?,
            },
            settings: SettingsForm::default(),
            observed: ObservedForm::default(),
            pipeline: PipelineForm::default(),
            memory: Memory::default(),
        };
        let (spec, _) = input.resolve().map_err(|error| {
            let path = error.path.replacen("vertex", "spec", 1);
            Error::field(path, error.message)
        })?;
        Ok(Scaler { spec })
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

    pub fn decide(&mut self, view: &View<'_>) -> Outcome {
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
            partitions: vec![partition],
            downstream: Vec::new(),
        };
        Outcome::of(vertex::decide(view.now(), &self.spec, &observed))
    }
}
