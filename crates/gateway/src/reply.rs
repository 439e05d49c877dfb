//! Answers of the gateway itself. Each failure has a name in the header `ballast-error`, so that a caller can tell
//! them from the same status of a function.

use std::fmt::Display;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use crate::body::Body;

pub(crate) const ERROR: HeaderName = HeaderName::from_static("ballast-error");

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Why the gateway answers instead of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotFound,
    Forbidden,
    MethodNotAllowed,
    BadPath,
    BadRequest,
    BodyTooLarge,
    SlowClient,
    TooManyConnections,
    TooManyHeld,
    CannotWake,
    NoConnection,
    BrokenConnection,
    Deadline,
    TooManyStreams,
    QueueFull,
    Unavailable,
}

impl Refusal {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Refusal::NotFound => StatusCode::NOT_FOUND,
            Refusal::Forbidden => StatusCode::FORBIDDEN,
            Refusal::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::BadPath | Refusal::BadRequest => StatusCode::BAD_REQUEST,
            Refusal::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::SlowClient => StatusCode::REQUEST_TIMEOUT,
            Refusal::TooManyConnections
            | Refusal::TooManyHeld
            | Refusal::CannotWake
            | Refusal::NoConnection
            | Refusal::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::BrokenConnection => StatusCode::BAD_GATEWAY,
            Refusal::Deadline => StatusCode::GATEWAY_TIMEOUT,
            Refusal::TooManyStreams | Refusal::QueueFull => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Refusal::NotFound => "not-found",
            Refusal::Forbidden => "forbidden",
            Refusal::MethodNotAllowed => "method-not-allowed",
            Refusal::BadPath => "bad-path",
            Refusal::BadRequest => "bad-request",
            Refusal::BodyTooLarge => "body-too-large",
            Refusal::SlowClient => "slow-client",
            Refusal::TooManyConnections => "too-many-connections",
            Refusal::TooManyHeld => "too-many-held",
            Refusal::CannotWake => "cannot-wake",
            Refusal::NoConnection => "no-connection",
            Refusal::BrokenConnection => "broken-connection",
            Refusal::Deadline => "deadline",
            Refusal::TooManyStreams => "too-many-streams",
            Refusal::QueueFull => "queue-full",
            Refusal::Unavailable => "unavailable",
        }
    }

    /// Seconds after which trying again makes sense: nothing of the call has happened yet.
    fn retry_after(self) -> Option<&'static str> {
        match self {
            Refusal::TooManyConnections
            | Refusal::TooManyHeld
            | Refusal::NoConnection
            | Refusal::QueueFull
            | Refusal::Unavailable => Some("1"),
            Refusal::CannotWake | Refusal::TooManyStreams => Some("10"),
            _ => None,
        }
    }

    pub(crate) fn reply(self, message: impl Display) -> Response<Body> {
        let mut response = text(self.status(), format!("{message}\n"));
        let headers = response.headers_mut();
        headers.insert(ERROR, HeaderValue::from_static(self.name()));
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        response
    }
}

pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    with_type(status, TEXT, text.into())
}

pub(crate) fn json(status: StatusCode, value: &impl serde::Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(json) => with_type(status, JSON, json.into()),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

pub(crate) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

pub(crate) fn with_type(status: StatusCode, kind: HeaderValue, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

pub(crate) fn unknown_function(name: &str) -> Response<Body> {
    Refusal::NotFound.reply(format_args!("there is no function {name} here that you may call"))
}
