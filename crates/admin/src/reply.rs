//! Answers.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream, stream::BoxStream};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use serde::Serialize;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;

use crate::operator::Event;

/// So often something is sent to a client that has nothing to be told, to find out whether it is still there.
const STILL_HERE: Duration = Duration::from_secs(15);

pub type Reply = Response<Full<Bytes>>;

/// What a client gets; other parts of the program may answer with a stream.
pub type Answer = Response<UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>>;

pub(crate) fn boxed(reply: Reply) -> Answer {
    reply.map(|body| body.map_err(|never| match never {}).boxed_unsync())
}

/// Server-sent events for as long as the client wants them. They are made when it takes them, so that a slow one costs
/// nothing but its place.
pub(crate) fn events(events: BoxStream<'static, Event>, place: OwnedSemaphorePermit) -> Answer {
    let frames = stream::unfold((events, place), |(mut events, place)| async move {
        let text = match tokio::time::timeout(STILL_HERE, events.next()).await {
            Ok(None) => return None,
            Ok(Some((name, data))) => format!("event: {name}\ndata: {data}\n\n"),
            Err(_) => ": still here\n\n".to_owned(),
        };
        Some((Ok(Frame::data(Bytes::from(text))), (events, place)))
    });
    let mut answer = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}

pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Reply {
    match serde_json::to_vec(body) {
        Ok(bytes) => of_type(status, "application/json", bytes),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

pub(crate) fn text(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    of_type(status, "text/plain; charset=utf-8", body)
}

pub(crate) fn of_type(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

pub(crate) fn error(status: StatusCode, message: &str) -> Reply {
    json(status, &json!({ "error": message }))
}

pub(crate) fn wrong_method(allowed: &'static str) -> Reply {
    let mut reply = error(StatusCode::METHOD_NOT_ALLOWED, &format!("use {allowed}"));
    reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    reply
}
