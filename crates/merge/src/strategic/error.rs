use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::go;

/// Why a patch does not apply. The words are those of the real server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// 400 Bad Request.
    #[error("{0}")]
    BadRequest(Cow<'static, str>),
    /// 422 Unprocessable Entity.
    #[error("{0}")]
    Unprocessable(&'static str),
    /// 500 Internal Server Error: the real server does not classify these.
    #[error("{0}")]
    Internal(String),
}

pub(super) const BAD_DOCUMENT: Error = Error::BadRequest(Cow::Borrowed("invalid JSON document"));
pub(super) const BAD_PRIMITIVE_LIST: Error =
    Error::BadRequest(Cow::Borrowed("invalid patch format of primitive list"));
pub(super) const BAD_RETAIN_KEYS: Error =
    Error::BadRequest(Cow::Borrowed("invalid patch format of retainKeys"));
pub(super) const BAD_ELEMENT_ORDER: Error =
    Error::BadRequest(Cow::Borrowed("invalid patch format of setElementOrder list"));
pub(super) const LIST_OF_LISTS: Error = Error::Unprocessable("lists of lists are not supported");

pub(super) fn not_an_object(patch: &Value) -> Error {
    let kind = go::json_kind(patch);
    let text = format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}");
    Error::BadRequest(text.into())
}

pub(super) fn no_merge_key(item: &Map<String, Value>, key: &str) -> Error {
    Error::Internal(format!(
        "map: {} does not contain declared merge key: {key}",
        go::plain(&Value::Object(item.clone()))
    ))
}

pub(super) fn bad_directive(directive: &Value, map: &Map<String, Value>) -> Error {
    Error::Internal(format!(
        "unknown patch type: {} in map: {}",
        go::plain(directive),
        go::plain(&Value::Object(map.clone()))
    ))
}

pub(super) fn expected_map(found: &Value) -> Error {
    Error::Internal(format!("expected a map[string]interface {{}}, but received a {}", go::type_name(found)))
}

pub(super) fn expected_list(found: &Value) -> Error {
    Error::Internal(format!("expected a []interface {{}}, but received a {}", go::type_name(found)))
}
