//! Everything the API serves: which kinds there are, and, for who wants it, the metadata of all their objects. Kinds that
//! appear while running are found and watched; kinds that another controller watches anyway are taken from there.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, ObjectMeta};
use kube::Client;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tracing::{debug, warn};

use crate::{
    cache::Reflects,
    engine::{Engine, Scope},
    insist,
    kind::{EVENT, Kind},
    run::OtherKinds,
};

/// CRDs tell of new kinds at once, if all objects are watched; aggregated APIs are found by looking.
const LOOK_EVERY: Duration = Duration::from_secs(30);
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// Definitions often come several at a time.
const SETTLE: Duration = Duration::from_millis(20);
/// A kind that cannot be listed for so long no longer holds up the others.
const SYNC_PATIENCE: Duration = Duration::from_secs(30);

pub struct Universe {
    engine: Engine,
    objects: Option<Arc<dyn Objects>>,
    served: watch::Sender<Vec<Served>>,
    watches: Mutex<HashMap<Kind, Watch>>,
    look: Notify,
}

/// Wants to know of every object there is.
pub trait Objects: Send + Sync + 'static {
    fn observe(&self, kind: &Kind, old: Option<ObjectMeta>, new: Option<ObjectMeta>);
    /// The kind is no longer served, and its objects with it.
    fn forget_kind(&self, kind: &Kind);
}

#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    pub kind: Kind,
    pub watchable: bool,
    pub deletable: bool,
    pub collection_deletable: bool,
}

struct Watch {
    cache: Arc<dyn Reflects>,
    since: Instant,
    _scope: Scope,
}

impl Universe {
    /// Only which kinds there are.
    pub fn of_kinds(engine: &Engine) -> Arc<Self> {
        Self::new(engine, None)
    }

    /// And all their objects.
    pub fn of_objects(engine: &Engine, objects: Arc<dyn Objects>) -> Arc<Self> {
        Self::new(engine, Some(objects))
    }

    fn new(engine: &Engine, objects: Option<Arc<dyn Objects>>) -> Arc<Self> {
        Arc::new(Self {
            engine: engine.clone(),
            objects,
            served: watch::Sender::default(),
            watches: Mutex::default(),
            look: Notify::new(),
        })
    }

    /// The kind that serves `group` and `kind`, of whatever version.
    pub fn find(&self, group: &str, kind: &str) -> Option<Kind> {
        let served = self.served.borrow();
        let mut kinds = served.iter().map(|served| &served.kind);
        kinds.find(|known| known.group == group && known.kind == kind).cloned()
    }

    pub fn served(&self) -> Vec<Served> {
        self.served.borrow().clone()
    }

    /// Somebody knows of a kind that was not there the last time.
    pub fn look_soon(&self) {
        self.look.notify_one();
    }

    /// Looks for kinds, and watches them, until dropped.
    pub async fn run(self: Arc<Self>) {
        loop {
            match discover(self.engine.client(), &self.served()).await {
                Ok(served) => self.take_over(served),
                Err(error) => warn!(%error, "cannot find out which kinds the API serves, retrying"),
            }
            let pause = if self.served.borrow().is_empty() { RETRY_AFTER } else { LOOK_EVERY };
            tokio::select! {
                () = self.look.notified() => tokio::time::sleep(SETTLE).await,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn take_over(self: &Arc<Self>, served: Vec<Served>) {
        if let Some(objects) = &self.objects {
            let mut watches = self.watches();
            let wanted: Vec<&Kind> = served
                .iter()
                .filter(|served| served.watchable && served.deletable && !is_event(&served.kind))
                .map(|served| &served.kind)
                .collect();
            watches.retain(|kind, _| {
                let kept = wanted.contains(&kind);
                if !kept {
                    debug!(kind = %kind.api_version(), plural = %kind.plural, "no longer served");
                    objects.forget_kind(kind);
                }
                kept
            });
            for kind in wanted {
                if !watches.contains_key(kind) {
                    watches.insert(kind.clone(), self.watch(kind, objects));
                }
            }
        }
        self.served.send_replace(served);
    }

    fn watch(self: &Arc<Self>, kind: &Kind, objects: &Arc<dyn Objects>) -> Watch {
        let scope = self.engine.scope("universe");
        let (universe, objects, observed) = (Arc::downgrade(self), objects.clone(), kind.clone());
        let defines_kinds = kind.group == "apiextensions.k8s.io";
        let cache = scope.any(
            kind,
            Box::new(move |old, new| {
                if defines_kinds && let Some(universe) = universe.upgrade() {
                    universe.look.notify_one();
                }
                objects.observe(&observed, old, new);
            }),
        );
        Watch { cache, since: Instant::now(), _scope: scope }
    }

    fn watches(&self) -> MutexGuard<'_, HashMap<Kind, Watch>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is known which kinds there are.
    pub async fn discovered(&self) {
        // the sender lives as long as self
        let _ = self.served.subscribe().wait_for(|served| !served.is_empty()).await;
    }

    /// Waits until all objects of all kinds are known.
    pub async fn completed(&self) {
        self.discovered().await;
        let watches: Vec<_> =
            self.watches().values().map(|watch| (watch.cache.clone(), watch.since + SYNC_PATIENCE)).collect();
        for (cache, patience) in watches {
            // after that the others need not wait any longer
            let _ = timeout_at(patience, cache.filled()).await;
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
