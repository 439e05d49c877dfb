//! Whose pod is it: by owner, never by the beginning of a name.

use std::{collections::HashMap, sync::Arc};

use engine::{
    object::{controller_of, label},
    pods,
};
use k8s_openapi::api::core::v1::Pod;
use ondemand as shared;

use super::{FUNCTION_LABEL, failure};

/// Kind and name of a workload.
pub type Workload<'a> = (&'static str, &'a str);

/// Pods that count, by workload.
pub type Members<'a> = HashMap<Workload<'a>, Vec<&'a Arc<Pod>>>;

pub fn by_workload(pods: &[Arc<Pod>]) -> Members<'_> {
    let mut members = Members::new();
    for pod in pods.iter().filter(|pod| pods::active(pod)) {
        if let Some(name) = label(&pod.metadata, FUNCTION_LABEL) {
            members.entry(("Function", name)).or_default().push(pod);
        }
        if let Some(workload) = workload_of(pod) {
            members.entry(workload).or_default().push(pod);
        }
    }
    members
}

/// A ReplicaSet of a Deployment is called `{deployment}-{hash}`, and its pods carry the hash: what is left without it is
/// the Deployment's name, so that `fib` never claims a pod of `fib-2`.
fn workload_of(pod: &Pod) -> Option<Workload<'_>> {
    let owner = controller_of(&pod.metadata)?;
    match owner.kind.as_str() {
        "StatefulSet" => Some(("StatefulSet", &owner.name)),
        "ReplicaSet" => {
            let hash = label(&pod.metadata, "pod-template-hash")?;
            let deployment = owner.name.strip_suffix(hash)?.strip_suffix('-')?;
            Some(("Deployment", deployment))
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
