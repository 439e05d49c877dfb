//! What a pod says about its sizes. Pure.

use decide::{
    hvpa::{ContainerSize, OutOfMemory},
    quantity::Quantity,
    recommender::amount::{Resource, Resources},
};
use engine::pods::{condition, phase};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Container, Pod, ResourceRequirements},
    apimachinery::pkg::api::resource,
};
use std::collections::BTreeMap;

/// How far an in-place resize has come.
#[derive(Clone, Debug, PartialEq)]
pub enum Resize {
    None,
    /// The node has no room now; it tries again.
    Deferred {
        since: Option<Timestamp>,
        message: String,
    },
    /// The node can never do it.
    Infeasible {
        message: String,
    },
    InProgress {
        since: Option<Timestamp>,
    },
}

/// A container that was killed for memory, or a pod that was evicted for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Kill {
    pub at: Timestamp,
    pub container: Option<String>,
}

impl From<Kill> for OutOfMemory {
    fn from(Kill { at, container }: Kill) -> Self {
        OutOfMemory { at, container }
    }
}

/// The sizes of containers, in a template or in a pod. Where only a limit is set, the API takes it for the request too.
pub fn sizes(containers: &[Container]) -> Vec<ContainerSize> {
    let size = |container: &Container| {
        let resources = container.resources.clone().unwrap_or_default();
        let limits = amounts(resources.limits.as_ref());
        let mut requests = amounts(resources.requests.as_ref());
        for resource in Resource::ALL {
            requests.set(resource, requests.get(resource).or(limits.get(resource)));
        }
        ContainerSize { name: container.name.clone(), requests, limits }
    };
    containers.iter().map(size).collect()
}

pub fn pod_sizes(pod: &Pod) -> Vec<ContainerSize> {
    pod.spec.as_ref().map(|spec| sizes(&spec.containers)).unwrap_or_default()
}

/// Whether the pod's spec asks for these sizes already.
pub fn has_sizes(pod: &Pod, wanted: &[ContainerSize]) -> bool {
    let found = pod_sizes(pod);
    wanted.iter().all(|wanted| found.iter().any(|found| found == wanted))
}

/// Whether the node has done what the spec asks for, where it tells.
pub fn is_allocated(pod: &Pod) -> bool {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let actual: BTreeMap<&str, &ResourceRequirements> =
        statuses.filter_map(|status| Some((status.name.as_str(), status.resources.as_ref()?))).collect();
    pod_sizes(pod).iter().all(|size| {
        actual.get(size.name.as_str()).is_none_or(|actual| {
            let requests = amounts(actual.requests.as_ref());
            Resource::ALL
                .into_iter()
                .all(|one| requests.get(one).is_none() || requests.get(one) == size.requests.get(one))
        })
    })
}

/// Whether a change to these sizes restarts a container.
pub fn restarts(pod: &Pod, wanted: &[ContainerSize]) -> bool {
    let found = pod_sizes(pod);
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.zip(&found).any(|(container, found)| {
        let Some(wanted) = wanted.iter().find(|wanted| wanted.name == found.name) else { return false };
        container.resize_policy.iter().flatten().any(|policy| {
            let resource = Resource::ALL.into_iter().find(|one| one.name() == policy.resource_name);
            policy.restart_policy == "RestartContainer"
                && resource.is_some_and(|one| {
                    found.requests.get(one) != wanted.requests.get(one)
                        || found.limits.get(one) != wanted.limits.get(one)
                })
        })
    })
}

pub fn resize(pod: &Pod) -> Resize {
    let holds = |name: &str| condition(pod, name).filter(|condition| condition.status == "True");
    let since = |condition: &k8s_openapi::api::core::v1::PodCondition| {
        condition.last_transition_time.as_ref().map(|time| time.0)
    };
    if let Some(pending) = holds("PodResizePending") {
        let message = pending.message.clone().unwrap_or_default();
        return match pending.reason.as_deref() {
            Some("Infeasible") => Resize::Infeasible { message },
            _ => Resize::Deferred { since: since(pending), message },
        };
    }
    match holds("PodResizeInProgress") {
        Some(condition) => Resize::InProgress { since: since(condition) },
        None if !is_allocated(pod) => Resize::InProgress { since: None },
        None => Resize::None,
    }
}

/// Each container's last kill for memory, and an eviction of the pod for it.
pub fn kills(pod: &Pod) -> Vec<Kill> {
    let mut all = Vec::new();
    let Some(status) = &pod.status else { return all };
    for container in status.container_statuses.iter().flatten() {
        let states = [container.last_state.as_ref(), container.state.as_ref()];
        let ends = states.into_iter().flatten().filter_map(|state| state.terminated.as_ref());
        for end in ends.filter(|end| end.reason.as_deref() == Some("OOMKilled")) {
            if let Some(at) = &end.finished_at {
                all.push(Kill { at: at.0, container: Some(container.name.clone()) });
            }
        }
    }
    let is_for_memory = status.message.as_deref().is_some_and(|message| message.contains("memory"));
    if phase(pod) == "Failed" && status.reason.as_deref() == Some("Evicted") && is_for_memory {
        let at =
            condition(pod, "DisruptionTarget").and_then(|condition| condition.last_transition_time.clone());
        if let Some(at) = at.or_else(|| status.start_time.clone()) {
            all.push(Kill { at: at.0, container: None });
        }
    }
    all
}

/// An amount that is no quantity cannot have come through the API; it counts as absent.
pub fn amounts(list: Option<&BTreeMap<String, resource::Quantity>>) -> Resources {
    let amount = |one: Resource| {
        let quantity: Quantity = list?.get(one.name())?.0.parse().ok()?;
        Some(one.amount_of(quantity))
    };
    Resources { cpu: amount(Resource::Cpu), memory: amount(Resource::Memory) }
}
