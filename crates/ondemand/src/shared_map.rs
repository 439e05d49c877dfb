//! A map that is copied at every change and still costs the same with many entries as with few: copies share all but the
//! part that changed, and two of them are compared part by part.
//!
//! Of 10,000 functions one changes at a time. A plain map would be made anew for each change, and looked through by
//! everybody who wants to know what changed. (The crates that have such a map with a comparison are under the MPL.)

use std::{
    borrow::Borrow,
    collections::BTreeMap,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    ops::Index,
    sync::Arc,
};

/// With 10,000 entries, a change copies 256 pointers and a part of 40 entries.
const N_PARTS: usize = 256;

type Part<K, V> = Arc<BTreeMap<K, V>>;

pub struct SharedMap<K, V> {
    /// Each key is in the part that its hash names.
    parts: Arc<Vec<Part<K, V>>>,
    len: usize,
}

/// What differs between two maps at one key; at least one side is there.
#[derive(Debug, PartialEq)]
pub struct Difference<'a, K, V> {
    pub key: &'a K,
    pub before: Option<&'a V>,
    pub after: Option<&'a V>,
}

impl<K, V> SharedMap<K, V> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// In no order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts.iter().flat_map(|part| part.iter())
    }

    /// In no order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// In no order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
}

impl<K: Hash + Ord, V> SharedMap<K, V> {
    pub fn get<Q: Hash + Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.parts[part_of(key)].get(key)
    }

    pub fn get_key_value<Q: Hash + Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.parts[part_of(key)].get_key_value(key)
    }

    pub fn contains_key<Q: Hash + Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// By key.
    pub fn sorted(&self) -> Vec<(&K, &V)> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }

    /// Keys where the values are not the same. It costs as much as the parts in which anything changed are large.
    pub fn differences<'a>(
        before: &'a Self,
        after: &'a Self,
        is_same: impl Fn(&V, &V) -> bool,
    ) -> Vec<Difference<'a, K, V>> {
        let mut found = Vec::new();
        for (before, after) in before.changed_parts(after) {
            for (key, old) in &**before {
                let new = after.get(key);
                if !new.is_some_and(|new| is_same(old, new)) {
                    found.push(Difference { key, before: Some(old), after: new });
                }
            }
            let added = after.iter().filter(|(key, _)| !before.contains_key(key));
            found.extend(added.map(|(key, new)| Difference { key, before: None, after: Some(new) }));
        }
        found
    }

    fn changed_parts<'a>(
        &'a self,
        other: &'a Self,
    ) -> impl Iterator<Item = (&'a Part<K, V>, &'a Part<K, V>)> {
        let is_copy = Arc::ptr_eq(&self.parts, &other.parts);
        let parts = self.parts.iter().zip(&*other.parts);
        parts.filter(move |(one, other)| !is_copy && !Arc::ptr_eq(one, other))
    }
}

impl<K: Clone + Hash + Ord, V: Clone> SharedMap<K, V> {
    /// What was there before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let before = self.part_mut(&key).insert(key, value);
        self.len += usize::from(before.is_none());
        before
    }

    pub fn remove<Q: Hash + Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        // Nothing is copied for what is not there.
        self.get(key)?;
        self.len -= 1;
        self.part_mut(key).remove(key)
    }

    /// Inserts it, or removes what is there.
    pub fn set(&mut self, key: K, value: Option<V>) {
        match value {
            Some(value) => drop(self.insert(key, value)),
            None => drop(self.remove(&key)),
        }
    }

    fn part_mut<Q: Hash + ?Sized>(&mut self, key: &Q) -> &mut BTreeMap<K, V> {
        Arc::make_mut(&mut Arc::make_mut(&mut self.parts)[part_of(key)])
    }
}

fn part_of<Q: Hash + ?Sized>(key: &Q) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    // The remainder is below 256.
    (hasher.finish() % N_PARTS as u64) as usize
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> Self {
        Self { parts: self.parts.clone(), len: self.len }
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        let empty: Part<K, V> = Arc::new(BTreeMap::new());
        Self { parts: Arc::new(vec![empty; N_PARTS]), len: 0 }
    }
}

impl<K: Hash + Ord, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.changed_parts(other).all(|(one, other)| one == other)
    }
}

impl<K: fmt::Debug + Hash + Ord, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.sorted()).finish()
    }
}

impl<K: Clone + Hash + Ord, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl<K: Clone + Hash + Ord, V: Clone, const N: usize> From<[(K, V); N]> for SharedMap<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<Q: Hash + Ord + ?Sized, K: Borrow<Q> + Hash + Ord, V> Index<&Q> for SharedMap<K, V> {
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("the key is there")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map(entries: &BTreeMap<u8, u8>) -> SharedMap<u8, u8> {
        entries.iter().map(|(key, value)| (*key, *value)).collect()
    }

    proptest! {
        #![proptest_config(repeatable::cases(256))]

        #[test]
        fn it_does_what_a_plain_map_does(steps in prop::collection::vec((any::<u8>(), any::<Option<u8>>()), 0..60)) {
            let (mut plain, mut shared) = (BTreeMap::new(), SharedMap::default());
            for (key, value) in steps {
                let before = (plain.clone(), shared.clone());
                match value {
                    Some(value) => prop_assert_eq!(shared.insert(key, value), plain.insert(key, value)),
                    None => prop_assert_eq!(shared.remove(&key), plain.remove(&key)),
                }
                prop_assert_eq!(shared.len(), plain.len());
                prop_assert_eq!(shared.sorted(), plain.iter().collect::<Vec<_>>());
                // the copy is as it was
                prop_assert_eq!(&before.1, &map(&before.0));
                prop_assert_eq!(shared == before.1, plain == before.0);
                let found = SharedMap::differences(&before.1, &shared, u8::eq);
                let expected = (before.0.get(&key) != plain.get(&key)).then(|| Difference {
                    key: &key, before: before.0.get(&key), after: plain.get(&key),
                });
                prop_assert_eq!(found, Vec::from_iter(expected));
            }
        }
    }

    #[test]
    fn a_change_copies_one_part() {
        let before: SharedMap<u32, u32> = (0..10_000).map(|key| (key, 0)).collect();
        let mut after = before.clone();
        after.insert(7, 1);
        let n_changed = before.changed_parts(&after).count();
        assert_eq!((n_changed, before[&7], after[&7]), (1, 0, 1));
    }
}
