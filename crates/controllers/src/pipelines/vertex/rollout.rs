//! Which pods to create, replace and delete: indexes from 0 on, a few at a time when what they are made from has changed.

use std::{collections::BTreeMap, sync::Arc};

use api::numaflow::{HASH, REPLICA, UpdateStrategy, VertexStatus};
use engine::object::{annotation, by_age, uid};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

/// What is there, by index; those that are on their way out or have ended count only for names.
pub(super) struct Pods<'a> {
    active: BTreeMap<i32, Vec<&'a Pod>>,
    inactive: BTreeMap<i32, Vec<&'a Pod>>,
}

/// One step of a rollout.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Moves<'a> {
    /// Indexes without a pod of the wanted hash.
    pub create: Vec<i32>,
    pub delete: Vec<&'a Pod>,
    /// Nothing more happens until pods that were made before are ready.
    pub waits: bool,
}

impl<'a> Pods<'a> {
    pub fn new(all: &'a [Arc<Pod>]) -> Self {
        let mut pods = Self { active: BTreeMap::new(), inactive: BTreeMap::new() };
        for pod in all {
            // One without an index is nobody's: it goes.
            let index = annotation(&pod.metadata, REPLICA).and_then(|index| index.parse().ok());
            let side = if engine::pods::active(pod) { &mut pods.active } else { &mut pods.inactive };
            side.entry(index.unwrap_or(i32::MAX)).or_default().push(pod);
        }
        for list in pods.active.values_mut() {
            list.sort_by(|a, b| by_age(&a.metadata, &b.metadata));
        }
        pods
    }

    /// Uids of all that have or had this index.
    pub fn uids(&self, index: i32) -> Vec<&'a str> {
        let sides = [&self.active, &self.inactive].into_iter().filter_map(|side| side.get(&index));
        let mut uids: Vec<&str> = sides.flatten().map(|pod| uid(&pod.metadata)).collect();
        uids.sort_unstable();
        uids
    }

    /// The pod of this index that was made from `hash`.
    fn of(&self, index: i32, hash: &str) -> Option<&'a Pod> {
        let mut found = self.active.get(&index).into_iter().flatten();
        found.find(|pod| annotation(&pod.metadata, HASH) == Some(hash)).copied()
    }

    pub fn n_ready(&self) -> i32 {
        let ready = self.active.values().filter(|list| list.iter().any(|pod| is_ready(pod)));
        i32::try_from(ready.count()).unwrap_or(i32::MAX)
    }
}

/// Runs, and so do all containers, those included that run beside it.
pub(super) fn is_ready(pod: &Pod) -> bool {
    engine::pods::running(pod) && engine::pods::ready(pod)
}

/// Takes `status` one step further towards `desired` pods of `hash`.
pub(super) fn step<'a>(
    status: &mut VertexStatus,
    pods: &Pods<'a>,
    desired: i32,
    hash: &str,
    strategy: &UpdateStrategy,
    now: Timestamp,
) -> Moves<'a> {
    let mut moves = Moves::default();
    if status.update_hash.as_deref() != Some(hash) {
        status.update_hash = Some(hash.to_owned());
        status.updated_replicas = 0;
        status.updated_ready_replicas = 0;
    }
    let surplus = pods.active.iter().rev().filter(|(index, _)| **index >= desired);
    moves.delete.extend(surplus.flat_map(|(_, list)| list.iter().copied()));
    if status.replicas > desired {
        status.replicas = desired;
        status.last_scaled_at = Some(engine::object::time(now));
    }
    status.updated_replicas = status.updated_replicas.clamp(0, desired);
    status.updated_ready_replicas = status.updated_ready_replicas.clamp(0, status.updated_replicas);

    let ensure = |range: std::ops::Range<i32>, moves: &mut Moves<'a>| {
        for index in range {
            let wanted = pods.of(index, hash);
            if wanted.is_none() {
                moves.create.push(index);
            }
            let list = pods.active.get(&index).into_iter().flatten().copied();
            moves.delete.extend(list.filter(|pod| !wanted.is_some_and(|one| std::ptr::eq(one, *pod))));
        }
    };
    ensure(0..status.updated_replicas, &mut moves);
    if status.updated_ready_replicas != status.updated_replicas {
        let ready = (0..status.updated_replicas).filter(|index| pods.of(*index, hash).is_some_and(is_ready));
        status.updated_ready_replicas = i32::try_from(ready.count()).unwrap_or(i32::MAX);
        if status.updated_ready_replicas < status.updated_replicas {
            moves.waits = true;
            return moves;
        }
    }
    let is_current =
        status.current_hash.as_deref().is_none_or(|current| current.is_empty() || current == hash);
    let up_to = match is_current {
        true => desired,
        false => {
            let at_once = strategy.at_once(desired).unwrap_or(1);
            status.updated_replicas.saturating_add(at_once).min(desired)
        }
    };
    ensure(status.updated_replicas..up_to, &mut moves);
    status.updated_replicas = up_to;
    if up_to == desired {
        status.current_hash = Some(hash.to_owned());
    }
    if status.replicas != desired {
        status.replicas = desired;
        status.last_scaled_at = Some(engine::object::time(now));
    }
    moves
}
