use engine::effect::{Effect, Plan, Propagation, Target};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use super::graph::{FOREGROUND, Node, ORPHAN};
use crate::object::{claim::set_owners, uid};

/// Everything a decision about one object depends on.
pub(crate) struct Observed {
    pub node: Node,
    pub owners: Vec<(OwnerReference, OwnerState)>,
    pub dependents: Vec<Node>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerState {
    Alive,
    /// Waits for its dependents to go.
    DeletingDependents,
    /// Not there, by a live read.
    Absent,
    /// A namespaced owner of a cluster-scoped object: the reference says nothing about where to look.
    OutOfReach,
}

impl OwnerState {
    pub fn of(owner: &Node) -> Self {
        if owner.deleting_dependents() { Self::DeletingDependents } else { Self::Alive }
    }
}

pub(crate) fn plan(observed: &Observed) -> Plan {
    let node = &observed.node;
    let effects = match () {
        () if node.deleting() && node.has_finalizer(ORPHAN) => orphan_dependents(observed),
        () if node.deleting_dependents() => finish_foreground(observed),
        () if node.deleting() => Vec::new(),
        () => owned(observed),
    };
    effects.into()
}

fn orphan_dependents(observed: &Observed) -> Vec<Effect> {
    let own = uid(&observed.node.meta);
    let mut effects: Vec<Effect> = observed
        .dependents
        .iter()
        .map(|dependent| without_owners(dependent, |owner| owner.uid == own))
        .collect();
    effects.push(without_finalizer(&observed.node, ORPHAN));
    effects
}

fn finish_foreground(observed: &Observed) -> Vec<Effect> {
    let own = uid(&observed.node.meta);
    if observed.dependents.iter().any(|dependent| dependent.blocks(own)) {
        return Vec::new();
    }
    vec![without_finalizer(&observed.node, FOREGROUND)]
}

fn owned(observed: &Observed) -> Vec<Effect> {
    let node = &observed.node;
    let has = |state| observed.owners.iter().any(|(_, known)| *known == state);
    let in_state = |owner: &OwnerReference, states: &[OwnerState]| {
        observed.owners.iter().any(|(known, state)| known.uid == owner.uid && states.contains(state))
    };
    if observed.owners.is_empty() || has(OwnerState::OutOfReach) {
        return Vec::new();
    }
    let going = [OwnerState::Absent, OwnerState::DeletingDependents];
    if has(OwnerState::Alive) {
        // Others still own it: only the references to those that go are dropped.
        if !has(OwnerState::Absent) && !has(OwnerState::DeletingDependents) {
            return Vec::new();
        }
        return vec![without_owners(node, |owner| in_state(owner, &going))];
    }
    let target = Target::of(&node.kind, &node.meta);
    if has(OwnerState::DeletingDependents) && !observed.dependents.is_empty() {
        let mut effects = Vec::new();
        // In a circle of owners nobody would ever be first: this one steps out of its owner's way.
        if observed.dependents.iter().any(Node::deleting_dependents) {
            let mut owners = node.owners().to_vec();
            owners.iter_mut().for_each(|owner| owner.block_owner_deletion = Some(false));
            effects.push(set_owners(&node.kind, &node.meta, owners));
        }
        effects.push(Effect::Delete { target, propagation: Some(Propagation::Foreground), announce: None });
        return effects;
    }
    let propagation = match () {
        () if node.has_finalizer(ORPHAN) => Propagation::Orphan,
        () if node.has_finalizer(FOREGROUND) => Propagation::Foreground,
        () => Propagation::Background,
    };
    vec![Effect::Delete { target, propagation: Some(propagation), announce: None }]
}

fn without_owners(node: &Node, dropped: impl Fn(&OwnerReference) -> bool) -> Effect {
    let kept = node.owners().iter().filter(|owner| !dropped(owner)).cloned().collect();
    set_owners(&node.kind, &node.meta, kept)
}

fn without_finalizer(node: &Node, finalizer: &str) -> Effect {
    let kept: Vec<&String> =
        node.meta.finalizers.iter().flatten().filter(|held| *held != finalizer).collect();
    let kept = if kept.is_empty() { json!(null) } else { json!(kept) };
    Effect::patch(Target::of(&node.kind, &node.meta), json!({ "metadata": { "finalizers": kept } }))
}
