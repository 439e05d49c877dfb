//! Owner garbage collection: what no living object owns any more goes; what is deleted in the foreground waits for
//! its dependents; what is deleted as `orphan` lets them go.

pub(crate) mod graph;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::{Failure, Key, PlanError, Queue, Reconcile, effect::Plan, execute, kind::group_of};
use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;

pub(crate) use plan::{Observed, OwnerState, plan};

use crate::{
    garbage::graph::{Graph, Node},
    universe::Universe,
};

pub(crate) const NAME: &str = "garbage-collector";

pub(crate) struct Controller {
    client: Client,
    universe: Universe,
    queue: Arc<Queue<Key>>,
}

impl Controller {
    pub fn new(client: Client, universe: Universe, queue: Arc<Queue<Key>>) -> Self {
        universe.graph.queue_into(queue.clone());
        Self { client, universe, queue }
    }

    fn graph(&self) -> &Graph {
        &self.universe.graph
    }

    async fn observe(&self, uid: &str) -> Result<Option<Observed>, PlanError> {
        let Some(node) = self.graph().get(uid) else { return Ok(None) };
        let mut owners = Vec::new();
        if !node.deleting() {
            for owner in node.owners() {
                owners.push((owner.clone(), self.owner_state(&node, owner).await?));
            }
        }
        let dependents = self.graph().dependents(uid);
        Ok(Some(Observed { node, owners, dependents }))
    }

    /// An owner that the graph does not know is looked up: nothing is deleted because a watch is late.
    async fn owner_state(&self, node: &Node, owner: &OwnerReference) -> Result<OwnerState, PlanError> {
        let group = group_of(&owner.api_version);
        let known = self.graph().get(&owner.uid).filter(|known| {
            let in_reach = known.meta.namespace.is_none() || known.meta.namespace == node.meta.namespace;
            in_reach
                && known.kind.group == group
                && known.kind.kind == owner.kind
                && known.meta.name.as_deref() == Some(&owner.name)
        });
        if let Some(known) = known {
            return Ok(OwnerState::of(&known));
        }
        let Some(kind) = self.universe.find(group, &owner.kind) else {
            let message = format!("owner {} {} is of a kind that is not served", owner.kind, owner.name);
            return Err(PlanError(message));
        };
        if kind.namespaced && node.meta.namespace.is_none() {
            return Ok(OwnerState::OutOfReach);
        }
        let api = execute::api(&self.client, &kind, node.meta.namespace.as_deref());
        let live = api.get_metadata_opt(&owner.name).await?;
        Ok(match live.filter(|live| live.metadata.uid.as_deref() == Some(&owner.uid)) {
            Some(live) => OwnerState::of(&Node { kind, meta: live.metadata }),
            None => OwnerState::Absent,
        })
    }
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self, _: &Key) -> Option<engine::kind::Kind> {
        // keys are uids
        None
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        _failure: Option<&'a Failure>,
        _now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        async move {
            // A dependent that is not known yet would be overlooked.
            self.universe.completed().await;
            let Some(observed) = self.observe(&key.name).await? else { return Ok(Plan::default()) };
            if observed.node.deleting_dependents() {
                for dependent in observed.dependents.iter().filter(|dependent| !dependent.deleting()) {
                    self.queue.add(Key::new("", dependent.meta.uid.clone().unwrap_or_default()));
                }
            }
            Ok(plan(&observed))
        }
        .boxed()
    }
}
