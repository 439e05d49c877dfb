//! What a Set's status says.

use decide::rollout::{Counts, Spec};
use engine::{
    Failure,
    effect::{Effect, Target},
    kind::Kind,
    object::name,
};
use graph::labels;
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::children;
use crate::graphs::{SET_MANAGER, object::text};

pub(super) struct Wanted<'a> {
    pub counts: Counts,
    pub spec: &'a Spec,
    /// Of the decision that was taken.
    pub code: &'static str,
    pub why: String,
    pub is_paused: bool,
    pub failure: Option<&'a Failure>,
}

/// In front of everything else, so that the next turn can tell of what fails.
pub(super) fn write(
    kind: &Kind,
    set: &DynamicObject,
    value: &Value,
    wanted: &Wanted<'_>,
    now: Timestamp,
) -> Vec<Effect> {
    let stored = value.get("status");
    let status = status(set, stored, wanted, now);
    if stored == Some(&status) {
        return Vec::new();
    }
    let mut effects = vec![Effect::status(kind, &set.metadata, stored, &status)];
    let failing = |status: Option<&Value>| {
        let failure = condition(status?, "ReplicaFailure")?;
        Some(text(failure, "/message").to_owned())
    };
    if let Some(message) = failing(Some(&status)).filter(|_| failing(stored).is_none()) {
        let target = Target::of(kind, &set.metadata);
        effects.push(Effect::warning(target, SET_MANAGER, "ReplicaFailure", message));
    }
    effects
}

fn status(set: &DynamicObject, stored: Option<&Value>, wanted: &Wanted<'_>, now: Timestamp) -> Value {
    let Wanted { counts, spec, .. } = wanted;
    let desired = spec.replicas as usize;
    let is_ready = counts.replicas == desired
        && counts.updated_ready_replicas == desired
        && counts.ready_replicas == desired;
    let ready = match is_ready {
        true => ("True", "AllInstancesReady", format!("{desired} instances are ready and up to date")),
        false => (
            "False",
            "InstancesNotReady",
            format!(
                "{} of {desired} instances are ready, {} are up to date",
                counts.ready_replicas, counts.updated_replicas
            ),
        ),
    };
    let progressing = match (wanted.is_paused, wanted.code) {
        (true, _) => ("Unknown", "Paused", format!("the annotation {} says so", labels::RECONCILE)),
        (false, "Settled") if is_ready => ("False", "Settled", wanted.why.clone()),
        (false, "Settled") => ("True", "WaitingForReady", ready.2.clone()),
        (false, code) => ("True", code, wanted.why.clone()),
    };
    let mut conditions = vec![("Progressing", progressing)];
    if let Some(failure) = wanted.failure {
        let message = format!("{}: {}", failure.name, failure.message);
        conditions.push(("ReplicaFailure", ("True", "FailedWrite", message)));
    }
    conditions.push(("Ready", ready));
    let generation = set.metadata.generation;
    let conditions: Vec<Value> = conditions
        .into_iter()
        .map(|(type_, (status, reason, message))| {
            let before = stored.and_then(|stored| condition(stored, type_));
            let time = before.filter(|before| before["status"] == status);
            let time = time.map(|before| text(before, "/lastTransitionTime").to_owned());
            let time = time.unwrap_or_else(|| engine::object::time(now).0.to_string());
            json!({
                "type": type_, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": time, "observedGeneration": generation,
            })
        })
        .collect();
    let mut status = json!(counts);
    status["selector"] =
        format!("{}={}", labels::SET_NAME, children::label_value(name(&set.metadata))).into();
    status["observedGeneration"] = json!(generation);
    status["updateRevision"] = spec.revision.as_str().into();
    status["conditions"] = conditions.into();
    status
}

fn condition<'a>(status: &'a Value, type_: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}
