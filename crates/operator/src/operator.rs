//! The way of a request to its answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body::Body;
use metrics::scrape::{Clock, Handle, SystemClock};
use metrics::{Database, Millis};

use crate::exposed::{self, Exposed, Family};
use crate::form::{self, Form};
use crate::reply::{self, Reply};
use crate::run::Runner;
use crate::{compress, debug, prometheus};

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whoever asks must present it (`Authorization: Bearer …`).
    pub token: Option<String>,
    pub limits: Limits,
}

/// What one request may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body: usize,
    /// A query that runs longer is cut off; a `timeout` that a client sends can only shorten it.
    pub time: Duration,
    /// Samples that one query reads and makes.
    pub samples: u64,
    /// Queries at once; others wait for their turn.
    pub concurrency: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // Scrapes wait while a query reads the store: what takes longer than an interval of theirs must be the exception.
        Self { body: 1 << 20, time: Duration::from_secs(30), samples: 50_000_000, concurrency: 8 }
    }
}

/// Answers an operator's requests. Cheap to clone.
#[derive(Clone)]
pub struct Operator {
    token: Option<Arc<str>>,
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) runner: Runner,
    pub(crate) database: Database,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) started: Millis,
    limits: Limits,
    scraper: Option<Handle>,
    exposed: Vec<Arc<dyn Exposed>>,
}

// === impl Operator ===

impl Operator {
    /// `exposed` is what `/metrics` shows beside the store's and the scraper's own figures.
    pub fn new(
        database: Database,
        scraper: Option<Handle>,
        exposed: Vec<Arc<dyn Exposed>>,
        options: Options,
    ) -> Self {
        Self::with_clock(database, scraper, exposed, options, Arc::new(SystemClock))
    }

    pub fn with_clock(
        database: Database,
        scraper: Option<Handle>,
        exposed: Vec<Arc<dyn Exposed>>,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let limits = options.limits;
        let runner = Runner::new(database.clone(), clock.clone(), limits);
        let started = clock.now();
        let shared = Shared { runner, database, clock, started, limits, scraper, exposed };
        Self { token: options.token.map(Into::into), shared: Arc::new(shared) }
    }

    /// The same, for a port where nobody needs a token.
    pub fn without_token(&self) -> Self {
        Self { token: None, shared: self.shared.clone() }
    }

    /// Whether a path is one of ours, for ports that serve other things too.
    pub fn serves(path: &str) -> bool {
        path == "/metrics" || path.starts_with("/debug/") || path.starts_with("/api/v1/")
    }

    pub async fn handle<B>(&self, request: Request<B>) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let takes_gzip = compress::takes_gzip(request.headers());
        let reply = self.answer(request).await;
        if takes_gzip { compress::gzip(reply).await } else { reply }
    }

    async fn answer<B>(&self, request: Request<B>) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        if let Some(token) = &self.token
            && !presents(&request, token)
        {
            let mut reply = reply::error(
                StatusCode::UNAUTHORIZED,
                "a token is needed: send it as Authorization: Bearer TOKEN",
            );
            reply.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return reply;
        }
        let (head, body) = request.into_parts();
        let body = match form::read(body, self.shared.limits.body).await {
            Ok(body) => body,
            Err(refused) => return refused,
        };
        let path = head.uri.path();
        if let Some(rest) = path.strip_prefix("/api/v1/") {
            let form = Form::new(head.uri.query(), &head.method, &head.headers, &body);
            return prometheus::answer(&self.shared, &head.method, rest, form).await;
        }
        match (path, &head.method) {
            ("/debug/promql/eval", &Method::POST) => debug::evaluate(&self.shared, &body).await,
            ("/debug/promql/eval", _) => reply::wrong_method("POST"),
            ("/debug/store", &Method::GET) => self.shared.summary().await,
            ("/metrics", &Method::GET) => self.shared.metrics().await,
            ("/debug/store" | "/metrics", _) => reply::wrong_method("GET"),
            _ => reply::error(StatusCode::NOT_FOUND, &format!("there is nothing at {path}")),
        }
    }
}

/// Takes as long for a token that is almost right as for one that is not.
fn presents<B>(request: &Request<B>, token: &str) -> bool {
    let presented = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "))
        .unwrap_or_default();
    let difference = presented.iter().zip(token.as_bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    presented.len() == token.len() && difference == 0
}

// === impl Shared ===

impl Shared {
    pub(crate) fn scraper(&self) -> Option<&Handle> {
        self.scraper.as_ref()
    }

    /// Counting the points of 50,000 series takes a while.
    async fn summary(&self) -> Reply {
        let database = self.database.clone();
        match tokio::task::spawn_blocking(move || database.summary()).await {
            Ok(summary) => reply::json(StatusCode::OK, &summary),
            Err(error) => reply::error(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }

    async fn metrics(&self) -> Reply {
        let database = self.database.clone();
        let store = move || exposed::of_store(&database);
        let mut families: Vec<Family> = tokio::task::spawn_blocking(store).await.unwrap_or_default();
        families.extend(self.runner.families());
        families.extend(self.scraper.iter().flat_map(|s| Family::of_gauges(&s.gauges())));
        families.extend(self.exposed.iter().flat_map(|e| e.families()));
        let content_type = "text/plain; version=0.0.4; charset=utf-8";
        reply::of_type(StatusCode::OK, content_type, exposed::render(families))
    }
}
