use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use engine::{
    effect::{Announce, Effect, Note, Plan, Target},
    kind,
};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec},
    core::v1::Pod,
};
use serde_json::json;

use super::{
    pods::{claims, missing_identity, numbered, ordinal, revision},
    revision::{Answer, Revisions, Version, settle, truncate},
    status::{self, Counts},
};
use crate::object::{being_deleted, claim::claim, name, pods, selector};

const COMPONENT: &str = "statefulset-controller";
/// More are created in a later turn, so that one set cannot occupy the API for long.
const BURST: usize = 500;

/// Everything a decision about one StatefulSet depends on.
pub(crate) struct Observed {
    pub set: Arc<StatefulSet>,
    /// Pods named after the set that it controls or nobody does.
    pub pods: Vec<Arc<Pod>>,
    /// Revisions with its labels that it controls or nobody does.
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// Names of the claims of storage in its namespace.
    pub claims: HashSet<String>,
}

/// One turn of one set.
struct Turn<'a> {
    set: &'a StatefulSet,
    spec: &'a StatefulSetSpec,
    claims: &'a HashSet<String>,
    revisions: Revisions,
    now: Timestamp,
    /// Pods change one after the other, each only when its predecessors are available.
    ordered: bool,
    min_ready: i32,
    changes: Vec<Effect>,
    counts: Counts,
}

pub(crate) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let set = &*observed.set;
    let Some(spec) = &set.spec else { return Plan::default() };
    let Some(wanted) = selector::parse(&spec.selector).filter(|wanted| !wanted.selects_all()) else {
        return Plan::default();
    };
    let claim = claim(&kind::STATEFUL_SET, &set.metadata, &wanted, &kind::POD, &observed.pods, |_| true);
    let mut plan = Plan::from(claim.effects);
    let revisions = match settle(set, &spec.template, &observed.revisions, &mut plan.effects) {
        Answer::Known(revisions) => *revisions,
        Answer::Collision(n) => {
            plan.effects.extend(status::count_collision(set, n));
            return plan;
        }
    };
    let mut turn = Turn {
        set,
        spec,
        claims: &observed.claims,
        now,
        ordered: spec.pod_management_policy.as_deref() != Some("Parallel"),
        min_ready: spec.min_ready_seconds.unwrap_or(0),
        changes: Vec::new(),
        counts: Counts::of(&claim.owned, spec.min_ready_seconds.unwrap_or(0), &revisions, now),
        revisions,
    };
    if !being_deleted(&set.metadata) {
        turn.work(&claim.owned);
    }
    let Turn { revisions, changes, counts, min_ready, .. } = turn;
    plan.effects.extend(changes);
    plan.effects.extend(status::write_if_changed(set, spec, &revisions, &counts));
    plan.effects.extend(truncate(set, &observed.revisions, &revisions, &claim.owned));
    if min_ready > 0
        && let Some(at) = pods::next_available(claim.owned.iter().map(|pod| &**pod), min_ready, now)
    {
        plan.look_again(at);
    }
    plan
}

impl Turn<'_> {
    fn work(&mut self, owned: &[Arc<Pod>]) {
        let first = self.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
        let wanted = first..first.saturating_add(self.spec.replicas.unwrap_or(1).max(0));
        let (replicas, mut condemned): (Vec<&Pod>, Vec<&Pod>) =
            owned.iter().map(|pod| &**pod).partition(|pod| wanted.contains(&ordinal(pod)));
        condemned.sort_by_key(|pod| std::cmp::Reverse(ordinal(pod)));
        let replicas: HashMap<i32, &Pod> = replicas.into_iter().map(|pod| (ordinal(pod), pod)).collect();
        let first_unavailable = wanted
            .clone()
            .find(|number| replicas.get(number).is_none_or(|pod| self.unavailable(pod)))
            .or_else(|| condemned.iter().rev().find(|pod| self.unavailable(pod)).map(|pod| ordinal(pod)));

        for number in wanted.clone() {
            let goes_on = self.keep_replica(number, replicas.get(&number).copied());
            if !goes_on || self.changes.len() >= BURST {
                return;
            }
        }
        for pod in condemned {
            if !self.remove(pod, first_unavailable) {
                return;
            }
        }
        if self.strategy() != "OnDelete" {
            self.update_highest(wanted, &replicas);
        }
    }

    /// False if the others have to wait for this one.
    fn keep_replica(&mut self, number: i32, pod: Option<&Pod>) -> bool {
        let Some(pod) = pod else {
            self.create(number);
            return !self.ordered;
        };
        if pods::finished(pod) {
            // Its name is taken until it is gone.
            if !pods::terminating(pod) {
                self.delete(pod);
            }
            return !self.ordered;
        }
        if self.ordered && self.unavailable(pod) {
            return false;
        }
        if let Some(labels) = missing_identity(pod) {
            self.changes.push(Effect::patch(Target::of(&kind::POD, &pod.metadata), labels));
        }
        true
    }

    /// Surplus pods go highest first. False if the others have to wait.
    fn remove(&mut self, pod: &Pod, first_unavailable: Option<i32>) -> bool {
        if pods::terminating(pod) {
            return !self.ordered;
        }
        // An unavailable pod is removed only when it is what everything waits for.
        if self.ordered && self.unavailable(pod) && first_unavailable != Some(ordinal(pod)) {
            return false;
        }
        self.delete(pod);
        !self.ordered
    }

    /// Replaces the highest outdated pod, down to the partition, when everything above it is available.
    fn update_highest(&mut self, wanted: Range<i32>, replicas: &HashMap<i32, &Pod>) {
        let lowest = wanted.start.saturating_add(self.partition().unwrap_or(0));
        for number in (lowest..wanted.end).rev() {
            // one that was just created is of the right revision, and not available
            let Some(pod) = replicas.get(&number) else { return };
            if revision(pod) != self.revisions.update.name && !pods::terminating(pod) {
                self.delete(pod);
                self.counts.lose_current(revision(pod) == self.revisions.current.name);
                return;
            }
            if self.unavailable(pod) {
                return;
            }
        }
    }

    fn create(&mut self, number: i32) {
        for claim in claims(self.set, number) {
            // One that is there is that of an earlier pod of this number, with its data.
            if !self.claims.contains(name(&claim.metadata)) {
                self.changes.push(Effect::Create {
                    kind: kind::PERSISTENT_VOLUME_CLAIM,
                    namespace: self.set.metadata.namespace.clone(),
                    body: json!(claim),
                    announce: None,
                });
            }
        }
        let version = self.version_for(number);
        let pod = numbered(self.set, &version.template, &version.name, number);
        self.changes.push(Effect::Create {
            kind: kind::POD,
            namespace: self.set.metadata.namespace.clone(),
            body: json!(pod),
            announce: Some(self.announce("Create")),
        });
    }

    fn delete(&mut self, pod: &Pod) {
        self.changes.push(Effect::Delete {
            target: Target { resource_version: None, ..Target::of(&kind::POD, &pod.metadata) },
            propagation: None,
            announce: Some(self.announce("Delete")),
        });
    }

    /// Below the partition, and without one as long as the update has not come there, pods keep the current template.
    fn version_for(&self, number: i32) -> &Version {
        let first = self.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
        let keeps_current = match self.partition() {
            Some(partition) => number < first.saturating_add(partition),
            None => {
                let current =
                    self.set.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0);
                self.strategy() == "RollingUpdate" && number < first.saturating_add(current)
            }
        };
        if keeps_current { &self.revisions.current } else { &self.revisions.update }
    }

    fn partition(&self) -> Option<i32> {
        let rolling = self.spec.update_strategy.as_ref()?.rolling_update.as_ref()?;
        Some(rolling.partition.unwrap_or(0))
    }

    fn strategy(&self) -> &str {
        let strategy = self.spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
        strategy.unwrap_or("RollingUpdate")
    }

    fn unavailable(&self, pod: &Pod) -> bool {
        pods::terminating(pod) || !pods::available(pod, self.min_ready, self.now)
    }

    fn announce(&self, verb: &'static str) -> Announce {
        let set_name = name(&self.set.metadata);
        let (done, failed, before) = match verb {
            "Create" => ("SuccessfulCreate", "FailedCreate", "Create Pod "),
            _ => ("SuccessfulDelete", "FailedDelete", "Delete Pod "),
        };
        Announce {
            regarding: Target::of(&kind::STATEFUL_SET, &self.set.metadata),
            component: COMPONENT,
            done: (done, Note { before, after: format!(" in StatefulSet {set_name} successful") }),
            failed: (failed, Note { before, after: format!(" in StatefulSet {set_name} failed error: ") }),
        }
    }
}
