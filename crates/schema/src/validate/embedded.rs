//! What every resource inside a custom resource must have.

use serde_json::Value;

use crate::{AdditionalProperties, FieldError, Path, Schema, builtin, json, meta, names};

/// Checks `apiVersion`, `kind` and `metadata` of `value` if it is a resource, and of the resources within.
pub(crate) fn resources(
    value: &Value,
    schema: &Schema,
    is_resource: bool,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    match value {
        Value::Object(map) => {
            if is_resource && !path.is_root() {
                type_meta(value, path, errors);
                if map.contains_key("metadata") {
                    metadata(value, path, errors);
                }
            }
            for (name, value) in map {
                match (schema.properties.get(name), &schema.additional_properties) {
                    (Some(field), _) => {
                        resources(value, field, field.embedded_resource, &path.child(name), errors);
                    }
                    (None, Some(AdditionalProperties::Typed(entry))) => {
                        resources(value, entry, entry.embedded_resource, &path.key(name), errors);
                    }
                    _ => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                resources(item, schema, schema.embedded_resource, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

/// Reads the metadata of the resources in `value`: its unknown fields go, and `unknown` names them.
pub(crate) fn decode(
    value: &mut Value,
    schema: &Schema,
    is_resource: bool,
    path: &Path<'_>,
    meta: &Schema,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                let at = path.child(name);
                if is_resource && name == "metadata" {
                    let given = value.clone();
                    let found = builtin::decode_metadata(value, meta, &at)
                        .map_err(|why| FieldError::invalid(at, given, why).to_string())?;
                    unknown.extend(found);
                }
                match (schema.properties.get(name), &schema.additional_properties) {
                    (Some(field), _) => decode(value, field, field.embedded_resource, &at, meta, unknown)?,
                    (None, Some(AdditionalProperties::Typed(entry))) => {
                        decode(value, entry, entry.embedded_resource, &path.key(name), meta, unknown)?;
                    }
                    _ => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return Ok(()) };
            for (index, item) in items.iter_mut().enumerate() {
                decode(item, schema, schema.embedded_resource, &path.index(index), meta, unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn type_meta(value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let field = path.child(name);
        match value.get(name) {
            None => errors.push(FieldError::required(field, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(field, "", "must not be empty"));
            }
            Some(Value::String(text)) if name == "apiVersion" => {
                if text.matches('/').count() > 1 {
                    let detail = format!("unexpected GroupVersion string: {text}");
                    errors.push(FieldError::invalid(field, text.as_str(), detail));
                }
            }
            Some(Value::String(text)) => {
                let faults = names::dns1035_label(&text.to_lowercase());
                if !faults.is_empty() {
                    let detail =
                        format!("may have mixed case, but should otherwise match: {}", faults.join(","));
                    errors.push(FieldError::invalid(field, text.as_str(), detail));
                }
            }
            Some(other) => errors.push(FieldError::invalid(field, other.clone(), "must be a string")),
        }
    }
}

fn metadata(value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let at = path.child("metadata");
    let namespaced = value.get("metadata").is_some_and(|meta| !json::text(meta, "namespace").is_empty());
    let scope = if namespaced { meta::Scope::Namespaced } else { meta::Scope::Cluster };
    let mut named = value["metadata"].clone();
    if json::text(&named, "name").is_empty()
        && let Some(map) = named.as_object_mut()
    {
        // an embedded resource need not have a name
        map.insert("name".into(), "unnamed".into());
    }
    meta::validate(&named, scope, names::path_segment, &at, errors);
}
