//! DaemonSet: one pod on every node that wants it.
//!
//! - `nodes`: which nodes those are, and the pod made for one
//! - `plan`: pods to create, delete or replace
//! - `status`: counters

mod nodes;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::{Cached, Change, Failure, Key, PlanError, Queue, Reconcile, effect::Plan};
use futures::future::{BoxFuture, FutureExt, ready};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Node, Pod},
};
use kube::ResourceExt;

pub(crate) use plan::{Observed, plan};

use crate::object::{controller_of, selector, uid};

pub(crate) const NAME: &str = "daemonset";

pub(crate) struct Controller {
    sets: Cached<DaemonSet>,
    pods: Cached<Pod>,
    nodes: Cached<Node>,
}

impl Controller {
    pub fn new(
        sets: Cached<DaemonSet>,
        pods: Cached<Pod>,
        nodes: Cached<Node>,
        queue: &Arc<Queue<Key>>,
    ) -> Self {
        sets.enqueue(queue);
        let (own, known) = (queue.clone(), sets.clone());
        pods.listen(move |change| {
            for key in concerned(change, &known) {
                own.add(key);
            }
        });
        let (own, known) = (queue.clone(), sets.clone());
        nodes.listen(move |change| {
            if nodes::concerns_daemons(change.old.as_deref(), change.new.as_deref()) {
                known.all().iter().for_each(|set| own.add(Key::of(&set.metadata)));
            }
        });
        Self { sets, pods, nodes }
    }

    fn observe(&self, key: &Key) -> Option<Observed> {
        let set = self.sets.get(key)?;
        let pods = self.pods.in_namespace(&key.namespace);
        let candidates = pods
            .into_iter()
            .filter(|pod| controller_of(&pod.metadata).is_none_or(|owner| owner.uid == uid(&set.metadata)))
            .collect();
        Some(Observed { set, candidates, nodes: self.nodes.all() })
    }
}

/// The sets that a pod's change may concern: its owners, or those that could take it over.
fn concerned(change: &Change<Pod>, sets: &Cached<DaemonSet>) -> Vec<Key> {
    let mut keys = Vec::new();
    for pod in change.sides() {
        let namespace = pod.namespace().unwrap_or_default();
        match controller_of(&pod.metadata) {
            Some(owner) if owner.kind == "DaemonSet" => keys.push(Key::new(namespace, &owner.name)),
            Some(_) => {}
            None => {
                let takes = |set: &&Arc<DaemonSet>| {
                    let wanted = set.spec.as_ref().and_then(|spec| selector::parse(&spec.selector));
                    wanted.is_some_and(|wanted| selector::matches(&wanted, &pod.metadata))
                };
                let sets = sets.in_namespace(&namespace);
                keys.extend(sets.iter().filter(takes).map(|set| Key::of(&set.metadata)));
            }
        }
    }
    keys
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self, _: &Key) -> Option<engine::kind::Kind> {
        Some(engine::kind::DAEMON_SET)
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        _failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        ready(Ok(self.observe(key).map(|observed| plan(&observed, now)).unwrap_or_default())).boxed()
    }
}
