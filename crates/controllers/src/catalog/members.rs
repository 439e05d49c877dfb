//! Whose pod is it: by owner, never by the beginning of a name.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use engine::object::{controller_of, label};
use functions as shared;
use k8s_openapi::api::core::v1::{Pod, PodCondition};

use super::FUNCTION_LABEL;

/// Kind and name of a workload.
pub type Workload = (&'static str, String);

/// Pods that count, by workload.
pub type Members<'a> = HashMap<Workload, Vec<&'a Pod>>;

pub fn by_workload(pods: &[Arc<Pod>]) -> Members<'_> {
    let mut members = Members::new();
    for pod in pods.iter().map(Arc::as_ref).filter(|pod| is_active(pod)) {
        if let Some(name) = label(&pod.metadata, FUNCTION_LABEL) {
            members.entry(("Function", name.to_owned())).or_default().push(pod);
        }
        if let Some(workload) = workload_of(pod) {
            members.entry(workload).or_default().push(pod);
        }
    }
    members
}

/// A ReplicaSet of a Deployment is called `{deployment}-{hash}`, and its pods carry the hash: what is left without it is
/// the Deployment's name, so that `fib` never claims a pod of `fib-2`.
fn workload_of(pod: &Pod) -> Option<Workload> {
    let owner = controller_of(&pod.metadata)?;
    match owner.kind.as_str() {
        "StatefulSet" => Some(("StatefulSet", owner.name.clone())),
        "ReplicaSet" => {
            let hash = label(&pod.metadata, "pod-template-hash")?;
            let deployment = owner.name.strip_suffix(hash)?.strip_suffix('-')?;
            Some(("Deployment", deployment.to_owned()))
        }
        _ => None,
    }
}

fn is_active(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
}

pub fn summary(pod: &Pod) -> shared::Pod {
    shared::Pod {
        name: pod.metadata.name.as_deref().unwrap_or_default().into(),
        ip: ip(pod),
        port: first_port(pod),
        ready: is_ready(pod),
    }
}

pub fn is_ready(pod: &Pod) -> bool {
    holds(pod, "Ready") && holds(pod, "ContainersReady")
}

pub fn ip(pod: &Pod) -> Option<IpAddr> {
    pod.status.as_ref()?.pod_ip.as_deref()?.parse().ok()
}

pub fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
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

fn holds(pod: &Pod, name: &str) -> bool {
    condition(pod, name).is_some_and(|condition| condition.status == "True")
}

fn condition<'a>(pod: &'a Pod, name: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.iter().flatten().find(|condition| condition.type_ == name)
}
