//! Which objects belong to an owner with a selector: those it controls, those it takes over, those it lets go.

use std::sync::Arc;

use engine::{
    effect::{Effect, Target},
    kind::Kind,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, core::Selector};
use serde_json::json;

use super::{being_deleted, controller_of, controller_reference, selector, uid};

pub(crate) struct Claim<K> {
    /// All that belong to the owner once `effects` are done.
    pub owned: Vec<Arc<K>>,
    pub effects: Vec<Effect>,
}

/// `candidates` are all objects of the namespace that the owner controls or that nobody does. A candidate that
/// `adoptable` refuses is not taken over (finished pods, say).
pub(crate) fn claim<K: Resource>(
    owner_kind: &Kind,
    owner: &ObjectMeta,
    wanted: &Selector,
    kind: &Kind,
    candidates: &[Arc<K>],
    adoptable: impl Fn(&K) -> bool,
) -> Claim<K> {
    let mut claim = Claim { owned: Vec::new(), effects: Vec::new() };
    let mut adoptions = Vec::new();
    for candidate in candidates {
        let meta = candidate.meta();
        let matches = selector::matches(wanted, meta);
        match controller_of(meta) {
            Some(controller) if controller.uid != uid(owner) => {}
            Some(_) if matches => claim.owned.push(candidate.clone()),
            Some(_) if being_deleted(owner) => {}
            Some(_) => {
                let others = meta.owner_references.iter().flatten().filter(|other| other.uid != uid(owner));
                claim.effects.push(set_owners(kind, meta, others.cloned().collect()));
            }
            None if !matches || being_deleted(owner) || being_deleted(meta) || !adoptable(candidate) => {}
            None => {
                let mut owners = meta.owner_references.clone().unwrap_or_default();
                owners.retain(|other| other.uid != uid(owner));
                owners.push(controller_reference(owner_kind, owner));
                adoptions.push(set_owners(kind, meta, owners));
                claim.owned.push(candidate.clone());
            }
        }
    }
    if !adoptions.is_empty() {
        claim.effects.push(Effect::Confirm(Target::of(owner_kind, owner)));
        claim.effects.extend(adoptions);
    }
    claim
}

/// Lists are replaced whole by a merge patch; the version in the target keeps concurrent changes safe.
pub(crate) fn set_owners(kind: &Kind, meta: &ObjectMeta, owners: Vec<OwnerReference>) -> Effect {
    let owners = if owners.is_empty() { json!(null) } else { json!(owners) };
    Effect::patch(Target::of(kind, meta), json!({ "metadata": { "ownerReferences": owners } }))
}
