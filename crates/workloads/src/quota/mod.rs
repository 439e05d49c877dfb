//! ResourceQuota: what a namespace uses of what it may. The API server refuses by what stands here.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::{Cached, Failure, Key, PlanError, Queue, Reconcile, Scope, Selection, effect::Plan, kind::Kind};
use futures::future::{BoxFuture, FutureExt, ready};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use kube::{Resource, ResourceExt};
use serde::Serialize;

pub(crate) use plan::{Count, Observed, plan};

pub(crate) const NAME: &str = "resourcequota";

/// Kinds of which only the number matters.
const COUNTED: [Kind; 8] = [
    engine::kind::CONFIG_MAP,
    engine::kind::SECRET,
    engine::kind::DEPLOYMENT,
    engine::kind::REPLICA_SET,
    engine::kind::STATEFUL_SET,
    engine::kind::DAEMON_SET,
    engine::kind::JOB,
    engine::kind::CRON_JOB,
];

pub(crate) struct Controller {
    quotas: Cached<ResourceQuota>,
    pods: Cached<Pod>,
    services: Cached<Service>,
    claims: Cached<PersistentVolumeClaim>,
    counted: Vec<(Kind, Cached<engine::Metadata>)>,
}

impl Controller {
    pub fn new(scope: &Scope, queue: &Arc<Queue<Key>>) -> Self {
        let quotas: Cached<ResourceQuota> = scope.cache(Selection::all());
        quotas.enqueue(queue);
        let counted: Vec<_> =
            COUNTED.into_iter().map(|kind| (kind.clone(), scope.metadata(&kind, Selection::all()))).collect();
        let controller = Self {
            pods: scope.cache(Selection::all()),
            services: scope.cache(Selection::all()),
            claims: scope.cache(Selection::all()),
            counted,
            quotas,
        };
        controller.wake(&controller.pods, queue);
        controller.wake(&controller.services, queue);
        controller.wake(&controller.claims, queue);
        for (_, cache) in &controller.counted {
            controller.wake(cache, queue);
        }
        controller
    }

    /// A change of anything in a namespace may change what its quotas say.
    fn wake<K: Resource + 'static>(&self, cache: &Cached<K>, queue: &Arc<Queue<Key>>) {
        let (quotas, queue) = (self.quotas.clone(), queue.clone());
        cache.listen(move |change| {
            let Some(object) = change.either() else { return };
            for quota in quotas.in_namespace(&object.namespace().unwrap_or_default()) {
                queue.add(Key::of(&quota.metadata));
            }
        });
    }

    fn observe(&self, key: &Key) -> Option<Observed> {
        let quota = self.quotas.get(key)?;
        let namespace = key.namespace.as_str();
        let mut objects = Vec::new();
        objects.extend(values("pods", &self.pods.in_namespace(namespace)));
        objects.extend(values("services", &self.services.in_namespace(namespace)));
        objects.extend(values("persistentvolumeclaims", &self.claims.in_namespace(namespace)));
        let mut counts: Vec<Count> = self
            .counted
            .iter()
            .map(|(kind, cache)| Count { kind: kind.clone(), number: cache.in_namespace(namespace).len() })
            .collect();
        let quotas = Kind::namespaced("", "v1", "ResourceQuota", "resourcequotas");
        counts.push(Count { kind: quotas, number: self.quotas.in_namespace(namespace).len() });
        Some(Observed { quota, objects, counts })
    }
}

fn values<K: Serialize>(plural: &'static str, objects: &[Arc<K>]) -> Vec<(&'static str, serde_json::Value)> {
    objects.iter().map(|object| (plural, serde_json::json!(**object))).collect()
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self, _: &Key) -> Option<Kind> {
        Some(Kind::of::<ResourceQuota>())
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        _failure: Option<&'a Failure>,
        _now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        ready(Ok(self.observe(key).map(|observed| plan(&observed)).unwrap_or_default())).boxed()
    }
}
