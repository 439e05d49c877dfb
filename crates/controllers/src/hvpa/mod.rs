//! The Hvpa controller: replicas and request sizes of one workload, decided together and written by one.
//!
//! ```text
//! HorizontalPodAutoscaler ──/scale──▶ Hvpa ─┐
//! metrics APIs ──▶ readings ────────────────┼─▶ observe ──▶ policy ──▶ decide::hvpa ──▶ count, template
//! VerticalPodAutoscaler (mode Off) ─────────┘                 │                          pods, one by one (apply)
//!                                                             └──▶ status
//! ```
//!
//! - `observe`: what a decision depends on, from the caches; who else scales the target
//! - `workload`, `pods`: the target and its pods
//! - `scale`: a target of a kind that is known only by its name
//! - `adopted`: an autoscaler of the target itself that leaves the count to the Hvpa
//! - `horizontal`, `vertical`: recommendations in the terms of the decision
//! - `readings`: asks the metrics APIs, runs our own HPA algorithm and recommender
//! - `plan`: one decision and what is remembered of it, pure
//! - `policy`: an Hvpa as a [`scaling::Policy`]
//! - `memory`: what is remembered between decisions
//! - `apply`: how sizes reach pods that run
//! - `status`: what people are told

mod adopted;
mod apply;
mod horizontal;
mod memory;
mod observe;
mod plan;
mod pods;
mod policy;
mod readings;
mod scale;
mod status;
#[cfg(test)]
mod tests;
mod vertical;
mod workload;

use std::{future::Future, sync::Arc, time::Duration};

use api::hvpa::{Hvpa, TargetRef};
use engine::{
    Cached, Engine, Fence, Key, Queue, Scope, Selection, Supervisor, Universe,
    kind::Kind,
    object::{name, uid},
};
use futures::future::FutureExt;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Client, CustomResourceExt, Resource, api::DynamicObject};
use scaling::{Claims, History, Memories, Scaler};
use workloads::Advisor;

use crate::{
    autoscaled::targets,
    component::{Component, Context, Lead, Reach, Rule, Running, Runs},
};
use observe::Caches;
use policy::{Scaling, Shared};
use readings::{Readings, Task};
use workload::{Workloads, function_of, place};

pub const NAME: &str = "hvpa";
/// The name under which the API notes which fields are ours, and who Events are said to come from.
const MANAGER: &str = "ballast-hvpa";
const MEMORY: &str = "hvpa/";
const HISTORY: &str = "hvpa-usage/";

const GROUP: &str = "autoscaling.k8s.io";

pub const COMPONENT: Component = Component {
    name: NAME,
    about: "Hvpas: replicas and request sizes of a workload, scaled together",
    crds: || vec![Hvpa::crd()],
    rules: &[
        Rule::new(GROUP, &["hvpas"], &["get", "list", "watch", "patch"]),
        Rule::new(GROUP, &["hvpas/status"], &["patch"]),
        Rule::new(GROUP, &["verticalpodautoscalers"], &["get", "list", "watch", "create", "patch"]),
        Rule::new("autoscaling", &["horizontalpodautoscalers"], &["list", "watch"]),
        Rule::new(
            "apps",
            &["deployments", "statefulsets", "replicasets", "daemonsets"],
            &["list", "watch", "patch"],
        ),
        Rule::new("apps", &["deployments/scale", "statefulsets/scale", "replicasets/scale"], &["patch"]),
        Rule::new(api::kyma::GROUP, &["functions"], &["list", "watch", "patch"]),
        Rule::new(api::kyma::GROUP, &["functions/scale"], &["patch"]),
        // instances of resource graphs, of the usual group
        Rule::new(api::kro::GROUP, &["*"], &["get"]),
        Rule::new(api::kro::GROUP, &["*/scale"], &["patch"]),
        Rule::new("", &["pods", "limitranges"], &["list", "watch"]),
        Rule::new("", &["pods/resize"], &["patch"]),
        Rule::new("", &["pods/eviction"], &["create"]),
        Rule::new("", &["events"], &["create", "patch"]),
        Rule::new("metrics.k8s.io", &["pods"], &["list"]),
        Rule::new("custom.metrics.k8s.io", &["*"], &["get", "list"]),
        Rule::new("external.metrics.k8s.io", &["*"], &["get", "list"]),
    ],
    reach: Reach::Chosen,
    runs: Runs::Leading(Lead {
        watch: Some(|engine, settings| {
            watches(engine, &Options { namespace: settings.only_namespace.clone(), ..Options::default() })
        }),
        start: |context| term(context).boxed(),
    }),
};

/// One term of leadership.
async fn term(Context { engine, fence, store, history, claims, settings, .. }: Context) -> Running {
    let options = Options { namespace: settings.only_namespace.clone(), ..Options::default() };
    Running::from(start(&Parts { engine, fence, store, history, claims }, &options).await)
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Hvpas of this namespace only; without it, of all.
    pub namespace: Option<String>,
    /// How often each kind is listed anew, in case a watch lost an event.
    pub relist_period: Duration,
    /// How often the metrics APIs are asked.
    pub sync_period: Duration,
    /// How often the recommender learns from what they say.
    pub learn_period: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: None,
            relist_period: Duration::from_secs(300),
            sync_period: Duration::from_secs(15),
            learn_period: Duration::from_secs(60),
        }
    }
}

/// What the controller works with.
#[derive(Clone)]
pub struct Parts {
    pub engine: Engine,
    /// Asked right before each write.
    pub fence: Fence,
    pub store: store::Shared,
    /// Where decisions are noted.
    pub history: History,
    /// Which policy has which object.
    pub claims: Claims,
}

pub(crate) fn hvpa_kind() -> Kind {
    Kind::of::<Hvpa>()
}

/// Runs on an engine of its own until `shutdown` resolves. The CRD has to be installed (see [`api::crds`]).
pub async fn run(client: Client, store: store::Shared, options: Options, shutdown: impl Future<Output = ()>) {
    let engine = Engine::new(client, Supervisor::default(), options.relist_period);
    let parts =
        Parts { engine, fence: Fence::open(), store, history: History::default(), claims: Claims::default() };
    let scope = start(&parts, &options).await;
    shutdown.await;
    scope.stop().await;
}

/// Runs in the scope that is returned, for as long as that is there.
pub async fn start(parts: &Parts, options: &Options) -> Scope {
    let Parts { engine, fence, store, history, claims } = parts;
    let memories = Memories::load_all(store.clone(), MEMORY).await;
    let histories = Memories::load_all(store.clone(), HISTORY).await;
    let scope = engine.scope(NAME);
    let caches = caches(&scope, options.namespace.as_deref());
    let queue: Arc<Queue<Key>> = Arc::default();
    // Some of them may be gone.
    for key in memories.keys() {
        queue.add(key);
    }
    let readings: Arc<Readings> = Arc::default();
    let shared = Arc::new(Shared::new(caches, readings.clone()));
    listen(&shared, &queue);
    let kinds = Universe::of_kinds(engine);
    let known = kinds.clone();
    scope.keep("hvpa kinds", move || known.clone().run());
    let advisor =
        Advisor { client: engine.client().clone(), kinds, settings: decide::hpa::Settings::default() };
    let task = Arc::new(Task {
        readings,
        advisor,
        histories,
        queue: queue.clone(),
        every: options.sync_period,
        learn_every: options.learn_period,
    });
    let read = shared.clone();
    scope.keep("hvpa readings", move || {
        let (task, all, target, one) = (task.clone(), read.clone(), read.clone(), read.clone());
        async move {
            // What is not there yet is not gone.
            all.caches.hvpas.synced().await;
            let keys = move || all.caches.hvpas.all().iter().map(|hvpa| Key::of(&hvpa.metadata)).collect();
            let to_read = move |key: &Key| target.caches.to_read(key);
            task.run(keys, to_read, move |key| one.caches.ask(key, &one.readings)).await;
        }
    });
    let executor = engine.executor(MANAGER, fence.clone());
    let scaler = Scaler::new(Scaling(shared), memories, history.clone()).among(claims, &queue);
    scope.run(scaler, queue, executor);
    scope
}

/// What the controller watches. Held by every node that may become the master, so that a new one begins with full caches.
pub fn watches(engine: &Engine, options: &Options) -> Scope {
    let scope = engine.scope(NAME);
    drop(caches(&scope, options.namespace.as_deref()));
    scope
}

fn caches(scope: &Scope, namespace: Option<&str>) -> Caches {
    let all = || Selection { namespace: namespace.map(str::to_owned), ..Selection::all() };
    let hvpas: Cached<Hvpa> = scope.cache(all());
    let by_target = hvpas.index("hvpa target", |hvpa| {
        let namespace = hvpa.metadata.namespace.as_deref().unwrap_or_default();
        let reference = &hvpa.spec.target_ref;
        vec![place(&reference.kind, namespace, &reference.name)]
    });
    let autoscalers: Cached<HorizontalPodAutoscaler> = scope.cache(all());
    let vpas = scope.dynamic_if_served(&vertical::VPA, all());
    Caches {
        vpa_targets: vpas.index("vpa target", |vpa| vec![scaled_by(vpa)]),
        vpas,
        autoscaler_targets: targets(&autoscalers),
        autoscalers,
        by_target,
        hvpas,
        workloads: Workloads {
            deployments: scope.cache(all()),
            stateful_sets: scope.cache(all()),
            replica_sets: scope.cache(all()),
            daemon_sets: scope.cache(all()),
            pods: scope.cache(all()),
            functions: scope.cache_if_served(all()),
        },
        limit_ranges: scope.cache(all()),
    }
}

fn listen(shared: &Arc<Shared>, queue: &Arc<Queue<Key>>) {
    let caches = &shared.caches;
    let (own, state) = (queue.clone(), Arc::downgrade(shared));
    caches.hvpas.listen(move |change| {
        // Its own status changes with every decision; only another spec or annotation asks for another one.
        let matters = |side: &Option<Arc<Hvpa>>| {
            let of = |hvpa: &Arc<Hvpa>| {
                let meta = &hvpa.metadata;
                (
                    uid(meta).to_owned(),
                    hvpa.spec.clone(),
                    meta.annotations.clone(),
                    meta.deletion_timestamp.clone(),
                )
            };
            side.as_ref().map(of)
        };
        if matters(&change.old) == matters(&change.new) {
            return;
        }
        for hvpa in change.sides() {
            let key = Key::of(&hvpa.metadata);
            if let Some(shared) = state.upgrade() {
                shared.readings.ask_soon(&key);
                // Another one with the same target may have had to wait for this one.
                let namespace = key.namespace.clone();
                let TargetRef { kind, name, .. } = &hvpa.spec.target_ref;
                shared.add_scaling(&own, &place(kind, &namespace, name));
            }
            own.add(key);
        }
    });
    listen_to(&caches.workloads.deployments, "Deployment", shared, queue);
    listen_to(&caches.workloads.stateful_sets, "StatefulSet", shared, queue);
    listen_to(&caches.workloads.replica_sets, "ReplicaSet", shared, queue);
    listen_to(&caches.workloads.daemon_sets, "DaemonSet", shared, queue);
    listen_to(&caches.workloads.functions, "Function", shared, queue);
    let (own, state) = (queue.clone(), Arc::downgrade(shared));
    caches.workloads.deployments.listen(move |change| {
        if let Some(shared) = state.upgrade()
            && let Some(function) = change.either().and_then(|deployment| function_of(deployment))
        {
            shared.add_scaling(&own, &function);
        }
    });
    let (own, state) = (queue.clone(), Arc::downgrade(shared));
    caches.workloads.pods.listen(move |change| {
        if let Some(shared) = state.upgrade()
            && let Some(pod) = change.either()
            && let Some(place) = shared.caches.workloads.of_pod(pod)
        {
            shared.add_scaling(&own, &place);
        }
    });
    let (own, state) = (queue.clone(), Arc::downgrade(shared));
    caches.autoscalers.listen(move |change| {
        let Some(shared) = state.upgrade() else { return };
        for hpa in change.sides() {
            let namespace = hpa.metadata.namespace.as_deref().unwrap_or_default();
            let target = &hpa.spec.scale_target_ref;
            if target.kind == hvpa_kind().kind {
                own.add(Key::new(namespace, &target.name));
            } else {
                shared.add_scaling(&own, &place(&target.kind, namespace, &target.name));
            }
        }
    });
    let (own, state) = (queue.clone(), Arc::downgrade(shared));
    caches.vpas.listen(move |change| {
        let Some(shared) = state.upgrade() else { return };
        for vpa in change.sides() {
            shared.add_scaling(&own, &scaled_by(vpa));
        }
    });
    let (own, state) = (queue.clone(), Arc::downgrade(shared));
    caches.limit_ranges.listen(move |change| {
        let (Some(shared), Some(range)) = (state.upgrade(), change.either()) else { return };
        let namespace = range.metadata.namespace.as_deref().unwrap_or_default();
        for hvpa in shared.caches.hvpas.in_namespace(namespace) {
            own.add(Key::of(&hvpa.metadata));
        }
    });
}

fn listen_to<K>(cache: &Cached<K>, kind: &'static str, shared: &Arc<Shared>, queue: &Arc<Queue<Key>>)
where
    K: Resource + Send + Sync + 'static,
{
    let (own, state) = (queue.clone(), Arc::downgrade(shared));
    cache.listen(move |change| {
        if let (Some(shared), Some(workload)) = (state.upgrade(), change.either()) {
            let meta = workload.meta();
            let namespace = meta.namespace.as_deref().unwrap_or_default();
            shared.add_scaling(&own, &place(kind, namespace, name(meta)));
        }
    });
}

/// The workload of a VerticalPodAutoscaler.
fn scaled_by(vpa: &DynamicObject) -> String {
    let target = &vpa.data["spec"]["targetRef"];
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    place(
        &text(&target["kind"]),
        vpa.metadata.namespace.as_deref().unwrap_or_default(),
        &text(&target["name"]),
    )
}

impl Shared {
    /// All Hvpas that scale this workload.
    fn add_scaling(&self, queue: &Queue<Key>, place: &str) {
        for hvpa in self.caches.hvpas.by_index(self.caches.by_target, place) {
            queue.add(Key::of(&hvpa.metadata));
        }
    }
}
