//! Counters, and what a StatefulSet cannot have here.

use std::sync::Arc;

use engine::{
    effect::{Effect, Plan, Target},
    kind,
};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{StatefulSet, StatefulSetCondition, StatefulSetSpec, StatefulSetStatus},
    core::v1::Pod,
};

use super::{pods::revision, revision::Revisions};
use crate::object::{nonzero, pods, time};

const UNSUPPORTED: &str = "Unsupported";
const CLAIMS_REASON: &str = "VolumeClaimTemplatesUnsupported";
const CLAIMS_MESSAGE: &str = "spec.volumeClaimTemplates is not supported: there are no persistent volumes here. \
                              Remove it, or use an emptyDir or hostPath volume in spec.template.spec.volumes.";

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counts {
    replicas: i32,
    ready: i32,
    available: i32,
    current: i32,
    updated: i32,
}

impl Counts {
    pub fn of(owned: &[Arc<Pod>], min_ready: i32, revisions: &Revisions, now: Timestamp) -> Self {
        let mut counts = Self::default();
        for pod in owned.iter().filter(|pod| !pods::phase(pod).is_empty()) {
            counts.replicas += 1;
            if pods::phase(pod) == "Running" && pods::ready(pod) {
                counts.ready += 1;
                counts.available += i32::from(pods::available(pod, min_ready, now));
            }
            if !pods::terminating(pod) {
                counts.current += i32::from(revision(pod) == revisions.current.name);
                counts.updated += i32::from(revision(pod) == revisions.update.name);
            }
        }
        counts
    }

    /// An outdated pod is about to go.
    pub fn lose_current(&mut self, is_current: bool) {
        if is_current {
            self.current -= 1;
        }
    }
}

pub(super) fn write_if_changed(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    revisions: &Revisions,
    counts: &Counts,
) -> Option<Effect> {
    let stored = set.status.clone().unwrap_or_default();
    let mut status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas: counts.replicas,
        ready_replicas: nonzero(counts.ready),
        // the one counter that the API always shows
        available_replicas: Some(counts.available),
        current_replicas: nonzero(counts.current),
        updated_replicas: nonzero(counts.updated),
        current_revision: Some(revisions.current.name.clone()),
        update_revision: Some(revisions.update.name.clone()),
        collision_count: Some(revisions.collisions),
        conditions: stored
            .conditions
            .clone()
            .map(without_refusal)
            .filter(|conditions| !conditions.is_empty()),
    };
    let replicas = spec.replicas.unwrap_or(1);
    let on_delete =
        spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete");
    let all = |n: i32| n == replicas;
    if !on_delete && all(counts.updated) && all(counts.ready) && all(counts.replicas) {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
    (normal(&stored) != normal(&status)).then(|| write(set, status))
}

pub(super) fn count_collision(set: &StatefulSet, n: i32) -> Option<Effect> {
    let mut status = set.status.clone().unwrap_or_default();
    status.collision_count = Some(n);
    Some(write(set, status))
}

/// No pod is better than pods whose data would vanish.
pub(super) fn refuse_claims(set: &StatefulSet, component: &'static str, now: Timestamp) -> Plan {
    let stored = set.status.clone().unwrap_or_default();
    let conditions = stored.conditions.clone().unwrap_or_default();
    let told = conditions.iter().any(|condition| condition.type_ == UNSUPPORTED);
    if told && stored.observed_generation == set.metadata.generation {
        return Plan::default();
    }
    let mut conditions = without_refusal(conditions);
    conditions.push(StatefulSetCondition {
        type_: UNSUPPORTED.into(),
        status: "True".into(),
        reason: Some(CLAIMS_REASON.into()),
        message: Some(CLAIMS_MESSAGE.into()),
        last_transition_time: Some(time(now)),
    });
    let status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        conditions: Some(conditions),
        ..stored
    };
    let target = Target::of(&kind::STATEFUL_SET, &set.metadata);
    vec![Effect::warning(target, component, CLAIMS_REASON, CLAIMS_MESSAGE), write(set, status)].into()
}

fn without_refusal(mut conditions: Vec<StatefulSetCondition>) -> Vec<StatefulSetCondition> {
    conditions.retain(|condition| condition.type_ != UNSUPPORTED);
    conditions
}

/// Zero, null and absent are the same; servers differ in which they store.
fn normal(status: &StatefulSetStatus) -> StatefulSetStatus {
    StatefulSetStatus {
        ready_replicas: status.ready_replicas.and_then(nonzero),
        available_replicas: status.available_replicas.and_then(nonzero),
        current_replicas: status.current_replicas.and_then(nonzero),
        updated_replicas: status.updated_replicas.and_then(nonzero),
        conditions: status.conditions.clone().filter(|conditions| !conditions.is_empty()),
        ..status.clone()
    }
}

fn write(set: &StatefulSet, status: StatefulSetStatus) -> Effect {
    Effect::status(&kind::STATEFUL_SET, &set.metadata, set.status.as_ref(), &status)
}
