use std::{collections::BTreeMap, sync::Arc, time::Duration};

use api::slimfaas::{self, Settings, triggers};
use decide::demand::{self, Answer, Graph, Memory, Node, Observed};
use promql::{Engine, Limits, Plan};
use serde_json::Value;

use super::{Outcome, View};
use crate::{Error, scenario::Metrics};

#[derive(Clone, Debug)]
pub struct Scaler {
    name: String,
    settings: Settings,
    plans: Vec<Arc<Plan>>,
    engine: Engine,
    memory: Memory,
}

impl Scaler {
    /// Annotations are read as the catalog of functions reads them. Where a controller would go on without the feature
    /// of a bad one, a scenario is refused: it would show something else than what was meant.
    pub fn new(manifest: &Value, metrics: &Metrics) -> Result<Scaler, Error> {
        let text = |pointer: &str, otherwise: &str| {
            manifest.pointer(pointer).and_then(Value::as_str).unwrap_or(otherwise).to_owned()
        };
        let (name, namespace) = (text("/metadata/name", "function"), text("/metadata/namespace", "default"));
        let template = annotations(manifest, "/spec/template/metadata/annotations")?;
        let object = annotations(manifest, "/metadata/annotations")?;
        let Some((settings, problems)) = slimfaas::read(&namespace, &name, Some(&template), Some(&object))
        else {
            let refused = slimfaas::refused(Some(&template), Some(&object));
            return Err(refused.map_or_else(
                || {
                    Error::field(
                        "metadata.annotations",
                        "expected SlimFaas/* annotations: without them this is no function",
                    )
                },
                |problem| Error::field(annotation_path(&problem.annotation), problem.message),
            ));
        };
        if let Some(problem) = problems.into_iter().next() {
            return Err(Error::field(annotation_path(&problem.annotation), problem.message));
        }
        if !settings.depends_on.is_empty() {
            let message = "a simulation has only one workload; leave dependencies out";
            return Err(Error::field(annotation_path("SlimFaas/DependsOn"), message));
        }
        let mut plans = Vec::new();
        for (idx, trigger) in settings.scaling.scale.iter().flat_map(|scale| &scale.triggers).enumerate() {
            let path = format!("{}.Triggers[{idx}].Query", annotation_path("SlimFaas/Scale"));
            plans.push(plan(&trigger.query, metrics).map_err(|message| Error::field(path, message))?);
        }
        let engine = triggers::engine(Duration::from_secs_f64(metrics.interval.0));
        Ok(Scaler { name, settings, plans, engine, memory: Memory::default() })
    }

    pub fn decide(&mut self, view: &View<'_>) -> Outcome {
        let ready = view.world.n_ready(view.t);
        let spec = &self.settings.scaling;
        let graph = Graph::new(vec![Node {
            name: self.name.as_str().into(),
            depends_on: Vec::new(),
            last_call: view.last_call.map(|t| view.moment(t)),
            active_calls: u32::from(view.world.backlog() > 0.0),
            starts_with_any: self.settings.starts_with_any,
            schedule: spec.schedule.clone(),
            ready: i32::try_from(ready).unwrap_or(i32::MAX),
            needed: demand::needed(spec.wake_target(), view.replicas),
        }]);
        let observed = Observed {
            current: view.replicas,
            activity: graph.activity(view.now(), &self.name),
            next_wake_up: graph.next_wake_up(view.now(), &self.name),
            dependencies: demand::Dependencies::default(),
            unschedulable: None,
            autoscaler: None,
            readings: self.readings(view),
        };
        let memory = std::mem::take(&mut self.memory);
        let mut decision = demand::decide(view.now(), spec, &observed, memory);
        self.memory = std::mem::take(&mut decision.memory);
        Outcome::of(decision)
    }

    fn readings(&self, view: &View<'_>) -> Vec<Answer> {
        let now = view.now().as_millisecond();
        let answer = |plan: &Arc<Plan>| {
            let answer = triggers::answer(&self.engine, plan, view.series, now, Limits::default());
            answer.unwrap_or_else(|error| Answer::Failed(error.to_string().into()))
        };
        self.plans.iter().map(answer).collect()
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

fn annotations(manifest: &Value, pointer: &str) -> Result<BTreeMap<String, String>, Error> {
    let found = manifest.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    found
        .map(|(key, value)| match value.as_str() {
            Some(text) => Ok((key.clone(), text.to_owned())),
            None => {
                let message = format!("expected a text, as all annotations are, found {value}; quote it");
                Err(Error::field(annotation_path(key), message))
            }
        })
        .collect()
}

fn annotation_path(key: &str) -> String {
    format!("annotations[{key}]")
}
