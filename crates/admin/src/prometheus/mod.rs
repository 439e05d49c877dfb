//! Prometheus's HTTP API: the same parameters, shapes, codes and words.
//!
//! What Ballast has no data for (rules, alerts, exemplars, metadata, blocks) is answered as a Prometheus would that has
//! none; what changes data is disabled, as it is there by default.

mod answer;
mod cardinality;
mod query;
mod series;
mod status;
mod write;

use http::{Method, StatusCode};

use crate::form::Form;
use crate::operator::Shared;
use crate::reply::{self, Reply};
use answer::{Answer, ApiError, ErrorType};
use serde_json::json;

/// `path` is what comes after `/api/v1/`.
pub(crate) async fn answer(shared: &Shared, method: &Method, path: &str, form: Form) -> Reply {
    let is_admin = path.starts_with("admin/tsdb/");
    let takes_post = matches!(
        path,
        "query" | "query_range" | "query_exemplars" | "format_query" | "parse_query" | "labels" | "series"
    );
    match *method {
        Method::POST | Method::PUT if is_admin => {}
        Method::GET | Method::HEAD if !is_admin => {}
        Method::POST if takes_post => {}
        _ if is_admin => return reply::wrong_method("POST, PUT"),
        _ => return reply::wrong_method(if takes_post { "GET, POST" } else { "GET" }),
    }
    let result = match path {
        "query" => query::instant(shared, &form).await,
        "query_range" => query::range(shared, &form).await,
        "query_exemplars" => query::exemplars(shared, &form).await,
        "format_query" => query::format(shared, &form).await,
        "parse_query" => query::parse_tree(shared, &form).await,
        "labels" => series::label_names(shared, &form).await,
        "series" => series::series(shared, &form).await,
        "metadata" => status::metadata(&form),
        "targets" => status::targets(shared, &form),
        "targets/metadata" => Ok(Answer::empty_list()),
        "rules" => status::rules(&form),
        "alerts" => Ok(Answer::new(&json!({ "alerts": [] }))),
        "alertmanagers" => Ok(Answer::new(&json!({ "activeAlertmanagers": [], "droppedAlertmanagers": [] }))),
        "scrape_pools" => Ok(status::scrape_pools(shared)),
        "status/buildinfo" => Ok(status::build_info()),
        "status/config" => Ok(Answer::new(&json!({ "yaml": "global: {}\n" }))),
        "status/flags" => Ok(Answer::new(&json!({}))),
        "status/runtimeinfo" => Ok(status::runtime_info(shared)),
        "status/tsdb" => cardinality::answer(shared, &form).await,
        "status/tsdb/blocks" => Ok(Answer::new(&json!({ "blocks": [] }))),
        "status/walreplay" => Ok(Answer::new(&json!({ "min": 0, "max": 0, "current": 0 }))),
        "admin/tsdb/delete_series" | "admin/tsdb/clean_tombstones" | "admin/tsdb/snapshot" => {
            Err(ApiError::new(ErrorType::Unavailable, "admin APIs disabled"))
        }
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
