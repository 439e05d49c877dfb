//! Whether a CRD's schema is structural: every value has one type, found without looking at the value.

use serde_json::{Map, Value};

use crate::{FieldError, Path, json, validate::compiled};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// The faults of `schema`, sorted by their text.
pub(super) fn validate(schema: &Value, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, path, &mut errors);
    completeness(schema, schema, path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn invariants(schema: &Value, level: Level, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let kind = json::text(schema, "type");
    let items = json::some(schema, "items");
    if kind == "array" && items.is_none() {
        errors.push(FieldError::required(path.child("items"), "must be specified"));
    }
    if let Some(items) = items {
        invariants(items, Level::Item, &path.child("items"), errors);
    }
    let properties = json::object(schema, "properties");
    for (name, field) in properties.into_iter().flatten() {
        let base = path.child("properties");
        // what metadata may say is checked below
        if name == "metadata" && level == Level::Root {
            continue;
        }
        invariants(field, Level::Field, &base.key(name), errors);
    }
    let embedded = json::flag(schema, "x-kubernetes-embedded-resource");
    let preserve = json::flag(schema, "x-kubernetes-preserve-unknown-fields");
    let int_or_string = json::flag(schema, "x-kubernetes-int-or-string");
    if let Some(additional) = json::some(schema, "additionalProperties") {
        let at = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(at, "must not be used at the root"));
        }
        if additional.is_object() {
            invariants(additional, Level::Field, &at, errors);
        }
        if embedded {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            errors.push(FieldError::forbidden(at, detail));
        }
    }
    if int_or_string {
        for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if json::flag(schema, name) {
                let detail = "must be false if x-kubernetes-int-or-string is true";
                errors.push(FieldError::invalid(path.child(name), true, detail));
            }
        }
    }
    let skip_any_of = is_int_or_string_pattern(json::list(schema, "anyOf"));
    let skip_first_all_of = json::list(schema, "allOf")
        .first()
        .is_some_and(|first| is_int_or_string_pattern(json::list(first, "anyOf")));
    value_validation(schema, skip_any_of, skip_first_all_of, level, path, errors);

    let at = path.child("type");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match kind {
            "" => FieldError::required(at, detail),
            kind => FieldError::invalid(at, kind, detail),
        });
    } else if kind.is_empty() && !int_or_string && !preserve {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(at, detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(at, kind, "must be object at the root"));
    }
    if level == Level::Root || embedded {
        resource_fields(properties, level, path, errors);
    }
    if embedded && !preserve && properties.is_none_or(Map::is_empty) {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(path.child("properties"), detail));
    }
}

/// `apiVersion`, `kind` and `metadata` are specified already; a schema may at most restrict the name.
fn resource_fields(
    properties: Option<&Map<String, Value>>,
    level: Level,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(properties) = properties else { return };
    let base = path.child("properties");
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(field) = properties.get(name) else { continue };
        let at = base.key(name);
        let kind = json::text(field, "type");
        if kind != wanted {
            errors.push(FieldError::invalid(at.child("type"), kind, format!("must be {wanted}")));
        }
        if name == "metadata" && level == Level::Root {
            let only_names = json::object(field, "properties")
                .is_none_or(|fields| fields.keys().all(|name| name == "name" || name == "generateName"));
            let nothing_else = field.as_object().is_none_or(|field| {
                field.keys().all(|key| ["type", "properties", "default"].contains(&key.as_str()))
            });
            if !(only_names && nothing_else) {
                let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
                errors.push(FieldError::forbidden(at, detail));
            }
        }
    }
}

fn is_int_or_string_pattern(any_of: &[Value]) -> bool {
    let is = |schema: &Value, kind: &str| {
        schema.as_object().is_some_and(|map| map.len() == 1) && json::text(schema, "type") == kind
    };
    matches!(any_of, [first, second] if is(first, "integer") && is(second, "string"))
}

fn value_validation(
    schema: &Value,
    skip_any_of: bool,
    skip_first_all_of: bool,
    level: Level,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    for list in ["anyOf", "allOf", "oneOf"] {
        if list == "anyOf" && skip_any_of {
            continue;
        }
        let base = path.child(list);
        for (index, branch) in json::list(schema, list).iter().enumerate() {
            let skip = list == "allOf" && index == 0 && skip_first_all_of;
            nested(branch, skip, level, &base.index(index), errors);
        }
    }
    if let Some(not) = json::some(schema, "not") {
        nested(not, false, level, &path.child("not"), errors);
    }
    let pattern = json::text(schema, "pattern");
    if !pattern.is_empty() && compiled(pattern).is_none() {
        let why = regex::Regex::new(pattern).err().map(|error| error.to_string()).unwrap_or_default();
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(path.child("pattern"), pattern, detail));
    }
}

/// Under `allOf`, `anyOf`, `oneOf` and `not` a schema may restrict values but not say what they are.
fn nested(schema: &Value, skip_any_of: bool, level: Level, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    value_validation(schema, skip_any_of, false, level, path, errors);
    if let Some(items) = json::some(schema, "items") {
        nested(items, false, level, &path.child("items"), errors);
    }
    let base = path.child("properties");
    for (name, field) in json::object(schema, "properties").into_iter().flatten() {
        nested(field, false, Level::Field, &base.key(name), errors);
    }
    const FORBIDDEN: [(&str, &str); 13] = [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ];
    for (name, detail) in FORBIDDEN {
        if schema.get(name).is_some_and(is_set) {
            errors.push(FieldError::forbidden(path.child(name), detail));
        }
    }
    if json::object(schema, "properties").is_some_and(|fields| fields.contains_key("metadata")) {
        let detail = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(base.key("metadata"), detail));
    }
}

pub(super) fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

/// What a nested schema restricts must be specified outside of it.
fn completeness(
    schema: &Value,
    branch: &Value,
    schema_path: &Path<'_>,
    branch_path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let step = |nested: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>| {
        nested_completeness(Some(schema), nested, schema_path, at, errors);
    };
    if let Some(not) = json::some(branch, "not") {
        step(not, &branch_path.child("not"), errors);
    }
    for list in ["allOf", "anyOf", "oneOf"] {
        let base = branch_path.child(list);
        for (index, nested) in json::list(branch, list).iter().enumerate() {
            step(nested, &base.index(index), errors);
        }
    }
}

fn nested_completeness(
    schema: Option<&Value>,
    nested: &Value,
    schema_path: &Path<'_>,
    nested_path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(schema) = schema else {
        let detail = format!("because it is defined in {nested_path}");
        errors.push(FieldError::required(schema_path, detail));
        return;
    };
    completeness(schema, nested, schema_path, nested_path, errors);
    if let Some(items) = json::some(nested, "items") {
        let (at, nested_at) = (schema_path.child("items"), nested_path.child("items"));
        nested_completeness(json::some(schema, "items"), items, &at, &nested_at, errors);
    }
    let (base, nested_base) = (schema_path.child("properties"), nested_path.child("properties"));
    for (name, field) in json::object(nested, "properties").into_iter().flatten() {
        let counterpart = json::object(schema, "properties").and_then(|fields| fields.get(name));
        nested_completeness(counterpart, field, &base.key(name), &nested_base.key(name), errors);
    }
}
