//! The debug endpoints of SlimFaas, in its words.

use http::StatusCode;
use metrics::Millis;
use promql::{AutoscalingValue, Engine, Error, autoscaling_value, parse};
use serde::Deserialize;
use serde_json::json;

use crate::operator::Shared;
use crate::reply::{self, Reply};
use crate::run::Failure;

const NO_NUMBER: &str = "PromQL result is NaN or Infinity (probably no data or division by zero).";

/// Of the years 1970 to 9999, in seconds.
const MOMENTS: std::ops::RangeInclusive<f64> = 0.0..=253_402_300_799.0;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    now_unix_seconds: Option<f64>,
}

/// The one number that the autoscaler would see. What the query names is scraped from now on.
pub(crate) async fn evaluate(shared: &Shared, body: &[u8]) -> Reply {
    let asked: Asked = match serde_json::from_slice(body) {
        Ok(asked) => asked,
        Err(error) => {
            let message =
                format!("the body is not {{\"query\": \"…\", \"nowUnixSeconds\": 1732100000}}: {error}");
            return bad_request(&message);
        }
    };
    if let Some(seconds) = asked.now_unix_seconds.filter(|seconds| !MOMENTS.contains(seconds)) {
        return bad_request(&format!(
            "nowUnixSeconds is {seconds:e}: use seconds since 1970, before the year 10000"
        ));
    }
    let query = asked.query.unwrap_or_default();
    if query.trim().is_empty() {
        return bad_request("query is required");
    }
    let plan = match parse(&query) {
        Ok(plan) => plan,
        Err(_) if has_trailing_characters(&query) => {
            return bad_request("Unexpected trailing characters in query");
        }
        Err(error) => return bad_request(&error.to_string()),
    };
    if matches!(plan.kind(), promql::Kind::Matrix | promql::Kind::String) {
        return bad_request(&format!("{query} gives no number: end it as a scalar or an instant vector"));
    }
    let now = shared.clock.now();
    shared.database.ask(&plan.metric_names(), now);
    let at = asked.now_unix_seconds.map(|seconds| (seconds * 1000.0) as Millis);
    let value = shared.runner.run(None, move |turn| {
        let at = at.or_else(|| turn.store.latest()).unwrap_or(now);
        autoscaling_value(&Engine::default(), &plan, turn.store, at, turn.limits)
    });
    match value.await {
        Ok(AutoscalingValue::Value(v) | AutoscalingValue::AtLeast(v)) if v.is_finite() => {
            reply::json(StatusCode::OK, &json!({ "value": v }))
        }
        Ok(_) => bad_request(NO_NUMBER),
        Err(Failure::Query(error @ (Error::Parse(_) | Error::Unsupported(_) | Error::TooComplex { .. }))) => {
            bad_request(&error.to_string())
        }
        Err(Failure::Query(error)) => problem(&error.to_string()),
        Err(Failure::Lost(why)) => problem(&why),
    }
}

fn bad_request(message: &str) -> Reply {
    reply::error(StatusCode::BAD_REQUEST, message)
}

/// RFC 7807.
fn problem(detail: &str) -> Reply {
    let body = json!({ "type": "about:blank", "title": "Evaluation error", "status": 500, "detail": detail });
    let text = body.to_string();
    reply::of_type(StatusCode::INTERNAL_SERVER_ERROR, "application/problem+json", text)
}

/// Whether the query would be one without its end.
fn has_trailing_characters(query: &str) -> bool {
    /// How far back to look: the parser is asked once for each place.
    const PLACES: usize = 64;
    // An end that begins with an operator or an opening bracket is not too much: something is missing behind it.
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    let begins_trailing = |at: &usize| {
        let before = query[..*at].chars().next_back().is_some_and(in_word);
        let after = query[*at..].trim_start().chars().next();
        let is_new = |c: char| {
            (in_word(c) && !(before && query[*at..].starts_with(in_word))) || ")]},\"'`".contains(c)
        };
        after.is_some_and(is_new)
    };
    let places = query.char_indices().map(|(at, _)| at).filter(begins_trailing);
    let places: Vec<usize> = places.collect();
    places.into_iter().rev().take(PLACES).any(|at| parse(&query[..at]).is_ok())
}
