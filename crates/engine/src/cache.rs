//! What one kind's watch has told so far. All controllers read the same cache of a kind.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use futures::future::{BoxFuture, FutureExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use tokio::sync::Notify;

use crate::{contact::Contact, object::controller_of};

/// Namespace (empty for cluster-scoped objects) and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

/// A change as a cache saw it; at least one side is there.
#[derive(Debug)]
pub struct Change<K> {
    pub old: Option<Arc<K>>,
    pub new: Option<Arc<K>>,
}

type Listener<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// The objects of one kind, as far as the API has told of them, and who wants to hear of changes.
pub struct Cache<K> {
    state: RwLock<State<K>>,
    listeners: Mutex<Vec<Listener<K>>>,
    relist: Notify,
    synced: tokio::sync::watch::Sender<bool>,
    contact: Contact,
}

struct State<K> {
    objects: BTreeMap<Key, Arc<K>>,
    /// Keys by the uid of their controlling owner: what a controller asks for on each plan.
    controlled: HashMap<String, BTreeSet<Key>>,
    /// Everything written up to this resourceVersion is reflected here.
    version: u64,
}

/// Something this process wrote. A plan waits until the caches hold its own last writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub key: Key,
    pub uid: String,
    pub change: WriteChange,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WriteChange {
    Applied { version: u64 },
    Deleted,
}

/// A cache of any kind, as far as waiting for own writes goes.
pub trait Reflects: Send + Sync {
    fn reflects(&self, write: &Write) -> bool;
    /// Everything written up to this version is shown.
    fn version(&self) -> u64;
    /// The uid and version of an object, if it is there.
    fn version_of(&self, key: &Key) -> Option<(String, u64)>;
    /// Until the first list is here.
    fn filled(&self) -> BoxFuture<'_, ()>;
    /// Asks for a fresh list, for when an event that must come does not.
    fn request_relist(&self);
}

// === impl Key ===

impl Key {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    pub fn of(meta: &ObjectMeta) -> Self {
        Self::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// Versions are compared as numbers, which the API promises since 1.35. What is not a number counts as oldest.
pub(crate) fn version_number(version: Option<&str>) -> u64 {
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

// === impl Change ===

impl<K> Change<K> {
    /// The newest state known of the object.
    pub fn either(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    pub fn sides(&self) -> impl Iterator<Item = &Arc<K>> {
        self.old.iter().chain(self.new.iter())
    }
}

// === impl Cache ===

/// Who wrote which field is the API's business: as trees in memory, these notes are larger than what they are about.
fn kept<K: Resource>(mut object: K) -> Arc<K> {
    object.meta_mut().managed_fields = None;
    Arc::new(object)
}

impl<K: Resource> Default for Cache<K> {
    fn default() -> Self {
        Self {
            state: RwLock::new(State { objects: BTreeMap::new(), controlled: HashMap::new(), version: 0 }),
            listeners: Mutex::default(),
            relist: Notify::new(),
            synced: tokio::sync::watch::Sender::new(false),
            contact: Contact::default(),
        }
    }
}

impl<K: Resource> Cache<K> {
    /// Called with every change, in order, after the cache shows it.
    pub fn listen(&self, listener: impl Fn(&Change<K>) + Send + Sync + 'static) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.read().objects.get(key).cloned()
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let from = Key::new(namespace, "");
        self.read()
            .objects
            .range(from..)
            .take_while(|(key, _)| key.namespace == namespace)
            .map(|(_, object)| object.clone())
            .collect()
    }

    pub fn all(&self) -> Vec<Arc<K>> {
        self.read().objects.values().cloned().collect()
    }

    /// Objects whose controlling owner has this uid.
    pub fn controlled_by(&self, uid: &str) -> Vec<Arc<K>> {
        let state = self.read();
        let Some(keys) = state.controlled.get(uid) else { return Vec::new() };
        keys.iter().filter_map(|key| state.objects.get(key).cloned()).collect()
    }

    pub fn version(&self) -> u64 {
        self.read().version
    }

    pub fn contact(&self) -> &Contact {
        &self.contact
    }

    pub async fn synced(&self) {
        // the sender lives as long as self, so this ends only by becoming true
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    pub(crate) async fn relist_requested(&self) {
        self.relist.notified().await;
    }

    /// Takes over a full list; differences are told to the listeners as single changes.
    pub(crate) fn replace(&self, objects: Vec<K>, version: u64) {
        let mut changes = Vec::new();
        {
            let mut state = self.write();
            let fresh: BTreeMap<Key, Arc<K>> =
                objects.into_iter().map(|object| (Key::of(object.meta()), kept(object))).collect();
            let gone: Vec<Key> =
                state.objects.keys().filter(|key| !fresh.contains_key(key)).cloned().collect();
            for key in gone {
                changes.push(Change { old: state.remove(&key), new: None });
            }
            for (key, object) in fresh {
                let unchanged = state
                    .objects
                    .get(&key)
                    .is_some_and(|old| old.resource_version() == object.resource_version());
                if !unchanged {
                    changes.push(Change { old: state.insert(key, object.clone()), new: Some(object) });
                }
            }
            state.version = version;
        }
        self.tell(changes);
        self.synced.send_replace(true);
    }

    /// An added or modified object. A repeated or late event is ignored: versions of one kind only grow.
    pub(crate) fn apply(&self, object: K) {
        let version = version_number(object.meta().resource_version.as_deref());
        let change = {
            let mut state = self.write();
            if version != 0 && version <= state.version {
                return;
            }
            state.version = state.version.max(version);
            let object = kept(object);
            Change { old: state.insert(Key::of(object.meta()), object.clone()), new: Some(object) }
        };
        self.tell(vec![change]);
    }

    pub(crate) fn delete(&self, object: &K) {
        let version = version_number(object.meta().resource_version.as_deref());
        let key = Key::of(object.meta());
        let old = {
            let mut state = self.write();
            let newer = state.objects.get(&key).is_some_and(|held| {
                held.meta().uid != object.meta().uid
                    || version_number(held.meta().resource_version.as_deref()) > version
            });
            if newer {
                return;
            }
            state.version = state.version.max(version);
            state.remove(&key)
        };
        if old.is_some() {
            self.tell(vec![Change { old, new: None }]);
        }
    }

    /// A bookmark: nothing up to `version` is missing here.
    pub(crate) fn advance(&self, version: u64) {
        let mut state = self.write();
        state.version = state.version.max(version);
    }

    fn tell(&self, changes: Vec<Change<K>>) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        for change in &changes {
            for listener in listeners.iter() {
                listener(change);
            }
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State<K>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<K>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Resource + Send + Sync> Reflects for Cache<K> {
    fn reflects(&self, write: &Write) -> bool {
        let state = self.read();
        match write.change {
            WriteChange::Applied { version } => state.version >= version,
            WriteChange::Deleted => state.objects.get(&write.key).is_none_or(|object| {
                let meta = object.meta();
                meta.uid.as_deref() != Some(&write.uid) || meta.deletion_timestamp.is_some()
            }),
        }
    }

    fn version(&self) -> u64 {
        Cache::version(self)
    }

    fn version_of(&self, key: &Key) -> Option<(String, u64)> {
        let object = self.get(key)?;
        let meta = object.meta();
        Some((meta.uid.clone().unwrap_or_default(), version_number(meta.resource_version.as_deref())))
    }

    fn filled(&self) -> BoxFuture<'_, ()> {
        self.synced().boxed()
    }

    fn request_relist(&self) {
        self.relist.notify_one();
    }
}

// === impl State ===

impl<K: Resource> State<K> {
    fn insert(&mut self, key: Key, object: Arc<K>) -> Option<Arc<K>> {
        let owner = controller_of(object.meta()).map(|owner| owner.uid.clone());
        let old = self.objects.insert(key.clone(), object);
        if let Some(old) = &old {
            self.forget_owner(&key, old);
        }
        if let Some(owner) = owner {
            self.controlled.entry(owner).or_default().insert(key);
        }
        old
    }

    fn remove(&mut self, key: &Key) -> Option<Arc<K>> {
        let old = self.objects.remove(key)?;
        self.forget_owner(key, &old);
        Some(old)
    }

    fn forget_owner(&mut self, key: &Key, old: &K) {
        let Some(owner) = controller_of(old.meta()) else { return };
        if let Some(keys) = self.controlled.get_mut(&owner.uid) {
            keys.remove(key);
            if keys.is_empty() {
                self.controlled.remove(&owner.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object(name: &str, uid: &str, version: u64) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                namespace: Some("ns".into()),
                name: Some(name.into()),
                uid: Some(uid.into()),
                resource_version: Some(version.to_string()),
                ..Default::default()
            },
            ..Default::default()
        }
    }

    fn names(cache: &Cache<ConfigMap>) -> String {
        let all = cache.all();
        let names: Vec<String> = all
            .iter()
            .map(|o| format!("{}@{}", o.name_any(), o.resource_version().unwrap_or_default()))
            .collect();
        format!("{} v{}", names.join(" "), cache.version())
    }

    #[test]
    fn repeated_and_late_events_change_nothing() {
        let cache = Cache::default();
        cache.replace(vec![object("a", "1", 5)], 7);
        cache.apply(object("a", "1", 9));
        cache.apply(object("a", "1", 5)); // late
        cache.delete(&object("a", "1", 10));
        cache.apply(object("a", "1", 9)); // repeated after the deletion: must not come back to life
        assert_eq!(names(&cache), " v10");
        cache.apply(object("a", "2", 12));
        cache.delete(&object("a", "1", 10)); // repeated: concerns the predecessor
        assert_eq!(names(&cache), "a@12 v12");
    }

    #[test]
    fn own_writes_are_awaited() {
        let cache = Cache::default();
        cache.replace(vec![object("a", "1", 5)], 7);
        let write = |change| Write { key: Key::new("ns", "a"), uid: "1".into(), change };
        let applied = write(WriteChange::Applied { version: 8 });
        assert!(!cache.reflects(&applied));
        cache.advance(8);
        assert!(cache.reflects(&applied), "created and deleted again: the bookmark says all is told");
        assert!(!cache.reflects(&write(WriteChange::Deleted)));
        cache.delete(&object("a", "1", 9));
        assert!(cache.reflects(&write(WriteChange::Deleted)));
    }

    #[test]
    fn a_list_tells_differences() {
        let cache = Cache::default();
        let log = Arc::new(Mutex::new(Vec::new()));
        let sink = log.clone();
        cache.listen(move |change: &Change<ConfigMap>| {
            let side = |s: &Option<Arc<ConfigMap>>| s.as_ref().map_or("-".into(), |o| o.name_any());
            sink.lock().unwrap().push(format!("{}>{}", side(&change.old), side(&change.new)));
        });
        cache.replace(vec![object("a", "1", 1), object("b", "2", 2), object("c", "3", 3)], 3);
        cache.replace(vec![object("b", "2", 2), object("c", "3", 4), object("d", "4", 5)], 5);
        assert_eq!(log.lock().unwrap().join(" "), "->a ->b ->c a>- c>c ->d");
    }
}
