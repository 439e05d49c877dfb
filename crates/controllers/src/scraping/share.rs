//! Metrics and the registry in the shared store.
//!
//! `metrics:store` names the latest snapshot; its bytes stand in parts, because a store may refuse large values.

use std::time::Duration;

use bytes::Bytes;
use futures::future::try_join_all;
use jiff::Timestamp;
use metrics::{Database, registry::Asked};
use serde::{Deserialize, Serialize};
use store::{Change, Expect, Shared};

/// Of everything here.
pub const PREFIX: &str = "metrics:";
const ASKED: &str = "metrics:asked/";
const STORE: &str = "metrics:store";
const PART: &str = "metrics:part/";
const PART_BYTES: usize = 256 << 10;
/// As long as metrics are of any use.
const RETENTION: Duration = Duration::from_secs(30 * 60);
/// The registry is told again before it expires.
const TELL_AGAIN: Duration = Duration::from_secs(10 * 60);

pub struct Sharing {
    store: Shared,
    node: String,
    /// The registry's version that the others know, and since when.
    told: Option<(u64, tokio::time::Instant)>,
    /// The snapshot that was restored last.
    restored: Option<Manifest>,
    /// Parts of the snapshot before: removed when nobody reads them any more.
    outdated: Option<Manifest>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    node: String,
    generation: i64,
    parts: usize,
}

impl Manifest {
    fn keys(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.parts).map(|part| format!("{PART}{}/{}/{part}", self.node, self.generation))
    }
}

pub fn is_metrics(change: &Change) -> bool {
    change.key == STORE && change.entry.is_some()
}

impl Sharing {
    pub fn new(store: Shared, node: String) -> Self {
        Sharing { store, node, told: None, restored: None, outdated: None }
    }

    /// Tells the other nodes which metrics were asked for here, if that is news.
    pub async fn tell_asked(&mut self, database: &Database) -> store::Result<()> {
        let version = database.wanted().version;
        if self.told.is_some_and(|(told, at)| told == version && at.elapsed() < TELL_AGAIN)
            || database.wanted().is_empty()
        {
            return Ok(());
        }
        let Ok(asked) = serde_json::to_vec(&database.asked()) else { return Ok(()) };
        let key = format!("{ASKED}{}", self.node);
        self.store.put(&key, asked.into(), Expect::Anything, Some(RETENTION)).await?;
        self.told = Some((version, tokio::time::Instant::now()));
        Ok(())
    }

    pub fn merge_asked(&self, change: &Change, database: &Database) {
        let Some(node) = change.key.strip_prefix(ASKED) else { return };
        let asked =
            change.entry.as_ref().and_then(|entry| serde_json::from_slice::<Asked>(&entry.value).ok());
        if let Some(asked) = asked.filter(|_| node != self.node) {
            database.merge_asked(&asked);
        }
    }

    pub async fn tell_metrics(&mut self, database: &Database) -> store::Result<()> {
        let database = database.clone();
        let snapshot = tokio::task::spawn_blocking(move || database.snapshot());
        let snapshot =
            Bytes::from(snapshot.await.map_err(|error| store::Error::Unavailable(error.to_string()))?);
        let manifest = Manifest {
            node: self.node.clone(),
            generation: Timestamp::now().as_millisecond(),
            parts: snapshot.len().div_ceil(PART_BYTES),
        };
        for (idx, key) in manifest.keys().enumerate() {
            let from = idx * PART_BYTES;
            let part = snapshot.slice(from..snapshot.len().min(from + PART_BYTES));
            self.store.put(&key, part, Expect::Anything, Some(RETENTION)).await?;
        }
        let Ok(named) = serde_json::to_vec(&manifest) else { return Ok(()) };
        self.store.put(STORE, named.into(), Expect::Anything, Some(RETENTION)).await?;
        if let Some(outdated) = self.outdated.replace(manifest) {
            for key in outdated.keys() {
                self.store.delete(&key, Expect::Anything).await?;
            }
        }
        Ok(())
    }

    /// Takes over the latest snapshot; false if there is none that is new.
    pub async fn restore(&mut self, database: &Database) -> Result<bool, String> {
        let words = |error: store::Error| error.to_string();
        let Some(entry) = self.store.get(STORE).await.map_err(words)? else { return Ok(false) };
        let manifest: Manifest = serde_json::from_slice(&entry.value).map_err(|error| error.to_string())?;
        if self.restored.as_ref() == Some(&manifest) {
            return Ok(false);
        }
        let keys: Vec<String> = manifest.keys().collect();
        let parts = try_join_all(keys.iter().map(|key| self.store.get(key))).await.map_err(words)?;
        let mut bytes = Vec::new();
        for part in parts {
            let part = part.ok_or("a part is missing: a newer snapshot is on its way")?;
            bytes.extend_from_slice(&part.value);
        }
        let database = database.clone();
        let restored = tokio::task::spawn_blocking(move || database.restore(&bytes)).await;
        restored.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        self.restored = Some(manifest);
        Ok(true)
    }
}
