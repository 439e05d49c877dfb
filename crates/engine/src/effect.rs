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
    /// Strategic merge patch, which changes one container of a list and leaves the others as they are.
    StrategicPatch {
        target: Target,
        subresource: Option<&'static str>,
        body: Value,
    },
    /// A deletion that PodDisruptionBudgets may refuse.
    Evict(Target),
    /// Server-side apply: the fields of `body` become as they stand there, those that an earlier body had and this one
    /// has not go, and fields of others stay. The object is made if it is not there; with `must_be_absent`, only if a
    /// live read agrees that it is not.
    Apply {
        target: Target,
        must_be_absent: bool,
        body: Value,
    },
    /// The same for several objects side by side: all are tried, and one that fails does not keep the others from being
    /// applied.
    ApplyAll(Vec<Application>),
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

/// One object of [`Effect::ApplyAll`].
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    pub target: Target,
    pub must_be_absent: bool,
    pub body: Value,
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
    /// An object that does not exist yet.
    pub fn absent(kind: &Kind, namespace: Option<&str>, name: impl Into<String>) -> Self {
        let namespace = namespace.map(str::to_owned);
        Self { kind: kind.clone(), namespace, name: name.into(), uid: String::new(), resource_version: None }
    }

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

    /// Adds a finalizer, unless it is there or the object is already on its way out.
    pub fn add_finalizer(kind: &Kind, meta: &ObjectMeta, finalizer: &str) -> Option<Self> {
        let mut all = meta.finalizers.clone().unwrap_or_default();
        if meta.deletion_timestamp.is_some() || all.iter().any(|known| known == finalizer) {
            return None;
        }
        all.push(finalizer.to_owned());
        Some(Self::finalizers(kind, meta, &all))
    }

    /// Lets the object go, as far as this finalizer is concerned.
    pub fn remove_finalizer(kind: &Kind, meta: &ObjectMeta, finalizer: &str) -> Option<Self> {
        let all = meta.finalizers.clone().unwrap_or_default();
        let rest: Vec<String> = all.iter().filter(|known| *known != finalizer).cloned().collect();
        (rest.len() < all.len()).then(|| Self::finalizers(kind, meta, &rest))
    }

    /// A merge patch replaces the list whole; the version that it carries keeps it from undoing what others did to it.
    fn finalizers(kind: &Kind, meta: &ObjectMeta, all: &[String]) -> Self {
        Self::patch(Target::of(kind, meta), json!({ "metadata": { "finalizers": all } }))
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
pub fn difference(old: &Value, new: &Value) -> Value {
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

impl Effect {
    /// For logs: the object and which fields change, never what they hold. That may be source code or a password.
    pub fn summary(&self) -> String {
        match self {
            Self::Patch { target, subresource: Some("scale"), body } => {
                format!("scale {target} to {}", body["spec"]["replicas"])
            }
            Self::Patch { target, subresource: Some(sub), body }
            | Self::StrategicPatch { target, subresource: Some(sub), body } => {
                format!("patch {target}/{sub}: {}", fields(body.get(sub).unwrap_or(body)))
            }
            Self::Patch { target, subresource: None, body }
            | Self::StrategicPatch { target, subresource: None, body } => {
                format!("patch {target}: {}", fields(body))
            }
            Self::Apply { target, body, .. } => Self::apply_summary(target, body),
            Self::ApplyAll(all) => {
                let each = all.iter().map(|one| Self::apply_summary(&one.target, &one.body));
                each.collect::<Vec<_>>().join("; ")
            }
            other => other.to_string(),
        }
    }

    pub(crate) fn apply_summary(target: &Target, body: &Value) -> String {
        format!("apply {target}: {}", fields(body))
    }
}

fn fields(body: &Value) -> String {
    let mut paths = Vec::new();
    field_paths("", body, 0, &mut paths);
    let n_more = paths.len().saturating_sub(FIELDS_SHOWN);
    paths.truncate(FIELDS_SHOWN);
    match n_more {
        0 => paths.join(", "),
        n => format!("{} and {n} more", paths.join(", ")),
    }
}

const FIELDS_SHOWN: usize = 8;
/// `spec.template.spec` is deep enough to know what it is about.
const DEPTH_SHOWN: usize = 3;

fn field_paths(path: &str, value: &Value, depth: usize, paths: &mut Vec<String>) {
    match value {
        Value::Object(fields) if depth < DEPTH_SHOWN && !fields.is_empty() => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                field_paths(&path, value, depth + 1, paths);
            }
        }
        _ => paths.push(path.to_owned()),
    }
}

/// One line each, whole, as test snapshots show them. Logs have [`Effect::summary`].
impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Confirm(target) => write!(f, "confirm {target}"),
            Self::Create { kind, namespace, body, .. } => {
                let meta = &body["metadata"];
                let name = meta["name"].as_str().or(meta["generateName"].as_str()).unwrap_or_default();
                write!(f, "create {kind} {}", qualified(namespace.as_deref(), name))
            }
            Self::Patch { target, subresource: None, body }
            | Self::StrategicPatch { target, subresource: None, body } => {
                write!(f, "patch {target} {body}")
            }
            Self::Patch { target, subresource: Some("status"), body } => {
                write!(f, "status {target} {}", body.get("status").unwrap_or(body))
            }
            Self::Patch { target, subresource: Some(sub), body }
            | Self::StrategicPatch { target, subresource: Some(sub), body } => {
                write!(f, "patch {target}/{sub} {body}")
            }
            Self::Evict(target) => write!(f, "evict {target}"),
            Self::Apply { target, body, .. } => write!(f, "apply {target} {body}"),
            Self::ApplyAll(all) => {
                let each = all.iter().map(|one| format!("apply {} {}", one.target, one.body));
                f.write_str(&each.collect::<Vec<_>>().join("\n"))
            }
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

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::{kind, testing::from_json};

    #[test]
    fn logs_name_fields_and_never_what_they_hold() {
        let function = kind::Kind::namespaced("example.org", "v1", "Function", "functions");
        let target = Target { uid: "u".into(), ..Target::absent(&function, Some("shop"), "fib") };
        let secret =
            json!({"spec": {"source": {"inline": {"source": "TOKEN=hunter2"}}, "env": [{"name": "A"}]}});
        let effects = [
            Effect::patch(target.clone(), secret.clone()),
            Effect::Apply { target: target.clone(), must_be_absent: false, body: secret },
            Effect::Patch {
                target: target.clone(),
                subresource: Some("status"),
                body: json!({"status": {"conditions": [{"message": "hunter2"}], "replicas": 1}}),
            },
            Effect::Patch {
                target: target.clone(),
                subresource: Some("scale"),
                body: json!({"spec": {"replicas": 3}}),
            },
            Effect::Create {
                kind: kind::CONFIG_MAP,
                namespace: Some("shop".into()),
                body: json!({"metadata": {"name": "fib"}, "data": {"a": "hunter2"}}),
                announce: None,
            },
            Effect::patch(
                target,
                json!({"data": {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1, "h": 1, "i": 1, "j": 1}}),
            ),
        ];
        let all: String = effects.iter().map(|effect| effect.summary() + "\n").collect();
        expect![[r#"
            patch Function shop/fib: spec.env, spec.source.inline
            apply Function shop/fib: spec.env, spec.source.inline
            patch Function shop/fib/status: conditions, replicas
            scale Function shop/fib to 3
            create ConfigMap shop/fib
            patch Function shop/fib: data.a, data.b, data.c, data.d, data.e, data.f, data.g, data.h and 2 more
        "#]]
        .assert_eq(&all);
    }

    #[test]
    fn finalizers_of_others_stay() {
        let meta = |finalizers: Value, deleted: bool| -> ObjectMeta {
            let deleted = deleted.then_some("2026-01-01T00:00:00Z");
            from_json(json!({"name": "a", "finalizers": finalizers, "deletionTimestamp": deleted}))
        };
        let shown = |effect: Option<Effect>| effect.map_or("-".to_owned(), |effect| effect.to_string());
        let add = |finalizers, deleted| {
            shown(Effect::add_finalizer(&kind::CONFIG_MAP, &meta(finalizers, deleted), "ours"))
        };
        let remove =
            |finalizers| shown(Effect::remove_finalizer(&kind::CONFIG_MAP, &meta(finalizers, true), "ours"));
        assert_eq!(
            add(json!(["theirs"]), false),
            r#"patch ConfigMap a {"metadata":{"finalizers":["theirs","ours"]}}"#
        );
        assert_eq!(add(json!(["ours"]), false), "-");
        assert_eq!(add(json!([]), true), "-", "the API refuses new finalizers on what is being deleted");
        assert_eq!(
            remove(json!(["theirs", "ours"])),
            r#"patch ConfigMap a {"metadata":{"finalizers":["theirs"]}}"#
        );
        assert_eq!(remove(json!(["theirs"])), "-");
    }
}
