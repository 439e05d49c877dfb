//! The pods of a job.

use engine::{
    effect::{Announce, Effect, Note, Target},
    kind,
};
use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod},
};
use serde_json::json;

use crate::object::{annotation, controller_reference, hash, name, pods, template, uid};

/// Keeps a pod until its end is in the job's status.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
pub(super) const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const COMPONENT: &str = "job-controller";
/// Room for `-INDEX-HASH` in a name of 63 characters.
const LONGEST_PREFIX: usize = 45;

pub(super) fn tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == TRACKING)
}

pub(super) fn let_go(pod: &Pod) -> Option<Effect> {
    Effect::remove_finalizer(&kind::POD, &pod.metadata, TRACKING)
}

/// A pod that is on its way out will not succeed any more.
pub(super) fn failed(pod: &Pod, only_when_over: bool) -> bool {
    let phase = pods::phase(pod);
    phase == "Failed" || (!only_when_over && pods::terminating(pod) && phase != "Succeeded")
}

pub(super) fn index(pod: &Pod) -> Option<i32> {
    annotation(&pod.metadata, INDEX)?.parse().ok()
}

/// When the last of its containers ended.
pub(super) fn ended_at(pod: &Pod, now: Timestamp) -> Timestamp {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let ends = statuses.filter_map(|status| status.state.as_ref()?.terminated.as_ref()?.finished_at.clone());
    ends.map(|time| time.0)
        .max()
        .or(pod.metadata.deletion_timestamp.as_ref().map(|time| time.0))
        .unwrap_or(now)
}

pub(super) fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.map(|status| status.restart_count).fold(0, i32::saturating_add)
}

/// The job's pod number `attempt`, and its name: two who decide the same create one.
pub(super) fn create(job: &Job, attempt: i64, index: Option<i32>) -> (String, Effect) {
    let namespace = job.metadata.namespace.clone().unwrap_or_default();
    let described = job.spec.clone().unwrap_or_default().template;
    let mut pod = template::pod(&described, &namespace, controller_reference(&kind::JOB, &job.metadata));
    let job_name = name(&job.metadata);
    let prefix = &job_name[..job_name.len().min(LONGEST_PREFIX)];
    let hash = hash::short(&(uid(&job.metadata), attempt), None);
    let pod_name = match index {
        Some(index) => format!("{prefix}-{index}-{hash}"),
        None => format!("{prefix}-{hash}"),
    };
    pod.metadata.name = Some(pod_name.clone());
    pod.metadata.finalizers.get_or_insert_default().push(TRACKING.into());
    if let Some(index) = index {
        number(&mut pod, job_name, index);
    }
    let effect = Effect::Create {
        kind: kind::POD,
        namespace: Some(namespace),
        body: json!(pod),
        announce: Some(Announce {
            regarding: Target::of(&kind::JOB, &job.metadata),
            component: COMPONENT,
            done: ("SuccessfulCreate", Note { before: "Created pod: ", after: String::new() }),
            failed: ("FailedCreate", Note { before: "Error creating: ", after: String::new() }),
        }),
    };
    (pod_name, effect)
}

/// Tells a pod which share of the work is its own.
fn number(pod: &mut Pod, job_name: &str, index: i32) {
    pod.metadata.labels.get_or_insert_default().insert(INDEX.into(), index.to_string());
    pod.metadata.annotations.get_or_insert_default().insert(INDEX.into(), index.to_string());
    let Some(spec) = &mut pod.spec else { return };
    spec.hostname = Some(format!("{job_name}-{index}"));
    let variable = EnvVar {
        name: "JOB_COMPLETION_INDEX".into(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: format!("metadata.annotations['{INDEX}']"),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    };
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        let env = container.env.get_or_insert_default();
        if !env.iter().any(|known| known.name == variable.name) {
            env.push(variable.clone());
        }
    }
}

pub(super) fn delete(job: &Job, pod: &Pod) -> Effect {
    Effect::Delete {
        // A pod's status changes all the time; that must not save it.
        target: Target { resource_version: None, ..Target::of(&kind::POD, &pod.metadata) },
        propagation: None,
        announce: Some(Announce {
            regarding: Target::of(&kind::JOB, &job.metadata),
            component: COMPONENT,
            done: ("SuccessfulDelete", Note { before: "Deleted pod: ", after: String::new() }),
            failed: ("FailedDelete", Note { before: "Error deleting: ", after: String::new() }),
        }),
    }
}
