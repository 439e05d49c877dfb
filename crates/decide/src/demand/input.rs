//! The JSON form: one function with its annotations' contents, what was seen of it, and the functions around it.

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Answer, Decision, Graph, Memory, Node, Observed, Per, Scale, Schedule, Spec, needed};
use crate::{
    input::{InputError, check_range, check_unique, maybe_moment, moment},
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
    /// The fewest replicas it has.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub replicas_min: i32,
    /// Replicas it wakes up with.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub replicas_at_start: i32,
    /// The most replicas it may have; no limit if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replica_max: Option<i32>,
    /// Replicas that are asked for now; as many as it wakes up with if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// How many of them are ready.
    #[serde(default)]
    #[schemars(range(min = 0))]
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
    /// As [`Input::decide`].
    pub fn resolve(&self) -> Result<(Spec, Observed), InputError> {
        let spec = self.function.spec().map_err(|error| error.under("function"))?;
        self.observed.check(&spec).map_err(|error| error.under("observed"))?;
        self.check_others()?;
        let graph = self.graph(&spec);
        let name = &self.function.name;
        let observed = Observed {
            current: self.observed.replicas,
            activity: graph.activity(self.now, name),
            next_wake_up: graph.next_wake_up(self.now, name),
            dependencies: graph.dependencies(name),
            unschedulable: self.observed.scheduling_failure.as_deref().map(Into::into),
            autoscaler: self.observed.autoscaler.as_deref().map(Into::into),
            readings: self.observed.triggers.iter().map(ReadingForm::resolve).collect(),
        };
        Ok((spec, observed))
    }

    /// # Errors
    /// If a count is negative, a name comes twice, a reading contradicts itself, or there are more readings than
    /// triggers.
    pub fn decide(self) -> Result<Decision, InputError> {
        let (spec, observed) = self.resolve()?;
        Ok(super::decide(self.now, &spec, &observed, self.memory))
    }

    fn check_others(&self) -> Result<(), InputError> {
        for (idx, other) in self.others.iter().enumerate() {
            other.check().map_err(|error| error.under(format!("others[{idx}]")))?;
        }
        let names = self.others.iter().map(|other| other.name.as_str());
        // The function itself is the first.
        check_unique([self.function.name.as_str()].into_iter().chain(names), |idx| {
            format!("others[{}].name", idx.saturating_sub(1))
        })
    }

    fn graph(&self, spec: &Spec) -> Graph {
        let own = Node {
            name: self.function.name.as_str().into(),
            depends_on: names(&self.function.depends_on),
            last_call: self.observed.last_call,
            active_calls: self.observed.active_calls,
            starts_with_any: self.function.replicas_start_as_soon_as_one_function_retrieve_a_request,
            schedule: spec.schedule.clone(),
            ready: self.observed.replicas,
            needed: needed(spec.wake_target(), self.observed.replicas),
        };
        Graph::new(self.others.iter().map(OtherForm::node).chain([own]).collect())
    }
}

impl FunctionForm {
    /// # Errors
    /// If a count is negative or the scale cannot be used.
    pub fn spec(&self) -> Result<Spec, InputError> {
        check_range("replicasMin", self.replicas_min, 0..=i32::MAX)?;
        check_range("replicasAtStart", self.replicas_at_start, 0..=i32::MAX)?;
        if let Some(scale) = &self.scale {
            scale.check().map_err(|error| error.under("scale"))?;
        }
        Ok(Spec {
            min: self.replicas_min,
            at_start: self.replicas_at_start,
            timeout_seconds: self.timeout_second_before_set_replicas_min,
            schedule: self.schedule.clone(),
            scale: self.scale.clone(),
        })
    }
}

impl ObservedForm {
    fn check(&self, spec: &Spec) -> Result<(), InputError> {
        check_range("replicas", self.replicas, 0..=i32::MAX)?;
        let triggers = spec.scale.as_ref().map_or(0, |scale| scale.triggers.len());
        if self.triggers.len() > triggers {
            let message =
                format!("expected at most {triggers} readings, one for each of function.scale.Triggers");
            return Err(InputError::new("triggers", message));
        }
        for (idx, reading) in self.triggers.iter().enumerate() {
            let given = [reading.value.is_some(), reading.no_demand, reading.error.is_some()];
            if given.iter().filter(|given| **given).count() > 1 {
                let message =
                    "expected one of value, noDemand and error, found several that contradict each other";
                return Err(InputError::new(format!("triggers[{idx}]"), message));
            }
        }
        Ok(())
    }
}

impl OtherForm {
    fn check(&self) -> Result<(), InputError> {
        check_range("replicasMin", self.replicas_min, 0..=i32::MAX)?;
        check_range("replicasAtStart", self.replicas_at_start, 0..=i32::MAX)?;
        check_range("replicaMax", self.replica_max.unwrap_or_default(), 0..=i32::MAX)?;
        check_range("replicas", self.replicas.unwrap_or_default(), 0..=i32::MAX)?;
        check_range("readyReplicas", self.ready_replicas, 0..=i32::MAX)
    }

    fn node(&self) -> Node {
        let max = self.replica_max.unwrap_or(i32::MAX);
        let wake_target = self.replicas_at_start.max(self.replicas_min).max(1).min(max);
        Node {
            name: self.name.as_str().into(),
            depends_on: names(&self.depends_on),
            last_call: self.last_call,
            active_calls: self.active_calls,
            starts_with_any: self.replicas_start_as_soon_as_one_function_retrieve_a_request,
            schedule: self.schedule.clone(),
            ready: self.ready_replicas,
            needed: needed(wake_target, self.replicas.unwrap_or(wake_target)),
        }
    }
}

fn names(names: &[String]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(name.as_str())).collect()
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
