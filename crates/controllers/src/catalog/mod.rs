//! Which functions there are: watches of workloads and pods of one namespace into a [`Catalog`].
//!
//! ```text
//! Deployments, StatefulSets, Functions ──┐
//! Pods, HorizontalPodAutoscalers ────────┴──▶ assemble ──▶ View ──▶ Catalog (gateway), demand, scraping
//! ```

mod assemble;
mod dependencies;
mod failure;
mod members;
#[cfg(test)]
mod tests;
mod watches;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use api::slimfaas::Problem;
use engine::{Cached, Engine, Scope, Selection, effect::Target, kind::Kind};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::Pod,
};
use kube::{Resource, api::DynamicObject};
use ondemand::{Catalog, Snapshot};
use scaling::{Controls, Writers};
use tokio::sync::{Notify, watch};

use crate::component::{Component, Reach, Rule, Runs};
pub use assemble::Assembler;
pub(crate) use assemble::template_annotations;
pub use dependencies::{Unmanaged, UnmanagedWorkload};
pub use failure::start_failure;
pub use watches::Watches;

/// Kyma's Functions, which bring their own Deployment.
pub const FUNCTION: Kind =
    Kind::namespaced("serverless.kyma-project.io", "v1alpha2", "Function", "functions");
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
    pub controls: Arc<BTreeMap<Arc<str>, Controls>>,
    /// The object behind each function that is ours to scale.
    pub managed: Arc<BTreeMap<Arc<str>, Arc<Managed>>>,
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

/// What the watches have told.
#[derive(Clone, Default)]
pub struct Watched {
    pub deployments: Vec<Arc<Deployment>>,
    pub stateful_sets: Vec<Arc<StatefulSet>>,
    pub functions: Vec<Arc<DynamicObject>>,
    pub pods: Vec<Arc<Pod>>,
    pub autoscalers: Vec<Arc<HorizontalPodAutoscaler>>,
    /// KEDA's.
    pub scaled_objects: Vec<Arc<DynamicObject>>,
}

struct Caches {
    deployments: Cached<Deployment>,
    stateful_sets: Cached<StatefulSet>,
    functions: Cached<DynamicObject>,
    pods: Cached<Pod>,
    autoscalers: Cached<HorizontalPodAutoscaler>,
    scaled_objects: Cached<DynamicObject>,
    changed: Arc<Notify>,
}

/// Keeps `catalog` and the returned view up to date for as long as the scope is there; the watches tell whether they can.
pub fn start(
    engine: &Engine,
    namespace: &str,
    catalog: Catalog,
) -> (watch::Receiver<Arc<View>>, Watches, Scope) {
    let scope = engine.scope("catalog");
    let caches = Arc::new(Caches::new(&scope, namespace));
    let watches = caches.watches();
    let (sender, view) = watch::channel(Arc::new(View::default()));
    let namespace: Arc<str> = namespace.into();
    scope.keep("catalog", move || caches.clone().run(namespace.clone(), catalog.clone(), sender.clone()));
    (view, watches, scope)
}

impl Caches {
    fn new(scope: &Scope, namespace: &str) -> Self {
        let changed = Arc::new(Notify::new());
        let here = || Selection::namespace(namespace);
        Caches {
            deployments: announcing(scope.cache(here()), &changed),
            stateful_sets: announcing(scope.cache(here()), &changed),
            functions: announcing(scope.dynamic(&FUNCTION, here()), &changed),
            pods: announcing(scope.cache(here()), &changed),
            autoscalers: announcing(scope.cache(here()), &changed),
            scaled_objects: announcing(scope.dynamic(&SCALED_OBJECT, here()), &changed),
            changed,
        }
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

    async fn run(self: Arc<Self>, namespace: Arc<str>, catalog: Catalog, sender: watch::Sender<Arc<View>>) {
        self.deployments.synced().await;
        self.stateful_sets.synced().await;
        self.pods.synced().await;
        self.autoscalers.synced().await;
        // their kind may be added to the cluster at any time
        self.functions.settled().await;
        self.scaled_objects.settled().await;
        let mut assembler = Assembler::new(&namespace);
        loop {
            let watched = Watched {
                deployments: self.deployments.all(),
                stateful_sets: self.stateful_sets.all(),
                functions: self.functions.all(),
                pods: self.pods.all(),
                autoscalers: self.autoscalers.all(),
                scaled_objects: self.scaled_objects.all(),
            };
            let view = assembler.assemble(&watched);
            catalog.publish(view.snapshot.clone());
            sender.send_replace(Arc::new(view));
            self.changed.notified().await;
        }
    }
}

fn announcing<K: Resource + 'static>(cache: Cached<K>, changed: &Arc<Notify>) -> Cached<K> {
    let changed = changed.clone();
    cache.listen(move |_| changed.notify_one());
    cache
}
