//! Answers.

use std::pin::Pin;

use bytes::Bytes;
use futures::Stream;
use http::{HeaderValue, header};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use serde_json::Value;

use super::BoxError;
use crate::error::ApiError;

pub type Body = UnsyncBoxBody<Bytes, BoxError>;
pub type Response = http::Response<Body>;

pub fn raw(code: u16, content_type: &'static str, bytes: Bytes) -> Response {
    respond(code, content_type, Full::new(bytes).map_err(|never| match never {}).boxed_unsync())
}

pub fn json(code: u16, value: &Value) -> Response {
    raw(code, "application/json", Bytes::from(value.to_string()))
}

pub fn empty(code: u16) -> Response {
    raw(code, "text/plain", Bytes::new())
}

pub fn status(error: &ApiError) -> Response {
    let mut response = json(error.code(), &error.to_status());
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// A body that is made piece by piece while it is sent.
pub fn chunked(code: u16, chunks: impl Iterator<Item = Bytes> + Send + 'static) -> Response {
    stream(code, "application/json", Box::pin(futures::stream::iter(chunks.map(Ok))))
}

pub fn stream(
    code: u16,
    content_type: &'static str,
    chunks: Pin<Box<dyn Stream<Item = Result<Bytes, BoxError>> + Send>>,
) -> Response {
    use futures::StreamExt;
    let frames = chunks.map(|chunk| chunk.map(Frame::data));
    respond(code, content_type, StreamBody::new(frames).boxed_unsync())
}

fn respond(code: u16, content_type: &'static str, body: Body) -> Response {
    let mut response = http::Response::new(body);
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
