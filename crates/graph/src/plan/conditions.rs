//! The built-in conditions of an instance, and its state in one word.

use serde_json::{Value, json};

use super::{NodeState, State, nodes::Outcome};

pub(super) const READY: &str = "Ready";
pub(super) const BUILT_IN: [&str; 4] = ["InstanceManaged", "GraphResolved", "ResourcesReady", READY];

/// A condition without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub type_: String,
    pub status: String,
    pub reason: String,
    pub message: String,
}

/// In the order in which they are listed: the root comes last.
pub(super) fn built_in(outcomes: &[Outcome], suspended: bool, failure: Option<&str>) -> Vec<Condition> {
    let condition = |type_: &str, status: &str, reason: &str, message: String| Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
    };
    let worst = |state: NodeState| outcomes.iter().filter(move |outcome| outcome.state == state);
    let describe = |outcomes: Vec<&Outcome>| {
        let shown = outcomes
            .iter()
            .take(5)
            .map(|outcome| format!("{}: {}", outcome.id, outcome.reason.as_deref().unwrap_or("not ready")));
        let mut text = shown.collect::<Vec<_>>().join("; ");
        if outcomes.len() > 5 {
            text.push_str(&format!("; and {} more", outcomes.len() - 5));
        }
        text
    };
    let failed: Vec<&Outcome> = worst(NodeState::Error).collect();
    let deleting: Vec<&Outcome> = worst(NodeState::Deleting).collect();
    let waiting: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.is_ready()).collect();
    let resources = if suspended {
        ("False", "ReconciliationSuspended", "the annotation kro.run/reconcile says so".to_owned())
    } else if !failed.is_empty() {
        ("False", "NotReady", describe(failed))
    } else if let Some(failure) = failure {
        ("False", "ApplyFailed", crate::error::shown(failure))
    } else if !deleting.is_empty() {
        ("False", "ResourceDeleting", describe(deleting))
    } else if !waiting.is_empty() {
        ("False", "NotReady", describe(waiting))
    } else {
        ("True", "AllResourcesReady", "all resources are ready".to_owned())
    };
    let resources = condition("ResourcesReady", resources.0, resources.1, resources.2);
    let ready = match resources.status.as_str() {
        "True" => condition(READY, "True", "Ready", String::new()),
        _ => Condition { type_: READY.to_owned(), ..resources.clone() },
    };
    vec![
        condition("InstanceManaged", "True", "Managed", "finalizer and labels are set".to_owned()),
        condition("GraphResolved", "True", "Resolved", "the definition's graph is known".to_owned()),
        resources,
        ready,
    ]
}

pub(super) fn state(outcomes: &[Outcome], conditions: &[Condition], failure: Option<&str>) -> State {
    let is_ready = conditions.iter().any(|condition| condition.type_ == READY && condition.status == "True");
    match () {
        () if failure.is_some() => State::Error,
        () if outcomes.iter().any(|outcome| outcome.state == NodeState::Error) => State::Error,
        () if is_ready => State::Active,
        () => State::InProgress,
    }
}

// === impl Condition ===

impl Condition {
    /// With its time: that of the condition before, if nothing changed.
    pub fn to_json(&self, previous: &[Value], generation: Option<i64>, now: &str) -> Value {
        let before = previous.iter().find(|other| other["type"] == self.type_.as_str());
        let time = before
            .filter(|before| before["status"] == self.status.as_str())
            .and_then(|before| before["lastTransitionTime"].as_str())
            .unwrap_or(now);
        let mut condition = json!({
            "type": self.type_,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": time,
        });
        if let Some(generation) = generation {
            condition["observedGeneration"] = generation.into();
        }
        condition
    }
}
