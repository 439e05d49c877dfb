//! A pod's state as controllers see it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub(crate) fn terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

pub(crate) fn finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Counts as a replica: neither finished nor on its way out.
pub(crate) fn active(pod: &Pod) -> bool {
    !finished(pod) && !terminating(pod)
}

fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    pod.status.as_ref()?.conditions.iter().flatten().find(|condition| condition.type_ == "Ready")
}

pub(crate) fn ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some_and(|condition| condition.status == "True")
}

/// Since when the pod has been ready.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let condition = ready_condition(pod).filter(|condition| condition.status == "True")?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

/// Ready for at least `min_ready_seconds`.
pub(crate) fn available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    ready(pod) && (min_ready_seconds <= 0 || available_at(pod, min_ready_seconds).is_some_and(|at| at <= now))
}

/// When a ready pod becomes available, if it stays ready.
pub(crate) fn available_at(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    let wait = Duration::from_secs(u64::try_from(min_ready_seconds).unwrap_or(0));
    ready_since(pod)?.checked_add(wait).ok()
}

/// The soonest moment at which one of the ready pods becomes available.
pub(crate) fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Timestamp> {
    let soon = pods.into_iter().filter_map(|pod| available_at(pod, min_ready_seconds));
    soon.filter(|at| *at > now).min()
}
