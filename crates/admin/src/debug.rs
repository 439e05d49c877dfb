//! The debug endpoints of SlimFaas, in its words.

use http::StatusCode;
use metrics::Millis;
use promql::{AutoscalingValue, Engine, Error, autoscaling_value_within, parse};
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
    let now = shared.clock.now();
    let at = asked.now_unix_seconds.map(|seconds| (seconds * 1000.0) as Millis);
    let database = shared.database.clone();
    let value = shared.runner.run(None, move |turn| {
        let plan = parse(&query)?;
        if matches!(plan.kind(), promql::Kind::Matrix | promql::Kind::String) {
            return Ok(Err(format!("{query} gives no number: end it as a scalar or an instant vector")));
        }
        database.ask(&plan.metric_names(), now);
        let at = at.or_else(|| turn.view.latest()).unwrap_or(now);
        autoscaling_value_within(&Engine::default(), &plan, turn.view, at, turn.budget).map(Ok)
    });
    match value.await {
        Ok(Ok(AutoscalingValue::Value(v) | AutoscalingValue::AtLeast(v))) if v.is_finite() => {
            reply::json(StatusCode::OK, &json!({ "value": v }))
        }
        Ok(Ok(_)) => bad_request(NO_NUMBER),
        Ok(Err(no_number)) => bad_request(&no_number),
        Err(Failure::Query(Error::Parse(error))) if error.message.ends_with(promql::TRAILING) => {
            bad_request("Unexpected trailing characters in query")
        }
        Err(Failure::Query(
            error @ (Error::Parse(_)
            | Error::Experimental { .. }
            | Error::Unsupported(_)
            | Error::TooComplex { .. }),
        )) => bad_request(&error.to_string()),
        Err(failure @ Failure::Busy { .. }) => {
            problem(StatusCode::SERVICE_UNAVAILABLE, "Too many queries", &failure.to_string())
        }
        Err(failure) => problem(StatusCode::INTERNAL_SERVER_ERROR, "Evaluation error", &failure.to_string()),
    }
}

fn bad_request(message: &str) -> Reply {
    reply::error(StatusCode::BAD_REQUEST, message)
}

/// RFC 7807.
fn problem(status: StatusCode, title: &str, detail: &str) -> Reply {
    let body = json!({ "type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail });
    reply::of_type(status, "application/problem+json", body.to_string())
}
