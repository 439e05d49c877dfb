//! Messages that others post to `/vertices/{vertex}`. A caller is answered when its message is where it cannot get lost,
//! so that whoever is told 204 need not send again, and whoever is not may: with the same `X-Numaflow-Id` it counts once.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header::AUTHORIZATION};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use prost_types::Timestamp;
use subtle::ConstantTimeEq;
use tokio::sync::{Notify, oneshot};

use super::{Result, Source, now};
use crate::{
    buffer::{MAX_MESSAGE_BYTES, Ticket},
    message::{Id, Message, Read},
};

/// Calls that wait for their message to be forwarded; more are told to come again.
const MAX_WAITING: usize = 2000;
/// Leaves room for keys and headers beside it in a buffer.
const MAX_BODY: usize = MAX_MESSAGE_BYTES - (64 << 10);
const ID: &str = "x-numaflow-id";
const EVENT_TIME: &str = "x-numaflow-event-time";
const KEYS: &str = "x-numaflow-keys";

pub struct Http {
    vertex: String,
    token: Option<String>,
    state: Mutex<State>,
    news: Notify,
    /// Names calls without an id, and the run of this process with them.
    prefix: String,
    next: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Not read yet, in the order of arrival.
    ready: BTreeMap<u64, Message>,
    callers: HashMap<u64, oneshot::Sender<StatusCode>>,
    is_closed: bool,
}

impl Http {
    pub fn new(vertex: String, token: Option<String>, prefix: String) -> Arc<Self> {
        let (state, news, next) = (Mutex::default(), Notify::new(), AtomicU64::new(0));
        Arc::new(Http { vertex, token, state, news, prefix, next })
    }

    /// No more calls are taken.
    pub fn close(&self) {
        self.state().is_closed = true;
    }

    pub async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let is_post = request.method() == Method::POST;
        match request.uri().path() {
            "/health" => return reply(StatusCode::NO_CONTENT, ""),
            path if is_post && path.strip_prefix("/vertices/") == Some(&self.vertex) => {}
            _ => {
                return reply(
                    StatusCode::NOT_FOUND,
                    "post messages to /vertices/ and the name of the vertex\n",
                );
            }
        }
        if let Some(token) = &self.token {
            let shown = request.headers().get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
            let wanted = format!("Bearer {token}");
            let is_same = shown.is_some_and(|shown| bool::from(shown.ct_eq(wanted.as_bytes())));
            if !is_same {
                return reply(StatusCode::FORBIDDEN, "show the token of this source as a bearer token\n");
            }
        }
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, MAX_BODY).collect().await else {
            return reply(StatusCode::PAYLOAD_TOO_LARGE, "a message may have 960 KiB\n");
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let message = self.message(&head.headers, body.to_bytes(), number);
        let (sender, answer) = oneshot::channel();
        {
            let mut state = self.state();
            if state.is_closed || state.callers.len() >= MAX_WAITING {
                return reply(
                    StatusCode::TOO_MANY_REQUESTS,
                    "too many messages are waiting: try again later\n",
                );
            }
            state.callers.insert(number, sender);
            state.ready.insert(number, message);
        }
        self.news.notify_one();
        let status = answer.await.unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        reply(status, if status.is_success() { "" } else { "the message was not forwarded: send it again\n" })
    }

    fn message(&self, headers: &HeaderMap, value: Bytes, number: u64) -> Message {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let offset = text(ID).map_or_else(|| format!("{}-{number}", self.prefix), str::to_owned);
        let millis = text(EVENT_TIME).and_then(|millis| millis.parse::<i64>().ok());
        let event_time = millis.map_or_else(now, |millis| Timestamp {
            seconds: millis.div_euclid(1000),
            nanos: (millis.rem_euclid(1000) * 1_000_000) as i32,
        });
        let keys = text(KEYS).map(|keys| keys.split(',').map(str::to_owned).collect()).unwrap_or_default();
        let kept = headers.iter().filter(|(name, _)| *name != AUTHORIZATION);
        let headers =
            kept.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
        Message {
            id: Id { vertex: self.vertex.clone(), offset, index: 0 },
            keys,
            value,
            event_time: Some(event_time),
            headers: headers.collect(),
            ..Message::default()
        }
    }

    fn settle(&self, tickets: &[Ticket], status: StatusCode) {
        let mut state = self.state();
        for number in tickets.iter().filter_map(|ticket| ticket.sequence().ok()) {
            if let Some(caller) = state.callers.remove(&number) {
                let _ = caller.send(status);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Source for Http {
    async fn read(&self, max: usize, wait: Duration) -> Result<Vec<Read>> {
        let until = tokio::time::Instant::now() + wait;
        loop {
            let mut read = Vec::new();
            {
                let mut state = self.state();
                while read.len() < max
                    && let Some((number, message)) = state.ready.pop_first()
                {
                    read.push(Read { message, ticket: Ticket::of(number) });
                }
            }
            if !read.is_empty() {
                return Ok(read);
            }
            if tokio::time::timeout_at(until, self.news.notified()).await.is_err() {
                return Ok(Vec::new());
            }
        }
    }

    async fn ack(&self, tickets: &[Ticket]) -> Result<()> {
        self.settle(tickets, StatusCode::NO_CONTENT);
        Ok(())
    }

    /// The caller has the message: it is the caller who sends it again.
    async fn nack(&self, tickets: &[Ticket], _: Duration) -> Result<()> {
        self.settle(tickets, StatusCode::SERVICE_UNAVAILABLE);
        Ok(())
    }
}

fn reply(status: StatusCode, words: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(words.as_bytes())));
    *response.status_mut() = status;
    response
}
