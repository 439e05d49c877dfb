use std::sync::Arc;

use decide::demand::{
    self, Answer, Graph, Memory, Node, Observed, Per, Scale, Schedule, Spec,
    input::{FunctionForm, ObservedForm},
};
use promql::{AutoscalingValue, Engine, Limits, Plan, autoscaling_value};
use serde_json::{Value, json};

use super::{Outcome, View, part};
use crate::{Error, scenario::Metrics};

#[derive(Clone, Debug)]
pub struct Scaler {
    name: String,
    spec: Spec,
    plans: Vec<Arc<Plan>>,
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
        let name =
            manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("function").to_owned();
        let namespace = manifest.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("default");
        let mut plans = Vec::new();
        for (idx, trigger) in function.scale.iter().flat_map(|scale| &scale.triggers).enumerate() {
            let path = format!("{}.Triggers[{idx}].Query", annotation_path("SlimFaas/Scale"));
            let query = trigger.query.replace("${app}", &name).replace("${namespace}", namespace);
            plans.push(plan(&query, metrics).map_err(|message| Error::field(path, message))?);
        }
        let input = demand::Input {
            now: jiff::Timestamp::UNIX_EPOCH,
            function,
            observed: ObservedForm::default(),
            others: Vec::new(),
            memory: Memory::default(),
        };
        let (spec, _) = input.resolve()?;
        Ok(Scaler { name, spec, plans, memory: Memory::default() })
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
            autoscaler: None,
            readings: self.readings(view),
        };
        let memory = std::mem::take(&mut self.memory);
        let mut decision = demand::decide(view.now(), &self.spec, &observed, memory);
        self.memory = std::mem::take(&mut decision.memory);
        Outcome::of(decision)
    }

    fn readings(&self, view: &View<'_>) -> Vec<Answer> {
        self.plans.iter().map(|plan| read(plan, view)).collect()
    }
}

/// What a trigger's query says, by the engine that the real store is asked with.
fn read(plan: &Plan, view: &View<'_>) -> Answer {
    let now = view.now().as_millisecond();
    match autoscaling_value(&Engine::default(), plan, view.series, now, Limits::default()) {
        Ok(AutoscalingValue::Value(value)) => {
            let per = match plan.per() {
                promql::Per::Total => Per::Total,
                promql::Per::Pod => Per::Pod,
            };
            Answer::Value { value, per: Some(per) }
        }
        Ok(AutoscalingValue::AtLeast(_)) => Answer::Failed("some series have no number".into()),
        Ok(AutoscalingValue::Idle) => Answer::Quiet,
        Ok(AutoscalingValue::NoData) => Answer::Failed("no series for five minutes".into()),
        Err(error) => Answer::Failed(error.to_string().into()),
    }
}

/// A query that reads nothing but declared series.
fn plan(query: &str, metrics: &Metrics) -> Result<Arc<Plan>, String> {
    let plan = promql::parse(query).map_err(|error| error.to_string())?;
    let names = plan.metric_names();
    let unknown = names.exact.iter().find(|name| !metrics.series.iter().any(|s| s.name == **name));
    match unknown {
        Some(name) => Err(format!("nothing is known of {name:?}; say under metrics.series what it follows")),
        None => Ok(plan),
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
