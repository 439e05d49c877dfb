//! A cache as one controller sees it.

use std::{
    ops::Deref,
    sync::{Arc, Weak},
};

use kube::Resource;

use crate::{
    cache::{Cache, Change, Key},
    queue::Queue,
};

/// Of a shared cache, what was selected. Its listeners end with the scope that asked for it.
pub struct Cached<K> {
    cache: Arc<Cache<K>>,
    /// The cache may hold other namespaces too.
    namespace: Option<Arc<str>>,
    life: Weak<()>,
}

impl<K> Cached<K> {
    pub(crate) fn new(cache: Arc<Cache<K>>, namespace: Option<Arc<str>>, life: &Arc<()>) -> Self {
        Self { cache, namespace, life: Arc::downgrade(life) }
    }
}

impl<K> Clone for Cached<K> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), namespace: self.namespace.clone(), life: self.life.clone() }
    }
}

impl<K> Deref for Cached<K> {
    type Target = Cache<K>;

    fn deref(&self) -> &Cache<K> {
        &self.cache
    }
}

impl<K: Resource + 'static> Cached<K> {
    /// All that was selected.
    pub fn all(&self) -> Vec<Arc<K>> {
        match &self.namespace {
            Some(namespace) => self.cache.in_namespace(namespace),
            None => self.cache.all(),
        }
    }

    /// As [`Cache::listen`], of what was selected.
    pub fn listen(&self, listener: impl Fn(&Change<K>) + Send + Sync + 'static) {
        // Without its scope nobody listens any more.
        let Some(life) = self.life.upgrade() else { return };
        let Some(namespace) = self.namespace.clone() else { return self.cache.listen_while(&life, listener) };
        self.cache.listen_while(&life, move |change| {
            let is_selected = |object: &Arc<K>| object.meta().namespace.as_deref() == Some(&*namespace);
            if change.either().is_some_and(is_selected) {
                listener(change);
            }
        });
    }

    /// Puts the key of every object that is there, and of every one that changes, into a queue.
    pub fn enqueue(&self, queue: &Arc<Queue<Key>>) {
        let queue = queue.clone();
        self.listen(move |change| {
            if let Some(object) = change.either() {
                queue.add(Key::of(object.meta()));
            }
        });
    }
}
