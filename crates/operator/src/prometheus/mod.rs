//! Prometheus's HTTP API: the same parameters, shapes, codes and words.
//!
//! What Ballast has no data for (rules, alerts, exemplars, metadata) is answered as a Prometheus would that has none.

mod answer;
mod query;
mod series;
mod status;

use http::{Method, StatusCode};

use crate::form::Form;
use crate::operator::Shared;
use crate::reply::{self, Reply};
use answer::Answer;

/// `path` is what comes after `/api/v1/`.
pub(crate) async fn answer(shared: &Shared, method: &Method, path: &str, form: Form) -> Reply {
    let takes_post = matches!(
        path,
        "query" | "query_range" | "query_exemplars" | "format_query" | "parse_query" | "labels" | "series"
    );
    match *method {
        Method::GET | Method::HEAD => {}
        Method::POST if takes_post => {}
        _ => return reply::wrong_method(if takes_post { "GET, POST" } else { "GET" }),
    }
    let result = match path {
        "query" => query::instant(shared, &form).await,
        "query_range" => query::range(shared, &form).await,
        "query_exemplars" => query::exemplars(&form),
        "format_query" => query::format(&form),
        "parse_query" => query::parse_tree(&form),
        "labels" => series::label_names(shared, &form).await,
        "series" => series::series(shared, &form).await,
        "metadata" => status::metadata(&form),
        "targets" => status::targets(shared, &form),
        "targets/metadata" => Ok(Answer::empty_list()),
        "rules" => status::rules(&form),
        "alerts" => Ok(Answer::new(serde_json::json!({ "alerts": [] }))),
        "alertmanagers" => {
            Ok(Answer::new(serde_json::json!({ "activeAlertmanagers": [], "droppedAlertmanagers": [] })))
        }
        "status/buildinfo" => Ok(status::build_info()),
        "status/flags" => Ok(Answer::new(serde_json::json!({}))),
        _ => match path.strip_prefix("label/").and_then(|rest| rest.strip_suffix("/values")) {
            Some(name) if !name.contains('/') => series::label_values(shared, name, &form).await,
            _ => return reply::text(StatusCode::NOT_FOUND, "404 page not found\n"),
        },
    };
    match result {
        Ok(answer) => answer.reply(),
        Err(error) => error.reply(),
    }
}
