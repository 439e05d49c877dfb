//! Counters.

use std::sync::Arc;

use engine::{effect::Effect, kind};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus},
    core::v1::Pod,
};

use super::{pods::revision, revision::Revisions};
use crate::object::{nonzero, pods};

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
        conditions: stored.conditions.clone(),
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
