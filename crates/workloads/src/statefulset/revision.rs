//! Templates over time. Each is kept as a ControllerRevision in the form `kubectl rollout undo` applies.

use std::sync::Arc;

use engine::{
    effect::{Effect, Target},
    kind,
};
use k8s_openapi::{
    api::{
        apps::v1::{ControllerRevision, StatefulSet},
        core::v1::{Pod, PodTemplateSpec},
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, runtime::RawExtension},
};
use serde_json::{Value, json};

use super::pods;
use crate::object::{
    claim::set_owners, controller_of, controller_reference, hash, name, template, template_labels, uid,
};

const HASH_LABEL: &str = "controller.kubernetes.io/hash";
const LONGEST_PREFIX: usize = 223;

/// The template pods run now, and the one they are to run.
pub(super) struct Revisions {
    pub current: Version,
    pub update: Version,
    pub collisions: i32,
}

pub(super) struct Version {
    pub name: String,
    pub template: PodTemplateSpec,
}

pub(super) enum Answer {
    Known(Box<Revisions>),
    /// The name for the new revision is taken by a different one: count it, try the next name.
    Collision(i32),
}

/// Finds the revision of the set's template, or has it created; `effects` come before anything else.
pub(super) fn settle(
    set: &StatefulSet,
    wanted: &PodTemplateSpec,
    revisions: &[Arc<ControllerRevision>],
    effects: &mut Vec<Effect>,
) -> Answer {
    adopt(set, revisions, effects);
    let mut sorted: Vec<&ControllerRevision> = revisions.iter().map(|revision| &**revision).collect();
    sorted.sort_by(|a, b| a.revision.cmp(&b.revision).then_with(|| a.metadata.name.cmp(&b.metadata.name)));
    let next = sorted.last().map_or(1, |last| last.revision + 1);
    let collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);

    let equal = |revision: &ControllerRevision| {
        stored_template(revision).is_some_and(|stored| template::same(&stored, wanted, ""))
    };
    let update_name = match sorted.iter().rev().find(|revision| equal(revision)) {
        Some(found) => {
            // An old template is wanted again: its revision becomes the latest.
            if found.revision + 1 != next {
                let target = Target::of(&kind::CONTROLLER_REVISION, &found.metadata);
                effects.push(Effect::patch(target, json!({ "revision": next })));
            }
            name(&found.metadata).to_owned()
        }
        None => {
            let fresh = new_revision(set, wanted, next, collisions);
            let fresh_name = name(&fresh.metadata).to_owned();
            if sorted.iter().any(|revision| name(&revision.metadata) == fresh_name) {
                return Answer::Collision(collisions.saturating_add(1));
            }
            effects.push(Effect::Create {
                kind: kind::CONTROLLER_REVISION,
                namespace: set.metadata.namespace.clone(),
                body: json!(fresh),
                announce: None,
            });
            fresh_name
        }
    };
    let current_name = set.status.as_ref().and_then(|status| status.current_revision.as_deref());
    let current = sorted
        .iter()
        .find(|revision| Some(name(&revision.metadata)) == current_name)
        .and_then(|revision| {
            let template = stored_template(revision)?;
            Some(Version { name: name(&revision.metadata).to_owned(), template })
        })
        .unwrap_or_else(|| Version { name: update_name.clone(), template: wanted.clone() });
    let update = Version { name: update_name, template: wanted.clone() };
    Answer::Known(Box::new(Revisions { current, update, collisions }))
}

/// Deletes revisions that no pod uses, beyond the history that is to be kept.
pub(super) fn truncate(
    set: &StatefulSet,
    revisions: &[Arc<ControllerRevision>],
    used: &Revisions,
    owned: &[Arc<Pod>],
) -> Vec<Effect> {
    let limit = set.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
    let Ok(limit) = usize::try_from(limit) else { return Vec::new() };
    let in_use = |revision: &str| {
        revision == used.current.name
            || revision == used.update.name
            || owned.iter().any(|pod| pods::revision(pod) == revision)
    };
    let mut history: Vec<&ControllerRevision> = revisions
        .iter()
        .map(|revision| &**revision)
        .filter(|revision| !in_use(name(&revision.metadata)))
        .collect();
    history.sort_by_key(|revision| revision.revision);
    let n_surplus = history.len().saturating_sub(limit);
    let delete = |revision: &ControllerRevision| Effect::Delete {
        target: Target::of(&kind::CONTROLLER_REVISION, &revision.metadata),
        propagation: None,
        announce: None,
    };
    history.into_iter().take(n_surplus).map(delete).collect()
}

fn adopt(set: &StatefulSet, revisions: &[Arc<ControllerRevision>], effects: &mut Vec<Effect>) {
    if set.metadata.deletion_timestamp.is_some() {
        return;
    }
    let orphans: Vec<_> =
        revisions.iter().filter(|revision| controller_of(&revision.metadata).is_none()).collect();
    if !orphans.is_empty() {
        effects.push(Effect::Confirm(Target::of(&kind::STATEFUL_SET, &set.metadata)));
    }
    for orphan in orphans {
        let mut owners = orphan.metadata.owner_references.clone().unwrap_or_default();
        owners.retain(|owner| owner.uid != uid(&set.metadata));
        owners.push(controller_reference(&kind::STATEFUL_SET, &set.metadata));
        effects.push(set_owners(&kind::CONTROLLER_REVISION, &orphan.metadata, owners));
    }
}

fn new_revision(
    set: &StatefulSet,
    wanted: &PodTemplateSpec,
    revision: i64,
    collisions: i32,
) -> ControllerRevision {
    let mut described = json!(wanted);
    described["$patch"] = json!("replace");
    let data = json!({ "spec": { "template": described } });
    let hash = hash::short(&data, Some(collisions));
    let mut labels = template_labels(wanted);
    labels.insert(HASH_LABEL.into(), hash.clone());
    let set_name = name(&set.metadata);
    ControllerRevision {
        metadata: ObjectMeta {
            namespace: set.metadata.namespace.clone(),
            name: Some(format!("{}-{hash}", &set_name[..set_name.len().min(LONGEST_PREFIX)])),
            labels: Some(labels),
            annotations: set.metadata.annotations.clone(),
            owner_references: Some(vec![controller_reference(&kind::STATEFUL_SET, &set.metadata)]),
            ..Default::default()
        },
        data: Some(RawExtension(data)),
        revision,
    }
}

fn stored_template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut described = revision.data.as_ref()?.0.get("spec")?.get("template")?.clone();
    if let Value::Object(fields) = &mut described {
        fields.remove("$patch");
    }
    serde_json::from_value(described).ok()
}
