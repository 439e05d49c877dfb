//! OpenAPI documents.

use http::HeaderMap;

use crate::{
    ApiServer,
    error::{ApiError, Result},
    http::{Query, Response},
};

pub fn answer(_server: &ApiServer, _path: &str, _headers: &HeaderMap, _query: &Query) -> Result<Response> {
    Err(ApiError::no_such_path())
}
