//! `metrics.k8s.io`: what nodes and pods use.

use http::HeaderMap;
use serde_json::Value;

use crate::{
    ApiServer,
    error::{ApiError, Result},
    http::{Query, Response, Target, Verb},
};

pub const GROUP: &str = "metrics.k8s.io";
pub const VERSION: &str = "v1beta1";

pub async fn answer(
    _server: &ApiServer,
    _target: &Target,
    _verb: Verb,
    _query: &Query,
    _headers: &HeaderMap,
) -> Result<Response> {
    Err(ApiError::no_such_path())
}

pub fn resources() -> Vec<Value> {
    Vec::new()
}

pub fn aggregated_resources() -> Vec<Value> {
    Vec::new()
}

/// What nodes reported.
#[derive(Debug, Default)]
pub struct Samples;
