//! The controller of one definition's instances: their resources are made in the order of the graph, repaired when
//! somebody changes them, and deleted in the opposite order.

mod interests;
mod members;
mod plan;
mod seen;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use engine::{
    Cached, Failure, Key, PlanError, Queue, Reconcile, Scope, Selection,
    effect::Plan,
    kind::Kind,
    object::{being_deleted, label},
};
use futures::future::{BoxFuture, FutureExt};
use graph::{
    labels,
    plan::{Identity, plan_after, teardown},
};
use jiff::{SignedDuration, Timestamp};
use kube::{Client, api::DynamicObject};
use serde_json::Value;

use self::{
    interests::{Interest, Interests},
    members::Members,
    plan::{Observed, Tried},
    seen::{Child, Seen},
};
use super::{Figures, object, registry::Accepted};

pub(super) const NAME: &str = "graph-instance";

/// Members of kinds that are not watched are looked at again after so long, while an instance waits for them to go.
const LOOK_FOR_MEMBERS: SignedDuration = SignedDuration::from_secs(1);
/// Each look at the server may show objects that make another look necessary; more rounds than this are for next time.
const ROUNDS: usize = 4;

pub(super) struct Parts {
    pub client: Client,
    pub kind: Kind,
    /// Without it, instances are only let go.
    pub accepted: Option<Accepted>,
    pub figures: Figures,
}

pub(super) struct Controller {
    parts: Parts,
    instances: Cached<DynamicObject>,
    children: BTreeMap<(String, String), Child>,
    interests: Arc<Interests>,
    members: Members,
    /// What was applied although it should have been there, by instance.
    tried: Mutex<HashMap<Key, Tried>>,
}

impl Controller {
    pub fn new(parts: Parts, scope: &Scope) -> (Self, Arc<Queue<Key>>) {
        let queue: Arc<Queue<Key>> = Arc::default();
        let instances = scope.dynamic(&parts.kind, Selection::all());
        let interests: Arc<Interests> = Arc::default();
        let mut children = BTreeMap::new();
        if let Some(Accepted { graph, served }) = &parts.accepted {
            let external = graph.external_kinds();
            for named in graph.kinds() {
                let place = (named.0.to_owned(), named.1.to_owned());
                let Some(kind) = served.get(&place) else { continue };
                // there may be any number of others, with any content
                let selection = match external.contains(&named) {
                    true => Selection::all(),
                    false => Selection::labelled((labels::OWNED, "true")),
                };
                children.insert(place, Child::new(kind, scope.dynamic(kind, selection)));
            }
        }
        let members = Members::new(parts.client.clone());
        let controller = Self { parts, instances, children, interests, members, tried: Mutex::default() };
        controller.listen(&queue);
        (controller, queue)
    }

    fn listen(&self, queue: &Arc<Queue<Key>>) {
        self.instances.enqueue(queue);
        for child in self.children.values() {
            let (own, interests) = (queue.clone(), self.interests.clone());
            let (parent, kind) = (self.parts.kind.clone(), child.kind.clone());
            child.cache.listen(move |change| {
                for object in change.sides() {
                    let has = |key: &str, value: &str| label(&object.metadata, key) == Some(value);
                    if has(labels::INSTANCE_KIND, &parent.kind)
                        && has(labels::INSTANCE_GROUP, &parent.group)
                        && let Some(name) = label(&object.metadata, labels::INSTANCE_NAME)
                    {
                        let namespace = label(&object.metadata, labels::INSTANCE_NAMESPACE);
                        own.add(Key::new(namespace.unwrap_or_default(), name));
                    }
                }
                if let Some(object) = change.either() {
                    for key in interests.in_object(&object::identity(&kind, &object.metadata)) {
                        own.add(key);
                    }
                }
            });
        }
    }

    async fn observe_and_plan(
        &self,
        key: &Key,
        failure: Option<&Failure>,
        now: Timestamp,
    ) -> Result<Plan, PlanError> {
        let Some(found) = self.instances.get(key) else {
            self.interests.forget(key);
            self.tried().remove(key);
            return Ok(Plan::default());
        };
        let instance = object::value(&self.parts.kind, &found);
        if being_deleted(&found.metadata) {
            self.interests.forget(key);
            return self.let_go(&found, &instance, now).await;
        }
        let Some(Accepted { graph, .. }) = &self.parts.accepted else { return Ok(Plan::default()) };
        // its own status that was not written is no failure of its resources
        let failure = failure.filter(|failure| !failure.conflict && failure.kind != self.parts.kind);
        let told = failure.map(|failure| format!("{} {}: {}", failure.kind, failure.name, failure.message));
        let time = engine::object::time(now).0.to_string();
        let mut extra: BTreeMap<Identity, Value> = BTreeMap::new();
        let mut asked = members::Asked::default();
        let mut round = 0;
        let (wanted, interests) = loop {
            let (wanted, interests) = {
                let seen = Seen::new(&self.children, &extra, graph::plan::applyset_id(&instance));
                let wanted = plan_after(graph, &instance, &seen, told.as_deref(), &time);
                (wanted, seen.interests())
            };
            round += 1;
            let questions = self.members.questions(&wanted, &instance, &self.children, &asked);
            if questions.is_empty() || round > ROUNDS {
                break (wanted, interests);
            }
            extra.extend(self.members.ask(&questions, &instance, &self.children).await?);
            asked.note(questions);
        };
        self.interests.replace(key, interests);
        let seen = Seen::new(&self.children, &extra, graph::plan::applyset_id(&instance));
        let mut tried = self.tried().remove(key).unwrap_or_default();
        let effects = plan::plan(
            &Observed {
                kind: &self.parts.kind,
                meta: &found.metadata,
                instance: &instance,
                plan: &wanted,
                objects: &seen,
                kind_of: &|identity| self.kind_of(identity),
                has_failed: failure.is_some(),
            },
            &mut tried,
        );
        if !tried.is_empty() {
            self.tried().insert(key.clone(), tried);
        }
        Ok(Plan::from(effects))
    }

    async fn let_go(
        &self,
        found: &DynamicObject,
        instance: &Value,
        now: Timestamp,
    ) -> Result<Plan, PlanError> {
        let meta = &found.metadata;
        let finalizers = meta.finalizers.as_deref().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == labels::FINALIZER) {
            return Ok(Plan::default());
        }
        let mut extra: BTreeMap<Identity, Value> = BTreeMap::new();
        let id = graph::plan::applyset_id(instance);
        let mut step = teardown(instance, &Seen::new(&self.children, &extra, id.clone()));
        if step == graph::plan::Teardown::Done {
            // Caches may be behind, and not every kind of the inventory need be watched.
            extra = self.members.of_inventory(instance, &self.children).await?;
            step = teardown(instance, &Seen::new(&self.children, &extra, id.clone()));
        }
        let seen = Seen::new(&self.children, &extra, id);
        let mut plan =
            Plan::from(plan::let_go(&self.parts.kind, found, instance, &step, &seen, &|identity| {
                self.kind_of(identity).or_else(|| self.members.kind_of(identity))
            }));
        if !extra.is_empty() || self.parts.accepted.is_none() {
            plan.look_again(now + LOOK_FOR_MEMBERS);
        }
        Ok(plan)
    }

    fn kind_of(&self, identity: &Identity) -> Option<Kind> {
        let child = self.children.get(&(identity.api_version.clone(), identity.kind.clone()));
        child.map(|child| child.kind.clone()).or_else(|| self.members.kind_of(identity))
    }

    fn tried(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Tried>> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self, _: &Key) -> Option<Kind> {
        Some(self.parts.kind.clone())
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        async move {
            let began = Instant::now();
            let plan = self.observe_and_plan(key, failure, now).await;
            self.parts.figures.planned(NAME, began.elapsed());
            plan
        }
        .boxed()
    }
}
