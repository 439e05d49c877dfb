//! StatefulSet: numbered pods, changed one after the other.
//!
//! - `revision`: templates kept as ControllerRevisions
//! - `plan`: which pod to create, delete or replace next
//! - `status`: counters

mod plan;
mod pods;
mod revision;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::{Cached, Failure, Key, PlanError, Queue, Reconcile, effect::Plan};
use futures::future::{BoxFuture, FutureExt, ready};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet},
    core::v1::{PersistentVolumeClaim, Pod},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

pub(crate) use plan::{Observed, plan};

use crate::object::{controller_of, selector, uid};

pub(crate) const NAME: &str = "statefulset";

pub(crate) struct Controller {
    sets: Cached<StatefulSet>,
    revisions: Cached<ControllerRevision>,
    pods: Cached<Pod>,
    claims: Cached<PersistentVolumeClaim>,
}

impl Controller {
    pub fn new(
        sets: Cached<StatefulSet>,
        revisions: Cached<ControllerRevision>,
        pods: Cached<Pod>,
        claims: Cached<PersistentVolumeClaim>,
        queue: &Arc<Queue<Key>>,
    ) -> Self {
        sets.enqueue(queue);
        let (own, known) = (queue.clone(), sets.clone());
        pods.listen(move |change| {
            for pod in change.sides() {
                let namespace = pod.namespace().unwrap_or_default();
                match controller_of(&pod.metadata) {
                    Some(owner) if owner.kind == "StatefulSet" => own.add(Key::new(namespace, &owner.name)),
                    Some(_) => {}
                    // An orphan may be adopted by the set its name speaks of.
                    None => {
                        if let Some((parent, _)) = pods::parent_and_ordinal(&pod.name_any()) {
                            let key = Key::new(namespace, parent);
                            if known.get(&key).is_some() {
                                own.add(key);
                            }
                        }
                    }
                }
            }
        });
        let own = queue.clone();
        revisions.listen(move |change| {
            for revision in change.sides() {
                let owner = controller_of(&revision.metadata).filter(|owner| owner.kind == "StatefulSet");
                if let Some(owner) = owner {
                    own.add(Key::new(revision.namespace().unwrap_or_default(), &owner.name));
                }
            }
        });
        Self { sets, revisions, pods, claims }
    }

    fn observe(&self, key: &Key) -> Option<Observed> {
        let set = self.sets.get(key)?;
        let wanted = selector::parse(&set.spec.as_ref()?.selector)?;
        let ours_or_nobodys =
            |meta: &ObjectMeta| controller_of(meta).is_none_or(|owner| owner.uid == uid(&set.metadata));
        let pods = self.pods.in_namespace(&key.namespace);
        let revisions = self.revisions.in_namespace(&key.namespace);
        Some(Observed {
            pods: pods
                .into_iter()
                .filter(|pod| ours_or_nobodys(&pod.metadata))
                .filter(|pod| {
                    pods::parent_and_ordinal(&pod.name_any()).is_some_and(|(name, _)| name == key.name)
                })
                .collect(),
            revisions: revisions
                .into_iter()
                .filter(|revision| ours_or_nobodys(&revision.metadata))
                .filter(|revision| selector::matches(&wanted, &revision.metadata))
                .collect(),
            claims: self.claims.in_namespace(&key.namespace).iter().map(|claim| claim.name_any()).collect(),
            set,
        })
    }
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self, _: &Key) -> Option<engine::kind::Kind> {
        Some(engine::kind::STATEFUL_SET)
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
