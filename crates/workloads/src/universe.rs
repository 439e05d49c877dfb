//! Everything the API serves: which kinds there are, and the metadata of all their objects. Kinds that appear while
//! running are found and watched; kinds that another controller watches anyway are taken from there.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Duration,
};

use engine::{
    Cache, OtherKinds, Reflects, informer, insist,
    kind::{EVENT, Kind},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, ObjectMeta};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, PartialObjectMeta},
};
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinSet},
    time::Instant,
};
use tracing::{debug, warn};

use crate::garbage::graph::Graph;

type Metadata = PartialObjectMeta<DynamicObject>;

/// CRDs tell of new kinds at once; aggregated APIs are found by looking.
const LOOK_EVERY: Duration = Duration::from_secs(30);
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// A kind that cannot be listed for so long no longer holds up the others.
const SYNC_PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Universe {
    client: Client,
    relist_every: Duration,
    pub graph: Arc<Graph>,
    served: RwLock<Vec<Served>>,
    watches: Mutex<HashMap<Kind, Watch>>,
    /// Kinds with a typed cache that feeds the graph.
    fed: Mutex<Vec<Kind>>,
    look: Notify,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Served {
    pub kind: Kind,
    pub watchable: bool,
    pub deletable: bool,
    pub collection_deletable: bool,
}

struct Watch {
    cache: Arc<Cache<Metadata>>,
    task: AbortHandle,
    since: Instant,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Universe {
    pub fn new(client: Client, relist_every: Duration) -> Arc<Self> {
        Arc::new(Self {
            client,
            relist_every,
            graph: Arc::default(),
            served: RwLock::default(),
            watches: Mutex::default(),
            fed: Mutex::default(),
            look: Notify::new(),
        })
    }

    /// Takes the objects of a kind from a cache that exists anyway.
    pub fn feed<K: Resource + Send + Sync + 'static>(self: &Arc<Self>, kind: Kind, cache: &Cache<K>) {
        self.fed.lock().unwrap_or_else(PoisonError::into_inner).push(kind.clone());
        let universe = self.clone();
        cache.listen(move |change| {
            let meta = |side: &Option<Arc<K>>| side.as_ref().map(|object| object.meta().clone());
            universe.observe(&kind, meta(&change.old), meta(&change.new));
        });
    }

    /// The kind that serves `group` and `kind`, of whatever version.
    pub fn find(&self, group: &str, kind: &str) -> Option<Kind> {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        served
            .iter()
            .map(|served| &served.kind)
            .find(|known| known.group == group && known.kind == kind)
            .cloned()
    }

    pub fn served(&self) -> Vec<Served> {
        self.served.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the graph holds all objects of all kinds.
    pub fn complete(&self) -> bool {
        let discovered = !self.served.read().unwrap_or_else(PoisonError::into_inner).is_empty();
        discovered
            && self
                .watches()
                .values()
                .all(|watch| watch.cache.version() > 0 || watch.since.elapsed() > SYNC_PATIENCE)
    }

    /// Looks for kinds, and watches them, until dropped.
    pub async fn run(self: Arc<Self>) {
        loop {
            match discover(&self.client, &self.served()).await {
                Ok(served) => self.take_over(served),
                Err(error) => warn!(%error, "cannot find out which kinds the API serves, retrying"),
            }
            let pause = if self.served().is_empty() { RETRY_AFTER } else { LOOK_EVERY };
            tokio::select! {
                () = self.look.notified() => tokio::time::sleep(Duration::from_millis(20)).await,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn take_over(self: &Arc<Self>, served: Vec<Served>) {
        let fed = self.fed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut watches = self.watches();
        let wanted: Vec<&Kind> = served
            .iter()
            .filter(|served| served.watchable && served.deletable && !is_event(&served.kind))
            .map(|served| &served.kind)
            .filter(|kind| !fed.iter().any(|known| known.same_resource(kind)))
            .collect();
        watches.retain(|kind, _| {
            let kept = wanted.contains(&kind);
            if !kept {
                debug!(kind = %kind.api_version(), plural = %kind.plural, "no longer served");
                self.graph.forget_kind(kind);
            }
            kept
        });
        for kind in wanted {
            if !watches.contains_key(kind) {
                watches.insert(kind.clone(), self.watch(kind.clone()));
            }
        }
        drop(watches);
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = served;
    }

    fn watch(self: &Arc<Self>, kind: Kind) -> Watch {
        let cache: Arc<Cache<Metadata>> = Arc::default();
        let universe = Arc::downgrade(self);
        let observed = kind.clone();
        cache.listen(move |change| {
            let meta = |side: &Option<Arc<Metadata>>| side.as_ref().map(|object| object.metadata.clone());
            if let Some(universe) = universe.upgrade() {
                universe.observe(&observed, meta(&change.old), meta(&change.new));
            }
        });
        let api: Api<Metadata> = Api::all_with(self.client.clone(), &kind.api_resource());
        let task =
            tokio::spawn(informer::run(api, cache.clone(), String::new(), self.relist_every)).abort_handle();
        Watch { cache, task, since: Instant::now() }
    }

    fn observe(&self, kind: &Kind, old: Option<ObjectMeta>, new: Option<ObjectMeta>) {
        if kind.group == "apiextensions.k8s.io" {
            self.look.notify_one();
        }
        self.graph.observe(kind, old, new);
    }

    fn watches(&self) -> MutexGuard<'_, HashMap<Kind, Watch>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is known which kinds there are.
    pub async fn discovered(&self) {
        while self.served.read().unwrap_or_else(PoisonError::into_inner).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until the graph is complete for the first time.
    pub async fn completed(&self) {
        while !self.complete() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl OtherKinds for Universe {
    fn request_relist(&self, kind: &Kind) {
        if let Some(watch) = self.watches().get(kind) {
            watch.cache.request_relist();
        }
    }
}

/// Events own nothing, are owned by nothing, and are many.
fn is_event(kind: &Kind) -> bool {
    kind.plural == EVENT.plural && (kind.group == EVENT.group || kind.group == "events.k8s.io")
}

/// Each resource once, in its group's preferred version if it is there. A group that does not answer keeps what was
/// known of it: an aggregated API that is down must not make its objects look gone.
async fn discover(client: &Client, known: &[Served]) -> Result<Vec<Served>, kube::Error> {
    let mut served: Vec<Served> = Vec::new();
    for version in insist(|| client.list_core_api_versions()).await?.versions {
        let list = insist(|| client.list_core_api_resources(&version)).await?;
        add(&mut served, "", &version, list.resources);
    }
    let groups = insist(|| client.list_api_groups()).await?.groups;
    let mut requests = JoinSet::new();
    for (index, group) in groups.into_iter().enumerate() {
        let client = client.clone();
        requests.spawn(async move {
            let preferred = group.preferred_version.as_ref().map(|version| version.group_version.clone());
            let mut versions = group.versions;
            versions.sort_by_key(|version| Some(&version.group_version) != preferred.as_ref());
            let mut lists = Vec::new();
            for version in versions {
                match insist(|| client.list_api_group_resources(&version.group_version)).await {
                    Ok(list) => lists.push((version.version, list.resources)),
                    Err(error) => {
                        debug!(group = version.group_version, %error, "group does not answer");
                        return (index, group.name, None);
                    }
                }
            }
            (index, group.name, Some(lists))
        });
    }
    let mut answers = requests.join_all().await;
    answers.sort_by_key(|(index, ..)| *index);
    for (_, group, lists) in answers {
        match lists {
            Some(lists) => {
                for (version, resources) in lists {
                    add(&mut served, &group, &version, resources);
                }
            }
            None => served.extend(known.iter().filter(|known| known.kind.group == group).cloned()),
        }
    }
    Ok(served)
}

fn add(served: &mut Vec<Served>, group: &str, version: &str, resources: Vec<APIResource>) {
    for resource in resources.into_iter().filter(|resource| !resource.name.contains('/')) {
        let kind = Kind {
            group: group.to_owned().into(),
            version: version.to_owned().into(),
            kind: resource.kind.into(),
            plural: resource.name.into(),
            namespaced: resource.namespaced,
        };
        if served.iter().any(|known| known.kind.same_resource(&kind)) {
            continue;
        }
        let can = |verb: &str| resource.verbs.iter().any(|known| known == verb);
        served.push(Served {
            watchable: can("list") && can("watch"),
            deletable: can("delete"),
            collection_deletable: can("deletecollection") && can("list"),
            kind,
        });
    }
}
