//! PodDisruptionBudget: how many of its pods may be evicted right now. The API server's eviction reads the answer.

mod plan;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use engine::{Cached, Failure, Key, PlanError, Queue, Reconcile, effect::Plan, execute, kind::group_of};
use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet, StatefulSet},
        core::v1::Pod,
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Client, ResourceExt};

pub(crate) use plan::{Observed, Scale, plan};

use crate::{
    object::{controller_of, selector, uid},
    universe::Universe,
};

pub(crate) const NAME: &str = "disruption";

pub(crate) struct Controller {
    pub client: Client,
    pub budgets: Cached<PodDisruptionBudget>,
    pub pods: Cached<Pod>,
    pub deployments: Cached<Deployment>,
    pub replica_sets: Cached<ReplicaSet>,
    pub stateful_sets: Cached<StatefulSet>,
    pub universe: Universe,
}

impl Controller {
    pub fn listen(&self, queue: &Arc<Queue<Key>>) {
        self.budgets.enqueue(queue);
        let (own, known) = (queue.clone(), self.budgets.clone());
        self.pods.listen(move |change| {
            for pod in change.sides() {
                for budget in known.in_namespace(&pod.namespace().unwrap_or_default()) {
                    if selects(&budget, pod) {
                        own.add(Key::of(&budget.metadata));
                    }
                }
            }
        });
        // Another size of the owner is another number of pods to expect.
        let whole_namespace = |queue: &Arc<Queue<Key>>, budgets: &Cached<PodDisruptionBudget>| {
            let (own, known) = (queue.clone(), budgets.clone());
            move |namespace: &str| {
                for budget in known.in_namespace(namespace) {
                    own.add(Key::of(&budget.metadata));
                }
            }
        };
        let tell = whole_namespace(queue, &self.budgets);
        self.deployments.listen(move |change| {
            if resized(change, |d| d.spec.as_ref().and_then(|spec| spec.replicas)) {
                change.sides().for_each(|side| tell(&side.namespace().unwrap_or_default()));
            }
        });
        let tell = whole_namespace(queue, &self.budgets);
        self.replica_sets.listen(move |change| {
            if resized(change, |set| set.spec.as_ref().and_then(|spec| spec.replicas)) {
                change.sides().for_each(|side| tell(&side.namespace().unwrap_or_default()));
            }
        });
        let tell = whole_namespace(queue, &self.budgets);
        self.stateful_sets.listen(move |change| {
            if resized(change, |set| set.spec.as_ref().and_then(|spec| spec.replicas)) {
                change.sides().for_each(|side| tell(&side.namespace().unwrap_or_default()));
            }
        });
    }

    async fn observe(&self, key: &Key) -> Option<Observed> {
        let budget = self.budgets.get(key)?;
        let pods: Vec<Arc<Pod>> =
            self.pods.in_namespace(&key.namespace).into_iter().filter(|pod| selects(&budget, pod)).collect();
        let mut scales = BTreeMap::new();
        if plan::needs_scales(&budget) {
            for owner in pods.iter().filter_map(|pod| controller_of(&pod.metadata)) {
                if !scales.contains_key(&owner.uid) {
                    scales.insert(owner.uid.clone(), self.scale(&key.namespace, owner).await);
                }
            }
        }
        Some(Observed { budget, pods, scales })
    }

    /// The size of whatever stands at the top: of a Deployment, not of each of its ReplicaSets.
    async fn scale(&self, namespace: &str, owner: &OwnerReference) -> Result<Scale, String> {
        let key = Key::new(namespace, &owner.name);
        match (group_of(&owner.api_version), owner.kind.as_str()) {
            ("apps", "ReplicaSet") => {
                let set = self.replica_sets.get(&key).filter(|set| uid(&set.metadata) == owner.uid);
                let set = set.ok_or_else(|| format!("ReplicaSet {key} not found"))?;
                let above = controller_of(&set.metadata).filter(|above| above.kind == "Deployment");
                let deployment =
                    above.and_then(|above| self.deployments.get(&Key::new(namespace, &above.name)));
                Ok(match deployment {
                    Some(deployment) => Scale {
                        uid: uid(&deployment.metadata).to_owned(),
                        replicas: deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
                    },
                    None => Scale {
                        uid: owner.uid.clone(),
                        replicas: set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
                    },
                })
            }
            ("apps", "StatefulSet") => {
                let set = self.stateful_sets.get(&key).filter(|set| uid(&set.metadata) == owner.uid);
                let set = set.ok_or_else(|| format!("StatefulSet {key} not found"))?;
                let replicas = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
                Ok(Scale { uid: owner.uid.clone(), replicas })
            }
            (group, kind) => {
                let Some(kind) = self.universe.find(group, kind) else {
                    return Err(format!("{} {kind} is not served by the API", owner.api_version));
                };
                let scale = execute::api(&self.client, &kind, Some(namespace)).get_scale(&owner.name).await;
                let scale = scale.map_err(|error| {
                    format!("{} {key} does not implement the scale subresource: {error}", kind.kind)
                })?;
                let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
                Ok(Scale { uid: owner.uid.clone(), replicas })
            }
        }
    }
}

fn resized<K>(change: &engine::Change<K>, size: impl Fn(&K) -> Option<i32>) -> bool {
    change.old.as_deref().map(&size) != change.new.as_deref().map(&size)
}

fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let wanted = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let wanted = wanted.and_then(selector::parse);
    wanted.is_some_and(|wanted| selector::matches(&wanted, &pod.metadata))
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self, _: &Key) -> Option<engine::kind::Kind> {
        Some(engine::kind::POD_DISRUPTION_BUDGET)
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        _failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        async move {
            Ok(match self.observe(key).await {
                Some(observed) => plan(&observed, now),
                None => Plan::default(),
            })
        }
        .boxed()
    }
}
