//! The gateway: what all requests share, and the way of each.

use std::{net::IpAddr, sync::Arc};

use api::slimfaas::{Settings, Visibility};
use bytes::BytesMut;
use futures::{
    FutureExt as _,
    future::{BoxFuture, Either, ready},
};
use http::{HeaderMap, HeaderValue, Request, Response, Uri, Version, header, uri::PathAndQuery};
use hyper::body::Incoming;
use ondemand::{Activity, Catalog};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::{
    async_calls,
    body::Body,
    call::{self, Call},
    caller::Peer,
    ending::Ending,
    metrics::{Family, Kind, Metrics, Sample},
    operators::Viewer,
    options::{Hooks, Options},
    path, publish,
    reply::{self, Refusal},
    request_id::{REQUEST_ID, RequestIds},
    route::Route,
    upstream::{self, Table, Upstream},
};

/// What a gateway is made of.
pub struct Parts {
    pub catalog: Catalog,
    pub activity: Activity,
    pub store: store::Shared,
    pub options: Options,
    pub hooks: Hooks,
}

/// A handle to the gateway; clones are the same.
#[derive(Clone)]
pub struct Gateway(Arc<Inner>);

struct Inner {
    parts: Parts,
    table: Arc<Table>,
    metrics: Metrics,
    ids: RequestIds,
    callbacks: async_calls::Callbacks,
    tasks: TaskTracker,
    ending: Ending,
    memory: Arc<Semaphore>,
    async_memory: async_calls::Memory,
}

// === impl Gateway ===

impl Gateway {
    /// Must be called within a runtime: it follows the catalog from now on.
    pub fn new(parts: Parts) -> Self {
        let metrics = Metrics::default();
        let table = Table::new(parts.catalog.clone(), metrics.clone(), parts.activity.clone());
        tokio::spawn(upstream::run(Arc::downgrade(&table)));
        let memory = Arc::new(Semaphore::new(parts.options.body_memory.min(Semaphore::MAX_PERMITS)));
        Gateway(Arc::new(Inner {
            memory,
            async_memory: async_calls::Memory::new(parts.options.async_memory),
            parts,
            table,
            metrics,
            ids: RequestIds::default(),
            callbacks: async_calls::Callbacks::default(),
            tasks: TaskTracker::new(),
            ending: Ending::default(),
        }))
    }

    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// What is counted, that which the store threw away included.
    pub fn families(&self) -> Vec<Family> {
        let store::Dropped { dead_letters, results } = self.store().dropped();
        let dropped = |name, help, n| {
            let samples = vec![Sample { suffix: "", labels: Vec::new(), value: n as f64 }];
            Family { name, help, kind: Kind::Counter, samples }
        };
        let taken = self.options().body_memory.saturating_sub(self.body_memory_left());
        let mut families = self.metrics().families();
        let memory = |name, help, taken| {
            let samples = vec![Sample { suffix: "", labels: Vec::new(), value: taken as f64 }];
            Family { name, help, kind: Kind::Gauge, samples }
        };
        families.extend([
            memory(
                "ballast_gateway_body_memory_bytes",
                "Memory that bodies of calls take that are held, or read as a whole.",
                taken,
            ),
            memory(
                "ballast_gateway_async_memory_bytes",
                "Memory that asynchronous calls under way and their answers take.",
                self.async_memory().taken(),
            ),
            dropped(
                "ballast_dead_letters_dropped_total",
                "Dead letters thrown away because they were too old or too many.",
                dead_letters,
            ),
            dropped(
                "ballast_results_dropped_total",
                "Results of asynchronous calls thrown away because there were too many.",
                results,
            ),
        ]);
        families
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.0.parts.catalog
    }

    pub(crate) fn activity(&self) -> &Activity {
        &self.0.parts.activity
    }

    pub(crate) fn store(&self) -> &store::Shared {
        &self.0.parts.store
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.parts.options
    }

    pub(crate) fn hooks(&self) -> &Hooks {
        &self.0.parts.hooks
    }

    pub(crate) fn table(&self) -> &Table {
        &self.0.table
    }

    pub(crate) fn callbacks(&self) -> &async_calls::Callbacks {
        &self.0.callbacks
    }

    /// Connections, and whatever else must end before the gateway has ended.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    /// Bytes of memory that bodies do not take at the moment.
    pub fn body_memory_left(&self) -> usize {
        self.0.memory.available_permits()
    }

    pub(crate) fn memory(&self) -> &Arc<Semaphore> {
        &self.0.memory
    }

    pub(crate) fn async_memory(&self) -> &async_calls::Memory {
        &self.0.async_memory
    }

    pub(crate) fn ending(&self) -> &Ending {
        &self.0.ending
    }

    /// Whether this caller may use what has this visibility.
    pub(crate) fn may_use(&self, visibility: Visibility, peer: &Peer, headers: &HeaderMap) -> bool {
        peer.may_use(visibility, headers, &self.options().trusted_proxies, || self.catalog().current())
    }

    /// Calls are many, and may wait by the thousand: only they are not boxed, and what can be done at once is done before
    /// there is a future. Combinators, because an `async` block would have room for each future twice: as it was captured
    /// and as it is awaited.
    pub(crate) fn serve(
        &self,
        peer: &Peer,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Body>> + use<> {
        // What is for operators is not for pages of other origins.
        let is_open = !Route::of(request.uri().path()).is_for_operators();
        let cors = Some(&self.options().cors).filter(|_| is_open);
        let origin =
            cors.and_then(|cors| cors.origin(request.headers())).map(|origin| (origin, self.clone()));
        let request_id = self.0.ids.of(request.headers().get(REQUEST_ID));
        let answer = match cors.and_then(|cors| cors.preflight(&request)) {
            Some(answer) => Either::Right(ready(answer).boxed()),
            None => self.answer(peer, request_id.clone(), request),
        };
        answer.map(move |mut response| {
            let headers = response.headers_mut();
            headers.entry(REQUEST_ID).or_insert(request_id);
            if let Some((origin, gateway)) = origin {
                gateway.options().cors.mark(&origin, headers);
            }
            response
        })
    }

    fn answer(
        &self,
        peer: &Peer,
        request_id: HeaderValue,
        request: Request<Incoming>,
    ) -> Either<impl Future<Output = Response<Body>> + use<>, BoxFuture<'static, Response<Body>>> {
        if !names_its_host(&request) {
            let refused = Refusal::BadRequest.reply("a request names its host, and only one");
            return Either::Right(ready(refused).boxed());
        }
        let route = Route::of(request.uri().path());
        if let Route::Call { name, path } = route
            && route.methods().contains(request.method())
        {
            match self.callee(name, path, request.uri(), peer, request.headers()) {
                Ok((upstream, uri)) => {
                    let call = Call { upstream, uri, peer, request_id, request };
                    Either::Left(call::call(self.clone(), call))
                }
                Err(refused) => Either::Right(ready(refused).boxed()),
            }
        } else {
            Either::Right(self.clone().route(peer.clone(), request_id, request).boxed())
        }
    }

    /// All but calls.
    async fn route(self, peer: Peer, request_id: HeaderValue, request: Request<Incoming>) -> Response<Body> {
        let (gateway, peer) = (&self, &peer);
        let uri = request.uri().clone();
        let route = Route::of(uri.path());
        if route.is_for_operators() {
            let viewer = match self.viewer(peer, request.headers(), &uri) {
                Ok(viewer) => viewer,
                Err(refused) => return refused,
            };
            return match route {
                Route::Unknown if self.sees_all(viewer) => self.mounted(peer.ip, request).await,
                _ => self.operate(viewer, request.method(), &uri).await,
            };
        }
        if !route.methods().contains(request.method()) {
            return method_not_allowed(&route);
        }
        match route {
            Route::Publish { event, path } => {
                let uri = match for_pod(path, &uri) {
                    Ok(uri) => uri,
                    Err(refused) => return refused,
                };
                publish::publish(gateway, event, uri, peer, request_id, request).await
            }
            Route::Async { name, path } => {
                let (upstream, uri) = match self.callee(name, path, &uri, peer, request.headers()) {
                    Ok(callee) => callee,
                    Err(refused) => return refused,
                };
                let call = Call { upstream, uri, peer, request_id, request };
                async_calls::enqueue(gateway, call).await
            }
            Route::AsyncCallback { name, id, status } => {
                let may_call =
                    |settings: &Settings, path: &str| self.may_call(settings, path, peer, request.headers());
                async_calls::callback(gateway, name, id, status, may_call).await
            }
            Route::AsyncResult { name, id } => match self.visible(name, peer, request.headers()) {
                Some(_) => async_calls::result(gateway, name, id).await,
                None => self.no_function(name),
            },
            _ => self.operate(Viewer::Caller(None), request.method(), &uri).await,
        }
    }

    /// The function that is called and what its pod is asked for, if there is such a function for this caller.
    fn callee(
        &self,
        name: &str,
        path: &str,
        uri: &Uri,
        peer: &Peer,
        headers: &HeaderMap,
    ) -> Result<(Arc<Upstream>, Uri), Response<Body>> {
        let for_pod = for_pod(path, uri)?;
        let upstream = self.table().get(name).ok_or_else(|| self.no_function(name))?;
        if self.may_call(&upstream.state().function.settings, path, peer, headers) {
            Ok((upstream, for_pod))
        } else {
            Err(reply::unknown_function(name))
        }
    }

    fn may_call(&self, settings: &Settings, path: &str, peer: &Peer, headers: &HeaderMap) -> bool {
        self.may_use(visibility(settings, path), peer, headers)
    }

    /// Before the cluster has told which functions there are, nobody knows that this is none.
    pub(crate) fn no_function(&self, name: &str) -> Response<Body> {
        if self.catalog().is_filled() {
            return reply::unknown_function(name);
        }
        Refusal::Unavailable.reply("the functions of the cluster are not known yet: try again")
    }

    /// What became of the calls of a private function is as private as the function.
    fn may_see(&self, upstream: &Upstream, peer: &Peer, headers: &HeaderMap) -> bool {
        self.may_use(upstream.state().function.settings.visibility, peer, headers)
    }

    /// The function of this name, if there is one that this caller may see.
    fn visible(&self, name: &str, peer: &Peer, headers: &HeaderMap) -> Option<Arc<Upstream>> {
        self.table().get(name).filter(|upstream| self.may_see(upstream, peer, headers))
    }

    async fn mounted(&self, peer: IpAddr, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path();
        match self.hooks().mounts.iter().find(|mount| path.starts_with(&mount.prefix)) {
            Some(mount) => (mount.serve)(request, peer).await,
            None => unknown_path(path),
        }
    }
}

/// Of a path of a function: the strictest that anything in its readings says.
pub(crate) fn visibility(settings: &Settings, path: &str) -> Visibility {
    if settings.path_visibility.is_empty() {
        return settings.visibility;
    }
    let Some(readings) = path::readings(path) else { return Visibility::Private };
    let mut rules = readings.iter().flat_map(|reading| settings.path_rules(reading));
    match rules.any(|rule| rule.unwrap_or(settings.visibility) == Visibility::Private) {
        true => Visibility::Private,
        false => Visibility::Public,
    }
}

/// Whether something is said of a path that keeps strangers out, whatever holds for the function.
pub(crate) fn is_closed(settings: &Settings, path: &str) -> bool {
    if settings.path_visibility.is_empty() {
        return false;
    }
    let closed = |reading: &String| settings.path_rules(reading).contains(&Some(Visibility::Private));
    path::readings(path).is_none_or(|readings| readings.iter().any(closed))
}

/// Two servers may each believe another of two names (RFC 9112, 3.2).
fn names_its_host<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    request.version() != Version::HTTP_11 || (hosts.next().is_some() && hosts.next().is_none())
}

/// What a pod is asked for: `path`, and the query untouched.
fn for_pod(path: &str, uri: &Uri) -> Result<Uri, Response<Body>> {
    let refused = || {
        Refusal::BadPath
            .reply(format_args!("the path {path} leads upward or cannot be read: ask for the place itself"))
    };
    if path::leads_upward(uri.path()) {
        return Err(refused());
    }
    let mut target = BytesMut::with_capacity(path.len() + uri.query().map_or(0, |query| query.len() + 1));
    target.extend_from_slice(path.as_bytes());
    if let Some(query) = uri.query() {
        target.extend_from_slice(b"?");
        target.extend_from_slice(query.as_bytes());
    }
    PathAndQuery::from_maybe_shared(target.freeze()).map(Uri::from).map_err(|_| refused())
}

pub(crate) fn method_not_allowed(route: &Route<'_>) -> Response<Body> {
    let allowed = route.methods().iter().map(|method| method.as_str()).collect::<Vec<_>>().join(", ");
    let mut response = Refusal::MethodNotAllowed.reply(format_args!("only {allowed} can be used here"));
    if let Ok(allowed) = HeaderValue::try_from(allowed) {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}

pub(crate) fn unknown_path(path: &str) -> Response<Body> {
    Refusal::NotFound.reply(format_args!("nothing is served at {path}: functions are at /function/NAME/…"))
}
