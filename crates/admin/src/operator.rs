//! The way of a request to its answer.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header, request};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use metrics::scrape::{Clock, Handle, SystemClock};
use metrics::{Database, Millis};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::exposed::{self, Exposed, Family};
use crate::form::{self, Form};
use crate::reply::{self, Answer, Reply};
use crate::run::Runner;
use crate::{compress, debug, prometheus};

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whoever asks must present it (`Authorization: Bearer …`).
    pub token: Option<String>,
    pub limits: Limits,
    /// Who knows the decisions that `/api/v1/decisions` tells.
    pub decisions: Option<Feed>,
    /// Who knows the objects that `/api/v1/objects` tells.
    pub objects: Option<Feed>,
}

/// Gives what passes the filters, as JSON. A filter is a name and a value, such as `kind` and `Deployment`.
#[derive(Clone)]
pub struct Feed {
    /// What is known.
    pub tell: Arc<Tell>,
    /// The same, then each change as it comes.
    pub follow: Arc<Follow>,
}

pub type Filters = Vec<(String, String)>;
type Tell = dyn Fn(&[(String, String)]) -> serde_json::Value + Send + Sync;
type Follow = dyn Fn(Filters) -> BoxStream<'static, Event> + Send + Sync;

/// A server-sent event: its name and what it tells.
pub type Event = (&'static str, serde_json::Value);

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Feed")
    }
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
    /// Bytes that one query takes, its answer included.
    pub memory: u64,
    /// Queries at once; others wait for their turn.
    pub concurrency: usize,
    /// As long as this; then they are turned away.
    pub wait: Duration,
    /// And so many of them at most.
    pub waiting: usize,
    /// Bytes of all answers that their clients have not read yet.
    pub answers: usize,
    /// Clients that follow decisions or objects.
    pub followers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // Half of the processors are left to calls and decisions, but one slow query should not keep the next from running.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            body: 1 << 20,
            time: Duration::from_secs(30),
            samples: 50_000_000,
            memory: 256 << 20,
            concurrency: (processors / 2).clamp(2, 4),
            wait: Duration::from_secs(10),
            waiting: 64,
            answers: 256 << 20,
            followers: 64,
        }
    }
}

/// Answers an operator's requests. Cheap to clone.
#[derive(Clone)]
pub struct Operator {
    token: Option<Arc<str>>,
    guard: Option<Guard>,
    pages: Option<Pages>,
    more: Option<More>,
    actions: Option<Actions>,
    shared: Arc<Shared>,
}

/// Says why a request is refused before anything else is looked at.
pub type Guard = Arc<dyn Fn(&request::Parts) -> Result<(), &'static str> + Send + Sync>;

/// Answers with what is the same for everybody and tells nothing: a browser cannot present a token for a page. None if
/// the path is not theirs.
pub type Pages = Arc<dyn Fn(&request::Parts) -> Option<Reply> + Send + Sync>;

/// Answers what other parts of the program have to say to operators; none if the path is not theirs.
pub type More =
    Arc<dyn Fn(&request::Parts) -> Option<Pin<Box<dyn Future<Output = Answer> + Send>>> + Send + Sync>;

/// Does what is asked for with a body of at most [`Limits::body`] bytes; none if the path is not theirs. A refusal is a
/// status and a message for the person who asked.
pub type Actions = Arc<
    dyn Fn(
            &request::Parts,
            Bytes,
        ) -> Option<BoxFuture<'static, Result<serde_json::Value, (StatusCode, String)>>>
        + Send
        + Sync,
>;

pub(crate) struct Shared {
    pub(crate) runner: Runner,
    pub(crate) database: Database,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) started: Millis,
    limits: Limits,
    /// Permits for bytes of answers, in units of [`UNIT`].
    answers: Arc<Semaphore>,
    scraper: Option<Handle>,
    exposed: Vec<Arc<dyn Exposed>>,
    decisions: Option<Feed>,
    objects: Option<Feed>,
    followers: Arc<Semaphore>,
}

/// Below this nothing is counted.
const UNIT: usize = 64 << 10;

/// Bytes that are counted until they are gone.
struct Held {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
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
        let Options { token, decisions, objects, .. } = options;
        let answers = Arc::new(Semaphore::new(limits.answers / UNIT));
        let followers = Arc::new(Semaphore::new(limits.followers));
        let shared = Shared {
            runner,
            database,
            clock,
            started,
            limits,
            answers,
            scraper,
            exposed,
            decisions,
            objects,
            followers,
        };
        let token = token.map(Into::into);
        Self { token, guard: None, pages: None, more: None, actions: None, shared: Arc::new(shared) }
    }

    /// The same, for a port whose owner has looked at who asks. It only tells: nothing can be done there.
    pub fn without_token(&self) -> Self {
        let shared = self.shared.clone();
        Self { token: None, guard: None, pages: None, more: None, actions: None, shared }
    }

    pub fn with_guard(self, guard: Guard) -> Self {
        Self { guard: Some(guard), ..self }
    }

    pub fn with_pages(self, pages: Pages) -> Self {
        Self { pages: Some(pages), ..self }
    }

    pub fn with_more(self, more: More) -> Self {
        Self { more: Some(more), ..self }
    }

    pub fn with_actions(self, actions: Actions) -> Self {
        Self { actions: Some(actions), ..self }
    }

    /// Whether a path is one of ours, for ports that serve other things too.
    pub fn serves(path: &str) -> bool {
        path == "/metrics" || path.starts_with("/debug/") || path.starts_with("/api/v1/")
    }

    pub async fn handle<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let (head, body) = request.into_parts();
        if let Some(Err(why)) = self.guard.as_ref().map(|guard| guard(&head)) {
            return reply::boxed(reply::error(StatusCode::FORBIDDEN, why));
        }
        let takes_gzip = compress::takes_gzip(&head.headers);
        if let Some(page) = self.pages.as_ref().and_then(|pages| pages(&head)) {
            return reply::boxed(self.shared.held(page, takes_gzip).await);
        }
        if let Some(refused) = self.token_missing(&head) {
            return reply::boxed(refused);
        }
        if let Some(answer) = self.more.as_ref().and_then(|more| more(&head)) {
            return answer.await;
        }
        if let Some(followed) = self.shared.followed(&head) {
            return followed;
        }
        let reply = self.answer(head, body).await;
        reply::boxed(self.shared.held(reply, takes_gzip).await)
    }

    fn token_missing(&self, head: &request::Parts) -> Option<Reply> {
        if self.token.as_ref().is_none_or(|token| presents(&head.headers, token)) {
            return None;
        }
        let mut refused = reply::error(
            StatusCode::UNAUTHORIZED,
            "a token is needed: send it as Authorization: Bearer TOKEN",
        );
        refused.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Some(refused)
    }

    async fn answer<B>(&self, head: request::Parts, body: B) -> Reply
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let body = match form::read(body, self.shared.limits.body).await {
            Ok(body) => body,
            Err(refused) => return refused,
        };
        if let Some(action) = self.actions.as_ref().and_then(|actions| actions(&head, body.clone())) {
            return match action.await {
                Ok(answer) => reply::json(StatusCode::OK, &answer),
                Err((status, why)) => reply::error(status, &why),
            };
        }
        let path = head.uri.path();
        if let Some(rest) = path.strip_prefix("/api/v1/") {
            let form = Form::new(head.uri.query(), &head.method, &head.headers, &body);
            if let Some(feed) = self.shared.feed(path) {
                return match &head.method {
                    &Method::GET => reply::json(StatusCode::OK, &(feed.tell)(form.pairs())),
                    _ => reply::wrong_method("GET"),
                };
            }
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
fn presents(headers: &HeaderMap, token: &str) -> bool {
    let presented = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "))
        .unwrap_or_default();
    let difference = presented.iter().zip(token.as_bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    presented.len() == token.len() && difference == 0
}

// === impl Shared ===

impl Shared {
    /// A long answer stays in memory until its client has read it, or goes away: only so many bytes of them are held.
    async fn held(&self, reply: Reply, takes_gzip: bool) -> Reply {
        let length = reply.body().size_hint().exact().and_then(|length| usize::try_from(length).ok());
        let n_units = length.unwrap_or_default() / UNIT;
        let units = u32::try_from(n_units).unwrap_or(u32::MAX);
        let Ok(permit) = self.answers.clone().try_acquire_many_owned(units) else {
            return reply::error(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many long answers have not been read yet: ask again later, or for less",
            );
        };
        let reply = if takes_gzip { compress::gzip(reply).await } else { reply };
        if n_units == 0 {
            return reply;
        }
        let (head, body) = reply.into_parts();
        let Ok(bytes) = body.collect().await.map(|body| body.to_bytes());
        Reply::from_parts(head, Full::new(Bytes::from_owner(Held { bytes, _permit: permit })))
    }

    fn feed(&self, path: &str) -> Option<&Feed> {
        match path {
            "/api/v1/decisions" => self.decisions.as_ref(),
            "/api/v1/objects" => self.objects.as_ref(),
            _ => None,
        }
    }

    /// Decisions or objects as server-sent events, if that is what is asked for.
    fn followed(&self, head: &request::Parts) -> Option<Answer> {
        let wants_events = head
            .headers
            .get(header::ACCEPT)
            .is_some_and(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/event-stream")));
        let feed = self.feed(head.uri.path()).filter(|_| wants_events && head.method == Method::GET)?;
        let Ok(place) = self.followers.clone().try_acquire_owned() else {
            return Some(reply::boxed(reply::error(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many clients follow decisions and objects already: ask without Accept: text/event-stream",
            )));
        };
        let query = head.uri.query().unwrap_or_default();
        let filters = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Some(reply::events((feed.follow)(filters), place))
    }

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
