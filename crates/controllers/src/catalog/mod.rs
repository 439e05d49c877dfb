//! Which functions there are: watches of workloads and pods of one namespace into a [`Catalog`].
//!
//! ```text
//! Deployments, StatefulSets, Functions ──┐
//! Pods, HorizontalPodAutoscalers ────────┴──▶ assemble ──▶ View ──▶ Catalog (gateway), demand, scraping
//! ```

mod assemble;
mod dependencies;
mod members;
#[cfg(test)]
mod tests;
mod watches;

use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};

use api::slimfaas::Problem;
use engine::{Cache, effect::Target, informer, kind::Kind};
use functions::{Catalog, Snapshot};
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::Pod,
};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, ListParams},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

pub use assemble::Assembler;
pub use dependencies::{Plain, Plains};
pub use watches::Watches;

/// Kyma's Functions, which bring their own Deployment.
pub const FUNCTION: Kind =
    Kind::namespaced("serverless.kyma-project.io", "v1alpha2", "Function", "functions");
/// On the pods of a Function.
pub const FUNCTION_LABEL: &str = "serverless.kyma-project.io/function-name";

const RELIST: Duration = Duration::from_secs(300);
/// Their kind may be added to the cluster at any time.
const LOOK_FOR_FUNCTIONS: Duration = Duration::from_secs(5);
/// After an answer that says nothing about the kind; until then nobody knows which functions there are.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// The functions, and what only those who write and scrape need to know of them.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// False until all watches have told what there is: what is missing then is no sign of anything.
    pub complete: bool,
    pub snapshot: Arc<Snapshot>,
    /// What functions depend on and is none.
    pub plain: Arc<Plains>,
    /// The object behind each function that is ours to scale, in the version that the snapshot shows.
    pub objects: Arc<BTreeMap<Arc<str>, Target>>,
    /// What may be meant as a function, and why it is none.
    pub refused: Arc<[(Target, Problem)]>,
    pub scraped: Arc<[metrics::scrape::Target]>,
    /// The longest time between two scrapes of a pod that asks for other than the usual.
    pub longest_interval: Duration,
}

/// What the watches have told.
#[derive(Clone, Default)]
pub struct Watched {
    pub deployments: Vec<Arc<Deployment>>,
    pub stateful_sets: Vec<Arc<StatefulSet>>,
    pub functions: Vec<Arc<DynamicObject>>,
    pub pods: Vec<Arc<Pod>>,
    pub autoscalers: Vec<Arc<HorizontalPodAutoscaler>>,
}

struct Caches {
    deployments: Arc<Cache<Deployment>>,
    stateful_sets: Arc<Cache<StatefulSet>>,
    functions: Arc<Cache<DynamicObject>>,
    pods: Arc<Cache<Pod>>,
    autoscalers: Arc<Cache<HorizontalPodAutoscaler>>,
    changed: Arc<Notify>,
}

/// Keeps `catalog` and the returned view up to date for as long as the tasks run; the watches tell whether they can.
pub fn start(
    client: &Client,
    namespace: &str,
    catalog: Catalog,
    tasks: &mut JoinSet<()>,
) -> (watch::Receiver<Arc<View>>, Watches) {
    let caches = Caches::new();
    tasks.spawn(follow(Api::namespaced(client.clone(), namespace), caches.deployments.clone()));
    tasks.spawn(follow(Api::namespaced(client.clone(), namespace), caches.stateful_sets.clone()));
    tasks.spawn(follow(Api::namespaced(client.clone(), namespace), caches.pods.clone()));
    tasks.spawn(follow(Api::namespaced(client.clone(), namespace), caches.autoscalers.clone()));
    let has_no_functions = CancellationToken::new();
    let functions: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &FUNCTION.api_resource());
    tasks.spawn(watch_functions(functions, caches.functions.clone(), has_no_functions.clone()));
    let watches = caches.watches();
    let (sender, view) = watch::channel(Arc::new(View::default()));
    tasks.spawn(caches.run(namespace.to_owned(), catalog, sender, has_no_functions));
    (view, watches)
}

async fn follow<K>(api: Api<K>, cache: Arc<Cache<K>>)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    informer::run(api, cache, String::new(), RELIST).await;
}

/// Waits until the cluster has the kind, and tells `absent` if it has not.
async fn watch_functions(
    api: Api<DynamicObject>,
    cache: Arc<Cache<DynamicObject>>,
    absent: CancellationToken,
) {
    while let Err(error) = api.list(&ListParams::default().limit(1)).await {
        if matches!(&error, kube::Error::Api(status) if status.code == 404) {
            absent.cancel();
        }
        let pause = if absent.is_cancelled() { LOOK_FOR_FUNCTIONS } else { ASK_AGAIN };
        tokio::time::sleep(pause).await;
    }
    follow(api, cache).await;
}

impl Caches {
    fn new() -> Self {
        let changed = Arc::new(Notify::new());
        Caches {
            deployments: announcing(&changed),
            stateful_sets: announcing(&changed),
            functions: announcing(&changed),
            pods: announcing(&changed),
            autoscalers: announcing(&changed),
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

    async fn run(
        self,
        namespace: String,
        catalog: Catalog,
        sender: watch::Sender<Arc<View>>,
        has_no_functions: CancellationToken,
    ) {
        self.deployments.synced().await;
        self.stateful_sets.synced().await;
        self.pods.synced().await;
        self.autoscalers.synced().await;
        tokio::select! {
            () = self.functions.synced() => {}
            () = has_no_functions.cancelled() => {}
        }
        let mut assembler = Assembler::new(&namespace);
        loop {
            let watched = Watched {
                deployments: self.deployments.all(),
                stateful_sets: self.stateful_sets.all(),
                functions: self.functions.all(),
                pods: self.pods.all(),
                autoscalers: self.autoscalers.all(),
            };
            let view = assembler.assemble(&watched);
            catalog.publish((*view.snapshot).clone());
            sender.send_replace(Arc::new(view));
            self.changed.notified().await;
        }
    }
}

fn announcing<K: Resource>(changed: &Arc<Notify>) -> Arc<Cache<K>> {
    let cache = Arc::new(Cache::default());
    let changed = changed.clone();
    cache.listen(move |_| changed.notify_one());
    cache
}
