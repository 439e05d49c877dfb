//! The gateway: what all requests share, and the way of each.

use std::{net::IpAddr, sync::Arc};

use api::slimfaas::Visibility;
use functions::{Activity, Catalog};
use futures::{
    FutureExt as _,
    future::{BoxFuture, Either, ready},
};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header, uri::PathAndQuery};
use hyper::body::Incoming;
use tokio_util::task::TaskTracker;

use crate::{
    async_calls,
    body::Body,
    call::{self, Call},
    caller::Peer,
    ending::Ending,
    metrics::Metrics,
    options::{Hooks, Options},
    path, publish,
    reply::{self, Refusal},
    request_id::{REQUEST_ID, RequestIds},
    route::Route,
    status,
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
}

// === impl Gateway ===

impl Gateway {
    /// Must be called within a runtime: it follows the catalog from now on.
    pub fn new(parts: Parts) -> Self {
        let metrics = Metrics::default();
        let table = Table::new(parts.catalog.clone(), metrics.clone());
        tokio::spawn(upstream::run(Arc::downgrade(&table)));
        Gateway(Arc::new(Inner {
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
        let cors = &self.options().cors;
        let origin = cors.origin(request.headers()).map(|origin| (origin, self.clone()));
        let request_id = self.0.ids.of(request.headers().get(REQUEST_ID));
        let answer = match cors.preflight(&request) {
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
        if route == Route::Unknown {
            return self.mounted(peer.ip, request).await;
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
                async_calls::callback(gateway, name, id, status).await
            }
            Route::AsyncResult { name, .. } | Route::AsyncDead { name, .. }
                if !self.may_see(name, peer, request.headers()) =>
            {
                self.no_function(name)
            }
            Route::AsyncResult { name, id } => async_calls::result(gateway, name, id).await,
            Route::AsyncDead { name, id, replay } => {
                async_calls::dead(gateway, request.method(), name, id, replay).await
            }
            Route::Wake { name } => match self.table().get(name) {
                Some(upstream) => {
                    self.activity().touch(&upstream.name);
                    reply::empty(StatusCode::NO_CONTENT)
                }
                None => self.no_function(name),
            },
            Route::WakeAll => {
                for upstream in self.table().all() {
                    self.activity().touch(&upstream.name);
                }
                reply::empty(StatusCode::NO_CONTENT)
            }
            Route::Status { name } => status::one(gateway, name),
            Route::StatusAll => status::all(gateway),
            Route::StatusStream => status::stream(gateway),
            Route::Health => reply::text(StatusCode::OK, "OK"),
            Route::Ready => status::ready(gateway).await,
            Route::Metrics => status::metrics(gateway),
            Route::Call { .. } | Route::Unknown => unknown_path(uri.path()),
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
        let state = upstream.state();
        let settings = &state.function.settings;
        let visibility = if settings.path_visibility.is_empty() {
            settings.visibility
        } else {
            settings.visibility_of(&path::plain(path))
        };
        if self.may_use(visibility, peer, headers) {
            Ok((upstream, for_pod))
        } else {
            Err(reply::unknown_function(name))
        }
    }

    /// Before the cluster has told which functions there are, nobody knows that this is none.
    pub(crate) fn no_function(&self, name: &str) -> Response<Body> {
        if self.catalog().is_filled() {
            return reply::unknown_function(name);
        }
        Refusal::Unavailable.reply("the functions of the cluster are not known yet: try again")
    }

    /// What became of the calls of a private function is as private as the function.
    fn may_see(&self, name: &str, peer: &Peer, headers: &HeaderMap) -> bool {
        let visibility = self.table().get(name).map(|upstream| upstream.state().function.settings.visibility);
        visibility.is_some_and(|visibility| self.may_use(visibility, peer, headers))
    }

    async fn mounted(&self, peer: IpAddr, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path();
        match self.hooks().mounts.iter().find(|mount| path.starts_with(&mount.prefix)) {
            Some(mount) => (mount.serve)(request, peer).await,
            None => unknown_path(path),
        }
    }
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
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    PathAndQuery::from_maybe_shared(bytes::Bytes::from(target)).map(Uri::from).map_err(|_| refused())
}

fn method_not_allowed(route: &Route<'_>) -> Response<Body> {
    let allowed = route.methods().iter().map(|method| method.as_str()).collect::<Vec<_>>().join(", ");
    let mut response = Refusal::MethodNotAllowed.reply(format_args!("only {allowed} can be used here"));
    if let Ok(allowed) = HeaderValue::try_from(allowed) {
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}

fn unknown_path(path: &str) -> Response<Body> {
    Refusal::NotFound.reply(format_args!("nothing is served at {path}: functions are at /function/NAME/…"))
}
