//! Workloads of other namespaces that are meant as functions. Nothing wakes them, and whoever made them is told so.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use api::slimfaas::{self, Annotations};
use engine::{
    Cached, Executor, Failure, Key, PlanError, Queue, Reconcile, Scope, Selection,
    effect::{Effect, Plan, Target},
    kind::{self, Kind},
    object::uid,
};
use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::{Deployment, StatefulSet},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::plan::COMPONENT;
use crate::catalog::template_annotations;

struct Elsewhere {
    /// The namespace whose functions are served.
    served: Arc<str>,
    deployments: Cached<Deployment>,
    stateful_sets: Cached<StatefulSet>,
    /// The uid of each object that was told.
    told: Mutex<HashMap<(Kind, Key), String>>,
}

/// For a process that may read workloads in all namespaces.
pub fn start(scope: &Scope, served: Arc<str>, executor: Executor) {
    let deployments: Cached<Deployment> = scope.cache(Selection::all());
    let stateful_sets: Cached<StatefulSet> = scope.cache(Selection::all());
    let queue: Arc<Queue<Key>> = Arc::default();
    deployments.enqueue(&queue);
    stateful_sets.enqueue(&queue);
    scope.run(Elsewhere { served, deployments, stateful_sets, told: Mutex::default() }, queue, executor);
}

impl Elsewhere {
    fn tell(
        &self,
        kind: &Kind,
        key: &Key,
        found: Option<(&ObjectMeta, Option<&Annotations>)>,
    ) -> Option<Effect> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (kind.clone(), key.clone());
        let Some((meta, template)) = found else {
            told.remove(&place);
            return None;
        };
        let is_meant =
            || slimfaas::read(&key.namespace, &key.name, template, meta.annotations.as_ref()).is_some();
        if *key.namespace == *self.served
            || told.get(&place).is_some_and(|known| *known == uid(meta))
            || !is_meant()
        {
            return None;
        }
        told.insert(place, uid(meta).to_owned());
        let note = format!(
            "not woken by calls and not scaled: functions on demand are served in namespace {} only; make it there, or \
             run ballast serve --namespace {} beside this one",
            self.served, key.namespace
        );
        Some(Effect::warning(Target::of(kind, meta), COMPONENT, "NotServed", note))
    }
}

impl Reconcile for Elsewhere {
    fn name(&self) -> &'static str {
        "functions elsewhere"
    }

    fn kind(&self, _: &Key) -> Option<Kind> {
        None
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        _: Option<&'a Failure>,
        _: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        let mut plan = Plan::default();
        let deployment = self.deployments.get(key);
        let found = deployment.as_ref().map(|object| {
            (&object.metadata, object.spec.as_ref().and_then(|spec| template_annotations(&spec.template)))
        });
        plan.effects.extend(self.tell(&kind::DEPLOYMENT, key, found));
        let stateful_set = self.stateful_sets.get(key);
        let found = stateful_set.as_ref().map(|object| {
            (&object.metadata, object.spec.as_ref().and_then(|spec| template_annotations(&spec.template)))
        });
        plan.effects.extend(self.tell(&kind::STATEFUL_SET, key, found));
        async { Ok(plan) }.boxed()
    }
}
