//! What to do for one Vertex or MonoVertex. Synchronous: no clock, no I/O, no memory.

use std::{collections::BTreeMap, sync::Arc};

use api::numaflow::{BufferConfig, HASH, VertexStatus, phases, validate_mono_vertex};
use engine::{
    Failure,
    effect::{Effect, Plan, Propagation, Target},
    kind,
    object::{annotation, being_deleted, created, name, time},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::{Value, json};

use super::{
    Worker,
    health::trouble,
    pod::{Template, services},
    rollout::{Pods, step},
    set_conditions,
};
use crate::{
    condition::ConditionState,
    pipelines::{Options, isbsvc::NoBuffers},
};

const COMPONENT: &str = "ballast-vertex";

/// Everything a decision about one object depends on.
pub(super) struct Observed<'a> {
    pub worker: Worker,
    pub pods: Vec<Arc<Pod>>,
    pub services: Vec<Arc<Service>>,
    pub buffers: Result<Option<BufferConfig>, NoBuffers>,
    pub failure: Option<Failure>,
    pub options: &'a Options,
}

pub(super) fn plan(observed: &Observed<'_>, now: Timestamp) -> Plan {
    let worker = &observed.worker;
    let mut plan = Plan::default();
    if being_deleted(worker.meta()) {
        return plan;
    }
    let mut status = worker.status().cloned().unwrap_or_default();
    status.observed_generation = worker.meta().generation;
    status.selector = Some(worker.selector_text());
    status.last_scaled_at.get_or_insert_with(|| time(created(worker.meta(), now)));
    let pods = Pods::new(&observed.pods);
    let deployed = match ready_to_run(observed) {
        Err((reason, message)) => ConditionState::new("False", reason, message),
        Ok(buffers) => {
            let desired = desired(worker, now, &mut plan);
            let template = Template::new(worker, buffers, observed.options);
            let before = status.replicas;
            status.desired_replicas = desired;
            let moves = step(&mut status, &pods, desired, &template.hash, worker.strategy(), now);
            plan.effects.extend(service_effects(observed));
            for index in moves.create {
                let body = template.pod(worker, index, &pods.uids(index));
                let namespace = worker.meta().namespace.clone();
                plan.push(Effect::Create { kind: kind::POD, namespace, body, announce: None });
            }
            for pod in moves.delete {
                let target = Target { resource_version: None, ..Target::of(&kind::POD, &pod.metadata) };
                plan.push(Effect::Delete { target, propagation: None, announce: None });
            }
            if status.replicas != before {
                let note = format!("Replicas changed from {before} to {}", status.replicas);
                let target = Target::of(&worker.which().kind(), worker.meta());
                plan.push(Effect::event(target, COMPONENT, "ReplicasScaled", note));
            }
            match &observed.failure {
                Some(failure) => {
                    let message = format!("{} {}: {}", failure.kind, failure.name, failure.message);
                    ConditionState::new("False", "CreateObjectsFailed", message)
                }
                None => ConditionState::new("True", "Successful", "pods and Services are as they should be"),
            }
        }
    };
    status.ready_replicas = pods.n_ready().min(status.desired_replicas);
    let healthy = match trouble(&observed.pods, now) {
        Some(trouble) => {
            if let Some(until) = trouble.until {
                plan.look_again(until);
            }
            status.reason = Some(trouble.reason);
            status.message = Some(format!("Degraded: {}", trouble.message));
            ConditionState::new("False", "PodsUnhealthy", trouble.message)
        }
        None => {
            (status.reason, status.message) = (None, None);
            ConditionState::new("True", "Running", "no pod is in trouble")
        }
    };
    status.phase = match deployed.status {
        "True" if worker.is_paused() => phases::PAUSED,
        "True" => phases::RUNNING,
        _ => {
            status.reason = Some(deployed.reason.to_owned());
            status.message = Some(deployed.message.clone());
            phases::FAILED
        }
    }
    .to_owned();
    set_conditions(&mut status.conditions, &[("Deployed", deployed), ("PodsHealthy", healthy)], now);
    write_status(observed, status, now, &mut plan);
    plan
}

/// What fails ends a plan, so a status that tells of it goes first.
fn write_status(observed: &Observed<'_>, mut status: VertexStatus, now: Timestamp, plan: &mut Plan) {
    let worker = &observed.worker;
    if worker.status() == Some(&status) {
        return;
    }
    if matches!(worker, Worker::MonoVertex(_)) {
        status.last_updated = Some(time(now));
    }
    let effect = Effect::status(&worker.which().kind(), worker.meta(), worker.status(), &status);
    match observed.failure {
        Some(_) => plan.effects.insert(0, effect),
        None => plan.push(effect),
    }
}

/// How its pods reach their buffers, or why there can be no pods.
fn ready_to_run<'a>(observed: &'a Observed<'_>) -> Result<Option<&'a BufferConfig>, (&'static str, String)> {
    if let Worker::MonoVertex(mono) = &observed.worker {
        validate_mono_vertex(name(&mono.metadata), &mono.spec)
            .map_err(|error| ("InvalidSpec", error.to_string()))?;
    }
    match &observed.buffers {
        Ok(config) => Ok(config.as_ref()),
        // Nothing runs: a service that is gone must not keep the pods that are left.
        Err(_) if observed.worker.is_paused() => Ok(None),
        Err(NoBuffers { reason, message }) => Err((*reason, message.clone())),
    }
}

/// As many as the spec says, within bounds unless somebody else scales.
fn desired(worker: &Worker, now: Timestamp, plan: &mut Plan) -> i32 {
    if worker.is_paused() {
        return 0;
    }
    let replicas = worker.replicas().max(0);
    if worker.scale().is_disabled() {
        return replicas;
    }
    let (min, max) = match worker.policy(&BTreeMap::new()) {
        Ok(policy) => {
            // A window that opens moves the bounds.
            if let Some(at) = policy.next_window(now) {
                plan.look_again(at);
            }
            let bounds = policy.bounds(now);
            (bounds.min, bounds.max)
        }
        Err(_) => worker.scale().base_bounds(),
    };
    replicas.clamp(min, max.max(min))
}

fn service_effects(observed: &Observed<'_>) -> Vec<Effect> {
    let worker = &observed.worker;
    let namespace = worker.meta().namespace.as_deref();
    let wanted = services(worker);
    let name_of = |body: &Value| body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut effects = Vec::new();
    for body in &wanted {
        let found = observed.services.iter().find(|service| name(&service.metadata) == name_of(body));
        let hash = body["metadata"]["annotations"][HASH].as_str();
        if found.is_some_and(|service| annotation(&service.metadata, HASH) == hash) {
            continue;
        }
        let target = match found {
            Some(service) => Target::of(&kind::SERVICE, &service.metadata),
            None => Target::absent(&kind::SERVICE, namespace, name_of(body)),
        };
        effects.push(Effect::Apply { target, must_be_absent: found.is_none(), body: json!(body) });
    }
    for service in &observed.services {
        let is_wanted = wanted.iter().any(|body| name_of(body) == name(&service.metadata));
        if !is_wanted && !being_deleted(&service.metadata) {
            let target = Target::of(&kind::SERVICE, &service.metadata);
            effects.push(Effect::Delete {
                target,
                propagation: Some(Propagation::Background),
                announce: None,
            });
        }
    }
    effects
}
