//! The JSON form: one function with its annotations' contents, what was seen of it, and the functions around it.

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Answer, Decision, Graph, Memory, Node, Observed, Per, Scale, Schedule, Spec};
use crate::{
    input::{InputError, check_range, maybe_moment, moment},
    number::Number,
};

/// Everything one demand decision depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Input {
    #[serde(deserialize_with = "moment")]
    pub now: Timestamp,
    pub function: FunctionForm,
    pub observed: ObservedForm,
    /// The functions that depend on this one or that it depends on, at whatever distance.
    #[serde(default)]
    pub others: Vec<OtherForm>,
    /// What the decision before returned; leave it out the first time.
    #[serde(default)]
    pub memory: Memory,
}

/// A function's scaling annotations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FunctionForm {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub replicas_min: i32,
    #[serde(default = "one")]
    pub replicas_at_start: i32,
    #[serde(default = "five_minutes")]
    pub timeout_second_before_set_replicas_min: u32,
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// A call to any function counts as a call to this one.
    #[serde(default)]
    pub replicas_start_as_soon_as_one_function_retrieve_a_request: bool,
    #[serde(default)]
    pub schedule: Schedule,
    #[serde(default)]
    pub scale: Option<Scale>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObservedForm {
    pub replicas: i32,
    #[serde(default, deserialize_with = "maybe_moment")]
    pub last_call: Option<Timestamp>,
    /// Calls under way.
    #[serde(default)]
    pub active_calls: u32,
    /// Why pods that are already asked for find no place.
    #[serde(default)]
    pub scheduling_failure: Option<String>,
    /// The HorizontalPodAutoscaler that scales the same workload.
    #[serde(default)]
    pub autoscaler: Option<String>,
    /// In the order of `scale.Triggers`.
    #[serde(default)]
    pub triggers: Vec<ReadingForm>,
}

/// What a trigger's query gave: a value, or `noDemand`, or an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadingForm {
    #[serde(default)]
    pub value: Option<Number>,
    /// What the query's text says the value stands for; a trigger's own `Per` goes first.
    #[serde(default)]
    pub per: Option<Per>,
    /// The series are fresh but have seen nothing, so that the query gives NaN.
    #[serde(default)]
    pub no_demand: bool,
    #[serde(default)]
    pub error: Option<String>,
}

/// Another function, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OtherForm {
    pub name: String,
    #[serde(default)]
    pub depends_on: Vec<String>,
    #[serde(default = "one")]
    pub replicas_at_start: i32,
    #[serde(default)]
    pub ready_replicas: i32,
    #[serde(default, deserialize_with = "maybe_moment")]
    pub last_call: Option<Timestamp>,
    #[serde(default)]
    pub active_calls: u32,
    #[serde(default)]
    pub replicas_start_as_soon_as_one_function_retrieve_a_request: bool,
    #[serde(default)]
    pub schedule: Schedule,
}

impl Input {
    /// # Errors
    /// If a count is negative or there are more readings than triggers.
    pub fn resolve(&self) -> Result<(Spec, Observed), InputError> {
        let FunctionForm { name, replicas_min, replicas_at_start, scale, .. } = &self.function;
        check_range("function.replicasMin", *replicas_min, 0..=i32::MAX)?;
        check_range("function.replicasAtStart", *replicas_at_start, 0..=i32::MAX)?;
        check_range("observed.replicas", self.observed.replicas, 0..=i32::MAX)?;
        if let Some(scale) = scale {
            scale.check().map_err(|error| error.under("function.scale"))?;
        }
        let triggers = scale.as_ref().map_or(0, |scale| scale.triggers.len());
        if self.observed.triggers.len() > triggers {
            let message =
                format!("expected at most {triggers} readings, one for each of function.scale.Triggers");
            return Err(InputError::new("observed.triggers", message));
        }
        let graph = self.graph();
        let spec = Spec {
            min: *replicas_min,
            at_start: *replicas_at_start,
            timeout_seconds: self.function.timeout_second_before_set_replicas_min,
            schedule: self.function.schedule.clone(),
            scale: scale.clone(),
        };
        let observed = Observed {
            current: self.observed.replicas,
            activity: graph.activity(self.now, name),
            dependencies: graph.dependencies(name),
            unschedulable: self.observed.scheduling_failure.as_deref().map(Into::into),
            autoscaler: self.observed.autoscaler.as_deref().map(Into::into),
            readings: self.observed.triggers.iter().map(ReadingForm::resolve).collect(),
        };
        Ok((spec, observed))
    }

    /// # Errors
    /// As [`Input::resolve`].
    pub fn decide(self) -> Result<Decision, InputError> {
        let (spec, observed) = self.resolve()?;
        Ok(super::decide(self.now, &spec, &observed, self.memory))
    }

    fn graph(&self) -> Graph {
        let names = |names: &[String]| names.iter().map(|name| Arc::from(name.as_str())).collect();
        let own = Node {
            name: self.function.name.as_str().into(),
            depends_on: names(&self.function.depends_on),
            last_call: self.observed.last_call,
            active_calls: self.observed.active_calls,
            starts_with_any: self.function.replicas_start_as_soon_as_one_function_retrieve_a_request,
            schedule: self.function.schedule.clone(),
            ready: self.observed.replicas,
            needed: self.function.replicas_at_start,
        };
        let others = self.others.iter().map(|other| Node {
            name: other.name.as_str().into(),
            depends_on: names(&other.depends_on),
            last_call: other.last_call,
            active_calls: other.active_calls,
            starts_with_any: other.replicas_start_as_soon_as_one_function_retrieve_a_request,
            schedule: other.schedule.clone(),
            ready: other.ready_replicas,
            needed: other.replicas_at_start,
        });
        Graph::new(others.chain([own]).collect())
    }
}

impl ReadingForm {
    fn resolve(&self) -> Answer {
        match (&self.error, self.no_demand, self.value) {
            (Some(error), ..) => Answer::Failed(error.as_str().into()),
            (None, true, _) => Answer::Quiet,
            (None, false, Some(value)) => Answer::Value { value: value.0, per: self.per },
            (None, false, None) => Answer::Failed("the query gave nothing".into()),
        }
    }
}

fn one() -> i32 {
    1
}

fn five_minutes() -> u32 {
    300
}
