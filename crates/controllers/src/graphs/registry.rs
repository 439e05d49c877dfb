//! Which definitions are served, by controllers that come and go while the program runs.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use engine::{Engine, Executor, Fence, Scope, Within, kind::Kind};
use graph::Graph;
use scaling::History;
use tokio::sync::Mutex;
use tracing::info;

use super::{Figures, MANAGER, SET_MANAGER, instance, set};

pub(super) struct Registry {
    client: kube::Client,
    instances: Within,
    sets: Within,
    executor: Executor,
    set_executor: Executor,
    figures: Figures,
    history: History,
    served: Mutex<HashMap<String, Served>>,
}

/// A definition that can be served, and the kinds that it uses as the API server has them.
#[derive(Clone)]
pub(super) struct Accepted {
    pub graph: Arc<Graph>,
    pub served: Arc<BTreeMap<(String, String), Kind>>,
}

/// What a definition's controllers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Serving {
    /// They look after instances by the version of this generation.
    Graph(Option<i64>),
    /// They only let instances go that are deleted.
    Retired,
}

struct Served {
    graph: Option<Arc<Graph>>,
    kind: Kind,
    serving: Serving,
    scopes: Vec<Scope>,
}

impl Registry {
    pub fn new(engine: &Engine, scope: &Scope, fence: &Fence, figures: &Figures, history: &History) -> Self {
        Self {
            client: engine.client().clone(),
            instances: scope.within(instance::NAME),
            sets: scope.within(set::NAME),
            executor: engine.executor(MANAGER, fence.clone()),
            set_executor: engine.executor(SET_MANAGER, fence.clone()),
            figures: figures.clone(),
            history: history.clone(),
            served: Mutex::default(),
        }
    }

    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    pub async fn serving(&self, name: &str) -> Option<Serving> {
        self.served.lock().await.get(name).map(|served| served.serving)
    }

    /// Looks after the instances of a definition, by this version from now on.
    pub async fn serve(&self, name: &str, accepted: Accepted, generation: Option<i64>) {
        let mut all = self.served.lock().await;
        let serving = Serving::Graph(generation);
        if let Some(known) = all.get_mut(name)
            && known.graph.as_ref().is_some_and(|graph| Arc::ptr_eq(graph, &accepted.graph))
        {
            known.serving = serving;
            return;
        }
        let graph = accepted.graph.clone();
        let kind = Kind::of_crd(graph.crd());
        // The caches first: what both versions watch stays watched.
        let scope = self.instances.open();
        let parts = instance::Parts {
            client: self.client.clone(),
            kind: kind.clone(),
            accepted: Some(accepted),
            figures: self.figures.clone(),
        };
        let controller = instance::Controller::new(parts, &scope);
        let set = graph.set_crd().map(|crd| {
            let scope = self.sets.open();
            let set = Kind::of_crd(crd);
            let controller = set::Controller::new(set, kind.clone(), &scope, &self.figures, &self.history);
            (scope, controller)
        });
        if let Some(old) = all.remove(name) {
            old.stop().await;
        }
        info!(definition = name, kind = %kind, generation, "looks after instances");
        let (controller, queue) = controller;
        scope.run(controller, queue, self.executor.clone());
        let mut scopes = vec![scope];
        if let Some((scope, (controller, queue))) = set {
            scope.run(controller, queue, self.set_executor.clone());
            scopes.push(scope);
        }
        all.insert(name.to_owned(), Served { graph: Some(graph), kind, serving, scopes });
    }

    /// From now on, instances of a definition that is gone or was never accepted are only let go.
    pub async fn retire(&self, name: &str, kind: Kind) {
        let mut all = self.served.lock().await;
        if all.get(name).is_some_and(|known| known.graph.is_none() && known.kind == kind) {
            return;
        }
        let scope = self.instances.open();
        let parts = instance::Parts {
            client: self.client.clone(),
            kind: kind.clone(),
            accepted: None,
            figures: self.figures.clone(),
        };
        let (controller, queue) = instance::Controller::new(parts, &scope);
        if let Some(old) = all.remove(name) {
            old.stop().await;
        }
        info!(definition = name, kind = %kind, "has no accepted definition: instances can only be deleted");
        scope.run(controller, queue, self.executor.clone());
        let serving = Serving::Retired;
        all.insert(name.to_owned(), Served { graph: None, kind, serving, scopes: vec![scope] });
    }

    pub async fn forget(&self, name: &str) {
        if let Some(old) = self.served.lock().await.remove(name) {
            old.stop().await;
        }
    }
}

impl Served {
    async fn stop(self) {
        for scope in self.scopes {
            scope.stop().await;
        }
    }
}
