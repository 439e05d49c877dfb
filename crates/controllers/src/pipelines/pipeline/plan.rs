//! What to do for one Pipeline. Synchronous: no clock, no I/O, no memory.

use std::{collections::BTreeMap, sync::Arc};

use api::numaflow::{
    HASH, PAUSE_TIMESTAMP, PIPELINE_FINALIZER, PIPELINE_NAME, Pipeline, RESUME_STRATEGY, VERTEX_NAME, Vertex,
    VertexSpec, phases, vertex_name, vertices,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use engine::{
    Failure,
    effect::{Effect, Plan, Propagation, Target, difference},
    kind,
    object::{annotation, being_deleted, controller_reference, name},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use scaling::{fixed, rescale};
use serde_json::{Value, json};

use super::{
    stage::{Stage, paused_at, stage},
    status,
};
use crate::pipelines::{
    PART_OF, PIPELINE, VERTEX,
    isbsvc::NOT_FOUND,
    vertex::{sha256, token_secret},
};

/// While something drains, nobody tells when it is empty.
const DRAIN_POLL: SignedDuration = SignedDuration::from_secs(1);

/// Everything a decision about one Pipeline depends on.
pub(super) struct Observed {
    pub pipeline: Arc<Pipeline>,
    /// Those that it controls.
    pub vertices: Vec<Arc<Vertex>>,
    pub secret: Option<Arc<Secret>>,
    /// Why it cannot be carried out.
    pub problem: Option<Problem>,
    /// Those that are there.
    pub buffers: Vec<String>,
    /// Whether the buffers are empty; none if nobody asked.
    pub drained: Option<bool>,
    /// What pods show to use the buffers.
    pub token: Option<String>,
    pub failure: Option<Failure>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Problem {
    pub condition: &'static str,
    pub reason: &'static str,
    pub message: String,
}

impl Problem {
    pub fn invalid(message: String) -> Self {
        Self { condition: "Configured", reason: "InvalidSpec", message }
    }
}

impl Observed {
    pub fn sources_have_stopped(&self) -> bool {
        self.vertices.iter().filter(|vertex| vertex.spec.vertex.is_source()).all(|vertex| has_stopped(vertex))
    }

    pub fn has_stopped(&self) -> bool {
        self.vertices.iter().all(|vertex| has_stopped(vertex))
    }
}

fn has_stopped(vertex: &Vertex) -> bool {
    let status = vertex.status.clone().unwrap_or_default();
    vertex.spec.is_paused() && status.replicas == 0 && status.ready_replicas == 0
}

pub(super) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let pipeline = &observed.pipeline;
    let mut plan = Plan::default();
    if let Some(effect) = Effect::add_finalizer(&PIPELINE, &pipeline.metadata, PIPELINE_FINALIZER) {
        plan.push(effect);
        return plan;
    }
    let is_deleted = being_deleted(&pipeline.metadata);
    let finalizers = pipeline.metadata.finalizers.iter().flatten();
    if is_deleted && !finalizers.clone().any(|finalizer| finalizer == PIPELINE_FINALIZER) {
        return plan;
    }
    // The running version keeps running.
    let is_invalid = observed.problem.as_ref().is_some_and(|problem| problem.condition == "Configured");
    if is_invalid && !is_deleted {
        plan.effects.extend(status::effect(observed, None, now));
        return plan;
    }
    let stage = stage(observed, now);
    if let Some(effect) = pause_annotation(pipeline, stage, now) {
        plan.push(effect);
        return plan;
    }
    if matches!(stage, Stage::Pausing | Stage::Draining | Stage::Ending) {
        plan.look_again(now.checked_add(DRAIN_POLL).unwrap_or(now));
    }
    if stage == Stage::Ending && observed.has_stopped() && can_end(observed) {
        plan.effects.extend(Effect::remove_finalizer(&PIPELINE, &pipeline.metadata, PIPELINE_FINALIZER));
        return plan;
    }
    let status = status::effect(observed, Some(stage), now);
    let mut effects = Vec::new();
    if is_deleted {
        for vertex in &observed.vertices {
            effects.extend(lifecycle(vertex, stage.runs(vertex.spec.vertex.is_source())));
        }
    } else if observed.problem.is_none() {
        effects.extend(token(observed));
        effects.extend(children(observed, stage));
    }
    if observed.failure.is_some() {
        // Whatever failed will fail again and end the plan: first it is said.
        plan.effects.extend(status.into_iter().chain(effects));
    } else {
        plan.effects.extend(effects.into_iter().chain(status));
    }
    plan
}

/// Buffers are gone, or nobody knows where they were.
fn can_end(observed: &Observed) -> bool {
    let is_lost = observed.problem.as_ref().is_some_and(|problem| problem.reason == NOT_FOUND);
    observed.buffers.is_empty() || is_lost
}

fn pause_annotation(pipeline: &Pipeline, stage: Stage, now: Timestamp) -> Option<Effect> {
    let is_noted = paused_at(pipeline).is_some();
    let value = match stage {
        Stage::Pausing | Stage::Paused if !is_noted => json!(engine::object::time(now).0.to_string()),
        Stage::Running if is_noted => Value::Null,
        _ => return None,
    };
    let body = json!({ "metadata": { "annotations": { PAUSE_TIMESTAMP: value } } });
    Some(Effect::patch(Target::of(&PIPELINE, &pipeline.metadata), body))
}

fn token(observed: &Observed) -> Option<Effect> {
    let (pipeline, token) = (&observed.pipeline, observed.token.as_ref()?);
    let known = observed.secret.as_ref().and_then(|secret| secret.data.as_ref()?.get("token"));
    if known.is_some_and(|known| known.0 == token.as_bytes()) {
        return None;
    }
    let secret = token_secret(name(&pipeline.metadata));
    let target = match &observed.secret {
        Some(found) => Target::of(&kind::SECRET, &found.metadata),
        None => Target::absent(&kind::SECRET, pipeline.metadata.namespace.as_deref(), secret.clone()),
    };
    let body = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret,
            "labels": { PART_OF.0: PART_OF.1, PIPELINE_NAME: pipeline.metadata.name },
            "ownerReferences": [controller_reference(&PIPELINE, &pipeline.metadata)],
        },
        "data": { "token": BASE64_STANDARD.encode(token) },
    });
    Some(Effect::Apply { target, must_be_absent: observed.secret.is_none(), body })
}

fn children(observed: &Observed, stage: Stage) -> Vec<Effect> {
    let pipeline = &observed.pipeline;
    let mut effects = Vec::new();
    let wanted = vertices(pipeline);
    let object_name = |spec: &VertexSpec| vertex_name(&spec.pipeline_name, &spec.vertex.name);
    for spec in &wanted {
        let found = observed.vertices.iter().find(|vertex| name(&vertex.metadata) == object_name(spec));
        match found {
            None => effects.push(create(pipeline, spec, stage)),
            Some(found) if being_deleted(&found.metadata) => {}
            Some(found) => effects.extend(update(pipeline, found, spec, stage)),
        }
    }
    for vertex in &observed.vertices {
        let is_wanted = wanted.iter().any(|spec| object_name(spec) == name(&vertex.metadata));
        if !is_wanted && !being_deleted(&vertex.metadata) {
            let target = Target::of(&VERTEX, &vertex.metadata);
            effects.push(Effect::Delete {
                target,
                propagation: Some(Propagation::Background),
                announce: None,
            });
        }
    }
    effects
}

/// What a vertex is made from; bounds by the clock and phases do not make it another.
fn hash(spec: &VertexSpec) -> String {
    let mut body = json!(spec);
    if let Some(fields) = body.as_object_mut() {
        fields.remove("replicas");
        fields.remove("lifecycle");
    }
    sha256(&body.to_string())
}

fn first_replicas(spec: &VertexSpec) -> i32 {
    let (min, max) = spec.vertex.scale.base_bounds();
    1.clamp(min, max)
}

fn create(pipeline: &Pipeline, spec: &VertexSpec, stage: Stage) -> Effect {
    let pipeline_name = name(&pipeline.metadata);
    let mut body = json!({
        "apiVersion": VERTEX.api_version(),
        "kind": VERTEX.kind,
        "metadata": {
            "name": vertex_name(pipeline_name, &spec.vertex.name),
            "labels": BTreeMap::from([
                ("app.kubernetes.io/managed-by", "pipeline-controller"),
                ("app.kubernetes.io/component", "vertex"),
                PART_OF,
                (PIPELINE_NAME, pipeline_name),
                (VERTEX_NAME, spec.vertex.name.as_str()),
            ]),
            "annotations": { HASH: hash(spec) },
            "ownerReferences": [controller_reference(&PIPELINE, &pipeline.metadata)],
        },
        "spec": spec,
    });
    body["spec"]["replicas"] = json!(first_replicas(spec));
    body["spec"]["lifecycle"]["desiredPhase"] = json!(phase_of(stage.runs(spec.vertex.is_source())));
    Effect::Create { kind: VERTEX, namespace: pipeline.metadata.namespace.clone(), body, announce: None }
}

fn phase_of(runs: bool) -> &'static str {
    if runs { phases::RUNNING } else { phases::PAUSED }
}

fn lifecycle(vertex: &Vertex, runs: bool) -> Option<Effect> {
    let phase = phase_of(runs);
    let body = json!({ "spec": { "lifecycle": { "desiredPhase": phase } } });
    let is_new = vertex.spec.lifecycle.desired_phase != phase && !being_deleted(&vertex.metadata);
    is_new.then(|| Effect::patch(Target::of(&VERTEX, &vertex.metadata), body))
}

/// The count is not part of it: whoever scales keeps it.
fn update(pipeline: &Pipeline, found: &Vertex, spec: &VertexSpec, stage: Stage) -> Vec<Effect> {
    let mut effects = Vec::new();
    let runs = stage.runs(spec.vertex.is_source());
    let hash = hash(spec);
    let is_same = annotation(&found.metadata, HASH) == Some(hash.as_str());
    if is_same {
        effects.extend(lifecycle(found, runs));
    } else {
        let without_count = |spec: &VertexSpec| {
            let mut body = json!(spec);
            if let Some(fields) = body.as_object_mut() {
                fields.remove("replicas");
            }
            body
        };
        let mut wanted = without_count(spec);
        wanted["lifecycle"]["desiredPhase"] = json!(phase_of(runs));
        let body = json!({
            "metadata": { "annotations": { HASH: hash } },
            "spec": difference(&without_count(&found.spec), &wanted),
        });
        effects.push(Effect::patch(Target::of(&VERTEX, &found.metadata), body));
    }
    let resumes = runs && found.spec.is_paused();
    if resumes && annotation(&pipeline.metadata, RESUME_STRATEGY) == Some("slow") {
        let decision = fixed(found.spec.replicas(), first_replicas(spec), "resume-strategy: slow");
        // The write before it makes the version an old one.
        let target = Target { resource_version: None, ..Target::of(&VERTEX, &found.metadata) };
        effects.extend(rescale(&target, &decision));
    }
    effects
}
