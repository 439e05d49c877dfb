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
mod runtimes;
pub(crate) mod status;
#[cfg(test)]
mod tests;
mod validate;

use std::{future::Future, path::PathBuf, sync::Arc, time::Duration};

use api::kyma::{Function, GROUP};
use engine::{
    Cached, Engine, Failure, Fence, IndexId, Key, PlanError, Queue, Reconcile, Scope, Selection, Supervisor,
    effect::Plan,
    kind::Kind,
    object::{controller_of, name, uid},
};
use futures::future::{BoxFuture, FutureExt, ready};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{ConfigMap, Service},
};
use kube::{Api, Client, CustomResourceExt, Resource, ResourceExt};

use crate::{
    autoscaled::{target_of, targets},
    catalog::FUNCTION,
    component::{Component, Lead, Reach, Rule, Running, Runs, Settings},
};
use children::{Found, MANAGED_BY, child_name};
use git::Commits;
pub use git::GitPolicy;
use plan::{Observed, plan};

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
    /// Which Git servers may be asked, and how.
    pub git: GitPolicy,
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
            git: GitPolicy::default(),
            cpu_percent: 50,
        }
    }
}

/// The name under which the API notes which fields are ours.
const MANAGER: &str = "ballast-function";

pub const COMPONENT: Component = Component {
    name: NAME,
    about: "Kyma's Functions: source code becomes a Deployment, with external or built-in scaling",
    crds: || vec![Function::crd()],
    rules: &[
        Rule::new(GROUP, &["functions"], &["get", "list", "watch"]),
        Rule::new(GROUP, &["functions/status", "functions/scale"], &["patch"]),
        Rule::new("", &["configmaps"], &["get", "list", "watch", "create", "patch"]),
        Rule::new("", &["services"], &["get", "list", "watch", "create", "patch"]),
        Rule::new("apps", &["deployments"], &["list", "watch", "create", "patch", "delete"]),
        Rule::new(
            "autoscaling",
            &["horizontalpodautoscalers"],
            &["list", "watch", "create", "patch", "delete"],
        ),
    ],
    reach: Reach::Chosen,
    runs: Runs::Leading(Lead {
        watch: Some(|engine, settings| watches(engine, &Options::from(settings))),
        start: |context| {
            let options = Options::from(&*context.settings);
            let scope = start(&context.engine, context.fence, &options);
            ready(Running::from(scope)).boxed()
        },
    }),
};

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Self {
        let git = GitPolicy {
            private_addresses: settings.git_private_addresses,
            credentials_over_http: settings.git_credentials_over_http,
            environment: settings.git_environment.clone(),
        };
        let namespace = settings.only_namespace.clone();
        Self { namespace, git, ..Self::new(settings.scratch.join("git")) }
    }
}

/// Runs on an engine of its own until `shutdown` resolves. The CRD has to be installed (see [`api::crds`]).
pub async fn run(client: Client, options: Options, shutdown: impl Future<Output = ()>) {
    let engine = Engine::new(client, Supervisor::default(), options.relist_period);
    let scope = start(&engine, Fence::open(), &options);
    shutdown.await;
    scope.stop().await;
}

/// Runs in the scope that is returned, for as long as that is there.
pub fn start(engine: &Engine, fence: Fence, options: &Options) -> Scope {
    let scope = engine.scope(NAME);
    let queue: Arc<Queue<Key>> = Arc::default();
    let controller = Controller::new(engine.client().clone(), &scope, options, &queue);
    scope.run(controller, queue, engine.executor(MANAGER, fence));
    scope
}

/// What the controller watches. Held by every node, so that a new leader begins with full caches and
/// whoever reads one namespace of these kinds needs no watch of their own.
pub fn watches(engine: &Engine, options: &Options) -> Scope {
    let scope = engine.scope(NAME);
    drop(Caches::new(&scope, options.namespace.as_deref()));
    scope
}

struct Caches {
    functions: Cached<Function>,
    config_maps: Cached<ConfigMap>,
    deployments: Cached<Deployment>,
    services: Cached<Service>,
    autoscalers: Cached<HorizontalPodAutoscaler>,
}

impl Caches {
    /// Of one namespace, where that is all that is looked after: nothing else need be readable.
    fn new(scope: &Scope, namespace: Option<&str>) -> Self {
        let within = |selection| Selection { namespace: namespace.map(str::to_owned), ..selection };
        let all = || within(Selection::all());
        Self {
            functions: scope.cache(all()),
            // there may be any number of others, with any content
            config_maps: scope.cache(within(Selection::labelled(MANAGED_BY))),
            deployments: scope.cache(all()),
            services: scope.cache(all()),
            autoscalers: scope.cache(all()),
        }
    }
}

struct Controller {
    client: Client,
    namespace: Option<String>,
    caches: Caches,
    /// Autoscalers by what they scale.
    targets: IndexId,
    commits: Commits,
    cpu_percent: i32,
}

impl Controller {
    fn new(client: Client, scope: &Scope, options: &Options, queue: &Arc<Queue<Key>>) -> Self {
        let commits = Commits::new(client.clone(), options, queue.clone());
        let caches = Caches::new(scope, options.namespace.as_deref());
        let controller = Self {
            client,
            namespace: options.namespace.clone(),
            targets: targets(&caches.autoscalers),
            caches,
            commits,
            cpu_percent: options.cpu_percent,
        };
        controller.listen(queue);
        controller
    }

    fn listen(&self, queue: &Arc<Queue<Key>>) {
        let (own, commits) = (queue.clone(), self.commits.clone());
        self.caches.functions.listen(move |change| {
            if let Some(function) = change.either() {
                let key = Key::of(&function.metadata);
                if change.new.is_none() {
                    commits.forget(&key);
                }
                own.add(key);
            }
        });
        listen_to_children(&self.caches.config_maps, queue);
        listen_to_children(&self.caches.deployments, queue);
        listen_to_children(&self.caches.services, queue);
        listen_to_children(&self.caches.autoscalers, queue);
        // Somebody else's Service may be in the way of ours, and so may somebody else's HPA.
        let (own, functions) = (queue.clone(), self.caches.functions.clone());
        self.caches.services.listen(move |change| {
            for service in change.sides() {
                let key = Key::of(&service.metadata);
                if functions.get(&key).is_some() {
                    own.add(key);
                }
            }
        });
        let own = queue.clone();
        self.caches.autoscalers.listen(move |change| {
            for hpa in change.sides() {
                let (namespace, target) = (hpa.namespace().unwrap_or_default(), &hpa.spec.scale_target_ref);
                if target.kind == FUNCTION.kind {
                    own.add(Key::new(namespace, &target.name));
                }
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
        let Some(function) = self.caches.functions.get(key) else { return Ok(None) };
        let own = uid(&function.metadata).to_owned();
        let child = Key::new(&key.namespace, child_name(&function));
        let spare_deployments = self
            .caches
            .deployments
            .controlled_by(&own)
            .into_iter()
            .filter(|deployment| name(&deployment.metadata) != child.name)
            .collect();
        let foreign_autoscalers = self
            .caches
            .autoscalers
            .by_index(self.targets, &target_of(&FUNCTION, key))
            .into_iter()
            .filter(|hpa| controller_of(&hpa.metadata).is_none_or(|owner| owner.uid != own))
            .map(|hpa| hpa.name_any())
            .collect();
        let deployment = self.caches.deployments.get(&child);
        let mut config_map = self.caches.config_maps.get(&child);
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
            service: Found::new(&function, self.caches.services.get(key)),
            autoscalers: self.caches.autoscalers.controlled_by(&own),
            foreign_autoscalers,
            latest_commit: git.map(|git| self.commits.latest(key, git, now)),
            failure: failure.cloned(),
            cpu_percent: self.cpu_percent,
            function,
        }))
    }
}

/// A child's change concerns the Function that controls it, or the one it is marked with.
fn listen_to_children<K: Resource + Send + Sync + 'static>(cache: &Cached<K>, queue: &Arc<Queue<Key>>) {
    let queue = queue.clone();
    let kind = FUNCTION;
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

    fn kind(&self, _: &Key) -> Option<Kind> {
        Some(FUNCTION)
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
