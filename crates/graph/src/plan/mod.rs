//! What an instance wants: which resources, made how, ready or waiting for what, and what its status says.
//!
//! ```text
//! nodes in order:  included? ─ dependencies ready? ─ template with values ─ found? ─ ready?
//! ```
//!
//! A plan is a value. Whoever carries it out applies the wanted objects, deletes what is to be pruned, writes the
//! status if it differs, and asks again when something it depends on changes.

mod applyset;
mod conditions;
mod nodes;
mod owned;
mod scale;
mod status;
mod teardown;

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::Value;

pub use self::{
    applyset::{Inventory, applyset_id},
    owned::without_scaled_fields,
    teardown::{Teardown, teardown},
};
use crate::{Graph, cel::Budget, labels};

/// What an object is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    pub api_version: String,
    pub kind: String,
    /// Empty for kinds of the cluster.
    pub namespace: String,
    pub name: String,
}

/// What is known of the cluster: the caches of whoever asks.
pub trait Observed {
    fn get(&self, identity: &Identity) -> Option<Cow<'_, Value>>;

    /// Objects of a kind, in one namespace or in all, in the order of their names.
    fn list(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Vec<Cow<'_, Value>>;

    /// Objects that have this label.
    fn labelled(&self, key: &str, value: &str) -> Vec<Cow<'_, Value>>;
}

/// Objects by what they are called.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    objects: BTreeMap<Identity, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Something it depends on is not there yet, or it is wanted and does not exist yet.
    InProgress,
    Synced,
    Skipped,
    WaitingForReadiness,
    Deleting,
    Error,
}

/// What is to be done about one resource of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct NodePlan {
    pub id: String,
    pub state: NodeState,
    /// Objects to apply, in the order of the collection; empty if there is nothing to do or nothing can be said yet.
    pub desired: Vec<Value>,
    /// Why it is not synced: what it waits for, or what is wrong.
    pub reason: Option<String>,
    pub is_ready: bool,
}

/// An instance's state in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    InProgress,
    Active,
    Error,
    Deleting,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub state: State,
    /// In topological order.
    pub nodes: Vec<NodePlan>,
    /// The whole status. It is to be written only if it differs.
    pub status: Value,
    /// Labels and annotations of the instance while objects are applied: old and new members.
    pub inventory: Inventory,
    /// The same once pruning is done.
    pub inventory_after: Inventory,
    /// Objects that are no longer wanted, in waves: the first first.
    pub prune: Vec<Vec<Identity>>,
}

/// Plans for one instance. `now` is the time in RFC 3339, for conditions that change.
pub fn plan(graph: &Graph, instance: &Value, observed: &dyn Observed, now: &str) -> Plan {
    plan_after(graph, instance, observed, None, now)
}

/// The same where carrying out the plan before has failed: the conditions say so.
pub fn plan_after(
    graph: &Graph,
    instance: &Value,
    observed: &dyn Observed,
    failure: Option<&str>,
    now: &str,
) -> Plan {
    let budget = Budget::for_plan();
    let suspended = is_suspended(instance);
    let mut run = nodes::Run::new(graph, instance, observed, &budget);
    if !suspended {
        run.all();
    }
    let (outcomes, names) = run.finish();
    let inventory = applyset::inventories(graph, instance, &outcomes);
    let prune = match !suspended && outcomes.iter().all(nodes::Outcome::is_settled) {
        true => applyset::prune(graph, instance, &outcomes, observed),
        false => Vec::new(),
    };
    let built_in = conditions::built_in(&outcomes, suspended, failure);
    let state = conditions::state(&outcomes, &built_in, failure);
    let scale = scale::observe(graph, instance, &outcomes, state == State::Active);
    let status = status::write(&status::Inputs {
        graph,
        instance,
        names: &names,
        budget: &budget,
        built_in: &built_in,
        state,
        scale: &scale,
        now,
    });
    let inventory_after = if prune.is_empty() && !outcomes.iter().all(nodes::Outcome::is_settled) {
        inventory.0.clone()
    } else {
        inventory.1
    };
    Plan {
        state: status.1,
        nodes: outcomes.into_iter().map(nodes::Outcome::into_plan).collect(),
        status: status.0,
        inventory: inventory.0,
        inventory_after,
        prune,
    }
}

/// The annotation that makes us leave an instance alone.
pub fn is_suspended(instance: &Value) -> bool {
    let annotation = instance["metadata"]["annotations"].get(labels::RECONCILE).and_then(Value::as_str);
    annotation
        .is_some_and(|text| ["suspended", "disabled"].iter().any(|word| text.eq_ignore_ascii_case(word)))
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

// === impl Identity ===

impl Identity {
    pub fn of(object: &Value) -> Self {
        Self {
            api_version: text(object, "/apiVersion").to_owned(),
            kind: text(object, "/kind").to_owned(),
            namespace: text(object, "/metadata/namespace").to_owned(),
            name: text(object, "/metadata/name").to_owned(),
        }
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

// === impl Objects ===

impl FromIterator<Value> for Objects {
    fn from_iter<I: IntoIterator<Item = Value>>(objects: I) -> Self {
        Self { objects: objects.into_iter().map(|object| (Identity::of(&object), object)).collect() }
    }
}

impl Observed for Objects {
    fn get(&self, identity: &Identity) -> Option<Cow<'_, Value>> {
        self.objects.get(identity).map(Cow::Borrowed)
    }

    fn list(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Vec<Cow<'_, Value>> {
        let of_kind = self.objects.iter().filter(|(identity, _)| {
            identity.api_version == api_version
                && identity.kind == kind
                && namespace.is_none_or(|namespace| identity.namespace == namespace)
        });
        of_kind.map(|(_, object)| Cow::Borrowed(object)).collect()
    }

    fn labelled(&self, key: &str, value: &str) -> Vec<Cow<'_, Value>> {
        let has =
            |object: &&Value| object["metadata"]["labels"].get(key).and_then(Value::as_str) == Some(value);
        self.objects.values().filter(has).map(Cow::Borrowed).collect()
    }
}

// === impl State ===

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "IN_PROGRESS",
            Self::Active => "ACTIVE",
            Self::Error => "ERROR",
            Self::Deleting => "DELETING",
        }
    }
}

#[cfg(test)]
mod tests;
