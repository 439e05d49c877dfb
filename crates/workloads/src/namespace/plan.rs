use std::{collections::BTreeMap, sync::Arc, time::Duration};

use engine::{
    effect::{Effect, Plan, Target},
    kind::{self, Kind},
};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Namespace, NamespaceCondition, NamespaceStatus},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::json;

use crate::object::{being_deleted, name, time};

const FINALIZER: &str = "kubernetes";
/// Content that is not watched (Events) gives no sign when it is gone.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Everything a decision about one Namespace depends on.
pub(crate) struct Observed {
    pub namespace: Arc<Namespace>,
    pub has_service_account: bool,
    /// What is in it; read only when it terminates, and by live lists when the watches show nothing.
    pub content: Vec<Content>,
    /// Kinds whose objects can be deleted all at once.
    pub collections: Vec<Kind>,
}

pub(crate) struct Content {
    pub kind: Kind,
    pub meta: ObjectMeta,
}

pub(crate) fn terminating(namespace: &Namespace) -> bool {
    being_deleted(&namespace.metadata)
}

pub(crate) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let namespace = &*observed.namespace;
    if !terminating(namespace) {
        return if observed.has_service_account {
            Plan::default()
        } else {
            vec![service_account(namespace)].into()
        };
    }
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
    if !finalizers.is_some_and(|finalizers| finalizers.iter().any(|held| held == FINALIZER)) {
        return Plan::default();
    }
    if observed.content.is_empty() {
        return vec![finalize(namespace)].into();
    }
    let mut plan = Plan::from(deletions(observed));
    plan.effects.extend(report(observed, now));
    if let Ok(at) = now.checked_add(LOOK_AGAIN) {
        plan.look_again(at);
    }
    plan
}

fn service_account(namespace: &Namespace) -> Effect {
    let namespace = name(&namespace.metadata);
    Effect::Create {
        kind: kind::SERVICE_ACCOUNT,
        namespace: Some(namespace.to_owned()),
        body: json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": "default", "namespace": namespace },
        }),
        announce: None,
    }
}

/// Each kind at once where the API can; only what is not on its way out already.
fn deletions(observed: &Observed) -> Vec<Effect> {
    let mut by_kind: BTreeMap<&Kind, Vec<&ObjectMeta>> = BTreeMap::new();
    for content in observed.content.iter().filter(|content| !being_deleted(&content.meta)) {
        by_kind.entry(&content.kind).or_default().push(&content.meta);
    }
    let namespace = name(&observed.namespace.metadata);
    let mut effects = Vec::new();
    for (kind, metas) in by_kind {
        if observed.collections.iter().any(|known| known.same_resource(kind)) {
            effects.push(Effect::DeleteCollection { kind: kind.clone(), namespace: namespace.to_owned() });
        } else {
            effects.extend(metas.into_iter().map(|meta| Effect::Delete {
                target: Target::of(kind, meta),
                propagation: None,
                announce: None,
            }));
        }
    }
    effects
}

fn finalize(namespace: &Namespace) -> Effect {
    let mut body = json!(namespace);
    let kept: Vec<&String> = namespace
        .spec
        .iter()
        .flat_map(|spec| spec.finalizers.iter().flatten())
        .filter(|held| *held != FINALIZER)
        .collect();
    body["spec"]["finalizers"] = json!(kept);
    Effect::Replace {
        target: Target::of(&kind::NAMESPACE, &namespace.metadata),
        subresource: "finalize",
        body,
    }
}

/// What people look for when a namespace does not go away.
fn report(observed: &Observed, now: Timestamp) -> Option<Effect> {
    let mut n_by_kind: BTreeMap<String, usize> = BTreeMap::new();
    let mut n_by_finalizer: BTreeMap<&str, usize> = BTreeMap::new();
    // Only what is already being deleted and still there is "remaining"; the rest goes right now.
    for content in observed.content.iter().filter(|content| being_deleted(&content.meta)) {
        let Kind { group, plural, .. } = &content.kind;
        let resource = if group.is_empty() { plural.to_string() } else { format!("{plural}.{group}") };
        *n_by_kind.entry(resource).or_default() += 1;
        for finalizer in content.meta.finalizers.iter().flatten() {
            *n_by_finalizer.entry(finalizer).or_default() += 1;
        }
    }
    let remaining: Vec<String> =
        n_by_kind.iter().map(|(resource, n)| format!("{resource} has {n} resource instances")).collect();
    let finalizers: Vec<String> = n_by_finalizer
        .iter()
        .map(|(finalizer, n)| format!("{finalizer} in {n} resource instances"))
        .collect();
    let wanted = [
        (
            "NamespaceDeletionDiscoveryFailure",
            false,
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        (
            "NamespaceDeletionContentFailure",
            false,
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".to_owned(),
        ),
        if remaining.is_empty() {
            (
                "NamespaceContentRemaining",
                false,
                "ContentRemoved",
                "All content successfully removed".to_owned(),
            )
        } else {
            let message = format!("Some resources are remaining: {}", remaining.join(", "));
            ("NamespaceContentRemaining", true, "SomeResourcesRemain", message)
        },
        if finalizers.is_empty() {
            let message = "All content-preserving finalizers finished".to_owned();
            ("NamespaceFinalizersRemaining", false, "ContentHasNoFinalizers", message)
        } else {
            let message =
                format!("Some content in the namespace has finalizers remaining: {}", finalizers.join(", "));
            ("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", message)
        },
    ];
    let namespace = &*observed.namespace;
    let stored = namespace.status.clone().unwrap_or_default();
    let mut conditions = stored.conditions.clone().unwrap_or_default();
    for (type_, holds, reason, message) in wanted {
        set(&mut conditions, type_, holds, reason, message, now);
    }
    if stored.conditions.as_ref() == Some(&conditions) {
        return None;
    }
    let status = NamespaceStatus { conditions: Some(conditions), ..stored };
    Some(Effect::status(&kind::NAMESPACE, &namespace.metadata, namespace.status.as_ref(), &status))
}

fn set(
    conditions: &mut Vec<NamespaceCondition>,
    type_: &str,
    holds: bool,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let status = if holds { "True" } else { "False" };
    let held = conditions.iter().position(|condition| condition.type_ == type_);
    let since = held
        .map(|index| &conditions[index])
        .filter(|held| held.status == status)
        .map_or_else(|| Some(time(now)), |held| held.last_transition_time.clone());
    let condition = NamespaceCondition {
        type_: type_.into(),
        status: status.into(),
        reason: Some(reason.into()),
        message: Some(message),
        last_transition_time: since,
    };
    match held {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}
