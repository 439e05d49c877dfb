//! Counters.

use engine::{effect::Effect, kind};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, DaemonSetStatus},
    core::v1::Pod,
};

use super::{nodes, plan::Places};
use crate::object::{nonzero, pods};

pub(super) fn write_if_changed(
    set: &DaemonSet,
    places: &Places<'_>,
    hash: &str,
    min_ready: i32,
    now: Timestamp,
) -> Option<Effect> {
    let stored = set.status.clone().unwrap_or_default();
    let mut status = DaemonSetStatus {
        observed_generation: set.metadata.generation,
        collision_count: stored.collision_count,
        conditions: stored.conditions.clone(),
        ..Default::default()
    };
    let (mut updated, mut available) = (0, 0);
    for place in places.values() {
        // a pod that ended runs nothing
        let alive: Vec<&Pod> = place.pods.iter().copied().filter(|pod| !pods::finished(pod)).collect();
        if !place.wanted {
            status.number_misscheduled += i32::from(!alive.is_empty());
            continue;
        }
        status.desired_number_scheduled += 1;
        status.current_number_scheduled += i32::from(!alive.is_empty());
        status.number_ready += i32::from(alive.iter().any(|pod| pods::ready(pod)));
        updated += i32::from(alive.iter().any(|pod| nodes::is_current(pod, hash)));
        available += i32::from(
            alive.iter().any(|pod| !pods::terminating(pod) && pods::available(pod, min_ready, now)),
        );
    }
    status.updated_number_scheduled = nonzero(updated);
    status.number_available = nonzero(available);
    status.number_unavailable = nonzero(status.desired_number_scheduled - available);
    (set.status.is_none() || normal(stored) != status)
        .then(|| Effect::status(&kind::DAEMON_SET, &set.metadata, set.status.as_ref(), &status))
}

/// Zero, null and absent are the same; servers differ in which they store.
fn normal(mut status: DaemonSetStatus) -> DaemonSetStatus {
    for count in
        [&mut status.updated_number_scheduled, &mut status.number_available, &mut status.number_unavailable]
    {
        *count = count.and_then(nonzero);
    }
    status
}
