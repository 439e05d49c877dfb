//! Built-in types for OpenAPI documents: descriptions from the source, the rest from the table.

use serde_json::{Map, Value, json};

use super::{Row, schemas, table};

/// Adds the definitions of a kind to `into`, each under its full name.
pub(crate) fn describe(row: &Row, into: &mut Map<String, Value>) {
    add((row.definitions)(), into);
}

/// Adds those of `metadata`, for kinds that are not built in.
pub(crate) fn describe_metadata(into: &mut Map<String, Value>) {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    add(schemas::definitions::<ObjectMeta>(), into);
}

fn add(definitions: Map<String, Value>, into: &mut Map<String, Value>) {
    for (name, mut definition) in definitions {
        if into.contains_key(&name) {
            continue;
        }
        match schemas::short(&name) {
            "api.resource.Quantity" => alternatives(&mut definition, &["string", "number"]),
            "util.intstr.IntOrString" => alternatives(&mut definition, &["integer", "string"]),
            title => {
                if let Some(row) = table::find(title) {
                    overlay(&mut definition, row);
                }
            }
        }
        references(&mut definition);
        into.insert(name, definition);
    }
}

fn alternatives(definition: &mut Value, types: &[&str]) {
    if let Some(map) = definition.as_object_mut() {
        map.remove("x-kubernetes-int-or-string");
        let types: Vec<Value> = types.iter().map(|kind| json!({ "type": kind })).collect();
        map.insert("oneOf".to_owned(), types.into());
    }
}

fn overlay(definition: &mut Value, row: &table::Type) {
    if let (Some(map_type), Some(map)) = (row.map_type, definition.as_object_mut()) {
        map.insert("x-kubernetes-map-type".to_owned(), json!(map_type));
    }
    for field in &row.fields {
        let Some(schema) = definition
            .get_mut("properties")
            .and_then(|properties| properties.get_mut(field.name))
            .and_then(Value::as_object_mut)
        else {
            continue;
        };
        let mut set = |name: &str, value: Value| {
            if !value.is_null() {
                schema.insert(name.to_owned(), value);
            }
        };
        set("x-kubernetes-list-type", json!(field.list_type));
        if !field.list_map_keys.is_empty() {
            set("x-kubernetes-list-map-keys", json!(field.list_map_keys));
        }
        set("x-kubernetes-map-type", json!(field.map_type));
        set("x-kubernetes-patch-strategy", json!(field.patch_strategy));
        set("x-kubernetes-patch-merge-key", json!(field.patch_merge_key));
        set("default", field.default.clone().unwrap_or_default());
    }
}

/// References point into the document, and stand alone in an `allOf` where something is said beside them.
fn references(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(target)) = map.get_mut("$ref") {
                let name = target.rsplit('/').next().unwrap_or_default();
                *target = format!("#/components/schemas/{name}");
                if map.len() > 1
                    && let Some(target) = map.remove("$ref")
                {
                    map.insert("allOf".to_owned(), json!([{ "$ref": target }]));
                }
                return;
            }
            map.values_mut().for_each(references);
        }
        Value::Array(items) => items.iter_mut().for_each(references),
        _ => {}
    }
}
