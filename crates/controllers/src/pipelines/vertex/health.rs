//! What is wrong with pods, in a line.

use std::sync::Arc;

use engine::object::name;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

const NOT_STARTING: [&str; 9] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImagePull",
    "ImageInspectError",
    "RunContainerError",
];
/// So long a container that was killed counts as unhealthy.
const RECENT: SignedDuration = SignedDuration::from_mins(2);
/// Killed, or ended by a signal that it took for an error.
const KILLED: i32 = 137;
const TERMINATED: i32 = 143;

#[derive(Debug, PartialEq)]
pub(super) struct Trouble {
    pub reason: String,
    pub message: String,
    /// When it passes, if it does by itself.
    pub until: Option<Timestamp>,
}

/// The first that is found.
pub(super) fn trouble(pods: &[Arc<Pod>], now: Timestamp) -> Option<Trouble> {
    let active = pods.iter().filter(|pod| engine::pods::active(pod));
    let mut found: Vec<Trouble> = active.filter_map(|pod| of_pod(pod, now)).collect();
    // What lasts goes before what passes.
    found.sort_by_key(|trouble| trouble.until.is_some());
    found.into_iter().next()
}

fn of_pod(pod: &Pod, now: Timestamp) -> Option<Trouble> {
    let pod_name = name(&pod.metadata);
    if let Some(why) = engine::pods::unschedulable(pod) {
        let message = format!("pod {pod_name} finds no node: {why}");
        return Some(Trouble { reason: "Unschedulable".to_owned(), message, until: None });
    }
    let status = pod.status.as_ref()?;
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    containers.filter_map(|container| of_container(pod_name, container, now)).next()
}

fn of_container(pod: &str, container: &ContainerStatus, now: Timestamp) -> Option<Trouble> {
    let trouble = |reason: &str, more: &str, until: Option<Timestamp>| Trouble {
        reason: reason.to_owned(),
        message: format!("container {} of pod {pod}: {reason}{more}", container.name),
        until,
    };
    let state = container.state.as_ref()?;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or_default();
        if NOT_STARTING.contains(&reason) {
            let more = waiting.message.as_deref().map(|message| format!(" ({message})")).unwrap_or_default();
            return Some(trouble(reason, &more, None));
        }
    }
    if let Some(ended) = state.terminated.as_ref().filter(|ended| ended.reason.as_deref() == Some("Error")) {
        return Some(trouble("Error", &format!(" (exit code {})", ended.exit_code), None));
    }
    let last = container.last_state.as_ref()?.terminated.as_ref()?;
    let was_killed =
        last.exit_code == KILLED || (last.exit_code == TERMINATED && last.reason.as_deref() == Some("Error"));
    let until = last.finished_at.as_ref()?.0.checked_add(RECENT).ok()?;
    (was_killed && now < until)
        .then(|| trouble("Restarted", &format!(" after exit code {}", last.exit_code), Some(until)))
}
