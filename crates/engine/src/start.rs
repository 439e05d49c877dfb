//! Wires caches, queues and controllers together, and starts them.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tracing::info;

use crate::{
    cache::{Cache, Key, Reflects},
    execute::Executor,
    informer,
    kind::Kind,
    queue::Queue,
    run::{OtherKinds, Reconcile, Runner},
};

/// Controllers that share caches and a client, until they are started.
pub struct Engine {
    client: Client,
    manager: &'static str,
    relist_every: Duration,
    made: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    by_kind: HashMap<Kind, Arc<dyn Reflects>>,
    informers: Vec<BoxFuture<'static, ()>>,
    controllers: Vec<Queued>,
}

/// A controller and the keys that wait for it.
type Queued = (Arc<dyn Reconcile>, Arc<Queue<Key>>);

impl Engine {
    /// `manager` is the name under which the API notes which fields are ours; `relist_every` bounds for how long a
    /// lost watch event can go unnoticed.
    pub fn new(client: Client, manager: &'static str, relist_every: Duration) -> Self {
        Self {
            client,
            manager,
            relist_every,
            made: HashMap::new(),
            by_kind: HashMap::new(),
            informers: Vec::new(),
            controllers: Vec::new(),
        }
    }

    /// All objects of a kind, in all namespaces. Asked for twice, it is the same cache.
    pub fn cache<K>(&mut self) -> Arc<Cache<K>>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::Scope: 'static,
    {
        self.selected_cache(String::new())
    }

    /// The same for objects with a label only. There is one cache of a kind: whoever asks first, chooses.
    pub fn labelled_cache<K>(&mut self, (key, value): (&str, &str)) -> Arc<Cache<K>>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::Scope: 'static,
    {
        self.selected_cache(format!("{key}={value}"))
    }

    fn selected_cache<K>(&mut self, labels: String) -> Arc<Cache<K>>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::Scope: 'static,
    {
        let made = self.made.get(&TypeId::of::<K>()).cloned();
        if let Some(cache) = made.and_then(|cache| cache.downcast().ok()) {
            return cache;
        }
        let cache: Arc<Cache<K>> = Arc::default();
        self.made.insert(TypeId::of::<K>(), cache.clone());
        self.by_kind.insert(Kind::of::<K>(), cache.clone());
        let api: Api<K> = Api::all(self.client.clone());
        self.informers.push(informer::run(api, cache.clone(), labels, self.relist_every).boxed());
        cache
    }

    pub fn has_cache<K: 'static>(&self) -> bool {
        self.made.contains_key(&TypeId::of::<K>())
    }

    /// A controller and the queue that its listeners fill.
    pub fn add(&mut self, controller: impl Reconcile, queue: Arc<Queue<Key>>) {
        self.controllers.push((Arc::new(controller), queue));
    }

    /// Everything runs in `tasks` from here on, until they are shut down. Whatever is under way then is dropped: every
    /// plan can be made again from what the API holds.
    pub fn start(self, others: Arc<dyn OtherKinds>, tasks: &mut JoinSet<()>) {
        for informer in self.informers {
            tasks.spawn(informer);
        }
        let runner = Runner {
            executor: Executor::new(self.client, self.manager),
            caches: Arc::new(self.by_kind),
            others,
        };
        for (controller, queue) in self.controllers {
            info!(controller = controller.name(), "started");
            runner.start(controller, queue, tasks);
        }
    }
}
