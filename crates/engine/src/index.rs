//! Finds objects by something else than their name.

use std::collections::{BTreeSet, HashMap};

use crate::cache::Key;

/// Names an index of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexId(pub(crate) usize);

type Values<K> = Box<dyn Fn(&K) -> Vec<String> + Send + Sync>;

pub(crate) struct Index<K> {
    pub name: &'static str,
    values: Values<K>,
    keys: HashMap<String, BTreeSet<Key>>,
}

impl<K> Index<K> {
    pub fn new(name: &'static str, values: Values<K>) -> Self {
        Self { name, values, keys: HashMap::new() }
    }

    pub fn insert(&mut self, key: &Key, object: &K) {
        for value in (self.values)(object) {
            self.keys.entry(value).or_default().insert(key.clone());
        }
    }

    pub fn remove(&mut self, key: &Key, object: &K) {
        for value in (self.values)(object) {
            if let Some(keys) = self.keys.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(&value);
                }
            }
        }
    }

    pub fn keys(&self, value: &str) -> Option<&BTreeSet<Key>> {
        self.keys.get(value)
    }
}
