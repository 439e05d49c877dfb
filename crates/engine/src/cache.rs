//! What one watch has told so far. All controllers that select the same objects of a kind read the same cache.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak},
};

use futures::future::{BoxFuture, FutureExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::{Resource, ResourceExt};
use tokio::sync::Notify;
use tracing::error;

use crate::{
    contact::Contact,
    index::{Index, IndexId},
    object::controller_of,
    supervise::panic_message,
};

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

type Tell<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

struct Listener<K> {
    /// Told for as long as somebody holds the other end; without one, for ever.
    life: Option<Weak<()>>,
    tell: Tell<K>,
}

/// Whether the first list is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filled {
    NotYet,
    Synced,
    /// The API does not serve the kind (yet).
    Absent,
}

/// The objects of one kind, as far as the API has told of them, and who wants to hear of changes.
pub struct Cache<K> {
    state: RwLock<State<K>>,
    listeners: Mutex<Vec<Listener<K>>>,
    relist: Notify,
    synced: tokio::sync::watch::Sender<Filled>,
    contact: Contact,
}

struct State<K> {
    objects: BTreeMap<Key, Arc<K>>,
    /// Keys by the uid of their controlling owner: what a controller asks for on each plan.
    controlled: HashMap<String, BTreeSet<Key>>,
    indexes: Vec<Index<K>>,
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
    /// The same, or until it is known that the API does not serve the kind.
    fn settled(&self) -> BoxFuture<'_, ()>;
    /// Asks for a fresh list, for when an event that must come does not.
    fn request_relist(&self);
    /// Lets go of listeners whose scope is gone.
    fn forget_listeners(&self);
    /// Tells the metadata of every object that is there, then of every change, until `life` is gone.
    fn listen_to_metadata(&self, life: &Arc<()>, listener: MetadataListener);
}

/// What was there before, and what is there now.
pub type MetadataListener = Box<dyn Fn(Option<ObjectMeta>, Option<ObjectMeta>) + Send + Sync>;

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

/// Who wrote which field is the API's business: as trees in memory, these notes are larger than what they are about. Only
/// who wrote the count is kept, and what was written through the scale: nobody else is to write that.
fn kept<K: Resource>(mut object: K) -> Arc<K> {
    let entries = object.meta_mut().managed_fields.take().into_iter().flatten();
    let of_count: Vec<_> = entries.filter_map(of_count).collect();
    object.meta_mut().managed_fields = (!of_count.is_empty()).then_some(of_count);
    Arc::new(object)
}

fn of_count(entry: ManagedFieldsEntry) -> Option<ManagedFieldsEntry> {
    if entry.subresource.as_deref() == Some("scale") {
        return Some(entry);
    }
    let owns_count = entry.fields_v1.as_ref()?.0["f:spec"]["f:replicas"].is_object();
    owns_count.then_some(ManagedFieldsEntry {
        fields_v1: None,
        fields_type: None,
        api_version: None,
        ..entry
    })
}

impl<K: Resource> Default for Cache<K> {
    fn default() -> Self {
        Self {
            state: RwLock::new(State {
                objects: BTreeMap::new(),
                controlled: HashMap::new(),
                indexes: Vec::new(),
                version: 0,
            }),
            listeners: Mutex::default(),
            relist: Notify::new(),
            synced: tokio::sync::watch::Sender::new(Filled::NotYet),
            contact: Contact::default(),
        }
    }
}

impl<K: Resource> Cache<K> {
    /// Called with every object that is there, then with every change, in order, after the cache shows it. What changes
    /// at the moment of subscribing may be told twice.
    pub fn listen(&self, listener: impl Fn(&Change<K>) + Send + Sync + 'static) {
        self.subscribe(None, Box::new(listener));
    }

    /// The same until `life` is gone.
    pub(crate) fn listen_while(&self, life: &Arc<()>, listener: impl Fn(&Change<K>) + Send + Sync + 'static) {
        self.subscribe(Some(Arc::downgrade(life)), Box::new(listener));
    }

    fn subscribe(&self, life: Option<Weak<()>>, tell: Tell<K>) {
        let listener = Listener { life, tell };
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        // Held: a change from here on is told after those that are there.
        for object in self.all() {
            listener.call(&Change { old: None, new: Some(object) });
        }
        listeners.push(listener);
    }

    /// Finds objects by what `values` makes of them. Asked for twice under one name, it is the same index.
    pub fn index(
        &self,
        name: &'static str,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> IndexId {
        let mut state = self.write();
        if let Some(known) = state.indexes.iter().position(|index| index.name == name) {
            return IndexId(known);
        }
        let mut index = Index::new(name, Box::new(values));
        for (key, object) in &state.objects {
            index.insert(key, object);
        }
        state.indexes.push(index);
        IndexId(state.indexes.len() - 1)
    }

    /// Objects for which the index has this value.
    pub fn by_index(&self, IndexId(index): IndexId, value: &str) -> Vec<Arc<K>> {
        let state = self.read();
        let keys = state.indexes.get(index).and_then(|index| index.keys(value));
        keys.into_iter().flatten().filter_map(|key| state.objects.get(key).cloned()).collect()
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
        let _ = self.synced.subscribe().wait_for(|filled| *filled == Filled::Synced).await;
    }

    /// Until it is known what there is: the first list is here, or the API does not serve the kind.
    pub async fn settled(&self) {
        let _ = self.synced.subscribe().wait_for(|filled| *filled != Filled::NotYet).await;
    }

    pub fn is_synced(&self) -> bool {
        *self.synced.borrow() == Filled::Synced
    }

    /// The API does not serve the kind. What was known of it is gone with it.
    pub(crate) fn absent(&self) {
        let changes: Vec<Change<K>> = {
            let mut state = self.write();
            let keys: Vec<Key> = state.objects.keys().cloned().collect();
            keys.iter().map(|key| Change { old: state.remove(key), new: None }).collect()
        };
        self.tell(changes);
        self.synced.send_replace(Filled::Absent);
    }

    pub(crate) async fn relist_requested(&self) {
        self.relist.notified().await;
    }

    /// What to keep of a listed object: the one that is here, if it is the same. A list has several times the size of what is
    /// kept of it, so this is asked for each page of it.
    pub(crate) fn listed(&self, object: K) -> Arc<K> {
        let held = self.get(&Key::of(object.meta()));
        let is_same = |held: &Arc<K>| held.resource_version() == object.resource_version();
        held.filter(is_same).unwrap_or_else(|| kept(object))
    }

    /// Takes over a full list; differences are told to the listeners as single changes.
    pub(crate) fn replace(&self, objects: Vec<Arc<K>>, version: u64) {
        let mut changes = Vec::new();
        {
            let mut state = self.write();
            let fresh: BTreeMap<Key, Arc<K>> =
                objects.into_iter().map(|object| (Key::of(object.meta()), object)).collect();
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
        self.synced.send_replace(Filled::Synced);
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
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.life.as_ref().is_none_or(|life| life.strong_count() > 0));
        for change in &changes {
            for listener in listeners.iter() {
                listener.call(change);
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

impl<K: Resource + Send + Sync + 'static> Reflects for Cache<K> {
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

    fn settled(&self) -> BoxFuture<'_, ()> {
        Cache::settled(self).boxed()
    }

    fn request_relist(&self) {
        self.relist.notify_one();
    }

    fn forget_listeners(&self) {
        self.tell(Vec::new());
    }

    fn listen_to_metadata(&self, life: &Arc<()>, listener: MetadataListener) {
        self.listen_while(life, move |change| {
            let meta = |side: &Option<Arc<K>>| side.as_ref().map(|object| object.meta().clone());
            listener(meta(&change.old), meta(&change.new));
        });
    }
}

// === impl Listener ===

impl<K: Resource> Listener<K> {
    /// One that panics must not keep the others, and the changes after this one, from being told.
    fn call(&self, change: &Change<K>) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.tell)(change))) {
            let key = change.either().map(|object| Key::of(object.meta()).to_string()).unwrap_or_default();
            error!(object = key, "a listener panicked: {}", panic_message(&*panic));
        }
    }
}

// === impl State ===

impl<K: Resource> State<K> {
    fn insert(&mut self, key: Key, object: Arc<K>) -> Option<Arc<K>> {
        let owner = controller_of(object.meta()).map(|owner| owner.uid.clone());
        let old = self.objects.insert(key.clone(), object.clone());
        if let Some(old) = &old {
            self.forget(&key, old);
        }
        for index in &mut self.indexes {
            index.insert(&key, &object);
        }
        if let Some(owner) = owner {
            self.controlled.entry(owner).or_default().insert(key);
        }
        old
    }

    fn remove(&mut self, key: &Key) -> Option<Arc<K>> {
        let old = self.objects.remove(key)?;
        self.forget(key, &old);
        Some(old)
    }

    fn forget(&mut self, key: &Key, old: &K) {
        for index in &mut self.indexes {
            index.remove(key, old);
        }
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

    #[test]
    fn of_the_managers_those_of_the_count_are_kept() {
        let deployment: k8s_openapi::api::apps::v1::Deployment = crate::testing::from_json(
            serde_json::json!({
            "metadata": {"name": "web", "managedFields": [
                {"manager": "kubectl", "operation": "Update", "subresource": "scale", "fieldsType": "FieldsV1",
                 "apiVersion": "apps/v1", "time": "2026-03-02T12:00:00Z", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
                {"manager": "flux", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
                {"manager": "helm", "operation": "Apply", "fieldsV1": {"f:spec": {"f:paused": {}}}},
                {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:status": {"f:replicas": {}}}}]}}),
        );
        let kept = kept(deployment).metadata.managed_fields.clone().unwrap_or_default();
        let managers: Vec<_> = kept.iter().filter_map(|entry| entry.manager.as_deref()).collect();
        assert_eq!(managers, ["kubectl", "flux"]);
        assert!(kept[0].fields_v1.is_some() && kept[0].time.is_some() && kept[1].fields_v1.is_none());
        assert!(super::kept(object("a", "1", 1)).metadata.managed_fields.is_none());
    }

    fn list<const N: usize>(cache: &Cache<ConfigMap>, objects: [ConfigMap; N], version: u64) {
        let objects = objects.into_iter().map(|object| cache.listed(object)).collect();
        cache.replace(objects, version);
    }

    #[test]
    fn what_a_list_says_again_is_kept_once() {
        let cache = Cache::default();
        list(&cache, [object("a", "1", 1), object("b", "2", 2)], 2);
        let held = cache.get(&Key::new("ns", "a")).unwrap();
        assert!(Arc::ptr_eq(&held, &cache.listed(object("a", "1", 1))));
        assert!(!Arc::ptr_eq(&held, &cache.listed(object("a", "1", 3))));
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
        list(&cache, [object("a", "1", 5)], 7);
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
        list(&cache, [object("a", "1", 5)], 7);
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
    fn a_late_listener_is_told_what_is_there_and_a_dead_one_nothing() {
        let cache = Cache::default();
        list(&cache, [object("a", "1", 1)], 1);
        let log = Arc::new(Mutex::new(Vec::new()));
        let life = Arc::new(());
        cache.listen(|_: &Change<ConfigMap>| panic!("a bug"));
        let sink = log.clone();
        cache.listen_while(&life, move |change: &Change<ConfigMap>| {
            sink.lock().unwrap().push(change.either().unwrap().name_any());
        });
        cache.apply(object("b", "2", 2));
        drop(life);
        cache.apply(object("c", "3", 3));
        assert_eq!(log.lock().unwrap().join(" "), "a b", "although another listener panics");
    }

    #[test]
    fn an_index_follows_its_objects() {
        let cache = Cache::default();
        let labelled = |name: &str, version: u64, value: &str| {
            let mut object = object(name, name, version);
            object.metadata.labels = Some([("app".to_owned(), value.to_owned())].into());
            object
        };
        list(&cache, [labelled("a", 1, "x"), labelled("b", 2, "y")], 2);
        let by_app = |object: &ConfigMap| object.labels().get("app").cloned().into_iter().collect();
        let app = cache.index("app", by_app);
        let found = |value: &str| {
            let names: Vec<String> =
                cache.by_index(app, value).iter().map(|object| object.name_any()).collect();
            names.join(" ")
        };
        assert_eq!((found("x"), found("y"), found("z")), ("a".into(), "b".into(), String::new()));
        cache.apply(labelled("a", 3, "y"));
        cache.delete(&object("b", "b", 4));
        cache.apply(labelled("c", 5, "x"));
        assert_eq!((found("x"), found("y")), ("c".into(), "a".into()));
        assert_eq!(cache.index("app", |_| Vec::new()), app, "one name, one index");
    }

    #[test]
    fn a_kind_that_is_gone_takes_its_objects_along() {
        let cache = Cache::default();
        list(&cache, [object("a", "1", 1)], 1);
        cache.absent();
        assert_eq!(names(&cache), " v1");
        assert!(!cache.is_synced());
        assert!(cache.settled().now_or_never().is_some());
        assert!(cache.synced().now_or_never().is_none());
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
        list(&cache, [object("a", "1", 1), object("b", "2", 2), object("c", "3", 3)], 3);
        list(&cache, [object("b", "2", 2), object("c", "3", 4), object("d", "4", 5)], 5);
        assert_eq!(log.lock().unwrap().join(" "), "->a ->b ->c a>- c>c ->d");
    }
}
