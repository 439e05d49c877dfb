//! ReplicaSet: as many pods as asked for.

mod plan;
mod rank;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::{Cached, Change, Failure, Key, PlanError, Queue, Reconcile, effect::Plan};
use futures::future::{BoxFuture, FutureExt, ready};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
use kube::ResourceExt;

pub(crate) use plan::{Observed, plan};

use crate::object::{controller_of, selector, uid};

pub(crate) const NAME: &str = "replicaset";

pub(crate) struct Controller {
    replica_sets: Cached<ReplicaSet>,
    pods: Cached<Pod>,
}

impl Controller {
    pub fn new(replica_sets: Cached<ReplicaSet>, pods: Cached<Pod>, queue: &Arc<Queue<Key>>) -> Self {
        replica_sets.enqueue(queue);
        let (queue, sets) = (queue.clone(), replica_sets.clone());
        pods.listen(move |change| {
            for set in concerned(change, &sets) {
                queue.add(set);
            }
        });
        Self { replica_sets, pods }
    }
}

/// The ReplicaSets that a pod's change may concern: its owners before and after, or those that could take it over.
fn concerned(change: &Change<Pod>, sets: &Cached<ReplicaSet>) -> Vec<Key> {
    let mut keys = Vec::new();
    for pod in change.sides() {
        let namespace = pod.namespace().unwrap_or_default();
        match controller_of(&pod.metadata) {
            Some(owner) if owner.kind == "ReplicaSet" => keys.push(Key::new(namespace, &owner.name)),
            Some(_) => {}
            None => keys.extend(
                sets.in_namespace(&namespace)
                    .iter()
                    .filter(|set| {
                        let wanted = set.spec.as_ref().and_then(|spec| selector::parse(&spec.selector));
                        wanted.is_some_and(|wanted| selector::matches(&wanted, &pod.metadata))
                    })
                    .map(|set| Key::of(&set.metadata)),
            ),
        }
    }
    keys
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self, _: &Key) -> Option<engine::kind::Kind> {
        Some(engine::kind::REPLICA_SET)
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        ready(Ok(self.observe(key, failure).map(|observed| plan(&observed, now)).unwrap_or_default())).boxed()
    }
}

impl Controller {
    fn observe(&self, key: &Key, failure: Option<&Failure>) -> Option<Observed> {
        let set = self.replica_sets.get(key)?;
        let pods = self.pods.in_namespace(&key.namespace);
        let candidates = pods
            .into_iter()
            .filter(|pod| controller_of(&pod.metadata).is_none_or(|owner| owner.uid == uid(&set.metadata)))
            .collect();
        // The pods of all ReplicaSets of the same owner: which node is crowded is seen from all of them.
        let siblings = match controller_of(&set.metadata) {
            Some(owner) => self.replica_sets.controlled_by(&owner.uid),
            None => vec![set.clone()],
        };
        let related = siblings.iter().flat_map(|set| self.pods.controlled_by(uid(&set.metadata))).collect();
        Some(Observed { set, candidates, related, failure: failure.cloned() })
    }
}
