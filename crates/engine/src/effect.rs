//! What a planner wants done: values, executed by `engine::execute` and compared whole in tests.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Serialize;
use serde_json::{Value, json};

use crate::kind::Kind;

/// A planner's answer: effects in order, and when to look again although nothing changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub effects: Vec<Effect>,
    pub next: Option<Timestamp>,
}

/// Effects run in order; the first failure ends the plan, which is then made again from fresh data.
/// Neighbouring creations of one kind run in growing batches, neighbouring deletions side by side.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Goes on only if the object still exists and is not being deleted, by a live read. Taking possession of
    /// objects needs it: an owner deleted with `orphan` must not seize its former dependents again.
    Confirm(Target),
    Create {
        kind: Kind,
        namespace: Option<String>,
        body: Value,
        announce: Option<Announce>,
    },
    /// JSON merge patch, of the object or of one of its subresources.
    Patch {
        target: Target,
        subresource: Option<&'static str>,
        body: Value,
    },
    /// Replaces a subresource by the whole object.
    Replace {
        target: Target,
        subresource: &'static str,
        body: Value,
    },
    Delete {
        target: Target,
        propagation: Option<Propagation>,
        announce: Option<Announce>,
    },
    DeleteCollection {
        kind: Kind,
        namespace: String,
    },
    Event(Event),
}

/// The object an effect is for. Writes carry its uid and resourceVersion, so that a decision about one state is
/// never applied to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub kind: Kind,
    pub namespace: Option<String>,
    pub name: String,
    pub uid: String,
    pub resource_version: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// The Event that tells how a creation or deletion went: `note` is completed by the object's name.
#[derive(Clone, Debug, PartialEq)]
pub struct Announce {
    pub regarding: Target,
    pub component: &'static str,
    pub done: (&'static str, Note),
    pub failed: (&'static str, Note),
}

/// Words around the object's name; the name of a generated object is known only after its creation.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub before: &'static str,
    pub after: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub regarding: Target,
    pub component: &'static str,
    pub warning: bool,
    pub reason: String,
    pub note: String,
}

// === impl Plan ===

impl Plan {
    pub fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Looks again at `at`, or earlier if an earlier time is already noted.
    pub fn look_again(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

impl From<Vec<Effect>> for Plan {
    fn from(effects: Vec<Effect>) -> Self {
        Self { effects, next: None }
    }
}

// === impl Target ===

impl Target {
    pub fn of(kind: &Kind, meta: &ObjectMeta) -> Self {
        Self {
            kind: kind.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone(),
        }
    }

    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.kind.api_version()),
            kind: Some(self.kind.kind.to_string()),
            namespace: self.namespace.clone(),
            name: Some(self.name.clone()),
            uid: Some(self.uid.clone()),
            ..Default::default()
        }
    }

    /// The metadata that makes a write conditional on this very object in this very version.
    pub fn precondition(&self) -> Value {
        let mut metadata = json!({ "uid": self.uid });
        if let Some(version) = &self.resource_version {
            metadata["resourceVersion"] = json!(version);
        }
        metadata
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, qualified(self.namespace.as_deref(), &self.name))
    }
}

fn qualified(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

// === impl Effect ===

impl Effect {
    /// A merge patch on the object itself, conditional on the version the plan was made from.
    pub fn patch(target: Target, body: Value) -> Self {
        Self::Patch { target, subresource: None, body }
    }

    /// Only the difference, and nothing but the status: a whole object would also put back annotations as they were
    /// when the plan was made, since the API takes those from a status update too.
    pub fn status<S: Serialize>(kind: &Kind, meta: &ObjectMeta, stored: Option<&S>, wanted: &S) -> Self {
        let stored = stored.map_or_else(|| json!({}), |stored| json!(stored));
        let body = json!({ "status": difference(&stored, &json!(wanted)) });
        Self::Patch { target: Target::of(kind, meta), subresource: Some("status"), body }
    }

    pub fn event(
        regarding: Target,
        component: &'static str,
        reason: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self::Event(Event { regarding, component, warning: false, reason: reason.into(), note: note.into() })
    }

    pub fn warning(
        regarding: Target,
        component: &'static str,
        reason: impl Into<String>,
        note: impl Into<String>,
    ) -> Self {
        Self::Event(Event { regarding, component, warning: true, reason: reason.into(), note: note.into() })
    }
}

/// The merge patch that makes `old` into `new`.
fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
    let mut patch = serde_json::Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(before) if before == value => {}
            Some(before) => drop(patch.insert(key.clone(), difference(before, value))),
            None => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

/// One line each, as logs and test snapshots show them.
impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Confirm(target) => write!(f, "confirm {target}"),
            Self::Create { kind, namespace, body, .. } => {
                let meta = &body["metadata"];
                let name = meta["name"].as_str().or(meta["generateName"].as_str()).unwrap_or_default();
                write!(f, "create {kind} {}", qualified(namespace.as_deref(), name))
            }
            Self::Patch { target, subresource: None, body } => write!(f, "patch {target} {body}"),
            Self::Patch { target, subresource: Some("status"), body } => {
                write!(f, "status {target} {}", body["status"])
            }
            Self::Patch { target, subresource: Some(sub), body } => write!(f, "patch {target}/{sub} {body}"),
            Self::Replace { target, subresource, .. } => write!(f, "replace {target}/{subresource}"),
            Self::Delete { target, propagation, .. } => {
                write!(f, "delete {target}")?;
                match propagation {
                    Some(propagation) => write!(f, " ({propagation:?})"),
                    None => Ok(()),
                }
            }
            Self::DeleteCollection { kind, namespace } => write!(f, "delete all {kind} in {namespace}"),
            Self::Event(event) => write!(f, "{event}"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "warning" } else { "event" };
        write!(f, "{kind} {} {:?} on {}", self.reason, self.note, self.regarding)
    }
}
