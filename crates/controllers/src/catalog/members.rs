//! Whose pod is it: by owner, never by the beginning of a name.

use engine::{
    object::{controller_of, label},
    pods,
};
use k8s_openapi::api::core::v1::Pod;
use ondemand as shared;

use super::{
    FUNCTION_LABEL, failure,
    workload::{WorkloadId, WorkloadKind},
};

/// Workloads that a pod may belong to; none if it no longer counts.
pub fn workloads_of(pod: &Pod) -> impl Iterator<Item = WorkloadId> {
    let function = label(&pod.metadata, FUNCTION_LABEL).map(|name| WorkloadKind::Function.of(name));
    function.into_iter().chain(owner_of(pod)).filter(|_| pods::active(pod))
}

/// A ReplicaSet of a Deployment is called `{deployment}-{hash}`, and its pods carry the hash: what is left without it is
/// the Deployment's name, so that `fib` never claims a pod of `fib-2`.
fn owner_of(pod: &Pod) -> Option<WorkloadId> {
    let owner = controller_of(&pod.metadata)?;
    match owner.kind.as_str() {
        "StatefulSet" => Some(WorkloadKind::StatefulSet.of(&owner.name)),
        "ReplicaSet" => {
            let hash = label(&pod.metadata, "pod-template-hash")?;
            let deployment = owner.name.strip_suffix(hash)?.strip_suffix('-')?;
            Some(WorkloadKind::Deployment.of(deployment))
        }
        _ => None,
    }
}

pub fn summary(pod: &Pod) -> shared::Pod {
    shared::Pod {
        name: pod.metadata.name.as_deref().unwrap_or_default().into(),
        ip: pods::ip(pod),
        port: pods::first_port(pod),
        ready: pods::can_be_called(pod),
        failure: failure::start_failure(pod).map(Into::into).filter(|_| !pods::can_be_called(pod)),
    }
}
