//! Windows and budgets, kept in the store so that a new master forgets nothing.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use decide::demand::{Decision, Memory};
use jiff::Timestamp;
use store::{Expect, Shared};

const PREFIX: &str = "demand/";
/// Whatever happens is written at once; that time went by without anything happening, at most this often.
const WRITE_EVERY: jiff::SignedDuration = jiff::SignedDuration::from_secs(2);
const LOAD_PAUSE: Duration = Duration::from_millis(200);
const LOAD_ATTEMPTS: u32 = 25;

pub struct Memories {
    store: Shared,
    all: BTreeMap<Arc<str>, Memory>,
    written: BTreeMap<Arc<str>, (Timestamp, Memory)>,
}

impl Memories {
    /// What the master before knew. Without an answer from the store it begins with nothing, which is careful too: the
    /// count found counts as wanted.
    pub async fn load(store: Shared) -> Self {
        let mut all = BTreeMap::new();
        for attempt in 1..=LOAD_ATTEMPTS {
            match store.list(PREFIX).await {
                Ok(entries) => {
                    for (key, entry) in entries {
                        let Some(name) = key.strip_prefix(PREFIX) else { continue };
                        match serde_json::from_slice::<Memory>(&entry.value) {
                            Ok(memory) => drop(all.insert(Arc::from(name), memory)),
                            Err(error) => tracing::warn!(key, %error, "this memory cannot be read"),
                        }
                    }
                    break;
                }
                Err(error) if attempt == LOAD_ATTEMPTS => {
                    tracing::warn!(%error, "deciding without what was known before");
                }
                Err(_) => tokio::time::sleep(LOAD_PAUSE).await,
            }
        }
        let written =
            all.iter().map(|(name, memory)| (Arc::clone(name), (Timestamp::now(), memory.clone()))).collect();
        Memories { store, all, written }
    }

    pub fn all(&self) -> &BTreeMap<Arc<str>, Memory> {
        &self.all
    }

    /// Takes over what a decision leaves behind.
    pub fn put(&mut self, name: &Arc<str>, decision: &Decision, now: Timestamp) {
        let memory = &decision.memory;
        self.all.insert(name.clone(), memory.clone());
        let known = self.written.get(name);
        let is_known = known.map_or(*memory == Memory::default(), |(_, known)| known == memory);
        let is_recent = known.is_some_and(|(at, _)| now.duration_since(*at) < WRITE_EVERY);
        if is_known || (is_recent && !decision.changes()) {
            return;
        }
        let Ok(value) = serde_json::to_vec(memory) else { return };
        self.written.insert(name.clone(), (now, memory.clone()));
        let (store, key) = (self.store.clone(), format!("{PREFIX}{name}"));
        tokio::spawn(async move {
            if let Err(error) = store.put(&key, Bytes::from(value), Expect::Anything, None).await {
                tracing::warn!(key, %error, "the memory of decisions was not kept");
            }
        });
    }

    /// Forgets functions that are gone.
    pub fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        let gone: Vec<Arc<str>> = self.all.keys().filter(|name| !is_there(name)).cloned().collect();
        for name in gone {
            self.all.remove(&name);
            self.written.remove(&name);
            let (store, key) = (self.store.clone(), format!("{PREFIX}{name}"));
            tokio::spawn(async move {
                if let Err(error) = store.delete(&key, Expect::Anything).await {
                    tracing::debug!(key, %error, "not deleted");
                }
            });
        }
    }
}
