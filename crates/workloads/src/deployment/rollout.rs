//! The state of one turn: working copies of the sets, and what has been decided so far.

use std::{collections::BTreeMap, sync::Arc};

use engine::{
    effect::{Effect, Plan, Target},
    kind,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::{Value, json};

use super::{plan::Observed, status};
use crate::object::{
    annotation, being_deleted, by_age, controller_reference, hash, name,
    numbers::{Round, scaled},
    template, template_labels,
};

pub(super) const COMPONENT: &str = "deployment-controller";
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
const TEMPLATE_HASH: &str = "pod-template-hash";
/// Annotations that are the Deployment's own affair.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
];
/// About a hundred revisions.
const LONGEST_HISTORY: usize = 2000;
const LONGEST_NAME: usize = 253;
pub(super) const UNLIMITED: i32 = i32::MAX;

pub(super) struct Rollout<'a> {
    pub deployment: &'a Deployment,
    pub spec: &'a DeploymentSpec,
    pub now: Timestamp,
    pub replicas: i32,
    pub max_surge: i32,
    pub max_unavailable: i32,
    /// Oldest first.
    pub sets: Vec<Set>,
    /// Index of the set that has the Deployment's template.
    pub new: Option<usize>,
    pub status: DeploymentStatus,
    /// A status that an earlier effect of this plan writes.
    pub told: Option<DeploymentStatus>,
    revision: Option<String>,
    pub events: Vec<Effect>,
    pub deletions: Vec<Effect>,
    pub effects: Vec<Effect>,
    pub next: Option<Timestamp>,
}

pub(super) struct Set {
    /// As stored; `None` for one that this turn creates.
    stored: Option<Arc<ReplicaSet>>,
    pub object: ReplicaSet,
}

// === impl Set ===

impl Set {
    pub fn size(&self) -> i32 {
        self.object.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
    }

    pub fn resize(&mut self, size: i32) {
        if let Some(spec) = &mut self.object.spec {
            spec.replicas = Some(size);
        }
    }

    pub fn running(&self) -> i32 {
        self.object.status.as_ref().map_or(0, |status| status.replicas)
    }

    pub fn available(&self) -> i32 {
        self.object.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
    }

    /// A status that is late may tell of pods that are about to go.
    pub fn counted(&self) -> i32 {
        self.available().min(self.size())
    }

    pub fn revision(&self) -> i64 {
        annotation(&self.object.metadata, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    pub fn number(&self, key: &str) -> Option<i32> {
        annotation(&self.object.metadata, key)?.parse().ok().filter(|n| *n >= 0)
    }

    /// True if that changed something.
    pub fn annotate(&mut self, key: &str, value: &str) -> bool {
        let annotations = self.object.metadata.annotations.get_or_insert_default();
        annotations.insert(key.into(), value.into()).as_deref() != Some(value)
    }

    fn min_ready(&self) -> Option<i32> {
        self.object.spec.as_ref().and_then(|spec| spec.min_ready_seconds).filter(|n| *n != 0)
    }

    fn idle(&self) -> bool {
        let observed = self.object.status.as_ref().and_then(|status| status.observed_generation);
        self.size() == 0 && self.running() == 0 && observed >= self.object.metadata.generation
    }

    /// The write that makes the stored set equal to the working copy.
    fn effect(&self) -> Option<Effect> {
        let Some(stored) = &self.stored else {
            let namespace = self.object.metadata.namespace.clone();
            let body = json!(self.object);
            return Some(Effect::Create { kind: kind::REPLICA_SET, namespace, body, announce: None });
        };
        let old = Self { stored: None, object: (**stored).clone() };
        let mut patch = json!({});
        if old.size() != self.size() {
            patch["spec"]["replicas"] = json!(self.size());
        }
        if old.min_ready() != self.min_ready() {
            patch["spec"]["minReadySeconds"] = json!(self.min_ready());
        }
        let nothing = BTreeMap::new();
        let before = stored.metadata.annotations.as_ref().unwrap_or(&nothing);
        for (key, value) in self.object.metadata.annotations.iter().flatten() {
            if before.get(key) != Some(value) {
                patch["metadata"]["annotations"][key] = json!(value);
            }
        }
        let changed = patch.as_object().is_some_and(|fields| !fields.is_empty());
        changed.then(|| Effect::patch(Target::of(&kind::REPLICA_SET, &stored.metadata), patch))
    }
}

// === impl Rollout ===

impl<'a> Rollout<'a> {
    pub fn new(
        observed: &'a Observed,
        spec: &'a DeploymentSpec,
        owned: Vec<Arc<ReplicaSet>>,
        now: Timestamp,
    ) -> Self {
        let deployment = &*observed.deployment;
        let mut sets: Vec<Set> =
            owned.into_iter().map(|set| Set { object: (*set).clone(), stored: Some(set) }).collect();
        sets.sort_by(|a, b| by_age(&a.object.metadata, &b.object.metadata));
        let new = sets.iter().position(|set| {
            let described = set.object.spec.as_ref().and_then(|spec| spec.template.as_ref());
            described.is_some_and(|described| template::same(described, &spec.template, TEMPLATE_HASH))
        });
        let replicas = spec.replicas.unwrap_or(1);
        let (max_surge, max_unavailable) = fence_posts(spec, replicas);
        Self {
            deployment,
            spec,
            now,
            replicas,
            max_surge,
            max_unavailable,
            sets,
            new,
            status: deployment.status.clone().unwrap_or_default(),
            told: None,
            revision: None,
            events: Vec::new(),
            deletions: Vec::new(),
            effects: Vec::new(),
            next: None,
        }
    }

    pub fn target(&self) -> Target {
        Target::of(&kind::DEPLOYMENT, &self.deployment.metadata)
    }

    pub fn name(&self) -> &str {
        name(&self.deployment.metadata)
    }

    pub fn is_recreate(&self) -> bool {
        is_recreate(self.spec)
    }

    pub fn old_indexes(&self) -> impl Iterator<Item = usize> + use<> {
        let new = self.new;
        (0..self.sets.len()).filter(move |index| Some(*index) != new)
    }

    pub fn total_size(&self) -> i32 {
        self.sets.iter().map(Set::size).sum()
    }

    /// Available pods that are meant to stay.
    pub fn total_counted(&self) -> i32 {
        self.sets.iter().map(Set::counted).sum()
    }

    pub fn stored_complete(&self) -> bool {
        self.deployment.status.as_ref().is_some_and(|status| self.complete(status))
    }

    /// Brings the new set's annotations and the Deployment's revision up to date, if there is a new set.
    pub fn settle_revision(&mut self) {
        let Some(new) = self.new else { return };
        let next = self.next_revision();
        let min_ready = self.spec.min_ready_seconds;
        let copied = self.copied_annotations();
        let set = &mut self.sets[new];
        for (key, value) in copied {
            set.annotate(&key, &value);
        }
        raise_revision(set, next);
        if set.min_ready() != min_ready.filter(|n| *n != 0)
            && let Some(spec) = &mut set.object.spec
        {
            spec.min_ready_seconds = min_ready;
        }
        self.revision = annotation(&set.object.metadata, REVISION).map(str::to_owned);
        let found = format!("Found new replica set {:?}", name(&set.object.metadata));
        self.note_found(found);
    }

    /// Creates the set for the current template. False if its name is taken: then the collision is counted,
    /// which gives another name next time.
    pub fn create_new(&mut self, foreign_names: &[String]) -> bool {
        let hash = hash::short(&self.spec.template, self.status.collision_count);
        let longest = LONGEST_NAME - hash.len() - 1;
        let own_name = self.name();
        let set_name = format!("{}-{hash}", &own_name[..own_name.len().min(longest)]);
        let taken = self.sets.iter().any(|set| name(&set.object.metadata) == set_name);
        if taken || foreign_names.contains(&set_name) {
            self.status.collision_count = Some(self.status.collision_count.unwrap_or(0).saturating_add(1));
            return false;
        }
        let mut described = self.spec.template.clone();
        let mut labels = template_labels(&described);
        labels.insert(TEMPLATE_HASH.into(), hash.clone());
        described.metadata.get_or_insert_default().labels = Some(labels.clone());
        let mut selector = self.spec.selector.clone();
        selector.match_labels.get_or_insert_default().insert(TEMPLATE_HASH.into(), hash);

        let next = self.next_revision();
        let size = if self.is_recreate() {
            self.replicas
        } else {
            (self.replicas + self.max_surge - self.total_size()).clamp(0, self.replicas)
        };
        let mut set = Set {
            stored: None,
            object: ReplicaSet {
                metadata: ObjectMeta {
                    namespace: self.deployment.metadata.namespace.clone(),
                    name: Some(set_name.clone()),
                    labels: Some(labels),
                    owner_references: Some(vec![controller_reference(
                        &kind::DEPLOYMENT,
                        &self.deployment.metadata,
                    )]),
                    ..Default::default()
                },
                spec: Some(ReplicaSetSpec {
                    replicas: Some(size),
                    min_ready_seconds: self.spec.min_ready_seconds,
                    selector,
                    template: Some(described),
                }),
                status: None,
            },
        };
        for (key, value) in self.copied_annotations() {
            set.annotate(&key, &value);
        }
        raise_revision(&mut set, next);
        set.annotate(DESIRED_REPLICAS, &self.replicas.to_string());
        set.annotate(MAX_REPLICAS, &(self.replicas + self.max_surge).to_string());
        self.sets.push(set);
        self.new = Some(self.sets.len() - 1);
        self.revision = Some(next.to_string());
        if size > 0 {
            let note = format!("Scaled up replica set {set_name} from 0 to {size}");
            self.events.push(Effect::event(self.target(), COMPONENT, "ScalingReplicaSet", note));
        }
        self.note_created(&set_name);
        true
    }

    /// Deletes old sets beyond the history that is to be kept, lowest revision first.
    pub fn clean_up(&mut self) {
        let Some(limit) = self.spec.revision_history_limit.filter(|limit| *limit != UNLIMITED) else {
            return;
        };
        let mut old: Vec<&Set> = self
            .old_indexes()
            .map(|index| &self.sets[index])
            .filter(|set| !being_deleted(&set.object.metadata))
            .collect();
        old.sort_by(|a, b| {
            a.revision().cmp(&b.revision()).then_with(|| by_age(&a.object.metadata, &b.object.metadata))
        });
        let n_surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        let deletions = old.into_iter().take(n_surplus).filter(|set| set.idle()).map(|set| Effect::Delete {
            target: Target::of(&kind::REPLICA_SET, &set.object.metadata),
            propagation: None,
            announce: None,
        });
        self.deletions = deletions.collect();
    }

    pub fn finish(mut self) -> Plan {
        let mut effects = std::mem::take(&mut self.effects);
        // The new set first: its pods take the longest to come up.
        effects.extend(self.new.and_then(|new| self.sets[new].effect()));
        effects.extend(self.old_indexes().filter_map(|old| self.sets[old].effect()));
        effects.append(&mut self.events);
        effects.append(&mut self.deletions);
        if let Some(revision) = &self.revision
            && annotation(&self.deployment.metadata, REVISION) != Some(revision)
        {
            let body: Value = json!({ "metadata": { "annotations": { REVISION: revision } } });
            // Beside the status: an annotation written to the object itself would count as a change of what it shall be.
            effects.push(Effect::Patch { target: self.target(), subresource: Some("status"), body });
        }
        if !status::same(self.told.as_ref().or(self.deployment.status.as_ref()), &self.status) {
            effects.push(status::write(self.deployment, self.status.clone()));
        }
        Plan { effects, next: self.next }
    }

    fn next_revision(&self) -> i64 {
        self.old_indexes().map(|index| self.sets[index].revision()).max().unwrap_or(0) + 1
    }

    fn copied_annotations(&self) -> Vec<(String, String)> {
        let own = self.deployment.metadata.annotations.iter().flatten();
        own.filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }
}

/// Raises the set's revision; a set that had one before keeps it in its history, so that a rollback is told apart.
fn raise_revision(set: &mut Set, next: i64) {
    let before = annotation(&set.object.metadata, REVISION).map(str::to_owned);
    // A revision that is no number was written by a person: it stays.
    let current = match before.as_deref().map(str::parse::<i64>) {
        None => 0,
        Some(Ok(current)) => current,
        Some(Err(_)) => return,
    };
    if current >= next {
        return;
    }
    set.annotate(REVISION, &next.to_string());
    let Some(before) = before else { return };
    let kept = annotation(&set.object.metadata, REVISION_HISTORY).unwrap_or_default().to_owned();
    let mut history: Vec<&str> = kept.split(',').filter(|revision| !revision.is_empty()).collect();
    history.push(&before);
    while history.len() > 1
        && history.iter().map(|revision| revision.len() + 1).sum::<usize>() > LONGEST_HISTORY
    {
        history.remove(0);
    }
    set.annotate(REVISION_HISTORY, &history.join(","));
}

fn is_recreate(spec: &DeploymentSpec) -> bool {
    spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate")
}

/// How many pods more, and how many fewer, there may be during a rollout. If rounding makes both zero, one fewer is
/// allowed: otherwise nothing could ever move.
fn fence_posts(spec: &DeploymentSpec, replicas: i32) -> (i32, i32) {
    if is_recreate(spec) {
        return (0, 0);
    }
    let limits = spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
    let surge = limits.and_then(|limits| limits.max_surge.as_ref());
    let unavailable = limits.and_then(|limits| limits.max_unavailable.as_ref());
    let surge = surge.and_then(|value| scaled(value, replicas, Round::Up)).unwrap_or(0);
    let unavailable = unavailable.and_then(|value| scaled(value, replicas, Round::Down)).unwrap_or(0);
    match (surge, unavailable) {
        (0, 0) if replicas > 0 => (0, 1),
        (surge, unavailable) => (surge, unavailable.min(replicas)),
    }
}
