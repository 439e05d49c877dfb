//! Keeps a cache equal to the API: list, watch, and list again when the watch cannot go on.

use std::{
    fmt::Debug,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, pin_mut};
use kube::{
    Api, Resource,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use tracing::{debug, warn};

use crate::cache::{Cache, version_number};

const PAGE: u32 = 500;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A list older than what is known is a stale read and asked for again. A store restored from a backup really does
/// go back; after this many answers it is believed.
const OLD_LISTS_BELIEVED: u32 = 5;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("failed to list: {0}")]
    List(#[source] kube::Error),
    #[error("the list is older ({got}) than what is known ({known})")]
    OldList { got: u64, known: u64 },
    #[error("failed to watch: {0}")]
    Watch(#[source] kube::Error),
    #[error("the watch ended with an error: {0}")]
    WatchEnded(String),
}

/// Runs until dropped. `labels` is a selector, empty for all objects; `relist_every` bounds for how long a lost watch
/// event can go unnoticed.
pub async fn run<K>(api: Api<K>, cache: Arc<Cache<K>>, labels: String, relist_every: Duration)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let kind = api.resource_url().to_owned();
    let mut pause = FIRST_PAUSE;
    let mut old_lists = 0;
    loop {
        let started = tokio::time::Instant::now();
        match list(&api, &cache, &labels, old_lists >= OLD_LISTS_BELIEVED).await {
            Ok(version) => {
                old_lists = 0;
                let watched = tokio::select! {
                    watched = watch(&api, &cache, &labels, version) => watched,
                    () = cache.relist_requested() => Ok(()),
                    () = tokio::time::sleep(relist_every) => Ok(()),
                };
                match watched {
                    // At once: until the list is here nothing is seen of what happens.
                    Ok(()) => {
                        pause = FIRST_PAUSE;
                        continue;
                    }
                    Err(error) => {
                        cache.contact().failed(Instant::now());
                        debug!(%kind, %error, "watch interrupted, listing again");
                        if started.elapsed() > LONGEST_PAUSE {
                            pause = FIRST_PAUSE;
                        }
                    }
                }
            }
            Err(error) => {
                cache.contact().failed(Instant::now());
                if matches!(error, Error::OldList { .. }) {
                    old_lists += 1;
                }
                warn!(%kind, %error, "retrying");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn list<K>(api: &Api<K>, cache: &Cache<K>, labels: &str, believe_old: bool) -> Result<String, Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut params = ListParams::default().limit(PAGE).labels(labels);
    let mut objects = Vec::new();
    let version = loop {
        let page = api.list(&params).await.map_err(Error::List)?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break page.metadata.resource_version.unwrap_or_default(),
        }
    };
    let (got, known) = (version_number(Some(&version)), cache.version());
    if got < known && !believe_old {
        return Err(Error::OldList { got, known });
    }
    cache.replace(objects, got);
    cache.contact().heard(Instant::now());
    Ok(version)
}

/// Goes on from the last seen version as long as the server lets it; an error means to list again.
async fn watch<K>(api: &Api<K>, cache: &Cache<K>, labels: &str, mut version: String) -> Result<(), Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let params = WatchParams { bookmarks: true, ..WatchParams::default() }.labels(labels);
    loop {
        let began = tokio::time::Instant::now();
        let events = api.watch(&params, &version).await.map_err(Error::Watch)?;
        pin_mut!(events);
        let mut quiet = true;
        while let Some(event) = events.next().await {
            quiet = false;
            let event = event.map_err(Error::Watch)?;
            cache.contact().heard(Instant::now());
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    version = object.meta().resource_version.clone().unwrap_or(version);
                    cache.apply(object);
                }
                WatchEvent::Deleted(object) => {
                    version = object.meta().resource_version.clone().unwrap_or(version);
                    cache.delete(&object);
                }
                WatchEvent::Bookmark(bookmark) => {
                    version = bookmark.metadata.resource_version;
                    cache.advance(version_number(Some(&version)));
                }
                WatchEvent::Error(status) => return Err(Error::WatchEnded(status.message.clone())),
            }
        }
        // A server that closes every watch at once must not be asked in a tight loop.
        if quiet && began.elapsed() < FIRST_PAUSE {
            tokio::time::sleep(FIRST_PAUSE).await;
        }
    }
}
