//! Pipeline: Vertices and the buffers between them, from the first message to the last.
//!
//! ```text
//! Running ──desiredPhase: Paused──▶ Pausing ──drained, or its time is up──▶ Paused ──▶ Running
//!    └──────── deleted ───────────▶ Deleting: sources stop, buffers drain, all stop, buffers go
//! ```
//!
//! - `stage`: where in its life a pipeline is
//! - `plan`: what follows from it
//! - `status`: what is said about it

mod plan;
mod stage;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::numaflow::{PIPELINE_FINALIZER, Pipeline, buffer_names, validate_pipeline, vertices};
use engine::{
    Cached, Failure, Fence, Key, PlanError, Queue, Reconcile, effect::Plan, kind::Kind, object::uid,
};
use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use self::{
    plan::{Observed, Problem, plan},
    stage::{Stage, stage},
};
use super::{
    Caches, PIPELINE, Parts,
    isbsvc::{NOT_HEALTHY, NoBuffers, find, listen_to_services},
    listen_to_children,
    vertex::token_secret,
};
use crate::data_plane::{Buffers, NewBuffer, Services};

pub(super) struct Controller {
    caches: Caches,
    secrets: Option<Cached<Secret>>,
    services: Arc<dyn Services>,
    fence: Fence,
}

impl Controller {
    pub fn new(caches: &Caches, parts: &Parts, queue: &Arc<Queue<Key>>) -> Self {
        caches.pipelines.enqueue(queue);
        listen_to_children(&caches.vertices, "Pipeline", queue);
        if let Some(secrets) = &caches.secrets {
            listen_to_children(secrets, "Pipeline", queue);
        }
        listen_to_services(caches, &caches.pipelines, |pipeline| pipeline.spec.isb_service_name(), queue);
        Self {
            caches: caches.clone(),
            secrets: caches.secrets.clone(),
            services: parts.services.clone(),
            fence: parts.fence.clone(),
        }
    }

    async fn observe(&self, key: &Key, failure: Option<&Failure>, now: Timestamp) -> Option<Observed> {
        let pipeline = self.caches.pipelines.get(key)?;
        let own = uid(&pipeline.metadata).to_owned();
        let mut observed = Observed {
            vertices: self.caches.vertices.controlled_by(&own),
            secret: self
                .secrets
                .as_ref()
                .and_then(|secrets| secrets.get(&Key::new(&key.namespace, token_secret(&key.name)))),
            problem: None,
            buffers: pipeline.status.clone().unwrap_or_default().buffers,
            drained: None,
            token: None,
            failure: failure.cloned(),
            pipeline,
        };
        let is_deleted = observed.pipeline.metadata.deletion_timestamp.is_some();
        if let Err(error) = validate_pipeline(&key.name, &observed.pipeline.spec) {
            observed.problem = Some(Problem::invalid(error.to_string()));
            if !is_deleted {
                return Some(observed);
            }
        }
        // Without its finalizer a pipeline could go and leave its buffers behind.
        let finalizers = observed.pipeline.metadata.finalizers.iter().flatten();
        if !finalizers.clone().any(|finalizer| finalizer == PIPELINE_FINALIZER) {
            return Some(observed);
        }
        match self.find(&observed.pipeline, key).await {
            Err(problem) => observed.problem = observed.problem.or(Some(problem)),
            Ok(buffers) => self.work(&*buffers, &mut observed, key, now).await,
        }
        Some(observed)
    }

    async fn find(&self, pipeline: &Pipeline, key: &Key) -> Result<Arc<dyn Buffers>, Problem> {
        let of = |NoBuffers { reason, message }| Problem { condition: "Deployed", reason, message };
        let service = pipeline.spec.isb_service_name();
        let config = find(&self.caches, &key.namespace, service).map_err(of)?;
        let found = self.services.find(&key.namespace, &config).await;
        found.map_err(|message| {
            let message = format!("InterStepBufferService {service}: {message}");
            of(NoBuffers { reason: NOT_HEALTHY, message })
        })
    }

    /// Makes and deletes buffers as far as the stage allows. `observed.buffers` names those that are there.
    async fn work(&self, buffers: &dyn Buffers, observed: &mut Observed, key: &Key, now: Timestamp) {
        let owner = format!("{}/{}", key.namespace, key.name);
        observed.token = buffers.token(&owner);
        let failed = |message: String| Problem { condition: "Deployed", reason: "BuffersFailed", message };
        if stage::is_stopping(&observed.pipeline) {
            observed.drained = Some(self.is_drained(buffers, &observed.buffers).await);
        }
        let is_deleted = observed.pipeline.metadata.deletion_timestamp.is_some();
        if is_deleted {
            if stage(observed, now) == Stage::Ending && observed.has_stopped() {
                for buffer in std::mem::take(&mut observed.buffers) {
                    let gone = match self.fence.may_write() {
                        true => buffers.delete(&buffer).await,
                        false => Err("another node decides now".to_owned()),
                    };
                    if let Err(message) = gone {
                        observed.problem = Some(failed(message));
                        observed.buffers.push(buffer);
                    }
                }
            }
            return;
        }
        let wanted: Vec<NewBuffer> = wanted(&observed.pipeline, key, &owner);
        for buffer in &wanted {
            if observed.buffers.contains(&buffer.name) || !self.fence.may_write() {
                continue;
            }
            match buffers.create(buffer).await {
                Ok(()) => observed.buffers.push(buffer.name.clone()),
                Err(message) => {
                    let message = format!("buffer {}: {message}", buffer.name);
                    observed.problem = Some(failed(message));
                    return;
                }
            }
        }
        // What a vertex that is still there may read stays.
        let read: Vec<String> = observed
            .vertices
            .iter()
            .flat_map(|vertex| buffer_names(&key.namespace, &key.name, &vertex.spec.vertex))
            .collect();
        let is_spare = |name: &String| !read.contains(name) && !wanted.iter().any(|one| one.name == *name);
        let spare: Vec<String> = observed.buffers.iter().filter(|name| is_spare(name)).cloned().collect();
        for buffer in spare {
            if self.fence.may_write() && buffers.delete(&buffer).await.is_ok() {
                observed.buffers.retain(|name| *name != buffer);
            }
        }
    }

    async fn is_drained(&self, buffers: &dyn Buffers, names: &[String]) -> bool {
        for name in names {
            match buffers.waiting(name).await {
                Ok(waiting) if waiting.total() == 0 => {}
                // What is not known is not drained.
                _ => return false,
            }
        }
        true
    }
}

fn wanted(pipeline: &Pipeline, key: &Key, owner: &str) -> Vec<NewBuffer> {
    let of_vertex = |vertex: api::numaflow::VertexSpec| {
        let (length, _) = vertex.vertex.limits.clone().unwrap_or_default().buffer();
        let names = buffer_names(&key.namespace, &key.name, &vertex.vertex);
        let owner = owner.to_owned();
        names.into_iter().map(move |name| NewBuffer {
            name,
            owner: owner.clone(),
            length: u64::try_from(length).unwrap_or(u64::MAX),
        })
    };
    vertices(pipeline).into_iter().flat_map(of_vertex).collect()
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        "pipeline"
    }

    fn kind(&self, _: &Key) -> Option<Kind> {
        Some(PIPELINE)
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        async move {
            let observed = self.observe(key, failure, now).await;
            Ok(observed.map(|observed| plan(&observed, now)).unwrap_or_default())
        }
        .boxed()
    }
}
