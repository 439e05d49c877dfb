use decide::demand::{
    self, Answer, Graph, Memory, Node, Observed, Per, Scale, Schedule, Spec,
    input::{FunctionForm, ObservedForm},
};
use serde_json::{Value, json};

use super::{Outcome, View, part, signal};
use crate::{Error, Signal, scenario::Metrics};

/// As Prometheus looks back: a series silent for longer has no value.
const STALE_AFTER: f64 = 300.0;

#[derive(Clone, Debug)]
pub struct Scaler {
    name: String,
    spec: Spec,
    signals: Vec<Signal>,
    memory: Memory,
}

impl Scaler {
    /// Annotations are read from the pod template, and from the object where the template has none of that name.
    pub fn new(manifest: &Value, metrics: &Metrics) -> Result<Scaler, Error> {
        const TEMPLATE: &str = "/spec/template/metadata/annotations";
        let find = |name: &str| {
            let key = format!("SlimFaas/{name}");
            [TEMPLATE, "/metadata/annotations"]
                .iter()
                .find_map(|pointer| manifest.pointer(pointer)?.get(&key))
                .map(|value| (key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        };
        let mut form = json!({});
        for (annotation, field) in [
            ("ReplicasMin", "replicasMin"),
            ("ReplicasAtStart", "replicasAtStart"),
            ("TimeoutSecondBeforeSetReplicasMin", "timeoutSecondBeforeSetReplicasMin"),
        ] {
            if let Some((key, text)) = find(annotation) {
                let number: i64 = text.trim().parse().map_err(|_| {
                    Error::field(annotation_path(&key), format!("expected a number, found {text:?}"))
                })?;
                form[field] = json!(number);
            }
        }
        let mut function: FunctionForm = part(&json!({ "function": form }), "/function")?;
        if let Some((key, text)) = find("Schedule") {
            function.schedule = annotation::<Schedule>(&key, &text)?;
        }
        if let Some((key, text)) = find("Scale") {
            function.scale = Some(annotation::<Scale>(&key, &text)?);
        }
        if let Some((key, _)) = find("DependsOn") {
            let message = "a simulation has only one workload; leave dependencies out";
            return Err(Error::field(annotation_path(&key), message));
        }
        let mut signals = Vec::new();
        for (idx, trigger) in function.scale.iter().flat_map(|scale| &scale.triggers).enumerate() {
            let path = format!("{}.Triggers[{idx}]", annotation_path("SlimFaas/Scale"));
            signals.push(signal(metrics, &[&trigger.metric_name, &trigger.query], &path)?);
        }
        let name =
            manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("function").to_owned();
        let input = demand::Input {
            now: jiff::Timestamp::UNIX_EPOCH,
            function,
            observed: ObservedForm::default(),
            others: Vec::new(),
            memory: Memory::default(),
        };
        let (spec, _) = input.resolve()?;
        Ok(Scaler { name, spec, signals, memory: Memory::default() })
    }

    pub fn decide(&mut self, view: &View<'_>) -> Outcome {
        let ready = view.world.n_ready(view.t);
        let graph = Graph::new(vec![Node {
            name: self.name.as_str().into(),
            depends_on: Vec::new(),
            last_call: view.last_call.map(|t| view.moment(t)),
            active_calls: u32::from(view.world.backlog() > 0.0),
            starts_with_any: false,
            schedule: self.spec.schedule.clone(),
            ready: i32::try_from(ready).unwrap_or(i32::MAX),
            needed: self.spec.at_start,
        }]);
        let observed = Observed {
            current: view.replicas,
            activity: graph.activity(view.now(), &self.name),
            dependencies: demand::Dependencies::default(),
            unschedulable: None,
            readings: self.readings(view, ready),
        };
        let memory = std::mem::take(&mut self.memory);
        let mut decision = demand::decide(view.now(), &self.spec, &observed, memory);
        self.memory = std::mem::take(&mut decision.memory);
        Outcome::of(decision)
    }

    fn readings(&self, view: &View<'_>, ready: usize) -> Vec<Answer> {
        let triggers = self.spec.scale.iter().flat_map(|scale| &scale.triggers);
        let read = |(trigger, signal): (&demand::Trigger, &Signal)| match view.sample {
            Some(sample) if view.t - sample.at <= STALE_AFTER => {
                let total = sample.value(*signal);
                match trigger.per {
                    Some(Per::Pod) => Answer::Value { value: total / ready.max(1) as f64, per: None },
                    _ => Answer::Value { value: total, per: Some(Per::Total) },
                }
            }
            Some(_) => Answer::Failed("no sample for five minutes".into()),
            None => Answer::Failed("no sample has come through yet".into()),
        };
        triggers.zip(&self.signals).map(read).collect()
    }
}

fn annotation<T: serde::de::DeserializeOwned>(key: &str, text: &str) -> Result<T, Error> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| Error::field(annotation_path(key), format!("expected JSON: {error}")))?;
    part(&json!({ "value": value }), "/value").map_err(|error| match error {
        Error::Field { path, message } => {
            let rest = path.trim_start_matches("value").trim_start_matches('.');
            Error::field(rest, message).under(&annotation_path(key))
        }
        other => other,
    })
}

fn annotation_path(key: &str) -> String {
    format!("annotations[{key}]")
}
