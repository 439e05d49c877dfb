//! Validation of built-in kinds: what users of them meet, with the API's findings in the API's words.

pub(super) mod batch;
pub(super) mod config;
pub(super) mod container;
mod cron;
pub(super) mod infra;
pub(super) mod network;
pub(super) mod pod;
mod resize;
pub(super) mod scaling;
mod scheduling;
pub(super) mod selector;
pub(super) mod service;
pub(super) mod storage;
pub(super) mod volume;
pub(super) mod workload;

use serde_json::Value;

use super::Row;
use crate::{FieldError, Path, kind::Part, meta};

type Errors = Vec<FieldError>;

/// How a kind is checked beyond its metadata.
#[derive(Clone, Copy)]
pub(crate) struct Checks {
    /// What must hold of any object.
    pub object: fn(&Value, &mut Errors),
    /// What must hold of a change, besides that the new object is good.
    pub change: fn(new: &Value, old: &Value, &mut Errors),
    /// What must hold of a new status.
    pub status: fn(new: &Value, old: &Value, &mut Errors),
}

pub(super) const NONE: Checks = Checks { object: |_, _| {}, change: |_, _, _| {}, status: |_, _, _| {} };

pub(super) fn create(row: &Row, object: &Value) -> Errors {
    let mut errors = Vec::new();
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    meta::validate(metadata, row.scope, row.name, &Path::ROOT.child("metadata"), &mut errors);
    finalizers(row, metadata, &mut errors);
    (row.validate.object)(object, &mut errors);
    errors
}

/// Finalizers of the oldest groups must say whose they are.
fn finalizers(row: &Row, metadata: &Value, errors: &mut Errors) {
    const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
    if !matches!(
        row.group,
        "" | "apps" | "autoscaling" | "batch" | "networking.k8s.io" | "scheduling.k8s.io" | "storage.k8s.io"
    ) {
        return;
    }
    let base = Path::ROOT.child("metadata");
    let base = base.child("finalizers");
    for (index, name) in
        crate::json::list(metadata, "finalizers").iter().filter_map(Value::as_str).enumerate()
    {
        if !name.contains('/') && !STANDARD.contains(&name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(base.index(index), name, detail));
        }
    }
}

pub(super) fn update(row: &Row, object: &Value, old: &Value, part: Part) -> Errors {
    let mut errors = Vec::new();
    let metadata = |object: &Value| object.get("metadata").cloned().unwrap_or_default();
    meta::validate_update(&metadata(object), &metadata(old), &Path::ROOT.child("metadata"), &mut errors);
    finalizers(row, &metadata(object), &mut errors);
    match part {
        Part::Whole => {
            (row.validate.object)(object, &mut errors);
            (row.validate.change)(object, old, &mut errors);
        }
        Part::Status => (row.validate.status)(object, old, &mut errors),
        Part::Resize => {
            (row.validate.object)(object, &mut errors);
            resize::validate(object, old, &mut errors);
        }
    }
    errors
}

// Checks that many kinds share.

fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

fn status(object: &Value) -> &Value {
    object.get("status").unwrap_or(&Value::Null)
}

fn invalid_each(faults: Vec<String>, value: impl Into<Value> + Clone, path: &Path<'_>, errors: &mut Errors) {
    errors.extend(faults.into_iter().map(|fault| FieldError::invalid(path, value.clone(), fault)));
}

/// A count that may be zero.
fn non_negative(parent: &Value, field: &str, path: &Path<'_>, errors: &mut Errors) {
    if let Some(value) = parent.get(field).and_then(Value::as_i64).filter(|value| *value < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path.child(field), value, detail));
    }
}

/// One of a few words; `required` if it may not be empty.
fn one_of(text: &str, allowed: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if text.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !allowed.contains(&text) {
        errors.push(FieldError::not_supported(path, text, allowed));
    }
}

/// A count or a percentage of pods.
fn int_or_percent(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(text) => invalid_each(crate::names::percent(text), text.as_str(), path, errors),
        Value::Number(number) if number.as_i64().is_some_and(|n| n < 0) => {
            errors.push(FieldError::invalid(path, value.clone(), "must be greater than or equal to 0"));
        }
        _ => {}
    }
}

fn at_most_100_percent(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    let percent =
        value.as_str().and_then(|text| text.strip_suffix('%')).and_then(|text| text.parse::<i64>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        errors.push(FieldError::invalid(path, value.clone(), "must not be greater than 100%"));
    }
}

/// The number of a count or percentage; 0 for anything else.
fn amount(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.trim_end_matches('%').parse().unwrap_or(0),
        other => other.as_i64().unwrap_or(0),
    }
}

/// A port by number or by name.
fn port(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(name) => invalid_each(crate::names::port_name(name), name.as_str(), path, errors),
        other => {
            let number = other.as_i64().unwrap_or(0);
            invalid_each(crate::names::port_number(number), number, path, errors);
        }
    }
}
