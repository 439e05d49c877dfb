//! Vertex and MonoVertex: numbered pods, and the Services around them. Both kinds are one planner's work.
//!
//! - `worker`: what both kinds have in common
//! - `pod`: the pod of an index, and the hash of what all of them are made from
//! - `rollout`: which pods to create, replace and delete
//! - `health`: what is wrong with pods
//! - `plan`: all of it, and the status

mod health;
mod plan;
mod pod;
mod rollout;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::Arc;

use api::numaflow::BufferConfig;
use engine::{Failure, Key, PlanError, Queue, Reconcile, effect::Plan, kind::Kind, object::uid};
use futures::future::{BoxFuture, FutureExt, ready};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

pub(super) use pod::{sha256, token_secret};
pub(super) use worker::{Which, Worker};

use self::plan::Observed;
use super::{
    Caches, Options,
    isbsvc::{NoBuffers, find, listen_to_services},
    listen_to_children,
};
use crate::condition::{ConditionState, condition};

pub(super) struct Controller {
    which: Which,
    caches: Caches,
    options: Options,
}

impl Controller {
    pub fn new(which: Which, caches: &Caches, options: &Options, queue: &Arc<Queue<Key>>) -> Self {
        match which {
            Which::Vertex => caches.vertices.enqueue(queue),
            Which::MonoVertex => caches.mono_vertices.enqueue(queue),
        }
        listen_to_children(&caches.pods, which.name(), queue);
        listen_to_children(&caches.services, which.name(), queue);
        if which == Which::Vertex {
            // Pods are told where buffers are.
            listen_to_services(caches, &caches.vertices, |vertex| vertex.spec.isb_service_name(), queue);
        }
        Self { which, caches: caches.clone(), options: options.clone() }
    }

    fn observe(&self, key: &Key, failure: Option<&Failure>) -> Option<Observed<'_>> {
        let worker = self.which.find(&self.caches, key)?;
        let own = uid(worker.meta()).to_owned();
        Some(Observed {
            pods: self.caches.pods.controlled_by(&own),
            services: self.caches.services.controlled_by(&own),
            buffers: self.buffers(&worker, key),
            failure: failure.cloned(),
            options: &self.options,
            worker,
        })
    }

    /// How the pods reach their buffers; a MonoVertex has none.
    fn buffers(&self, worker: &Worker, key: &Key) -> Result<Option<BufferConfig>, NoBuffers> {
        let Worker::Vertex(vertex) = worker else { return Ok(None) };
        find(&self.caches, &key.namespace, vertex.spec.isb_service_name()).map(Some)
    }
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        self.which.controller()
    }

    fn kind(&self, _: &Key) -> Option<Kind> {
        Some(self.which.kind())
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        let plan = self.observe(key, failure).map(|observed| plan::plan(&observed, now));
        ready(Ok(plan.unwrap_or_default())).boxed()
    }
}

/// Replaces conditions; one that says the same as before keeps its time.
pub(super) fn set_conditions(
    stored: &mut Option<Vec<Condition>>,
    all: &[(&str, ConditionState)],
    now: Timestamp,
) {
    let before = stored.take().unwrap_or_default();
    let known = |type_: &str| before.iter().find(|condition| condition.type_ == type_);
    *stored = Some(all.iter().map(|(type_, says)| condition(type_, says, known(type_), now)).collect());
}
