//! The controller of Sets: keeps a number of instances and rolls changes of their template out over them.

mod children;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Instant};

use engine::{
    Cached, Failure, Key, PlanError, Queue, Reconcile, Scope, Selection,
    effect::Plan,
    kind::Kind,
    object::{being_deleted, controller_of, label, uid},
};
use futures::future::{BoxFuture, FutureExt};
use graph::labels;
use jiff::Timestamp;
use kube::api::DynamicObject;
use scaling::History;

use self::plan::{Observed, Planned, plan};
use super::Figures;

pub(super) const NAME: &str = "graph-set";

pub(super) struct Controller {
    kind: Kind,
    instance_kind: Kind,
    sets: Cached<DynamicObject>,
    instances: Cached<DynamicObject>,
    /// Instances by the Set that their label names.
    by_set: engine::IndexId,
    figures: Figures,
    history: History,
}

impl Controller {
    pub fn new(
        kind: Kind,
        instance_kind: Kind,
        scope: &Scope,
        figures: &Figures,
        history: &History,
    ) -> (Self, Arc<Queue<Key>>) {
        let queue: Arc<Queue<Key>> = Arc::default();
        let instances: Cached<DynamicObject> = scope.dynamic(&instance_kind, Selection::all());
        let by_set = instances.index("set", |instance| {
            let set = label(&instance.metadata, labels::SET_NAME);
            let namespace = instance.metadata.namespace.as_deref().unwrap_or_default();
            set.map(|set| format!("{namespace}/{set}")).into_iter().collect()
        });
        let controller = Self {
            sets: scope.dynamic(&kind, Selection::all()),
            kind,
            instance_kind,
            instances,
            by_set,
            figures: figures.clone(),
            history: history.clone(),
        };
        controller.listen(&queue);
        (controller, queue)
    }

    fn listen(&self, queue: &Arc<Queue<Key>>) {
        self.sets.enqueue(queue);
        let (own, kind, sets) = (queue.clone(), self.kind.clone(), self.sets.clone());
        self.instances.listen(move |change| {
            for instance in change.sides() {
                let namespace = instance.metadata.namespace.clone().unwrap_or_default();
                if let Some(owner) = controller_of(&instance.metadata) {
                    if owner.kind == kind.kind {
                        own.add(Key::new(namespace, &owner.name));
                    }
                } else if let Some(wanted) = label(&instance.metadata, labels::SET_NAME) {
                    // one without an owner: whoever it is marked for may take it
                    let has_label = |set: &&Arc<DynamicObject>| {
                        let name = set.metadata.name.as_deref().unwrap_or_default();
                        set.metadata.namespace == instance.metadata.namespace
                            && children::label_value(name) == wanted
                    };
                    if let Some(set) = sets.all().iter().find(has_label) {
                        own.add(Key::of(&set.metadata));
                    }
                }
            }
        });
    }

    fn observe(&self, key: &Key, failure: Option<&Failure>) -> Option<Observed> {
        let set = self.sets.get(key)?;
        if being_deleted(&set.metadata) {
            // the garbage collector has the rest
            return None;
        }
        let mut instances = self.instances.controlled_by(uid(&set.metadata));
        let marked = format!("{}/{}", key.namespace, children::label_value(&key.name));
        let orphans = self.instances.by_index(self.by_set, &marked);
        instances.extend(orphans.into_iter().filter(|instance| controller_of(&instance.metadata).is_none()));
        Some(Observed {
            kind: self.kind.clone(),
            instance_kind: self.instance_kind.clone(),
            set,
            instances,
            // a status of the Set's own that was not written is no failure of its instances
            failure: failure.filter(|failure| !failure.conflict && failure.kind != self.kind).cloned(),
        })
    }
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self, _: &Key) -> Option<Kind> {
        Some(self.kind.clone())
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        async move {
            let began = Instant::now();
            let Some(observed) = self.observe(key, failure) else {
                self.figures.set(&self.kind.kind, key, None);
                return Ok(Plan::default());
            };
            let Planned { plan, figures, record } = plan(&observed, now);
            let gist = format!("{} {} {:?}", record.reason, record.why, record.outcome);
            self.history.note(record, gist);
            self.figures.set(&self.kind.kind, key, Some(figures));
            self.figures.planned(NAME, began.elapsed());
            Ok(plan)
        }
        .boxed()
    }
}
