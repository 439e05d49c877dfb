//! JSON paths in CRDs: `.spec.replicas`, `.spec['odd.name']`.

use serde_json::Value;

use crate::{FieldError, Path, json};

/// A path in the dot notation that printer columns and scale subresources use.
pub(super) fn simple(text: &str, path: &Path<'_>) -> Option<FieldError> {
    match text.as_bytes().first() {
        None => Some(FieldError::invalid(path, text, "must not be empty")),
        Some(b'.') => None,
        Some(_) => Some(FieldError::invalid(path, text, "must be a simple json path starting with .")),
    }
}

/// Whether `text` leads to a field of `schema`. `brackets` allows `['name']`.
pub(super) fn exists(text: &str, schema: &Value, brackets: bool) -> bool {
    target(text, schema, brackets).is_some()
}

/// The schema `text` leads to.
pub(super) fn target<'a>(text: &str, schema: &'a Value, brackets: bool) -> Option<&'a Value> {
    let mut schema = schema;
    for name in names(text, brackets)? {
        schema = match json::object(schema, "properties").filter(|fields| !fields.is_empty()) {
            Some(fields) => fields.get(&name)?,
            None => schema.get("additionalProperties").filter(|entry| entry.is_object())?,
        };
    }
    Some(schema)
}

/// The names a path consists of.
pub(super) fn names(text: &str, brackets: bool) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix('.') {
            let end = tail.find(['.', '[', ']']).unwrap_or(tail.len());
            if end == 0 {
                return None;
            }
            names.push(tail[..end].to_owned());
            rest = &tail[end..];
        } else {
            let tail = rest.strip_prefix("['").filter(|_| brackets)?;
            let (quoted, tail) = tail.split_once("']")?;
            names.push(quoted.replace("\\'", "'").replace("\\\\", "\\"));
            rest = tail;
        }
    }
    Some(names)
}
