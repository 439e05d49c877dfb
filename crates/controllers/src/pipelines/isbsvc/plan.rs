use api::numaflow::{
    BufferConfig, EmbeddedConfig, InterStepBufferService, IsbServiceStatus, JetStreamConfig, phases,
    validate_isb_service,
};
use engine::{
    effect::{Effect, Plan},
    object::being_deleted,
};
use jiff::Timestamp;

use super::FINALIZER;
use crate::{
    condition::ConditionState,
    pipelines::{ISB_SERVICE, vertex::set_conditions},
};

/// `is_used`: whether a pipeline names it.
pub(super) fn plan(
    service: &InterStepBufferService,
    embedded: Option<&str>,
    is_used: bool,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    if let Some(effect) = Effect::add_finalizer(&ISB_SERVICE, &service.metadata, FINALIZER) {
        plan.push(effect);
        return plan;
    }
    if being_deleted(&service.metadata) {
        // `kubectl delete -f` takes both at once, and a pipeline that goes still works off its buffers and deletes them.
        if !is_used {
            plan.effects.extend(Effect::remove_finalizer(&ISB_SERVICE, &service.metadata, FINALIZER));
        }
        return plan;
    }
    let answer = validate_isb_service(&service.spec).map_err(|error| error.to_string());
    let config = answer.and_then(|()| config(service, embedded));
    let stored = service.status.clone();
    let mut status = stored.clone().unwrap_or_default();
    status.observed_generation = service.metadata.generation;
    status.type_ = service.spec.type_().map(str::to_owned);
    let configured = match &config {
        Ok(_) => ConditionState::new("True", "Successful", "the spec is valid"),
        Err(problem) => ConditionState::new("False", "InvalidSpec", problem.clone()),
    };
    (status.phase, status.message, status.config) = match config {
        Ok(config) => (phases::RUNNING.to_owned(), None, Some(config)),
        // Pipelines go on with what they know.
        Err(problem) => (phases::FAILED.to_owned(), Some(problem), status.config),
    };
    set_conditions(&mut status.conditions, &[("Configured", configured)], now);
    if stored.as_ref() != Some(&status) {
        let stored: Option<&IsbServiceStatus> = stored.as_ref();
        plan.push(Effect::status(&ISB_SERVICE, &service.metadata, stored, &status));
    }
    plan
}

fn config(service: &InterStepBufferService, embedded: Option<&str>) -> Result<BufferConfig, String> {
    if let Some(jetstream) = &service.spec.jetstream {
        let basic = jetstream.auth.clone().and_then(|auth| auth.basic).unwrap_or_default();
        let config = JetStreamConfig {
            url: jetstream.url.clone().unwrap_or_default(),
            user: basic.user,
            password: basic.password,
            stream_replicas: jetstream.stream_replicas,
        };
        return Ok(BufferConfig { jetstream: Some(config), embedded: None });
    }
    let address = embedded.ok_or("embedded: these buffers are kept by `ballast up` alone: use jetstream")?;
    let config = EmbeddedConfig { address: address.to_owned() };
    Ok(BufferConfig { jetstream: None, embedded: Some(config) })
}
