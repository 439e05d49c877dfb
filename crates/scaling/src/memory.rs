//! What policies remember, kept in the store so that a new master forgets no window and no budget.
//!
//! Of one object the writes are in order, because it is worked on once at a time, and each names the revision it
//! replaces: a master that was replaced cannot write over what its successor remembers.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use engine::Key;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use store::{Error, Expect, Shared};

/// Whatever leads to a write is kept at once; that time went by without anything happening, at most this often.
const KEEP_EVERY: SignedDuration = SignedDuration::from_secs(2);
const LOAD_PAUSE: Duration = Duration::from_millis(200);
const LOAD_ATTEMPTS: u32 = 25;

pub struct Memories<M> {
    store: Shared,
    prefix: &'static str,
    /// All keys are of this one; without it, each place names the namespace of its own.
    namespace: Option<String>,
    known: Mutex<HashMap<Key, Known<M>>>,
}

/// What is remembered of one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Remembered<M> {
    #[serde(flatten)]
    pub memory: M,
    /// Since when the metrics have been missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking_since: Option<Timestamp>,
    /// Whether the count has been seen to be written by this policy. If it is somebody else's later, that is news.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_written: bool,
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    pub counts: Counts,
}

/// Counts that need no explanation. It takes both: a write may have failed, and then the count from before is still there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// What this policy wrote last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<i32>,
    /// What was there when it was last as it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right: Option<i32>,
}

impl Counts {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn after(self, current: i32, desired: i32, is_written: bool) -> Self {
        Self {
            written: if is_written { Some(desired) } else { self.written },
            right: if current == desired { Some(current) } else { self.right },
        }
    }
}

#[derive(Default)]
struct Known<M> {
    now: Remembered<M>,
    stored: Remembered<M>,
    revision: Option<u64>,
    kept_at: Option<Timestamp>,
}

impl<M: Clone + Default + PartialEq + Serialize + DeserializeOwned> Memories<M> {
    /// What the master before knew. Without an answer from the store it begins with nothing, which is careful too: the
    /// count found counts as wanted.
    pub async fn load(store: Shared, prefix: &'static str, namespace: &str) -> Self {
        Self::load_from(store, prefix, Some(namespace.to_owned())).await
    }

    /// The same of objects in any namespace.
    pub async fn load_all(store: Shared, prefix: &'static str) -> Self {
        Self::load_from(store, prefix, None).await
    }

    async fn load_from(store: Shared, prefix: &'static str, namespace: Option<String>) -> Self {
        let mut known = HashMap::new();
        for attempt in 1..=LOAD_ATTEMPTS {
            match store.list(prefix).await {
                Ok(entries) => {
                    for (key, entry) in entries {
                        let Some(place) = key.strip_prefix(prefix) else { continue };
                        let place = match &namespace {
                            Some(namespace) => Some((namespace.as_str(), place)),
                            None => place.split_once('/'),
                        };
                        let Some((namespace, name)) = place else { continue };
                        let stored: Remembered<M> = read(&key, &entry.value);
                        let revision = Some(entry.revision);
                        let one = Known { now: stored.clone(), stored, revision, kept_at: None };
                        known.insert(Key::new(namespace, name), one);
                    }
                    break;
                }
                Err(error) if attempt == LOAD_ATTEMPTS => {
                    tracing::warn!(%error, "deciding without what was known before");
                }
                Err(_) => tokio::time::sleep(LOAD_PAUSE).await,
            }
        }
        Self { store, prefix, namespace, known: Mutex::new(known) }
    }

    /// Of whom something is remembered, those included that may be gone by now.
    pub fn keys(&self) -> Vec<Key> {
        self.known().keys().cloned().collect()
    }

    pub fn get(&self, key: &Key) -> Remembered<M> {
        self.known().get(key).map(|known| known.now.clone()).unwrap_or_default()
    }

    /// Takes over what a decision leaves behind. When this is back with success and `is_needed`, it is in the store.
    ///
    /// # Errors
    /// The store refuses, or somebody else wrote: then what they wrote is what counts from now on.
    pub async fn keep(
        &self,
        key: &Key,
        remembered: Remembered<M>,
        is_needed: bool,
        now: Timestamp,
    ) -> Result<(), Error> {
        let revision = {
            let mut all = self.known();
            let known = all.entry(key.clone()).or_default();
            known.now = remembered.clone();
            let is_recent = known.kept_at.is_some_and(|at| now.duration_since(at) < KEEP_EVERY);
            if known.stored == remembered || (is_recent && !is_needed) {
                return Ok(());
            }
            known.revision
        };
        let Ok(value) = serde_json::to_vec(&remembered) else { return Ok(()) };
        let expect = revision.map_or(Expect::Nothing, Expect::Revision);
        match self.store.put(&self.place(key), Bytes::from(value), expect, None).await {
            Ok(revision) => {
                let (revision, kept_at) = (Some(revision), Some(now));
                let known = Known { now: remembered.clone(), stored: remembered, revision, kept_at };
                self.known().insert(key.clone(), known);
                Ok(())
            }
            Err(error @ Error::Conflict { .. }) => {
                self.reload(key).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    async fn reload(&self, key: &Key) -> Result<(), Error> {
        let place = self.place(key);
        let entry = self.store.get(&place).await?;
        let mut all = self.known();
        match entry {
            Some(entry) => {
                let stored: Remembered<M> = read(&place, &entry.value);
                let revision = Some(entry.revision);
                all.insert(key.clone(), Known { now: stored.clone(), stored, revision, kept_at: None });
            }
            None => drop(all.remove(key)),
        }
        Ok(())
    }

    /// The object is gone, and what is remembered of it goes too.
    pub async fn forget(&self, key: &Key) {
        let Some(known) = self.known().remove(key) else { return };
        let Some(revision) = known.revision else { return };
        if let Err(error) = self.store.delete(&self.place(key), Expect::Revision(revision)).await {
            tracing::debug!(%key, %error, "the memory of an object that is gone was not deleted");
        }
    }

    fn place(&self, key: &Key) -> String {
        match &self.namespace {
            Some(_) => format!("{}{}", self.prefix, key.name),
            None => format!("{}{}/{}", self.prefix, key.namespace, key.name),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Key, Known<M>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something unreadable is as good as nothing: windows begin anew.
fn read<M: Default + DeserializeOwned>(key: &str, value: &[u8]) -> Remembered<M> {
    serde_json::from_slice(value).unwrap_or_else(|error| {
        tracing::warn!(key, %error, "this memory cannot be read");
        Remembered::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Memory {
        window: Vec<i32>,
    }

    fn remembered(window: &[i32]) -> Remembered<Memory> {
        Remembered {
            memory: Memory { window: window.to_vec() },
            lacking_since: None,
            has_written: false,
            counts: Counts::default(),
        }
    }

    async fn memories(store: &Shared) -> Memories<Memory> {
        Memories::load(store.clone(), "test/", "ns").await
    }

    #[tokio::test]
    async fn an_old_master_cannot_write_over_what_its_successor_remembers() {
        let store = store::open("memory:", store::Options::default()).await.unwrap();
        let (key, now) = (Key::new("ns", "fib"), Timestamp::UNIX_EPOCH);
        let old = memories(&store).await;
        old.keep(&key, remembered(&[1]), true, now).await.unwrap();
        // the old one is stopped; another takes over, and goes on from there
        let new = memories(&store).await;
        assert_eq!(new.get(&key), remembered(&[1]));
        new.keep(&key, remembered(&[1, 2]), true, now).await.unwrap();
        // the old one wakes up
        let refused = old.keep(&key, remembered(&[7]), true, now).await;
        assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
        assert_eq!(old.get(&key), remembered(&[1, 2]), "and knows better now");
        assert_eq!(memories(&store).await.get(&key), remembered(&[1, 2]));
        new.forget(&key).await;
        assert_eq!(memories(&store).await.keys(), []);
    }

    #[tokio::test]
    async fn objects_of_one_name_in_two_namespaces_are_two() {
        let store = store::open("memory:", store::Options::default()).await.unwrap();
        let all = || Memories::<Memory>::load_all(store.clone(), "test/");
        let (shop, bank) = (Key::new("shop", "web"), Key::new("bank", "web"));
        let one = all().await;
        one.keep(&shop, remembered(&[1]), true, Timestamp::UNIX_EPOCH).await.unwrap();
        one.keep(&bank, remembered(&[2]), true, Timestamp::UNIX_EPOCH).await.unwrap();
        let next = all().await;
        assert_eq!((next.get(&shop), next.get(&bank)), (remembered(&[1]), remembered(&[2])));
        next.forget(&bank).await;
        assert_eq!(all().await.keys(), [shop]);
    }

    #[tokio::test]
    async fn what_justifies_no_write_may_wait() {
        let store = store::open("memory:", store::Options::default()).await.unwrap();
        let (key, now) = (Key::new("ns", "fib"), Timestamp::UNIX_EPOCH);
        let later = |seconds| now + SignedDuration::from_secs(seconds);
        let one = memories(&store).await;
        one.keep(&key, remembered(&[1]), false, now).await.unwrap();
        one.keep(&key, remembered(&[2]), false, later(1)).await.unwrap();
        assert_eq!(memories(&store).await.get(&key), remembered(&[1]));
        one.keep(&key, remembered(&[3]), true, later(1)).await.unwrap();
        assert_eq!(memories(&store).await.get(&key), remembered(&[3]));
        one.keep(&key, remembered(&[4]), false, later(4)).await.unwrap();
        assert_eq!(memories(&store).await.get(&key), remembered(&[4]));
    }
}
