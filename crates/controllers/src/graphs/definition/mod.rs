//! The controller of ResourceGraphDefinitions: checks them, keeps the kinds that they generate, and starts and stops the
//! controllers of their instances.
//!
//! What is served is what was accepted last. A version that is refused, or that would break existing instances, changes
//! the conditions of the definition and nothing else; the accepted one is noted on the generated kind, so that a restart
//! does not lose it.

mod plan;
mod schemas;
mod status;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use api::kro::{self, ResourceGraphDefinition};
use engine::{
    Cached, Failure, IndexId, Key, Metadata, PlanError, Queue, Reconcile, Scope, Selection,
    effect::Plan,
    execute,
    kind::{Kind, group_of},
    object::label,
};
use futures::future::{BoxFuture, FutureExt};
use graph::{Error, labels};
use jiff::{SignedDuration, Timestamp};
use kube::{Client, api::DynamicObject};
use serde_json::Value;

use self::{
    plan::{Observed, Step, plan},
    schemas::{Loaded, Named, Schemas},
};
use super::{
    NAME, object,
    registry::{Accepted, Registry},
};

pub(super) const CRD: Kind =
    Kind::cluster("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");

/// How soon a kind is looked for again that the server does not serve: most come with a CRD, which is watched, and the
/// documents that describe them follow a moment later.
const LOOK_FOR_KINDS: SignedDuration = SignedDuration::from_secs(10);
/// A CRD that has just been made.
const LOOK_FOR_DOCUMENTS: Duration = Duration::from_millis(500);

pub(super) struct Controller {
    client: Client,
    schemas: Schemas,
    registry: Registry,
    definitions: Cached<ResourceGraphDefinition>,
    /// Names and labels of all.
    crds: Cached<Metadata>,
    /// Those that definitions generate, whole.
    generated: Cached<DynamicObject>,
    by_definition: IndexId,
    compiled: Mutex<HashMap<String, Compiled>>,
}

/// What was made of one version of a definition with these schemas.
#[derive(Clone)]
struct Compiled {
    uid: String,
    generation: Option<i64>,
    version: String,
    accepted: Result<Accepted, Arc<Vec<Error>>>,
    misses_kinds: bool,
}

impl Controller {
    pub fn new(client: Client, scope: &Scope, registry: Registry, queue: &Arc<Queue<Key>>) -> Self {
        let generated: Cached<DynamicObject> =
            scope.dynamic(&CRD, Selection::labelled((labels::OWNED, "true")));
        let by_definition = generated.index("definition", |crd| {
            label(&crd.metadata, labels::DEFINITION_NAME).into_iter().map(str::to_owned).collect()
        });
        let controller = Self {
            schemas: Schemas::new(client.clone()),
            client,
            registry,
            definitions: scope.cache(Selection::all()),
            crds: scope.metadata(&CRD, Selection::all()),
            generated,
            by_definition,
            compiled: Mutex::default(),
        };
        controller.listen(queue);
        controller
    }

    fn listen(&self, queue: &Arc<Queue<Key>>) {
        self.definitions.enqueue(queue);
        let own = queue.clone();
        self.generated.listen(move |change| {
            for crd in change.sides() {
                if let Some(name) = label(&crd.metadata, labels::DEFINITION_NAME) {
                    own.add(Key::new("", name));
                }
            }
        });
        // a kind that a definition waits for, or that is in the way of one that it generates
        let (own, definitions) = (queue.clone(), self.definitions.clone());
        self.crds.listen(move |change| {
            let Some(crd) = change.either() else { return };
            let name = crd.metadata.name.as_deref().unwrap_or_default();
            let group = name.split_once('.').map_or("", |(_, group)| group);
            for definition in definitions.all() {
                let generates = definition.spec.schema.group == group;
                if generates || needed(&definition.spec).iter().any(|(version, _)| group_of(version) == group)
                {
                    own.add_after(Key::of(&definition.metadata), LOOK_FOR_DOCUMENTS);
                }
            }
        });
    }

    /// The definition with the schemas that the server has now; what was made of it before, if neither has changed.
    async fn compile(&self, definition: &ResourceGraphDefinition) -> Result<Compiled, PlanError> {
        let loaded = self.schemas.load(&needed(&definition.spec)).await?;
        let name = definition.metadata.name.clone().unwrap_or_default();
        let uid = definition.metadata.uid.clone().unwrap_or_default();
        let known = self.compiled().get(&name).cloned();
        if let Some(known) = known.filter(|known| {
            known.uid == uid
                && known.generation == definition.metadata.generation
                && known.version == loaded.version
        }) {
            return Ok(known);
        }
        let missing = missing(&definition.spec, &loaded);
        let accepted = match missing.is_empty() {
            true => graph::compile(definition, &loaded.kinds, &graph::Options::default()),
            false => Err(missing.clone()),
        };
        let compiled = Compiled {
            uid,
            generation: definition.metadata.generation,
            version: loaded.version,
            accepted: match accepted {
                Ok(graph) => Ok(Accepted { graph: Arc::new(graph), served: Arc::new(loaded.served) }),
                Err(errors) => Err(Arc::new(errors)),
            },
            misses_kinds: !missing.is_empty(),
        };
        self.compiled().insert(name, compiled.clone());
        Ok(compiled)
    }

    /// As the API server has it, whoever made it.
    async fn crd(&self, name: &str) -> Result<Option<Value>, PlanError> {
        let key = Key::new("", name);
        if let Some(crd) = self.generated.get(&key) {
            return Ok(Some(object::value(&CRD, &crd)));
        }
        if self.crds.get(&key).is_none() {
            return Ok(None);
        }
        let crd = execute::api(&self.client, &CRD, None).get_opt(name).await?;
        Ok(crd.map(|crd| object::value(&CRD, &crd)))
    }

    async fn observe_and_plan(
        &self,
        key: &Key,
        failure: Option<&Failure>,
        now: Timestamp,
    ) -> Result<Plan, PlanError> {
        let Some(definition) = self.definitions.get(key) else {
            self.compiled().remove(&key.name);
            self.retire(&key.name).await;
            return Ok(Plan::default());
        };
        let compiled = self.compile(&definition).await?;
        let mut found = Vec::new();
        if let Ok(accepted) = &compiled.accepted {
            for wanted in [Some(accepted.graph.crd()), accepted.graph.set_crd()].into_iter().flatten() {
                found.push(self.crd(object::text(wanted, "/metadata/name")).await?);
            }
        }
        let graph = compiled.accepted.as_ref().map(|accepted| &*accepted.graph);
        let observed = Observed {
            definition: &definition,
            graph: graph.map_err(|errors| errors.as_slice()),
            found: &found,
            failure,
        };
        let step = plan(&observed);
        match (&step, &compiled.accepted) {
            (Step { serve: true, .. }, Ok(accepted)) => {
                let generation = definition.metadata.generation;
                self.registry.serve(&key.name, accepted.clone(), generation).await;
            }
            _ => self.serve_last_good(&definition).await?,
        }
        let serving = self.registry.serving(&key.name).await;
        let mut plan = status::complete(step, &observed, serving, now);
        self.registry.figures().definition(&key.name, Some(plan.1));
        if compiled.misses_kinds {
            plan.0.look_again(now + LOOK_FOR_KINDS);
        }
        Ok(plan.0)
    }

    /// After a restart with a version that is not accepted: what was accepted before is on the generated kind.
    async fn serve_last_good(&self, definition: &ResourceGraphDefinition) -> Result<(), PlanError> {
        let name = definition.metadata.name.as_deref().unwrap_or_default();
        if self.registry.serving(name).await.is_some() {
            return Ok(());
        }
        let noted = self.generated.by_index(self.by_definition, name).into_iter().find_map(|crd| {
            let noted = crd.metadata.annotations.as_ref()?.get(labels::ACCEPTED)?;
            serde_json::from_str::<plan::Noted>(noted).ok()
        });
        let Some(noted) = noted else {
            self.retire(name).await;
            return Ok(());
        };
        let mut last_good = definition.clone();
        last_good.spec = noted.spec;
        let loaded = self.schemas.load(&needed(&last_good.spec)).await?;
        let known = missing(&last_good.spec, &loaded).is_empty();
        match graph::compile(&last_good, &loaded.kinds, &graph::Options::default()) {
            Ok(graph) if known => {
                let accepted = Accepted { graph: Arc::new(graph), served: Arc::new(loaded.served) };
                self.registry.serve(name, accepted, noted.generation).await;
            }
            _ => self.retire(name).await,
        }
        Ok(())
    }

    /// Nobody says any more what instances of these kinds want, but they can be deleted with what they stand for.
    async fn retire(&self, name: &str) {
        let is_instance = |crd: &Arc<DynamicObject>| {
            crd.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(labels::ACCEPTED))
        };
        let crds = self.generated.by_index(self.by_definition, name);
        match crds.iter().find(|crd| is_instance(crd)) {
            Some(crd) => self.registry.retire(name, Kind::of_crd(&object::value(&CRD, crd))).await,
            None => self.registry.forget(name).await,
        }
        self.registry.figures().definition(name, None);
    }

    fn compiled(&self) -> std::sync::MutexGuard<'_, HashMap<String, Compiled>> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kinds that templates and references name. What is not a name is for the check of the definition to refuse.
fn needed(spec: &kro::Spec) -> BTreeSet<Named> {
    let named = |resource: &kro::Resource| {
        if let Some(external) = &resource.external_ref {
            return Some((external.api_version.clone(), external.kind.clone()));
        }
        let template = resource.template.as_ref()?;
        let text = |field: &str| template.0.get(field).and_then(Value::as_str).map(str::to_owned);
        Some((text("apiVersion")?, text("kind")?))
    };
    let is_name = |(version, kind): &Named| {
        let is_plain = |text: &str| {
            text.len() <= 253
                && text.chars().all(|char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '/'))
        };
        is_plain(version) && is_plain(kind) && version.matches('/').count() < 2
    };
    spec.resources.iter().filter_map(named).filter(is_name).collect()
}

/// Kinds that this server does not serve, whatever else is known of them.
fn missing(spec: &kro::Spec, loaded: &Loaded) -> Vec<Error> {
    let mut missing = Vec::new();
    for (index, resource) in spec.resources.iter().enumerate() {
        let one = kro::Spec { resources: vec![resource.clone()], ..spec.clone() };
        for (version, kind) in needed(&one) {
            if !loaded.served.contains_key(&(version.clone(), kind.clone())) {
                let part = if resource.external_ref.is_some() { "externalRef" } else { "template" };
                missing.push(Error {
                    path: format!("spec.resources[{index}].{part}"),
                    message: format!("schema not found: the API server does not serve {kind} of {version}"),
                });
            }
        }
    }
    missing
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self, _: &Key) -> Option<Kind> {
        Some(Kind::of::<ResourceGraphDefinition>())
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        self.observe_and_plan(key, failure, now).boxed()
    }
}
