//! Wires caches, queues and controllers together, and runs them.

use std::{future::Future, sync::Arc};

use engine::{Engine, Fence, Key, Queue, Reconcile, Scope, Selection, Supervisor};
use kube::Client;

use crate::{
    cronjob, daemonset, deployment, disruption, endpoints, garbage, hpa, job, namespace,
    options::{Name, Options},
    quota, replicaset, statefulset,
    universe::Universe,
    volume,
};

/// The name under which the API notes which fields are ours.
const MANAGER: &str = "ballast-workloads";

/// The workload controllers, ready to run.
pub struct Controllers {
    engine: Engine,
    options: Options,
}

impl Controllers {
    /// On an engine of their own.
    pub fn new(client: Client, options: Options) -> Self {
        let engine = Engine::new(client, Supervisor::default(), options.relist_period);
        Self { engine, options }
    }

    /// On that of the process, which others read from too.
    pub fn on(engine: Engine, options: Options) -> Self {
        Self { engine, options }
    }

    /// Runs until `shutdown` resolves. Whatever is under way then is dropped: every plan can be made again from what
    /// the API holds.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let scopes = self.start();
        shutdown.await;
        for scope in scopes {
            scope.stop().await;
        }
    }

    fn start(self) -> Vec<Scope> {
        let Self { engine, options } = self;
        let wants = |name: Name| options.which.contains(&name);
        let universe = Universe::new(&engine);
        let client = engine.client().clone();
        let mut scopes = Vec::new();
        let mut add = |name: Name, start: &dyn Fn(&Starting<'_>)| {
            if wants(name) {
                let scope = engine.scope(name.as_str());
                start(&Starting { scope: &scope, engine: &engine, universe: &universe });
                scopes.push(scope);
            }
        };
        add(Name::ReplicaSet, &|at| {
            at.run(|queue| replicaset::Controller::new(at.cache(), at.cache(), queue));
        });
        add(Name::Deployment, &|at| {
            at.run(|queue| deployment::Controller::new(at.cache(), at.cache(), at.cache(), queue));
        });
        add(Name::StatefulSet, &|at| {
            at.run(|queue| {
                statefulset::Controller::new(at.cache(), at.cache(), at.cache(), at.cache(), queue)
            });
        });
        add(Name::DaemonSet, &|at| {
            at.run(|queue| daemonset::Controller::new(at.cache(), at.cache(), at.cache(), queue));
        });
        add(Name::Job, &|at| {
            at.run(|queue| job::Controller::new(at.cache(), at.cache(), queue));
        });
        add(Name::CronJob, &|at| {
            at.run(|queue| cronjob::Controller::new(at.cache(), at.cache(), queue));
        });
        add(Name::Endpoints, &|at| {
            at.run(|queue| endpoints::Controller::new(at.cache(), at.cache(), at.cache(), at.cache(), queue));
        });
        add(Name::Disruption, &|at| {
            at.run(|queue| {
                let controller = disruption::Controller {
                    client: client.clone(),
                    budgets: at.cache(),
                    pods: at.cache(),
                    deployments: at.cache(),
                    replica_sets: at.cache(),
                    stateful_sets: at.cache(),
                    universe: universe.clone(),
                };
                controller.listen(queue);
                controller
            });
        });
        add(Name::Namespace, &|at| {
            at.run(|queue| namespace::Controller::new(client.clone(), at.cache(), universe.clone(), queue));
        });
        add(Name::ResourceQuota, &|at| {
            at.run(|queue| quota::Controller::new(at.scope, queue));
        });
        add(Name::PersistentVolume, &|at| {
            at.run(|queue| volume::Controller::new(at.scope, options.claims.clone(), queue));
        });
        add(Name::GarbageCollector, &|at| {
            at.run(|queue| garbage::Controller::new(client.clone(), universe.clone(), queue.clone()));
        });
        add(Name::HorizontalPodAutoscaler, &|at| {
            at.run(|queue| {
                hpa::Controller::new(
                    client.clone(),
                    at.cache(),
                    at.cache(),
                    universe.clone(),
                    &options,
                    queue,
                )
            });
        });
        let needs_universe =
            [Name::GarbageCollector, Name::Namespace, Name::Disruption, Name::HorizontalPodAutoscaler]
                .into_iter()
                .any(wants);
        if needs_universe {
            let scope = engine.scope("universe");
            let kinds = universe.kinds().clone();
            scope.keep("universe", move || kinds.clone().run());
            scopes.push(scope);
        }
        scopes
    }
}

/// What a controller is started with.
struct Starting<'a> {
    scope: &'a Scope,
    engine: &'a Engine,
    universe: &'a Universe,
}

impl Starting<'_> {
    fn cache<K>(&self) -> engine::Cached<K>
    where
        K: kube::Resource<DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug
            + Send
            + Sync
            + 'static,
        K::Scope: 'static,
    {
        self.scope.cache(Selection::all())
    }

    fn run<C: Reconcile>(&self, make: impl FnOnce(&Arc<Queue<Key>>) -> C) {
        let queue = Arc::default();
        let controller = make(&queue);
        // One process alone runs these, so there is no lease to ask for.
        let executor = self.engine.executor(MANAGER, Fence::open());
        self.scope.run_with(controller, queue, executor, self.universe.kinds().clone());
    }
}
