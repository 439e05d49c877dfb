//! Vertices as a policy.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use api::numaflow::{VertexStatus, edges_of, phases, vertex_name, vertices};
use decide::vertex::{self, Because, Buffer, Decision, Memory, Observed, Rule, Spec, downstream};
use engine::{
    Key,
    effect::{Effect, Target},
    kind::Kind,
    object::{being_deleted, uid},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use scaling::{Controls, Look, Policy, Subject};

use super::{COMPONENT, window::Windows};
use crate::{
    data_plane::Waiting,
    pipelines::{
        Caches,
        vertex::{Which, Worker},
    },
};

/// Annotations that mean something to policies.
const OURS: &str = "ballast.dev/";

pub struct Vertices {
    which: Which,
    caches: Caches,
    windows: Windows,
    /// Those that were reported as stuck.
    stuck: Mutex<HashSet<Key>>,
}

impl Vertices {
    pub fn new(which: Which, caches: Caches, windows: Windows) -> Self {
        Self { which, caches, windows, stuck: Mutex::default() }
    }

    /// The annotations of the object itself, and where it has none, of its pipeline.
    fn annotations(&self, worker: &Worker, key: &Key) -> BTreeMap<String, String> {
        let pipeline = match worker {
            Worker::Vertex(vertex) => {
                self.caches.pipelines.get(&Key::new(&key.namespace, &vertex.spec.pipeline_name))
            }
            Worker::MonoVertex(_) => None,
        };
        let of_pipeline = pipeline.iter().flat_map(|pipeline| pipeline.metadata.annotations.iter().flatten());
        let own = worker.meta().annotations.iter().flatten();
        let ours = of_pipeline.chain(own).filter(|(key, _)| key.starts_with(OURS));
        ours.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn observe(&self, worker: &Worker, key: &Key, spec: &Spec, now: Timestamp) -> Observed {
        let status = worker.status().cloned().unwrap_or_default();
        let lookback = SignedDuration::from_secs(spec.scale.lookback_seconds());
        let oldest = now.checked_sub(lookback).unwrap_or(Timestamp::MIN);
        let is_asleep = status.replicas == 0;
        let last_scaled_at = status.last_scaled_at.as_ref().map(|at| at.0);
        let at_once =
            |waiting: Waiting| is_asleep || spec.counts_at_once(now, last_scaled_at, waiting.total());
        let read = self
            .windows
            .with(self.which, key, |window| (window.partitions(oldest, at_once), window.samples(oldest)));
        let (partitions, samples) = read.unwrap_or_default();
        Observed {
            current: status.replicas,
            desired: wanted(worker, spec, now),
            ready: status.ready_replicas,
            phase: self.phase(worker, key, &status).into(),
            rolling_update: status.update_hash.is_some() && status.update_hash != status.current_hash,
            last_scaled_at,
            ready_since: ready_since(&self.caches.pods.controlled_by(uid(worker.meta()))),
            partitions,
            downstream: self.downstream(worker, key, oldest),
            samples,
            template: status.current_hash.as_deref().map(Into::into),
        }
    }

    /// Only what runs, and is wanted so with all of its pipeline, is scaled.
    fn phase(&self, worker: &Worker, key: &Key, status: &VertexStatus) -> String {
        let is_paused = match worker {
            Worker::MonoVertex(_) => worker.is_paused(),
            Worker::Vertex(vertex) => {
                let pipeline =
                    self.caches.pipelines.get(&Key::new(&key.namespace, &vertex.spec.pipeline_name));
                let is_wanted = pipeline.is_none_or(|pipeline| {
                    pipeline.spec.lifecycle.desired_phase == phases::RUNNING
                        && !being_deleted(&pipeline.metadata)
                });
                worker.is_paused() || !is_wanted
            }
        };
        if is_paused { phases::PAUSED.to_owned() } else { status.phase.clone() }
    }

    fn downstream(&self, worker: &Worker, key: &Key, oldest: Timestamp) -> Vec<vertex::Downstream> {
        let Worker::Vertex(own) = worker else { return Vec::new() };
        let name = &own.spec.pipeline_name;
        let Some(pipeline) = self.caches.pipelines.get(&Key::new(&key.namespace, name)) else {
            return Vec::new();
        };
        let all = vertices(&pipeline);
        let mut buffers: HashMap<&str, Vec<Buffer>> = HashMap::new();
        for one in all.iter().filter(|one| !one.vertex.is_source()) {
            let (_, usable) = one.vertex.limits.clone().unwrap_or_default().buffer();
            let key = Key::new(&key.namespace, vertex_name(name, &one.vertex.name));
            let seen = self.windows.with(Which::Vertex, &key, |window| window.buffers(oldest, usable));
            buffers.insert(&one.vertex.name, seen.unwrap_or_default());
        }
        downstream(&own.spec.vertex.name, &edges_of(&pipeline.spec), &buffers)
    }
}

/// Of the pod that has been ready for longest: if that does nothing, those that are new are no excuse.
pub(super) fn ready_since(pods: &[Arc<Pod>]) -> Option<Timestamp> {
    let active = pods.iter().filter(|pod| engine::pods::active(pod));
    active.filter_map(|pod| engine::pods::ready_since(pod)).min()
}

/// As many as are asked for, whether or not they are there yet.
fn wanted(worker: &Worker, spec: &Spec, now: Timestamp) -> i32 {
    if worker.is_paused() {
        return 0;
    }
    if worker.scale().is_disabled() {
        return worker.replicas().max(0);
    }
    let bounds = spec.bounds(now);
    worker.replicas().clamp(bounds.min, bounds.max.max(bounds.min))
}

impl Policy for Vertices {
    type Spec = Spec;
    type Observed = Observed;
    type Memory = Memory;
    type Rule = Rule;

    fn name(&self) -> &'static str {
        match self.which {
            Which::Vertex => "vertex",
            Which::MonoVertex => "monovertex",
        }
    }

    fn component(&self) -> &'static str {
        COMPONENT
    }

    fn kind(&self, _: &Key) -> Option<Kind> {
        Some(self.which.kind())
    }

    fn look(&self, key: &Key, now: Timestamp) -> Look<Spec, Observed> {
        let Some(worker) = self.which.find(&self.caches, key) else { return Look::Gone };
        if being_deleted(worker.meta()) {
            return Look::Gone;
        }
        let annotations = self.annotations(&worker, key);
        let spec = match worker.policy(&annotations) {
            Ok(spec) => spec,
            Err(error) => {
                tracing::warn!(%key, %error, "not scaled");
                return Look::Gone;
            }
        };
        let read = |name: &str| annotations.get(name).map(String::as_str);
        let (controls, problems) = Controls::read(read);
        for (name, problem) in problems {
            tracing::debug!(%key, name, problem, "an annotation is not understood");
        }
        Look::Found(Box::new(Subject {
            target: Target::of(&self.which.kind(), worker.meta()),
            controls,
            observed: self.observe(&worker, key, &spec, now),
            spec,
        }))
    }

    fn decide(&self, now: Timestamp, spec: &Spec, observed: &Observed, memory: Memory) -> Decision {
        vertex::decide(now, spec, observed, &memory)
    }

    fn lacks_metrics(&self, decision: &Decision) -> bool {
        let holds = |because: &Because| {
            matches!(
                because,
                Because::UnknownPending { .. } | Because::UnknownRate { .. } | Because::NoPartitions
            )
        };
        decision.current > 0
            && decision
                .steps
                .iter()
                .any(|step| matches!(&step.rule, Rule::Hold { because, .. } if holds(because)))
    }

    /// Figures change with every look; what they lead to is worth a record.
    fn gist(&self, decision: &Decision) -> String {
        use decide::Rule as _;
        let mut gist = format!("{} {} {}", decision.current, decision.desired, decision.reason.code);
        for step in &decision.steps {
            gist += &format!(" {}", step.rule.name());
        }
        gist
    }

    fn decided(&self, subject: &Subject<Spec, Observed>, decision: &Decision, _: Timestamp) -> Vec<Effect> {
        let key = Key::new(subject.target.namespace.clone().unwrap_or_default(), &subject.target.name);
        let is_stuck = decision
            .steps
            .iter()
            .any(|step| matches!(step.rule, Rule::Hold { because: Because::Stuck { .. }, .. }));
        let mut stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_stuck {
            stuck.remove(&key);
            return Vec::new();
        }
        match stuck.insert(key) {
            true => vec![Effect::warning(subject.target.clone(), COMPONENT, "Stuck", decision.why())],
            false => Vec::new(),
        }
    }

    fn gone(&self, key: &Key) {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        if self.which.find(&self.caches, key).is_none() {
            self.windows.forget(self.which, key);
        }
    }
}
