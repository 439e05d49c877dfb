//! InterStepBufferService: says how its buffers are reached. No server is deployed.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::numaflow::{BufferConfig, InterStepBufferService, Pipeline, phases};
use engine::{Cached, Failure, Key, PlanError, Queue, Reconcile, effect::Plan, kind::Kind, object::name};
use futures::future::{BoxFuture, FutureExt, ready};
use jiff::Timestamp;
use kube::Resource;

use super::{Caches, ISB_SERVICE, Options};

const FINALIZER: &str = "numaflow.numaproj.io/isbsvc-controller";
pub(super) const NOT_FOUND: &str = "ISBSvcNotFound";
pub(super) const NOT_HEALTHY: &str = "ISBSvcNotHealthy";

pub(super) struct Controller {
    services: Cached<InterStepBufferService>,
    pipelines: Cached<Pipeline>,
    embedded_buffers: Option<String>,
}

impl Controller {
    pub fn new(caches: &Caches, options: &Options, queue: &Arc<Queue<Key>>) -> Self {
        caches.isb_services.enqueue(queue);
        // A service that is deleted goes with the last pipeline that names it.
        let on_pipelines = queue.clone();
        caches.pipelines.listen(move |change| {
            for pipeline in change.sides() {
                let namespace = pipeline.metadata.namespace.clone().unwrap_or_default();
                on_pipelines.add(Key::new(namespace, pipeline.spec.isb_service_name()));
            }
        });
        Self {
            services: caches.isb_services.clone(),
            pipelines: caches.pipelines.clone(),
            embedded_buffers: options.embedded_buffers.clone(),
        }
    }

    fn is_used(&self, key: &Key) -> bool {
        let pipelines = self.pipelines.in_namespace(&key.namespace);
        pipelines.iter().any(|pipeline| pipeline.spec.isb_service_name() == key.name)
    }
}

/// Why buffers are out of reach.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NoBuffers {
    pub reason: &'static str,
    pub message: String,
}

/// How the buffers of a service are reached.
pub(super) fn find(caches: &Caches, namespace: &str, service: &str) -> Result<BufferConfig, NoBuffers> {
    let Some(found) = caches.isb_services.get(&Key::new(namespace, service)) else {
        let message = format!("there is no InterStepBufferService {service} in this namespace");
        return Err(NoBuffers { reason: NOT_FOUND, message });
    };
    let status = found.status.clone().unwrap_or_default();
    match status.config {
        Some(config) if status.phase == phases::RUNNING => Ok(config),
        _ => {
            let message = status.message.unwrap_or_else(|| "it has not been looked at yet".to_owned());
            let message = format!("InterStepBufferService {service} is not healthy: {message}");
            Err(NoBuffers { reason: NOT_HEALTHY, message })
        }
    }
}

/// A service's change concerns whoever names it.
pub(super) fn listen_to_services<K: Resource + Send + Sync + 'static>(
    caches: &Caches,
    users: &Cached<K>,
    service_of: fn(&K) -> &str,
    queue: &Arc<Queue<Key>>,
) {
    let (users, queue) = (users.clone(), queue.clone());
    caches.isb_services.listen(move |change| {
        let Some(service) = change.either() else { return };
        for user in users.in_namespace(service.metadata.namespace.as_deref().unwrap_or_default()) {
            if service_of(&user) == name(&service.metadata) {
                queue.add(Key::of(user.meta()));
            }
        }
    });
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        "isbsvc"
    }

    fn kind(&self, _: &Key) -> Option<Kind> {
        Some(ISB_SERVICE)
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        _: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        let embedded = self.embedded_buffers.as_deref();
        let service = self.services.get(key);
        let plan = service.map(|service| plan::plan(&service, embedded, self.is_used(key), now));
        ready(Ok(plan.unwrap_or_default())).boxed()
    }
}
