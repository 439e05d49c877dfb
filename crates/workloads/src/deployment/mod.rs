//! Deployment: moves pods from one template to the next by resizing ReplicaSets, one for each template.
//!
//! - `plan`: what kind of turn it is (paused, scaling, rolling, recreating)
//! - `rollout`: the sets being worked on, and the new one with its revision
//! - `rolling`, `scale`: how big each set becomes
//! - `status`: counters and conditions

mod plan;
mod rolling;
mod rollout;
mod scale;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::{Cached, Change, Failure, Key, PlanError, Queue, Reconcile, effect::Plan};
use futures::future::{BoxFuture, FutureExt, ready};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use kube::ResourceExt;

pub(crate) use plan::{Observed, plan};

use crate::object::{controller_of, selector, uid};

pub(crate) const NAME: &str = "deployment";

pub(crate) struct Controller {
    deployments: Cached<Deployment>,
    replica_sets: Cached<ReplicaSet>,
    pods: Cached<Pod>,
}

impl Controller {
    pub fn new(
        deployments: Cached<Deployment>,
        replica_sets: Cached<ReplicaSet>,
        pods: Cached<Pod>,
        queue: &Arc<Queue<Key>>,
    ) -> Self {
        deployments.enqueue(queue);
        let (own, known) = (queue.clone(), deployments.clone());
        replica_sets.listen(move |change| {
            for key in concerned(change, &known) {
                own.add(key);
            }
        });
        // Recreate waits for the last old pod to be gone, which no ReplicaSet's status tells.
        let (own, sets) = (queue.clone(), replica_sets.clone());
        pods.listen(move |change| {
            let (Some(pod), None) = (&change.old, &change.new) else { return };
            let Some(owner) = controller_of(&pod.metadata).filter(|owner| owner.kind == "ReplicaSet") else {
                return;
            };
            let namespace = pod.namespace().unwrap_or_default();
            let Some(set) = sets.get(&Key::new(&namespace, &owner.name)) else { return };
            if let Some(deployment) = controller_of(&set.metadata).filter(|owner| owner.kind == "Deployment")
            {
                own.add(Key::new(namespace, &deployment.name));
            }
        });
        Self { deployments, replica_sets, pods }
    }

    fn observe(&self, key: &Key, failure: Option<&Failure>) -> Option<Observed> {
        let deployment = self.deployments.get(key)?;
        let neighbours = self.replica_sets.in_namespace(&key.namespace);
        let (candidates, foreign): (Vec<_>, Vec<_>) = neighbours.into_iter().partition(|set| {
            controller_of(&set.metadata).is_none_or(|owner| owner.uid == uid(&deployment.metadata))
        });
        let pods = candidates.iter().flat_map(|set| self.pods.controlled_by(uid(&set.metadata))).collect();
        let foreign_names = foreign.iter().map(|set| set.name_any()).collect();
        Some(Observed { deployment, candidates, foreign_names, pods, failure: failure.cloned() })
    }
}

/// The Deployments that a ReplicaSet's change may concern.
fn concerned(change: &Change<ReplicaSet>, deployments: &Cached<Deployment>) -> Vec<Key> {
    let mut keys = Vec::new();
    for set in change.sides() {
        let namespace = set.namespace().unwrap_or_default();
        match controller_of(&set.metadata) {
            Some(owner) if owner.kind == "Deployment" => keys.push(Key::new(namespace, &owner.name)),
            Some(_) => {}
            None => keys.extend(
                deployments
                    .in_namespace(&namespace)
                    .iter()
                    .filter(|deployment| {
                        let wanted =
                            deployment.spec.as_ref().and_then(|spec| selector::parse(&spec.selector));
                        wanted.is_some_and(|wanted| selector::matches(&wanted, &set.metadata))
                    })
                    .map(|deployment| Key::of(&deployment.metadata)),
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
        Some(engine::kind::DEPLOYMENT)
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
