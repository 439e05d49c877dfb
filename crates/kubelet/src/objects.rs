//! ConfigMaps, Secrets and claims of storage that pods refer to, each watched once however many pods use it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret};
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, watcher},
};
use tokio::{sync::watch, task::AbortHandle};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    ConfigMap,
    Secret,
    Claim,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

/// A ConfigMap's or Secret's entries, or what is known of a claim; the difference ends here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Data(pub BTreeMap<String, Vec<u8>>);

/// What is known of every object that a pod refers to.
pub type Snapshot = BTreeMap<Key, Loaded>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loaded {
    Pending,
    Unreadable(String),
    Absent,
    Present(Arc<Data>),
}

/// Keeps its object watched for as long as it lives.
#[derive(Debug)]
pub struct Watched {
    pub key: Key,
    pub state: watch::Receiver<Loaded>,
    task: AbortHandle,
}

pub struct Objects {
    client: Client,
    watched: Mutex<HashMap<Key, Weak<Watched>>>,
}

// === impl Kind ===

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::ConfigMap => "configmap",
            Kind::Secret => "secret",
            Kind::Claim => "persistentvolumeclaim",
        })
    }
}

// === impl Watched ===

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watched {
    /// Waits until the API has said something about the object, be it that there is none.
    pub async fn loaded(&self) -> Loaded {
        let mut state = self.state.clone();
        let answer = state.wait_for(|loaded| *loaded != Loaded::Pending).await;
        answer.map_or_else(|_| Loaded::Unreadable("its watch ended".to_owned()), |loaded| loaded.clone())
    }
}

// === impl Objects ===

impl Objects {
    pub fn new(client: Client) -> Self {
        Self { client, watched: Mutex::default() }
    }

    pub fn watch(&self, key: &Key) -> Arc<Watched> {
        let mut all = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = all.get(key).and_then(Weak::upgrade) {
            return watched;
        }
        all.retain(|_, watched| watched.strong_count() > 0);
        let (sender, state) = watch::channel(Loaded::Pending);
        let client = self.client.clone();
        let task = tokio::spawn(follow(client, key.clone(), sender)).abort_handle();
        let watched = Arc::new(Watched { key: key.clone(), state, task });
        all.insert(key.clone(), Arc::downgrade(&watched));
        watched
    }
}

async fn follow(client: Client, key: Key, sender: watch::Sender<Loaded>) {
    macro_rules! follow {
        ($kind:ty) => {
            watcher::watch_object(Api::<$kind>::namespaced(client, &key.namespace), &key.name)
                .default_backoff()
                .map(|item| item.map(|object| object.map(Data::from)))
                .boxed()
        };
    }
    let mut stream = match key.kind {
        Kind::ConfigMap => follow!(ConfigMap),
        Kind::Secret => follow!(Secret),
        Kind::Claim => follow!(PersistentVolumeClaim),
    };
    while let Some(item) = stream.next().await {
        let loaded = match item {
            Ok(Some(data)) => Loaded::Present(Arc::new(data)),
            Ok(None) => Loaded::Absent,
            // A broken watch says nothing about the object: what was known stays known.
            Err(error) if *sender.borrow() != Loaded::Pending => {
                tracing::debug!(%error, ?key, "watch interrupted");
                continue;
            }
            Err(error) => Loaded::Unreadable(error.to_string()),
        };
        sender.send_if_modified(|current| {
            let modified = *current != loaded;
            *current = loaded;
            modified
        });
    }
}

impl From<ConfigMap> for Data {
    fn from(object: ConfigMap) -> Self {
        let text = object.data.unwrap_or_default().into_iter().map(|(k, v)| (k, v.into_bytes()));
        let binary = object.binary_data.unwrap_or_default().into_iter().map(|(k, v)| (k, v.0));
        Self(text.chain(binary).collect())
    }
}

impl From<Secret> for Data {
    fn from(object: Secret) -> Self {
        Self(object.data.unwrap_or_default().into_iter().map(|(k, v)| (k, v.0)).collect())
    }
}

/// What a claim is called for ever, once it is bound.
pub const CLAIM_UID: &str = "uid";

impl From<PersistentVolumeClaim> for Data {
    fn from(claim: PersistentVolumeClaim) -> Self {
        let is_bound = claim.status.and_then(|status| status.phase).as_deref() == Some("Bound");
        let uid = claim.metadata.uid.filter(|_| is_bound);
        Self(uid.map(|uid| (CLAIM_UID.to_owned(), uid.into_bytes())).into_iter().collect())
    }
}

/// Looks an object up: `Ok(None)` only when it may be missing.
///
/// # Errors
/// Says what is missing in the words a kubelet uses.
pub fn find<'a>(objects: &'a Snapshot, key: &Key, optional: bool) -> Result<Option<&'a Data>, String> {
    match objects.get(key) {
        Some(Loaded::Present(data)) => Ok(Some(data)),
        Some(Loaded::Absent) if optional => Ok(None),
        Some(Loaded::Absent) => Err(format!("{} \"{}\" not found", key.kind, key.name)),
        Some(Loaded::Unreadable(error)) => Err(format!("cannot read {} \"{}\": {error}", key.kind, key.name)),
        Some(Loaded::Pending) | None => Err(format!("{} \"{}\" is not loaded yet", key.kind, key.name)),
    }
}

/// Every ConfigMap, Secret and claim that the pod's environment and volumes name.
pub fn referenced(pod: &Pod) -> BTreeSet<Key> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let key = |kind, name: &str| Key { kind, namespace: namespace.clone(), name: name.to_owned() };
    let mut keys = BTreeSet::new();
    let Some(spec) = &pod.spec else { return keys };
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        for from in container.env_from.iter().flatten() {
            keys.extend(from.config_map_ref.iter().map(|r| key(Kind::ConfigMap, &r.name)));
            keys.extend(from.secret_ref.iter().map(|r| key(Kind::Secret, &r.name)));
        }
        for from in container.env.iter().flatten().filter_map(|e| e.value_from.as_ref()) {
            keys.extend(from.config_map_key_ref.iter().map(|r| key(Kind::ConfigMap, &r.name)));
            keys.extend(from.secret_key_ref.iter().map(|r| key(Kind::Secret, &r.name)));
        }
    }
    for volume in spec.volumes.iter().flatten() {
        keys.extend(volume.config_map.iter().map(|s| key(Kind::ConfigMap, &s.name)));
        keys.extend(
            volume.secret.iter().filter_map(|s| s.secret_name.as_deref()).map(|n| key(Kind::Secret, n)),
        );
        keys.extend(volume.persistent_volume_claim.iter().map(|s| key(Kind::Claim, &s.claim_name)));
        for source in volume.projected.iter().flat_map(|p| p.sources.iter().flatten()) {
            keys.extend(source.config_map.iter().map(|s| key(Kind::ConfigMap, &s.name)));
            keys.extend(source.secret.iter().map(|s| key(Kind::Secret, &s.name)));
        }
    }
    keys.retain(|key| !key.name.is_empty());
    keys
}
