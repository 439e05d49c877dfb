//! The Function controller: source code becomes a ConfigMap, a Deployment, a Service and, with built-in scaling, an
//! HPA that targets the Function itself.
//!
//! ```text
//! Function ──spec.replicas──▶ Deployment ──▶ pods
//!    ▲  ▲
//!    │  └── /scale ── kubectl, KEDA, a user's HPA            (external scaling)
//!    └───── /scale ── the HPA made from spec.scaleConfig     (built-in scaling)
//! ```
//! `spec.replicas` is the only truth about the count; the controller follows it and writes it in one case, when
//! `scaleConfig` leaves no choice (min = max).

mod children;
mod git;
mod plan;
mod repair;
mod resources;
mod runtimes;
mod status;
mod targets;
#[cfg(test)]
mod tests;
mod validate;

use std::{future::Future, path::PathBuf, sync::Arc, time::Duration};

use api::function::Function;
use engine::{
    Cache, Engine, Failure, Key, PlanError, Queue, Reconcile,
    effect::Plan,
    kind::Kind,
    object::{controller_of, name, uid},
};
use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{ConfigMap, Service},
};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::task::JoinSet;

use crate::autoscaled::scales;
use children::{Found, MANAGED_BY, child_name};
use git::Commits;
use plan::{Observed, plan};
use targets::{Targets, target_of};

pub const NAME: &str = "function";

#[derive(Clone, Debug)]
pub struct Options {
    /// Functions of this namespace only; without it, of all.
    pub namespace: Option<String>,
    /// How often each kind is listed anew, in case a watch lost an event.
    pub relist_period: Duration,
    /// How often Git servers are asked for new commits.
    pub git_poll_period: Duration,
    /// Where keys for Git servers are kept while they are used.
    pub scratch: PathBuf,
    /// The CPU use that built-in scaling aims at, in percent of what pods request.
    pub cpu_percent: i32,
}

impl Options {
    pub fn new(scratch: impl Into<PathBuf>) -> Self {
        Self {
            namespace: None,
            relist_period: Duration::from_secs(300),
            git_poll_period: Duration::from_secs(60),
            scratch: scratch.into(),
            cpu_percent: 50,
        }
    }
}

/// Runs until `shutdown` resolves. The CRD has to be installed (see [`api::crds`]).
pub async fn run(client: Client, options: Options, shutdown: impl Future<Output = ()>) {
    let mut tasks = JoinSet::new();
    let mut engine = Engine::new(client.clone(), "ballast-function", options.relist_period);
    let queue: Arc<Queue<Key>> = Arc::default();
    let controller = Controller::new(client, &mut engine, &options, &queue);
    engine.add(controller, queue);
    engine.start(Arc::new(()), &mut tasks);
    shutdown.await;
    tasks.shutdown().await;
}

pub(crate) fn function_kind() -> Kind {
    Kind::namespaced("serverless.kyma-project.io", "v1alpha2", "Function", "functions")
}

struct Controller {
    client: Client,
    namespace: Option<String>,
    functions: Arc<Cache<Function>>,
    config_maps: Arc<Cache<ConfigMap>>,
    deployments: Arc<Cache<Deployment>>,
    services: Arc<Cache<Service>>,
    autoscalers: Arc<Cache<HorizontalPodAutoscaler>>,
    targets: Targets,
    commits: Commits,
    cpu_percent: i32,
}

impl Controller {
    fn new(client: Client, engine: &mut Engine, options: &Options, queue: &Arc<Queue<Key>>) -> Self {
        let commits =
            Commits::new(client.clone(), options.scratch.clone(), options.git_poll_period, queue.clone());
        let controller = Self {
            client,
            namespace: options.namespace.clone(),
            functions: engine.cache(),
            // there may be any number of others, with any content
            config_maps: engine.labelled_cache(MANAGED_BY),
            deployments: engine.cache(),
            services: engine.cache(),
            autoscalers: engine.cache(),
            targets: Targets::default(),
            commits,
            cpu_percent: options.cpu_percent,
        };
        controller.listen(queue);
        controller
    }

    fn listen(&self, queue: &Arc<Queue<Key>>) {
        let (own, commits) = (queue.clone(), self.commits.clone());
        self.functions.listen(move |change| {
            if let Some(function) = change.either() {
                let key = Key::of(&function.metadata);
                if change.new.is_none() {
                    commits.forget(&key);
                }
                own.add(key);
            }
        });
        listen_to_children(&self.config_maps, queue);
        listen_to_children(&self.deployments, queue);
        listen_to_children(&self.services, queue);
        listen_to_children(&self.autoscalers, queue);
        // Somebody else's Service may be in the way of ours, and so may somebody else's HPA.
        let (own, functions) = (queue.clone(), self.functions.clone());
        self.services.listen(move |change| {
            for service in change.sides() {
                let key = Key::of(&service.metadata);
                if functions.get(&key).is_some() {
                    own.add(key);
                }
            }
        });
        let (own, targets) = (queue.clone(), self.targets.clone());
        self.autoscalers.listen(move |change| {
            targets.change(change);
            for (function, _) in change.sides().filter_map(|hpa| target_of(hpa)) {
                own.add(function);
            }
        });
    }

    async fn observe(
        &self,
        key: &Key,
        failure: Option<&Failure>,
        now: Timestamp,
    ) -> Result<Option<Observed>, PlanError> {
        if self.namespace.as_ref().is_some_and(|namespace| *namespace != key.namespace) {
            return Ok(None);
        }
        let Some(function) = self.functions.get(key) else { return Ok(None) };
        let own = uid(&function.metadata).to_owned();
        let child = Key::new(&key.namespace, child_name(&function));
        let spare_deployments = self
            .deployments
            .controlled_by(&own)
            .into_iter()
            .filter(|deployment| name(&deployment.metadata) != child.name)
            .collect();
        let foreign_autoscalers = self
            .targets
            .of(key)
            .iter()
            .filter_map(|hpa| self.autoscalers.get(hpa))
            .filter(|hpa| scales(hpa, &function_kind(), name(&function.metadata)))
            .filter(|hpa| controller_of(&hpa.metadata).is_none_or(|owner| owner.uid != own))
            .map(|hpa| hpa.name_any())
            .collect();
        let deployment = self.deployments.get(&child);
        let mut config_map = self.config_maps.get(&child);
        if config_map.is_none() && deployment.is_some() {
            // Gone, or no longer labelled as ours and so out of sight.
            let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &key.namespace);
            config_map = api.get_opt(&child.name).await?.map(Arc::new);
        }
        let git = function.spec.source.git_repository.as_ref();
        Ok(Some(Observed {
            config_map: Found::new(&function, config_map),
            deployment: Found::new(&function, deployment),
            spare_deployments,
            service: Found::new(&function, self.services.get(key)),
            autoscalers: self.autoscalers.controlled_by(&own),
            foreign_autoscalers,
            latest_commit: git.map(|git| self.commits.latest(key, git, now)),
            failure: failure.cloned(),
            cpu_percent: self.cpu_percent,
            function,
        }))
    }
}

/// A child's change concerns the Function that controls it, or the one it is marked with.
fn listen_to_children<K: Resource + Send + Sync + 'static>(cache: &Cache<K>, queue: &Arc<Queue<Key>>) {
    let queue = queue.clone();
    let kind = function_kind();
    cache.listen(move |change| {
        for child in change.sides() {
            let meta = child.meta();
            let namespace = meta.namespace.clone().unwrap_or_default();
            let owner = controller_of(meta).filter(|owner| owner.kind == kind.kind);
            if let Some(owner) = owner {
                queue.add(Key::new(namespace, &owner.name));
            } else if let Some(function) = engine::object::label(meta, &children::key("function-name")) {
                queue.add(Key::new(namespace, function));
            }
        }
    });
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self) -> Option<Kind> {
        Some(function_kind())
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        async move {
            let observed = self.observe(key, failure, now).await?;
            Ok(observed.map(|observed| plan(&observed, now)).unwrap_or_default())
        }
        .boxed()
    }
}
