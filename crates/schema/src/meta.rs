//! Validation of `metadata`, the same for every kind.

use serde_json::Value;

use crate::{FieldError, Path, json, names, names::NameRule};

pub(crate) const IMMUTABLE: &str = "field is immutable";
/// 256 KiB of annotations, keys and values together.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// Checks `metadata` of a new object, after a name was generated.
pub(crate) fn validate(
    meta: &Value,
    scope: Scope,
    rule: NameRule,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let generate = json::text(meta, "generateName");
    if !generate.is_empty() {
        for fault in rule(generate, true) {
            errors.push(FieldError::invalid(path.child("generateName"), generate, fault));
        }
    }
    let name = json::text(meta, "name");
    if name.is_empty() {
        errors.push(FieldError::required(path.child("name"), "name or generateName is required"));
    } else {
        for fault in rule(name, false) {
            errors.push(FieldError::invalid(path.child("name"), name, fault));
        }
    }
    let namespace = json::text(meta, "namespace");
    match scope {
        Scope::Namespaced if namespace.is_empty() => {
            errors.push(FieldError::required(path.child("namespace"), ""));
        }
        Scope::Namespaced => {
            for fault in names::dns1123_label(namespace) {
                errors.push(FieldError::invalid(path.child("namespace"), namespace, fault));
            }
        }
        Scope::Cluster if !namespace.is_empty() => {
            errors.push(FieldError::forbidden(path.child("namespace"), "not allowed on this type"));
        }
        Scope::Cluster => {}
    }
    common(meta, path, errors);
}

/// Checks how `metadata` changed.
pub(crate) fn validate_update(meta: &Value, old: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if json::some(old, "deletionTimestamp").is_some() {
        let before = json::list(old, "finalizers");
        let mut added: Vec<String> = json::list(meta, "finalizers")
            .iter()
            .filter(|finalizer| !before.contains(finalizer))
            .map(Value::to_string)
            .collect();
        added.sort();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            errors.push(FieldError::forbidden(path.child("finalizers"), detail));
        }
    }
    if json::text(meta, "resourceVersion").is_empty() {
        let detail = "must be specified for an update";
        errors.push(FieldError::invalid(path.child("resourceVersion"), "", detail));
    }
    if json::int(meta, "generation").unwrap_or(0) < json::int(old, "generation").unwrap_or(0) {
        let generation = json::int(meta, "generation").unwrap_or(0);
        errors.push(FieldError::invalid(path.child("generation"), generation, "must not be decremented"));
    }
    let identity = ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"];
    for field in identity.into_iter().chain(["deletionGracePeriodSeconds"]) {
        immutable(meta, old, field, path, errors);
    }
    common(meta, path, errors);
}

/// `field` must be what it was.
pub(crate) fn immutable(
    new: &Value,
    old: &Value,
    field: &str,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let (new, old) = (json::some(new, field), json::some(old, field));
    if new != old {
        let value = new.cloned().unwrap_or(match old {
            Some(Value::String(_)) => Value::from(""),
            _ => Value::Null,
        });
        errors.push(FieldError::invalid(path.child(field), value, IMMUTABLE));
    }
}

fn common(meta: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(generation) = json::int(meta, "generation").filter(|generation| *generation < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path.child("generation"), generation, detail));
    }
    labels(meta.get("labels"), &path.child("labels"), errors);
    annotations(meta.get("annotations"), &path.child("annotations"), errors);
    owners(json::list(meta, "ownerReferences"), &path.child("ownerReferences"), errors);
    finalizers(json::list(meta, "finalizers"), &path.child("finalizers"), errors);
}

pub(crate) fn labels(labels: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        for fault in names::qualified_name(key) {
            errors.push(FieldError::invalid(path, key.as_str(), fault));
        }
        let value = value.as_str().unwrap_or_default();
        for fault in names::label_value(value) {
            errors.push(FieldError::invalid(path, value, fault));
        }
    }
}

pub(crate) fn annotations(annotations: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        for fault in names::qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid(path, key.as_str(), fault));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long(path, ANNOTATIONS_LIMIT as u64));
    }
}

fn owners(owners: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut controller: Option<String> = None;
    for owner in owners {
        for (field, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if json::text(owner, field).is_empty() {
                errors.push(FieldError::invalid(path.child(field), "", detail));
            }
        }
        if json::text(owner, "kind") == "Event" && json::text(owner, "apiVersion") == "v1" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, owner.clone(), detail));
        }
        if json::flag(owner, "controller") {
            let this = format!("{}/{}", json::text(owner, "kind"), json::text(owner, "name"));
            match &controller {
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    );
                    errors.push(FieldError::invalid(path, Value::from(owners.to_vec()), detail));
                }
                None => controller = Some(this),
            }
        }
    }
}

fn finalizers(finalizers: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for finalizer in finalizers.iter().filter_map(Value::as_str) {
        for fault in names::qualified_name(finalizer) {
            errors.push(FieldError::invalid(path, finalizer, fault));
        }
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, Value::from(finalizers.to_vec()), detail));
    }
}
