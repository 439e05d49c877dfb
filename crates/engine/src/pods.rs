//! A pod's state as controllers see it. Pure.

use std::{net::IpAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};

pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub fn terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

pub fn finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Counts as a replica: neither finished nor on its way out.
pub fn active(pod: &Pod) -> bool {
    !finished(pod) && !terminating(pod)
}

pub fn condition<'a>(pod: &'a Pod, name: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.iter().flatten().find(|condition| condition.type_ == name)
}

fn holds(pod: &Pod, name: &str) -> bool {
    condition(pod, name).is_some_and(|condition| condition.status == "True")
}

pub fn ready(pod: &Pod) -> bool {
    holds(pod, "Ready")
}

/// Ready, and not only because its readiness gates say so.
pub fn can_be_called(pod: &Pod) -> bool {
    ready(pod) && holds(pod, "ContainersReady")
}

pub fn running(pod: &Pod) -> bool {
    phase(pod) == "Running"
}

pub fn ip(pod: &Pod) -> Option<IpAddr> {
    pod.status.as_ref()?.pod_ip.as_deref()?.parse().ok()
}

/// The first port that a container declares.
pub fn first_port(pod: &Pod) -> Option<u16> {
    let containers = pod.spec.as_ref()?.containers.iter();
    let port = containers.flat_map(|container| container.ports.iter().flatten()).next()?;
    u16::try_from(port.container_port).ok().filter(|port| *port > 0)
}

/// Why the pod finds no node.
pub fn unschedulable(pod: &Pod) -> Option<Arc<str>> {
    let condition = condition(pod, "PodScheduled").filter(|condition| condition.status == "False")?;
    let message = condition.message.as_deref().or(condition.reason.as_deref());
    Some(message.unwrap_or("no node was found").into())
}

/// Since when the pod has been ready.
pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let condition = condition(pod, "Ready").filter(|condition| condition.status == "True")?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

/// Ready for at least `min_ready_seconds`.
pub fn available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    ready(pod) && (min_ready_seconds <= 0 || available_at(pod, min_ready_seconds).is_some_and(|at| at <= now))
}

/// When a ready pod becomes available, if it stays ready.
pub fn available_at(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    let wait = Duration::from_secs(u64::try_from(min_ready_seconds).unwrap_or(0));
    ready_since(pod)?.checked_add(wait).ok()
}

/// The soonest moment at which one of the ready pods becomes available.
pub fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a Pod>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Timestamp> {
    let soon = pods.into_iter().filter_map(|pod| available_at(pod, min_ready_seconds));
    soon.filter(|at| *at > now).min()
}
