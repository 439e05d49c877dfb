//! One for each process: caches, each made once however many controllers read it, and controllers that come and go.
//!
//! A controller asks for its caches through a [`Scope`] and runs in it. The scope knows what it reads, so it waits for
//! these caches and for no others: a kind that is not installed stops nobody else. When the scope is dropped, its
//! controllers end, its listeners are forgotten, and a cache that nobody else reads is no longer watched.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt::Debug,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::FutureExt;
use kube::{
    Client, Resource,
    api::{DynamicObject, PartialObjectMeta},
};
use serde::de::DeserializeOwned;
use tracing::{debug, info};

use crate::{
    cache::{Cache, Key, MetadataListener, Reflects},
    cached::Cached,
    execute::Executor,
    fence::Fence,
    informer::{self, Source},
    kind::Kind,
    queue::Queue,
    run::{OtherKinds, Read, Reconcile, Runner},
    selection::Selection,
    supervise::{Supervisor, Task},
};

/// Names and labels of any object, whatever its kind.
pub type Metadata = PartialObjectMeta<DynamicObject>;

/// A handle; clones share the caches.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    client: Client,
    supervisor: Supervisor,
    relist_every: Duration,
    caches: Mutex<HashMap<CacheId, Entry>>,
}

/// The type is part of it: one kind may be read whole by one controller and as metadata by another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CacheId {
    type_id: TypeId,
    kind: Kind,
    selection: Selection,
}

struct Entry {
    cache: Arc<dyn Any + Send + Sync>,
    reflects: Arc<dyn Reflects>,
    informer: Task,
    n_users: usize,
}

/// What one controller reads, and the tasks it runs.
pub struct Scope {
    engine: Engine,
    name: &'static str,
    life: Arc<()>,
    used: Mutex<Vec<Use>>,
    tasks: Mutex<Vec<Task>>,
    /// Of scopes that were opened within this one.
    nested: Arc<Mutex<Vec<Task>>>,
    /// Where this scope's own tasks are noted, if it was opened within another.
    outer: Option<Arc<Mutex<Vec<Task>>>>,
}

/// Opens scopes within another one. A handle; clones open them in the same.
#[derive(Clone)]
pub struct Within {
    engine: Engine,
    name: &'static str,
    outer: Arc<Mutex<Vec<Task>>>,
}

/// Tells which caches of a scope are still empty; it does not keep the scope.
#[derive(Clone)]
pub struct Watching(Arc<[(String, Arc<dyn Reflects>)]>);

/// One use of a cache.
struct Use {
    engine: Engine,
    id: CacheId,
    reflects: Arc<dyn Reflects>,
    is_optional: bool,
}

// === impl Engine ===

impl Engine {
    /// `relist_every` bounds for how long a lost watch event can go unnoticed.
    pub fn new(client: Client, supervisor: Supervisor, relist_every: Duration) -> Self {
        Self(Arc::new(Inner { client, supervisor, relist_every, caches: Mutex::default() }))
    }

    pub fn client(&self) -> &Client {
        &self.0.client
    }

    pub fn supervisor(&self) -> &Supervisor {
        &self.0.supervisor
    }

    /// `name` is that of the controller.
    pub fn scope(&self, name: &'static str) -> Scope {
        Scope {
            engine: self.clone(),
            name,
            life: Arc::default(),
            used: Mutex::default(),
            tasks: Mutex::default(),
            nested: Arc::default(),
            outer: None,
        }
    }

    /// `manager` is the name under which the API notes which fields are ours.
    pub fn executor(&self, manager: &'static str, fence: Fence) -> Executor {
        Executor::new(self.0.client.clone(), manager, fence, &self.0.supervisor)
    }

    /// Each watch with what is selected, for people who want to know what this process costs the API.
    pub fn watched(&self) -> Vec<String> {
        let mut all: Vec<String> = self
            .caches()
            .keys()
            .map(|CacheId { kind, selection, .. }| {
                format!("{}/{} {selection}", kind.api_version(), kind.plural)
            })
            .collect();
        all.sort();
        all
    }

    fn open<K>(&self, id: &CacheId) -> (Arc<Cache<K>>, Arc<dyn Reflects>)
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let mut caches = self.caches();
        if let Some(entry) = caches.get_mut(id)
            && let Ok(cache) = entry.cache.clone().downcast::<Cache<K>>()
        {
            entry.n_users += 1;
            return (cache, entry.reflects.clone());
        }
        let cache: Arc<Cache<K>> = Arc::default();
        let source = Source::new::<K>(&self.0.client, &id.kind, &id.selection);
        let (every, filled) = (self.0.relist_every, cache.clone());
        let informer = self.0.supervisor.keep(format!("watch of {}", id.kind.plural), move || {
            informer::run(source.clone(), filled.clone(), every)
        });
        let entry = Entry { cache: cache.clone(), reflects: cache.clone(), informer, n_users: 1 };
        caches.insert(id.clone(), entry);
        (cache.clone(), cache)
    }

    fn caches(&self) -> MutexGuard<'_, HashMap<CacheId, Entry>> {
        self.0.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Scope ===

impl Scope {
    /// Objects of a type, in one namespace or in all.
    pub fn cache<K>(&self, selection: Selection) -> Cached<K>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::Scope: 'static,
    {
        self.cached(Kind::of::<K>(), selection)
    }

    /// Objects of a kind that is known only at run time.
    pub fn dynamic(&self, kind: &Kind, selection: Selection) -> Cached<DynamicObject> {
        self.cached(kind.clone(), selection)
    }

    /// The same, but a kind that the API does not serve is no reason to wait: then there are none.
    pub fn dynamic_if_served(&self, kind: &Kind, selection: Selection) -> Cached<DynamicObject> {
        self.if_served(self.cached(kind.clone(), selection))
    }

    /// Objects of a type, if the API serves it.
    pub fn cache_if_served<K>(&self, selection: Selection) -> Cached<K>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::Scope: 'static,
    {
        self.if_served(self.cache(selection))
    }

    /// Of the cache that was opened last.
    fn if_served<K>(&self, cached: Cached<K>) -> Cached<K> {
        if let Some(used) = self.used().last_mut() {
            used.is_optional = true;
        }
        cached
    }

    /// The same, but of each object only its metadata.
    pub fn metadata(&self, kind: &Kind, selection: Selection) -> Cached<Metadata> {
        self.cached(kind.clone(), selection)
    }

    /// The metadata of all objects of a kind, from whichever cache has all of them.
    pub(crate) fn any(&self, kind: &Kind, listener: MetadataListener) -> Arc<dyn Reflects> {
        let known = {
            let mut caches = self.engine.caches();
            let all = Selection::all();
            let known = caches.iter_mut().find(|(id, _)| id.kind.same_resource(kind) && id.selection == all);
            known.map(|(id, entry)| {
                entry.n_users += 1;
                Use {
                    engine: self.engine.clone(),
                    id: id.clone(),
                    reflects: entry.reflects.clone(),
                    is_optional: false,
                }
            })
        };
        let used = known.unwrap_or_else(|| {
            let id = CacheId {
                type_id: TypeId::of::<Metadata>(),
                kind: kind.clone(),
                selection: Selection::all(),
            };
            let (_, reflects) = self.engine.open::<Metadata>(&id);
            Use { engine: self.engine.clone(), id, reflects, is_optional: false }
        });
        let reflects = used.reflects.clone();
        reflects.listen_to_metadata(&self.life, listener);
        self.used().push(used);
        reflects
    }

    fn cached<K>(&self, kind: Kind, selection: Selection) -> Cached<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let engine = &self.engine;
        let wide = CacheId { type_id: TypeId::of::<K>(), kind, selection: selection.in_all_namespaces() };
        // Whoever watches all namespaces watches this one too.
        let is_watched = engine.caches().contains_key(&wide);
        let id = if is_watched { wide } else { CacheId { selection: selection.clone(), ..wide } };
        let (cache, reflects) = engine.open::<K>(&id);
        let narrowed = selection.namespace.filter(|_| is_watched).map(Arc::from);
        self.used().push(Use { engine: engine.clone(), id, reflects, is_optional: false });
        Cached::new(cache, narrowed, &self.life)
    }

    /// Runs a controller on the keys that its listeners put into `queue`, once all caches of this scope are filled: a
    /// controller that sees a part takes the rest for missing.
    pub fn run(&self, controller: impl Reconcile, queue: Arc<Queue<Key>>, executor: Executor) {
        self.run_with(controller, queue, executor, Arc::new(()));
    }

    /// The same for a controller that writes to kinds of which this scope has no cache.
    pub fn run_with(
        &self,
        controller: impl Reconcile,
        queue: Arc<Queue<Key>>,
        executor: Executor,
        others: Arc<dyn OtherKinds>,
    ) {
        let read = |used: &Use| Read {
            kind: used.id.kind.clone(),
            selection: used.id.selection.clone(),
            cache: used.reflects.clone(),
            is_optional: used.is_optional,
        };
        let caches = self.used().iter().map(read).collect();
        let runner = Runner { executor, caches, others, supervisor: self.engine.supervisor().clone() };
        info!(controller = controller.name(), "started");
        for task in runner.start(Arc::new(controller), queue) {
            self.add(task);
        }
    }

    /// Opens a scope for a part that comes and goes while this one runs. It ends with this one at the latest.
    pub fn within(&self, name: &'static str) -> Within {
        Within { engine: self.engine.clone(), name, outer: self.nested.clone() }
    }

    /// A task that is started again when it fails, and ends with this scope.
    pub fn keep<F>(&self, name: &str, start: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = self.engine.supervisor().keep(name, start);
        self.add(task);
    }

    fn add(&self, task: Task) {
        if let Some(outer) = &self.outer {
            let mut outer = outer.lock().unwrap_or_else(PoisonError::into_inner);
            outer.retain(|task| !task.has_ended());
            outer.push(task.clone());
        }
        self.tasks().push(task);
    }

    /// What this scope reads now and cannot do without.
    pub fn watching(&self) -> Watching {
        let needed = |used: &&Use| !used.is_optional;
        let words = |used: &Use| {
            let Kind { group, plural, .. } = &used.id.kind;
            let dot = if group.is_empty() { "" } else { "." };
            (format!("{plural}{dot}{group}"), used.reflects.clone())
        };
        Watching(self.used().iter().filter(needed).map(words).collect())
    }

    /// Ends what runs here and waits until nothing of it is left: from then on it writes no more.
    pub async fn stop(self) {
        let own = std::mem::take(&mut *self.tasks());
        // before those within, which they may be about to add to
        end(own).await;
        end(self.take_nested()).await;
        info!(controller = self.name, "stopped");
    }

    fn take_nested(&self) -> Vec<Task> {
        std::mem::take(&mut *self.nested.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn used(&self) -> MutexGuard<'_, Vec<Use>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<Task>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn end(tasks: Vec<Task>) {
    for task in &tasks {
        task.abort();
    }
    for task in tasks {
        task.ended().await;
    }
}

// === impl Within ===

impl Within {
    pub fn open(&self) -> Scope {
        let mut scope = self.engine.scope(self.name);
        scope.outer = Some(self.outer.clone());
        scope
    }
}

// === impl Watching ===

impl Watching {
    /// Kinds whose objects have not been listed yet, such as `functions.serverless.kyma-project.io`: they may not be
    /// installed, or this account may not read them.
    pub fn missing(&self) -> Vec<&str> {
        let missing = self.0.iter().filter(|(_, cache)| cache.filled().now_or_never().is_none());
        missing.map(|(kind, _)| kind.as_str()).collect()
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        for task in self.tasks().iter().chain(&self.take_nested()) {
            task.abort();
        }
        // Now nobody listens for this scope any more; the caches that stay forget it.
        self.life = Arc::default();
        for used in self.used().iter() {
            used.reflects.forget_listeners();
        }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut caches = self.engine.caches();
        let Some(entry) = caches.get_mut(&self.id) else { return };
        entry.n_users -= 1;
        if entry.n_users == 0 {
            debug!(kind = %self.id.kind, selection = %self.id.selection, "no longer watched");
            entry.informer.abort();
            caches.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests;
