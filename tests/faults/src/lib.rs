//! Faults between a controller and its API server.
//!
//! [`Faults::client`] gives a `kube::Client` whose requests pass through here on their way to another client. What can
//! go wrong is what does go wrong with real controllers: the process dies between two writes, a read comes from the
//! past, a watch loses or repeats events, the server refuses or is slow. A controller passes when the end state is
//! that of an undisturbed run.

mod metered;
pub mod trials;
mod watch;
mod world;

use std::{
    collections::HashMap,
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use kube::client::Body;
use serde_json::json;

pub use cluster::eventually;
pub use metered::Loads;
pub use world::{RELIST_PERIOD, Start, World};

/// What goes wrong, and how often. The default is: nothing.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The n-th write still reaches the server; its answer and everything after it is lost.
    pub crash_after_write: Option<usize>,
    /// Every n-th request is refused with this status instead of being sent.
    pub refuse: Option<(usize, StatusCode)>,
    /// The first list of each kind is answered with what an earlier controller saw first (see [`Faults::inherit`]).
    pub stale_lists: bool,
    /// Every n-th event of a watch is lost.
    pub lose_event: Option<usize>,
    /// Every n-th event of a watch comes twice.
    pub repeat_event: Option<usize>,
    /// Each answer comes this much later.
    pub delay: Duration,
}

/// One life of a controller process.
#[derive(Clone)]
pub struct Faults {
    server: kube::Client,
    plan: Plan,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    requests: usize,
    writes: usize,
    crashed: bool,
    refused: usize,
    /// The first answer to each list, by path.
    first_lists: HashMap<String, Bytes>,
    stale: HashMap<String, Bytes>,
    stale_answers: usize,
}

/// The connection is gone: what a client sees of a crash.
#[derive(Debug)]
pub struct Gone;

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is gone")
    }
}

impl std::error::Error for Gone {}

// === impl Faults ===

impl Faults {
    pub fn new(server: kube::Client, plan: Plan) -> Self {
        Self { server, plan, state: Arc::default() }
    }

    /// The past that stale reads come from: what `earlier` was told at its start.
    pub fn inherit(self, earlier: &Self) -> Self {
        let lists = earlier.state().first_lists.clone();
        self.state().stale = lists;
        self
    }

    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    pub fn has_crashed(&self) -> bool {
        self.state().crashed
    }

    pub fn writes(&self) -> usize {
        self.state().writes
    }

    /// How many requests were refused: a plan that never struck proves nothing.
    pub fn refused(&self) -> usize {
        self.state().refused
    }

    pub fn stale_answers(&self) -> usize {
        self.state().stale_answers
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn pass(self, request: Request<Body>) -> Result<Response<Answer>, BoxError> {
        let is_write = !matches!(*request.method(), Method::GET | Method::HEAD);
        let query = request.uri().query().unwrap_or_default();
        let is_watch = query.contains("watch=true") || query.contains("watch=1");
        let fills_a_cache = !is_write && !is_watch && is_paged(query);
        let list = fills_a_cache.then(|| request.uri().path().to_owned());
        {
            let mut state = self.state();
            if state.crashed {
                return Err(Gone.into());
            }
            state.requests += 1;
            if let Some((every, status)) = self.plan.refuse
                && state.requests.is_multiple_of(every)
            {
                state.refused += 1;
                return Ok(refusal(status));
            }
            if self.plan.stale_lists
                && let Some(body) = list.as_ref().and_then(|path| state.stale.remove(path))
            {
                state.stale_answers += 1;
                return Ok(Response::new(whole(body)));
            }
        }
        // Counted before it is made: whoever sees what was written must find it counted.
        let write = is_write.then(|| {
            let mut state = self.state();
            state.writes += 1;
            state.writes
        });
        let response = self.server.send(request).await?;
        if write.is_some() && write == self.plan.crash_after_write {
            self.state().crashed = true;
            return Err(Gone.into());
        }
        if self.plan.delay > Duration::ZERO {
            tokio::time::sleep(self.plan.delay).await;
        }
        if is_watch && response.status().is_success() {
            let (parts, body) = response.into_parts();
            return Ok(Response::from_parts(parts, watch::disturbed(body, self)));
        }
        match list {
            Some(path) if response.status().is_success() => {
                let (parts, body) = response.into_parts();
                let bytes = body.collect().await?.to_bytes();
                if is_list(&bytes) {
                    self.state().first_lists.entry(path).or_insert_with(|| bytes.clone());
                }
                Ok(Response::from_parts(parts, whole(bytes)))
            }
            _ => Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync())),
        }
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Answer = UnsyncBoxBody<Bytes, BoxError>;

impl tower::Service<Request<Body>> for Faults {
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().pass(request))
    }
}

/// Only what fills a cache is read in pages. Every other list is a question about this moment (the members of one object,
/// the present version), which an API server answers from its store as it does when a single object is read.
fn is_paged(query: &str) -> bool {
    query.split('&').any(|part| part.starts_with("limit=") && part != "limit=1")
}

/// Reads of single objects are never stale either.
fn is_list(body: &[u8]) -> bool {
    let kind = serde_json::from_slice::<serde_json::Value>(body)
        .ok()
        .and_then(|body| body["kind"].as_str().map(|kind| kind.ends_with("List")));
    kind.unwrap_or(false)
}

fn whole(body: Bytes) -> Answer {
    Full::new(body).map_err(|never: Infallible| match never {}).boxed_unsync()
}

fn refusal(status: StatusCode) -> Response<Answer> {
    let reason = match status {
        StatusCode::CONFLICT => "Conflict",
        StatusCode::GONE => "Expired",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "a fault of the test", "reason": reason, "code": status.as_u16(),
    });
    let mut response = Response::new(whole(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response
}
