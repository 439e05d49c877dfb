//! Who owns whom, over all kinds.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use engine::{Key, Queue, kind::Kind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::object::{being_deleted, uid};

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub kind: Kind,
    pub meta: ObjectMeta,
}

type NamespaceListener = Box<dyn Fn(&str) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Graph {
    state: RwLock<State>,
    /// Where the uids of nodes that may need work go.
    queue: Mutex<Option<Arc<Queue<Key>>>>,
    /// Told of every namespace in which something went away or changed.
    namespaces: Mutex<Option<NamespaceListener>>,
}

#[derive(Default)]
struct State {
    nodes: HashMap<String, Node>,
    dependents: HashMap<String, BTreeSet<String>>,
    /// uid by namespace, group, plural and name.
    places: BTreeMap<(String, String, String, String), String>,
}

impl Node {
    pub fn deleting(&self) -> bool {
        being_deleted(&self.meta)
    }

    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.meta.finalizers.iter().flatten().any(|held| held == finalizer)
    }

    /// Waits for its dependents to go first.
    pub fn deleting_dependents(&self) -> bool {
        self.deleting() && self.has_finalizer(FOREGROUND)
    }

    pub fn owners(&self) -> &[OwnerReference] {
        self.meta.owner_references.as_deref().unwrap_or_default()
    }

    pub fn blocks(&self, owner_uid: &str) -> bool {
        self.owners().iter().any(|owner| owner.uid == owner_uid && owner.block_owner_deletion == Some(true))
    }
}

impl Graph {
    pub fn queue_into(&self, queue: Arc<Queue<Key>>) {
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = Some(queue);
    }

    pub fn tell_namespaces(&self, listener: impl Fn(&str) + Send + Sync + 'static) {
        *self.namespaces.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(listener));
    }

    pub fn get(&self, uid: &str) -> Option<Node> {
        self.read(|state| state.nodes.get(uid).cloned())
    }

    pub fn dependents(&self, uid: &str) -> Vec<Node> {
        self.read(|state| {
            let uids = state.dependents.get(uid).into_iter().flatten();
            uids.filter_map(|uid| state.nodes.get(uid).cloned()).collect()
        })
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<Node> {
        let from = (namespace.to_owned(), String::new(), String::new(), String::new());
        self.read(|state| {
            let places = state.places.range(from..).take_while(|(place, _)| place.0 == namespace);
            places.filter_map(|(_, uid)| state.nodes.get(uid).cloned()).collect()
        })
    }

    pub fn contains(&self, kind: &Kind, namespace: &str, name: &str) -> bool {
        self.read(|state| state.places.contains_key(&place(kind, namespace, name)))
    }

    pub fn observe(&self, kind: &Kind, old: Option<ObjectMeta>, new: Option<ObjectMeta>) {
        let namespace = old.as_ref().or(new.as_ref()).and_then(|meta| meta.namespace.clone());
        // Another uid under the same name: the old one is gone.
        let gone = old.as_ref().filter(|old| new.as_ref().is_none_or(|new| new.uid != old.uid));
        let mut touched = Vec::new();
        {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(gone) = gone {
                touched.extend(state.remove(kind, gone));
            }
            if let Some(new) = new {
                let before = old.filter(|old| old.uid == new.uid);
                touched.extend(state.insert(kind, before.as_ref(), new));
            }
        }
        if let Some(queue) = &*self.queue.lock().unwrap_or_else(PoisonError::into_inner) {
            for uid in touched {
                queue.add(Key::new("", uid));
            }
        }
        if let (Some(namespace), Some(tell)) =
            (namespace, &*self.namespaces.lock().unwrap_or_else(PoisonError::into_inner))
        {
            tell(&namespace);
        }
    }

    /// The kind is no longer served, and its objects with it.
    pub fn forget_kind(&self, kind: &Kind) {
        let metas: Vec<ObjectMeta> = self.read(|state| {
            state.nodes.values().filter(|node| node.kind == *kind).map(|node| node.meta.clone()).collect()
        });
        for meta in metas {
            self.observe(kind, Some(meta), None);
        }
    }

    fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn place(kind: &Kind, namespace: &str, name: &str) -> (String, String, String, String) {
    (namespace.to_owned(), kind.group.to_string(), kind.plural.to_string(), name.to_owned())
}

fn place_of(kind: &Kind, meta: &ObjectMeta) -> (String, String, String, String) {
    place(kind, meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

impl State {
    /// Uids that may need work now.
    fn insert(&mut self, kind: &Kind, before: Option<&ObjectMeta>, meta: ObjectMeta) -> Vec<String> {
        let own = uid(&meta).to_owned();
        let mut touched = Vec::new();
        let matters = |meta: &ObjectMeta| {
            (meta.owner_references.clone(), meta.finalizers.clone(), meta.deletion_timestamp.is_some())
        };
        let changed = before.is_none_or(|before| matters(before) != matters(&meta));
        if changed {
            let owners_before = before.and_then(|before| before.owner_references.as_ref());
            for owner in owners_before.into_iter().flatten().chain(meta.owner_references.iter().flatten()) {
                touched.push(owner.uid.clone());
            }
            for owner in owners_before.into_iter().flatten() {
                self.unlink(&owner.uid, &own);
            }
            for owner in meta.owner_references.iter().flatten() {
                self.dependents.entry(owner.uid.clone()).or_default().insert(own.clone());
            }
        }
        self.places.insert(place_of(kind, &meta), own.clone());
        let node = Node { kind: kind.clone(), meta };
        if changed {
            // Owners matter only while they wait for dependents; a node without owners only while it goes.
            touched.retain(|uid| self.nodes.get(uid).is_some_and(Node::deleting_dependents));
            if node.deleting() || !node.owners().is_empty() {
                touched.push(own.clone());
            }
            if node.deleting_dependents() {
                touched.extend(self.dependents.get(&own).into_iter().flatten().cloned());
            }
        }
        self.nodes.insert(own, node);
        touched
    }

    fn remove(&mut self, kind: &Kind, meta: &ObjectMeta) -> Vec<String> {
        let own = uid(meta).to_owned();
        let place = place_of(kind, meta);
        if self.places.get(&place) == Some(&own) {
            self.places.remove(&place);
        }
        self.nodes.remove(&own);
        let mut touched: Vec<String> = self.dependents.get(&own).into_iter().flatten().cloned().collect();
        for owner in meta.owner_references.iter().flatten() {
            self.unlink(&owner.uid, &own);
            if self.nodes.get(&owner.uid).is_some_and(Node::deleting_dependents) {
                touched.push(owner.uid.clone());
            }
        }
        touched
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }
}
