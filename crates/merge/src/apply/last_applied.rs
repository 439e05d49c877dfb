//! From `kubectl apply` to `kubectl apply --server-side`. The former kept what it had applied in an annotation; the
//! server lets the latter take over those fields without a conflict, and keeps the annotation true.

use serde_json::{Value, json};

use super::{
    conflict::Conflict,
    fieldpath::Set,
    managed_fields::strip,
    typed::{self, Duplicates, Type},
};

/// Only this manager moves over; who wants none of it takes another name.
pub(super) const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The annotations of an object may have this size together.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The conflicts that remain: those on fields that the annotation does not claim, or that have changed since.
pub(super) fn without_allowed(
    conflicts: Vec<Conflict>,
    live: &Value,
    api_version: &str,
    of: Type<'_>,
) -> Vec<Conflict> {
    let Some(allowed) = allowed(live, api_version, of) else { return conflicts };
    conflicts.into_iter().filter(|conflict| !allowed.contains(&conflict.path)).collect()
}

fn allowed(live: &Value, api_version: &str, of: Type<'_>) -> Option<Set> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last.get("apiVersion")?.as_str()? != api_version {
        return None;
    }
    typed::validate(live, of, Duplicates::Refuse).ok()?;
    typed::validate(&last, of, Duplicates::Refuse).ok()?;
    let comparison = typed::compare(&last, live, of);
    Some(
        typed::to_set(&last, of)
            .difference(&comparison.modified)
            .difference(&comparison.added)
            .difference(&comparison.removed),
    )
}

/// Writes `config` into the annotation, if the object has it and it is not too large.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    strip(&mut config);
    if let Some(Value::Object(annotations)) = config.pointer_mut("/metadata/annotations") {
        annotations.remove(ANNOTATION);
    }
    let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") else { return };
    annotations.insert(ANNOTATION.into(), json!(format!("{config}\n")));
    let size: usize = annotations.iter().map(|(key, v)| key.len() + v.as_str().map_or(0, str::len)).sum();
    if size > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let text = object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str()?;
    (!text.is_empty()).then_some(text)
}
