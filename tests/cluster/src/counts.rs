//! How many replicas objects ask for, as a watch shows it.

use std::{
    collections::HashMap,
    fmt::Debug,
    pin::pin,
    time::{Duration, Instant},
};

use futures::StreamExt;
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt, watcher},
};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

pub struct Counts {
    known: HashMap<String, i32>,
    sightings: mpsc::UnboundedReceiver<(String, i32, Instant)>,
}

impl Counts {
    pub fn watch<K>(api: Api<K>, replicas: fn(&K) -> Option<i32>) -> Self
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let (sender, sightings) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let stream = watcher(api, watcher::Config::default());
            let mut seen = pin!(stream.default_backoff().applied_objects());
            while let Some(object) = seen.next().await {
                let Ok(object) = object else { continue };
                if let (Some(name), Some(replicas)) = (object.meta().name.clone(), replicas(&object))
                    && sender.send((name, replicas, Instant::now())).is_err()
                {
                    return;
                }
            }
        });
        Self { known: HashMap::new(), sightings }
    }

    /// With what the watch has shown by now.
    pub fn of(&mut self, name: &str) -> Option<i32> {
        while let Ok((name, replicas, _)) = self.sightings.try_recv() {
            self.known.insert(name, replicas);
        }
        self.known.get(name).copied()
    }

    /// When each was first seen with at least the wanted count, those that were within `patience`.
    pub async fn until(
        &mut self,
        wanted: &[(String, i32)],
        changed: Instant,
        patience: Option<Duration>,
    ) -> HashMap<String, Instant> {
        let mut open: HashMap<String, i32> = wanted.iter().cloned().collect();
        let mut seen = HashMap::new();
        while !open.is_empty() {
            let left = patience.map_or(Duration::MAX, |patience| patience.saturating_sub(changed.elapsed()));
            let Ok(Some((name, replicas, at))) = tokio::time::timeout(left, self.sightings.recv()).await
            else {
                return seen;
            };
            self.known.insert(name.clone(), replicas);
            if open.get(&name).is_some_and(|wanted| replicas >= *wanted) {
                open.remove(&name);
                seen.insert(name, at);
            }
        }
        seen
    }
}
