//! How a call ended, for whoever knows its id.

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use super::{
    ELEMENT_ID, TRY_NUMBER,
    record::{self, Finished},
    refused_by_store,
};
use crate::{
    body::Body,
    gateway::Gateway,
    reply::{self, Refusal},
};

/// `pending`, `done` or `dead`: tells a function's own 202 and 404 from ours.
const RESULT: HeaderName = HeaderName::from_static("ballast-result");
/// The body was too large to keep.
const TRUNCATED: HeaderName = HeaderName::from_static("ballast-result-truncated");

pub(crate) fn key(function: &str, id: &str) -> String {
    format!("{}{function}/{id}", store::RESULTS)
}

/// The function's own answer; 202 while there is none yet.
pub(crate) async fn result(gateway: &Gateway, name: &str, id: &str) -> Response<Body> {
    // Asked first: a call that ends in between has its result by then.
    let place = match gateway.store().find(name, id).await {
        Ok(place) => place,
        Err(error) => return refused_by_store(&error),
    };
    let is_pending = matches!(place, Some(store::Place::Waiting { .. } | store::Place::InFlight { .. }));
    let kept = match gateway.store().get(&key(name, id)).await {
        Ok(kept) => kept.filter(|_| !is_pending),
        Err(error) => return refused_by_store(&error),
    };
    let mut response = match (kept, place) {
        (Some(kept), _) => match record::unpack::<Finished>(&kept.value) {
            Some((finished, body)) => answer(finished, body),
            None => return Refusal::Unavailable.reply("the result cannot be read"),
        },
        (None, Some(store::Place::Dead { reason, .. })) => {
            let mut response = reply::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{reason}\n"));
            response.headers_mut().insert(RESULT, HeaderValue::from_static("dead"));
            response
        }
        (None, Some(_)) => {
            let mut response = reply::empty(StatusCode::ACCEPTED);
            response.headers_mut().insert(RESULT, HeaderValue::from_static("pending"));
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            response
        }
        (None, None) => {
            return Refusal::NotFound.reply(format_args!(
                "{name} has no call {id}: it never was, or its result is no longer kept"
            ));
        }
    };
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().insert(ELEMENT_ID, id);
    }
    response
}

fn answer(finished: Finished, body: bytes::Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(finished.status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = HeaderMap::from(finished.headers);
    let headers = response.headers_mut();
    // that of what is kept, not that of what was answered
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(RESULT, HeaderValue::from_static(if finished.dead.is_some() { "dead" } else { "done" }));
    headers.insert(TRY_NUMBER, finished.attempt.into());
    if finished.truncated {
        headers.insert(TRUNCATED, HeaderValue::from_static("true"));
    }
    response
}
