//! Which functions there are: watches of workloads and pods of one namespace into a [`Catalog`].
//!
//! ```text
//! Deployments, StatefulSets, Functions ──┐ which workloads
//! Pods, HorizontalPodAutoscalers ────────┴────────────────▶ assemble ──▶ View ──▶ Catalog (gateway), demand, scraping
//! ```

mod assemble;
mod dependencies;
mod failure;
mod members;
#[cfg(test)]
mod tests;
mod watches;
mod workload;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use api::slimfaas::Problem;
use engine::{Cached, Change, Engine, IndexId, Key, Scope, Selection, effect::Target, kind::Kind};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::Pod,
};
use kube::{Resource, ResourceExt, api::DynamicObject};
use ondemand::{Catalog, SharedMap, Snapshot};
use scaling::{Controls, Writers};
use tokio::sync::{Notify, watch};

use crate::component::{Component, Reach, Rule, Runs};
pub use assemble::Assembler;
pub use dependencies::{Unmanaged, UnmanagedWorkload};
pub use failure::start_failure;
pub use watches::Watches;
pub(crate) use workload::template_annotations;
use workload::{Objects, Workload, WorkloadId, WorkloadKind};

/// Kyma's Functions, which bring their own Deployment.
pub const FUNCTION: Kind = Kind::namespaced(api::kyma::GROUP, "v1alpha2", "Function", "functions");
/// KEDA's, which scales to zero and from zero too.
pub const SCALED_OBJECT: Kind = Kind::namespaced("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects");
/// On the pods of a Function.
pub const FUNCTION_LABEL: &str = "serverless.kyma-project.io/function-name";

/// It cannot be switched off: without it nobody knows where a call goes.
pub const COMPONENT: Component = Component {
    name: "catalog",
    about: "which functions on demand there are, their pods, and who else scales them",
    crds: Vec::new,
    rules: &[
        Rule::new("", &["pods"], READ),
        Rule::new("apps", &["deployments", "statefulsets"], READ),
        Rule::new("serverless.kyma-project.io", &["functions"], READ),
        Rule::new("autoscaling", &["horizontalpodautoscalers"], READ),
        Rule::new("keda.sh", &["scaledobjects"], READ),
    ],
    reach: Reach::Served,
    runs: Runs::Everywhere,
};

const READ: &[&str] = &["list", "watch"];

/// How often everything is listed anew, in case a watch lost an event.
pub const RELIST: Duration = Duration::from_secs(300);

/// The functions, and what only those who write and scrape need to know of them.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// False until all watches have told what there is: what is missing then is no sign of anything.
    pub complete: bool,
    pub snapshot: Arc<Snapshot>,
    /// What functions depend on and is none.
    pub unmanaged: Arc<Unmanaged>,
    /// What people ask of scaling, for the few functions where they ask for anything.
    pub controls: SharedMap<Arc<str>, Controls>,
    /// The object behind each function that is ours to scale.
    pub managed: SharedMap<Arc<str>, Arc<Managed>>,
    /// What may be meant as a function, and why it is none.
    pub refused: Arc<[(Target, Problem)]>,
    pub scraped: Arc<[metrics::scrape::Target]>,
    /// The longest time between two scrapes of a pod that asks for other than the usual.
    pub longest_interval: Duration,
}

/// An object whose count is ours to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Managed {
    /// In the version that the snapshot shows.
    pub target: Target,
    pub created: Option<Timestamp>,
    /// Who else writes its count.
    pub writers: Writers,
}

struct Caches {
    namespace: Arc<str>,
    deployments: Cached<Deployment>,
    stateful_sets: Cached<StatefulSet>,
    functions: Cached<DynamicObject>,
    pods: Cached<Pod>,
    /// By workload.
    pods_of: IndexId,
    autoscalers: Cached<HorizontalPodAutoscaler>,
    /// By the name of what they scale.
    autoscalers_of: IndexId,
    /// KEDA's.
    scaled_objects: Cached<DynamicObject>,
    scaled_objects_of: IndexId,
    changed: Arc<Changed>,
}

/// Workloads to look at again.
#[derive(Default)]
struct Changed {
    workloads: Mutex<HashSet<WorkloadId>>,
    news: Notify,
}

/// Keeps `catalog` and the returned view up to date for as long as the scope is there; the watches tell whether they can.
pub fn start(
    engine: &Engine,
    namespace: &str,
    catalog: Catalog,
) -> (watch::Receiver<Arc<View>>, Watches, Scope) {
    let scope = engine.scope("catalog");
    let caches = Arc::new(Caches::new(&scope, namespace));
    caches.listen();
    let watches = caches.watches();
    let (sender, view) = watch::channel(Arc::new(View::default()));
    scope.keep("catalog", move || caches.clone().run(catalog.clone(), sender.clone()));
    (view, watches, scope)
}

impl Caches {
    fn new(scope: &Scope, namespace: &str) -> Self {
        let here = || Selection::namespace(namespace);
        let pods: Cached<Pod> = scope.cache(here());
        let autoscalers: Cached<HorizontalPodAutoscaler> = scope.cache(here());
        let scaled_objects = scope.dynamic(&SCALED_OBJECT, here());
        let ids = |pod: &Pod| members::workloads_of(pod).map(|id| id.to_string()).collect();
        Caches {
            namespace: namespace.into(),
            deployments: scope.cache(here()),
            stateful_sets: scope.cache(here()),
            functions: scope.dynamic(&FUNCTION, here()),
            pods_of: pods.index("catalog workload", ids),
            pods,
            autoscalers_of: autoscalers.index("catalog target", |one| vec![hpa_target(one).to_owned()]),
            autoscalers,
            scaled_objects_of: scaled_objects
                .index("catalog target", |one| keda_target(one).map(str::to_owned).into_iter().collect()),
            scaled_objects,
            changed: Arc::default(),
        }
    }

    fn listen(&self) {
        let named = |name: &str| WorkloadKind::ALL.map(|kind| kind.of(name)).to_vec();
        self.listen_to(&self.deployments, |object| vec![WorkloadKind::Deployment.of(&object.name_any())]);
        self.listen_to(&self.stateful_sets, |object| vec![WorkloadKind::StatefulSet.of(&object.name_any())]);
        self.listen_to(&self.functions, |object| vec![WorkloadKind::Function.of(&object.name_any())]);
        self.listen_to(&self.pods, |pod| members::workloads_of(pod).collect());
        self.listen_to(&self.autoscalers, move |one| named(hpa_target(one)));
        self.listen_to(&self.scaled_objects, move |one| keda_target(one).map(named).unwrap_or_default());
    }

    fn listen_to<K: Resource + 'static>(
        &self,
        cache: &Cached<K>,
        concerned: impl Fn(&K) -> Vec<WorkloadId> + Send + Sync + 'static,
    ) {
        let changed = self.changed.clone();
        cache.listen(move |change: &Change<K>| {
            changed.note(change.sides().flat_map(|object| concerned(object)));
        });
    }

    fn watches(&self) -> Watches {
        Watches(vec![
            ("deployments", self.deployments.contact().clone()),
            ("statefulsets", self.stateful_sets.contact().clone()),
            ("functions", self.functions.contact().clone()),
            ("pods", self.pods.contact().clone()),
            ("horizontalpodautoscalers", self.autoscalers.contact().clone()),
        ])
    }

    async fn run(self: Arc<Self>, catalog: Catalog, sender: watch::Sender<Arc<View>>) {
        self.deployments.synced().await;
        self.stateful_sets.synced().await;
        self.pods.synced().await;
        self.autoscalers.synced().await;
        // their kind may be added to the cluster at any time
        self.functions.settled().await;
        self.scaled_objects.settled().await;
        let mut assembler = Assembler::new(&self.namespace);
        self.changed.note(self.workloads());
        loop {
            let view = assembler.update(&*self, self.changed.take());
            catalog.publish(view.snapshot.clone());
            sender.send_replace(Arc::new(view));
            self.changed.news.notified().await;
        }
    }

    fn workloads(&self) -> Vec<WorkloadId> {
        let mut all = Vec::new();
        all.extend(self.deployments.all().iter().map(|one| WorkloadKind::Deployment.of(&one.name_any())));
        all.extend(self.stateful_sets.all().iter().map(|one| WorkloadKind::StatefulSet.of(&one.name_any())));
        all.extend(self.functions.all().iter().map(|one| WorkloadKind::Function.of(&one.name_any())));
        all
    }

    /// The cache may hold other namespaces too.
    fn found<K: Resource>(&self, cache: &Cached<K>, index: IndexId, value: &str) -> Vec<Arc<K>> {
        let mut found = cache.by_index(index, value);
        found.retain(|object| object.meta().namespace.as_deref() == Some(&*self.namespace));
        found
    }
}

impl Objects for Caches {
    fn workload(&self, id: &WorkloadId) -> Option<Workload> {
        let key = Key::new(&*self.namespace, &*id.name);
        match id.kind {
            WorkloadKind::Deployment => self.deployments.get(&key).map(Workload::Deployment),
            WorkloadKind::StatefulSet => self.stateful_sets.get(&key).map(Workload::StatefulSet),
            WorkloadKind::Function => self.functions.get(&key).map(Workload::Function),
        }
    }

    fn pods(&self, of: &WorkloadId) -> Vec<Arc<Pod>> {
        self.found(&self.pods, self.pods_of, &of.to_string())
    }

    fn autoscalers(&self, target: &str) -> Vec<Arc<HorizontalPodAutoscaler>> {
        self.found(&self.autoscalers, self.autoscalers_of, target)
    }

    fn scaled_objects(&self, target: &str) -> Vec<Arc<DynamicObject>> {
        self.found(&self.scaled_objects, self.scaled_objects_of, target)
    }
}

impl Changed {
    fn note(&self, workloads: impl IntoIterator<Item = WorkloadId>) {
        let mut workloads = workloads.into_iter().peekable();
        if workloads.peek().is_some() {
            self.workloads.lock().unwrap_or_else(PoisonError::into_inner).extend(workloads);
            self.news.notify_one();
        }
    }

    fn take(&self) -> HashSet<WorkloadId> {
        std::mem::take(&mut *self.workloads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn hpa_target(autoscaler: &HorizontalPodAutoscaler) -> &str {
    &autoscaler.spec.scale_target_ref.name
}

fn keda_target(object: &DynamicObject) -> Option<&str> {
    object.data["spec"]["scaleTargetRef"]["name"].as_str()
}
