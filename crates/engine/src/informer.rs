//! Keeps a cache equal to the API: list, watch, and list again when the watch cannot go on.

use std::{
    any::TypeId,
    fmt::Debug,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, pin_mut};
use kube::{
    Client, Resource,
    api::{DynamicObject, ListParams, ObjectList, WatchEvent, WatchParams},
    core::Request,
};
use serde::de::DeserializeOwned;
use tracing::{debug, info, warn};

use crate::{
    cache::{Cache, version_number},
    definition,
    engine::Metadata,
    kind::Kind,
    selection::Selection,
};

const PAGE: u32 = 500;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A list older than what is known is a stale read and asked for again. A store restored from a backup really does
/// go back; after this many answers it is believed.
const OLD_LISTS_BELIEVED: u32 = 5;
/// A kind that was served and is not found may be back in a moment (its server starts, or its definition is replaced).
/// Only after so long are its objects taken for gone: what is missing by mistake must not scale anything down.
const ABSENCE_BELIEVED: Duration = Duration::from_secs(30);

/// Where the objects of one cache come from.
#[derive(Clone)]
pub struct Source {
    client: Client,
    url: String,
    labels: String,
    is_metadata: bool,
    /// By which the kind is told to come, if it is not served.
    definition: Option<String>,
}

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

/// Runs until dropped. `relist_every` bounds for how long a lost watch event can go unnoticed.
pub async fn run<K>(mut source: Source, cache: Arc<Cache<K>>, relist_every: Duration)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut pause = FIRST_PAUSE;
    let mut old_lists = 0;
    let mut absent_since: Option<tokio::time::Instant> = None;
    loop {
        let started = tokio::time::Instant::now();
        match list(&source, &cache, old_lists >= OLD_LISTS_BELIEVED).await {
            Ok(version) => {
                (old_lists, absent_since) = (0, None);
                let watched = tokio::select! {
                    watched = watch(&source, &cache, version) => watched,
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
                        debug!(url = source.url, %error, "watch interrupted, listing again");
                        if started.elapsed() > LONGEST_PAUSE {
                            pause = FIRST_PAUSE;
                        }
                    }
                }
            }
            Err(error) if error.is_absent() => {
                let is_news = absent_since.is_none();
                let since = *absent_since.get_or_insert(started);
                if is_news {
                    info!(url = source.url, "the API does not serve this kind: waiting for it");
                }
                if !cache.is_synced() || since.elapsed() > ABSENCE_BELIEVED {
                    cache.absent();
                    tokio::select! {
                        () = source.defined() => {}
                        () = cache.relist_requested() => {}
                        () = tokio::time::sleep(relist_every) => {}
                    }
                    if started.elapsed() > LONGEST_PAUSE {
                        pause = FIRST_PAUSE;
                    }
                }
            }
            Err(error) => {
                cache.contact().failed(Instant::now());
                if matches!(error, Error::OldList { .. }) {
                    old_lists += 1;
                }
                warn!(url = source.url, %error, "retrying");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

impl Source {
    pub fn new<K: 'static>(client: &Client, kind: &Kind, selection: &Selection) -> Self {
        let namespace = selection.namespace.as_deref().filter(|_| kind.namespaced);
        Self {
            client: client.clone(),
            url: DynamicObject::url_path(&kind.api_resource(), namespace),
            labels: selection.labels.clone(),
            is_metadata: TypeId::of::<K>() == TypeId::of::<Metadata>(),
            definition: definition::name(kind),
        }
    }

    /// Until the kind may be served. At once if that cannot be told: then it is asked for again and again.
    async fn defined(&mut self) {
        let Some(name) = &self.definition else { return };
        match definition::made(&self.client, name).await {
            Err(kube::Error::Api(status)) if status.code == 403 => self.definition = None,
            // asked for again after a pause, either way
            Ok(()) | Err(_) => {}
        }
    }

    /// Where the API is now. A list of one is answered from its store, whatever else the API answers from memory.
    async fn present_version(&self) -> kube::Result<u64> {
        let request = Request::new(&self.url).list_metadata(&ListParams::default().limit(1));
        let list: ObjectList<Metadata> =
            self.client.request(request.map_err(kube::Error::BuildRequest)?).await?;
        Ok(version_number(list.metadata.resource_version.as_deref()))
    }

    async fn list<K: Clone + DeserializeOwned>(&self, params: &ListParams) -> kube::Result<ObjectList<K>> {
        let request = Request::new(&self.url);
        let request = if self.is_metadata { request.list_metadata(params) } else { request.list(params) };
        self.client.request(request.map_err(kube::Error::BuildRequest)?).await
    }
}

impl Error {
    /// Whether the answer is that there is no such kind.
    fn is_absent(&self) -> bool {
        matches!(self, Self::List(kube::Error::Api(status)) if status.code == 404)
    }
}

async fn list<K>(source: &Source, cache: &Cache<K>, believe_old: bool) -> Result<String, Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    // The first list too can be a stale read: then a new leader would undo what the one before it did.
    let known = match cache.is_synced() {
        true => cache.version(),
        false => source.present_version().await.map_err(Error::List)?.max(cache.version()),
    };
    let mut params = ListParams::default().limit(PAGE).labels(&source.labels);
    let mut objects = Vec::new();
    let version = loop {
        let page = source.list(&params).await.map_err(Error::List)?;
        objects.extend(page.items.into_iter().map(|object| cache.listed(object)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => break page.metadata.resource_version.unwrap_or_default(),
        }
    };
    let got = version_number(Some(&version));
    if got < known && !believe_old {
        return Err(Error::OldList { got, known });
    }
    cache.replace(objects, got);
    cache.contact().heard(Instant::now());
    Ok(version)
}

/// Goes on from the last seen version as long as the server lets it; an error means to list again.
async fn watch<K>(source: &Source, cache: &Cache<K>, mut version: String) -> Result<(), Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let params = WatchParams { bookmarks: true, ..WatchParams::default() }.labels(&source.labels);
    loop {
        let began = tokio::time::Instant::now();
        let request = Request::new(&source.url);
        let request = if source.is_metadata {
            request.watch_metadata(&params, &version)
        } else {
            request.watch(&params, &version)
        };
        let request = request.map_err(kube::Error::BuildRequest).map_err(Error::Watch)?;
        let events = source.client.request_events::<K>(request).await.map_err(Error::Watch)?;
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

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Mutex, PoisonError,
            atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        },
    };

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{ResourceExt, client::Body};
    use serde_json::json;
    use tokio::sync::Notify;

    use super::*;
    use crate::kind::CONFIG_MAP;

    /// The present is version 20. Lists that fill a cache are answered with `lists`, one after the other.
    fn api(lists: Vec<(&'static str, &'static str)>) -> Client {
        let lists = Arc::new(Mutex::new(lists.into_iter()));
        let answer = move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let lists = lists.clone();
            async move {
                if query.contains("watch=true") {
                    std::future::pending::<()>().await;
                }
                let next = || lists.lock().unwrap_or_else(PoisonError::into_inner).next();
                let (version, name) = match query.contains("limit=1&") || query.ends_with("limit=1") {
                    true => ("20", "any"),
                    false => next().expect("a list too many"),
                };
                let list = json!({
                    "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": version},
                    "items": [{"metadata": {"name": name, "namespace": "default", "resourceVersion": "5"}}],
                });
                Ok::<_, Infallible>(Response::new(Body::from(list.to_string().into_bytes())))
            }
        };
        Client::new(tower::service_fn(answer), "default")
    }

    /// What the cache holds when it is first filled.
    async fn first(lists: Vec<(&'static str, &'static str)>) -> (u64, String) {
        let cache: Arc<Cache<ConfigMap>> = Arc::default();
        let source = Source::new::<ConfigMap>(&api(lists), &CONFIG_MAP, &Selection::all());
        let informer = tokio::spawn(run(source, cache.clone(), Duration::from_secs(3600)));
        cache.synced().await;
        informer.abort();
        (cache.version(), cache.all().iter().map(|object| object.name_any()).collect())
    }

    /// A kind that the API does not serve until it is defined, and how many lists of it were asked for.
    fn without_kind(defined: Arc<Notify>, may_watch: bool) -> (Client, Arc<AtomicUsize>) {
        let (n_lists, is_served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let counted = n_lists.clone();
        let answer = move |request: Request<Body>| {
            let (defined, n_lists, is_served) = (defined.clone(), counted.clone(), is_served.clone());
            async move {
                let query = request.uri().query().unwrap_or_default();
                let (code, body) = if request.uri().path().ends_with("/customresourcedefinitions") {
                    assert!(query.contains("fieldSelector=metadata.name%3Dscaledobjects.keda.sh"), "{query}");
                    if may_watch {
                        defined.notified().await;
                        is_served.store(true, Relaxed);
                        let meta = json!({"metadata": {"name": "scaledobjects.keda.sh"}});
                        (200, json!({"type": "ADDED", "object": meta}))
                    } else {
                        (
                            403,
                            json!({"code": 403, "status": "Failure", "message": "no", "reason": "Forbidden"}),
                        )
                    }
                } else if query.contains("watch=true") {
                    std::future::pending().await
                } else {
                    n_lists.fetch_add(1, Relaxed);
                    match is_served.load(Relaxed) {
                        true => (200, json!({"metadata": {"resourceVersion": "7"}, "items": []})),
                        false => (
                            404,
                            json!({"code": 404, "status": "Failure", "message": "no", "reason": "NotFound"}),
                        ),
                    }
                };
                let answer = Response::builder().status(code);
                let body = Body::from(format!("{body}\n").into_bytes());
                Ok::<_, Infallible>(answer.body(body).expect("a valid answer"))
            }
        };
        (Client::new(tower::service_fn(answer), "default"), n_lists)
    }

    const SCALED_OBJECT: Kind = Kind::namespaced("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects");

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_not_served_is_waited_for_without_asking() {
        let defined: Arc<Notify> = Arc::default();
        let (client, n_lists) = without_kind(defined.clone(), true);
        let cache: Arc<Cache<DynamicObject>> = Arc::default();
        let source = Source::new::<DynamicObject>(&client, &SCALED_OBJECT, &Selection::all());
        let informer = tokio::spawn(run(source, cache.clone(), Duration::from_secs(3600)));
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(n_lists.load(Relaxed), 1, "lists in ten minutes");
        assert!(!cache.is_synced());
        defined.notify_one();
        tokio::time::timeout(Duration::from_secs(1), cache.synced()).await.expect("it is seen soon");
        informer.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn who_may_not_see_definitions_asks_for_the_kind_itself() {
        let (client, n_lists) = without_kind(Arc::default(), false);
        let cache: Arc<Cache<DynamicObject>> = Arc::default();
        let source = Source::new::<DynamicObject>(&client, &SCALED_OBJECT, &Selection::all());
        let informer = tokio::spawn(run(source, cache.clone(), Duration::from_secs(3600)));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(n_lists.load(Relaxed) > 10, "it was asked for {} times", n_lists.load(Relaxed));
        informer.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_begins_in_the_present() {
        assert_eq!(first(vec![("20", "now")]).await, (20, "now".into()));
        assert_eq!(first(vec![("19", "before"), ("7", "long ago"), ("21", "now")]).await, (21, "now".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_went_back_is_believed_in_the_end() {
        assert_eq!(first(vec![("7", "restored"); 6]).await, (7, "restored".into()));
    }
}
