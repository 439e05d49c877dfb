//! Wires caches, queues and controllers together, and runs them.

use std::{fmt::Debug, future::Future, sync::Arc};

use engine::{Cache, Engine, Key, Queue, kind::Kind};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use crate::{
    deployment, disruption, endpoints, garbage, hpa, namespace,
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
        let engine = Engine::new(client.clone(), "ballast-workloads", options.relist_period);
        let mut caches = Caches { engine, universe: universe.clone() };

        if wants(Name::ReplicaSet) {
            let queue = Arc::default();
            let controller = replicaset::Controller::new(caches.get(), caches.get(), &queue);
            caches.engine.add(controller, queue);
        }
        if wants(Name::Deployment) {
            let queue = Arc::default();
            let controller = deployment::Controller::new(caches.get(), caches.get(), caches.get(), &queue);
            caches.engine.add(controller, queue);
        }
        if wants(Name::StatefulSet) {
            let queue = Arc::default();
            let controller = statefulset::Controller::new(caches.get(), caches.get(), caches.get(), &queue);
            caches.engine.add(controller, queue);
        }
        if wants(Name::Endpoints) {
            let queue = Arc::default();
            let controller =
                endpoints::Controller::new(caches.get(), caches.get(), caches.get(), caches.get(), &queue);
            caches.engine.add(controller, queue);
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
            caches.engine.add(controller, queue);
        }
        if wants(Name::Namespace) {
            let queue = Arc::default();
            let controller =
                namespace::Controller::new(client.clone(), caches.get(), universe.clone(), &queue);
            caches.engine.add(controller, queue);
        }
        if wants(Name::GarbageCollector) {
            let queue: Arc<Queue<Key>> = Arc::default();
            let controller = garbage::Controller::new(client.clone(), universe.clone(), queue.clone());
            caches.engine.add(controller, queue);
        }
        if wants(Name::HorizontalPodAutoscaler) {
            let queue = Arc::default();
            let controller = hpa::Controller::new(
                client.clone(),
                caches.get(),
                caches.get(),
                universe.clone(),
                &options,
                &queue,
            );
            caches.engine.add(controller, queue);
        }
        if needs_universe {
            tasks.spawn(universe.clone().run());
        }
        caches.engine.start(universe, tasks);
    }
}

/// The engine's caches, each of which also tells the universe about its objects.
struct Caches {
    engine: Engine,
    universe: Arc<Universe>,
}

impl Caches {
    fn get<K>(&mut self) -> Arc<Cache<K>>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::Scope: 'static,
    {
        let is_new = !self.engine.has_cache::<K>();
        let cache = self.engine.cache::<K>();
        if is_new {
            self.universe.feed(Kind::of::<K>(), &cache);
        }
        cache
    }
}
