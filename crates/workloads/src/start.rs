//! Wires caches, queues and controllers together, and runs them.

use std::{collections::HashMap, fmt::Debug, future::Future, sync::Arc};

use futures::future::{BoxFuture, FutureExt};
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, Deployment, ReplicaSet, StatefulSet},
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{Endpoints, Namespace, Pod, Service},
    discovery::v1::EndpointSlice,
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tracing::info;

use crate::{
    deployment, disruption, endpoints,
    engine::{Cache, Executor, Key, Queue, Reconcile, Reflects, Runner, informer},
    garbage, hpa,
    kind::{self, Kind},
    namespace,
    options::{Name, Options},
    replicaset, statefulset,
    universe::Universe,
};

/// The workload controllers, ready to run.
pub struct Controllers {
    client: Client,
    options: Options,
}

impl Controllers {
    pub fn new(client: Client, options: Options) -> Self {
        Self { client, options }
    }

    /// Runs until `shutdown` resolves. Whatever is under way then is dropped: every plan can be made again from what
    /// the API holds.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut tasks = JoinSet::new();
        self.start(&mut tasks);
        shutdown.await;
        tasks.shutdown().await;
    }

    fn start(self, tasks: &mut JoinSet<()>) {
        let Self { client, options } = self;
        let wants = |name: Name| options.which.contains(&name);
        let universe = Universe::new(client.clone(), options.relist_period);
        let needs_universe =
            [Name::GarbageCollector, Name::Namespace, Name::Disruption, Name::HorizontalPodAutoscaler]
                .into_iter()
                .any(wants);
        let mut caches = Caches::new(client.clone(), &options, &universe);
        let mut controllers: Vec<Queued> = Vec::new();

        if wants(Name::ReplicaSet) {
            let queue = Arc::default();
            let controller = replicaset::Controller::new(caches.get(), caches.get(), &queue);
            controllers.push((Arc::new(controller), queue));
        }
        if wants(Name::Deployment) {
            let queue = Arc::default();
            let controller = deployment::Controller::new(caches.get(), caches.get(), caches.get(), &queue);
            controllers.push((Arc::new(controller), queue));
        }
        if wants(Name::StatefulSet) {
            let queue = Arc::default();
            let controller = statefulset::Controller::new(caches.get(), caches.get(), caches.get(), &queue);
            controllers.push((Arc::new(controller), queue));
        }
        if wants(Name::Endpoints) {
            let queue = Arc::default();
            let controller =
                endpoints::Controller::new(caches.get(), caches.get(), caches.get(), caches.get(), &queue);
            controllers.push((Arc::new(controller), queue));
        }
        if wants(Name::Disruption) {
            let queue = Arc::default();
            let controller = disruption::Controller {
                client: client.clone(),
                budgets: caches.get(),
                pods: caches.get(),
                deployments: caches.get(),
                replica_sets: caches.get(),
                stateful_sets: caches.get(),
                universe: universe.clone(),
            };
            controller.listen(&queue);
            controllers.push((Arc::new(controller), queue));
        }
        if wants(Name::Namespace) {
            let queue = Arc::default();
            let controller =
                namespace::Controller::new(client.clone(), caches.get(), universe.clone(), &queue);
            controllers.push((Arc::new(controller), queue));
        }
        if wants(Name::GarbageCollector) {
            let queue: Arc<Queue<Key>> = Arc::default();
            let controller = garbage::Controller::new(client.clone(), universe.clone(), queue.clone());
            controllers.push((Arc::new(controller), queue));
        }
        if wants(Name::HorizontalPodAutoscaler) {
            let queue = Arc::default();
            let controller = hpa::Controller::new(
                client.clone(),
                caches.get(),
                caches.get(),
                universe.clone(),
                options.hpa_sync_period,
                &queue,
            );
            controllers.push((Arc::new(controller), queue));
        }
        for informer in caches.informers {
            tasks.spawn(informer);
        }
        let by_kind = Arc::new(caches.by_kind);
        let runner = Runner { executor: Executor::new(client), caches: by_kind, universe: universe.clone() };
        if needs_universe {
            tasks.spawn(universe.run());
        }
        for (controller, queue) in controllers {
            info!(controller = controller.name(), "started");
            runner.start(controller, queue, caches.synced.clone(), tasks);
        }
    }
}

/// A controller and the keys that wait for it.
type Queued = (Arc<dyn Reconcile>, Arc<Queue<Key>>);

/// The typed caches, one a kind, made when first asked for.
struct Caches {
    client: Client,
    relist_period: std::time::Duration,
    universe: Arc<Universe>,
    made: HashMap<std::any::TypeId, Arc<dyn std::any::Any + Send + Sync>>,
    by_kind: HashMap<Kind, Arc<dyn Reflects>>,
    informers: Vec<BoxFuture<'static, ()>>,
    synced: Vec<Arc<dyn Synced>>,
}

/// A cache that can be waited for.
pub(crate) trait Synced: Send + Sync {
    fn synced(&self) -> BoxFuture<'_, ()>;
}

impl<K: Resource + Send + Sync> Synced for Cache<K> {
    fn synced(&self) -> BoxFuture<'_, ()> {
        Cache::synced(self).boxed()
    }
}

/// Kinds with a typed cache.
trait Cached: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static {
    const KIND: Kind;
}

macro_rules! cached {
    ($($type:ty => $kind:expr),* $(,)?) => { $(impl Cached for $type { const KIND: Kind = $kind; })* };
}

cached! {
    Pod => kind::POD,
    Service => kind::SERVICE,
    Endpoints => kind::ENDPOINTS,
    Namespace => kind::NAMESPACE,
    Deployment => kind::DEPLOYMENT,
    ReplicaSet => kind::REPLICA_SET,
    StatefulSet => kind::STATEFUL_SET,
    ControllerRevision => kind::CONTROLLER_REVISION,
    EndpointSlice => kind::ENDPOINT_SLICE,
    PodDisruptionBudget => kind::POD_DISRUPTION_BUDGET,
    HorizontalPodAutoscaler => kind::HORIZONTAL_POD_AUTOSCALER,
}

impl Caches {
    fn new(client: Client, options: &Options, universe: &Arc<Universe>) -> Self {
        Self {
            client,
            relist_period: options.relist_period,
            universe: universe.clone(),
            made: HashMap::new(),
            by_kind: HashMap::new(),
            informers: Vec::new(),
            synced: Vec::new(),
        }
    }

    fn get<K: Cached>(&mut self) -> Arc<Cache<K>> {
        let made = self.made.get(&std::any::TypeId::of::<K>()).cloned();
        if let Some(cache) = made.and_then(|cache| cache.downcast().ok()) {
            return cache;
        }
        let cache: Arc<Cache<K>> = Arc::default();
        self.made.insert(std::any::TypeId::of::<K>(), cache.clone());
        self.by_kind.insert(K::KIND, cache.clone());
        self.universe.feed(K::KIND, &cache);
        self.synced.push(cache.clone());
        let api: Api<K> = Api::all(self.client.clone());
        self.informers.push(informer::run(api, cache.clone(), self.relist_period).boxed());
        cache
    }
}
