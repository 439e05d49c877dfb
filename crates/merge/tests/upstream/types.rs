//! Their notations for types, as schemas of ours. Ours are trees: a type that contains itself is unrolled.

use std::sync::Arc;

use schema::{AdditionalProperties, ListType, MapType, Schema, Type};
use serde_json::Value;

/// Deeper than any of their objects.
const DEPTH: usize = 6;

/// A type of `types`, a list in the notation of structured-merge-diff.
pub fn structured(types: &Value, name: &str) -> Schema {
    named(types, name, DEPTH)
}

fn named(types: &Value, name: &str, depth: usize) -> Schema {
    match name {
        "__untyped_deduced_" => return Schema::default(),
        "__untyped_atomic_" => return Schema { map_type: Some(MapType::Atomic), ..Schema::default() },
        _ if depth == 0 => return Schema::default(),
        _ => {}
    }
    let types = types["types"].as_array().expect("types");
    let found = types.iter().find(|t| t["name"] == name).unwrap_or_else(|| panic!("no type {name}"));
    atom(
        &Value::Object(serde_json::Map::from_iter([("types".to_owned(), types.clone().into())])),
        found,
        depth,
    )
}

fn reference(types: &Value, reference: &Value, depth: usize) -> Schema {
    let mut schema = match reference["namedType"].as_str() {
        Some(name) => named(types, name, depth - 1),
        None => atom(types, reference, depth),
    };
    match reference["elementRelationship"].as_str() {
        Some("atomic") => {
            (schema.map_type, schema.list_type) = (Some(MapType::Atomic), Some(ListType::Atomic))
        }
        Some("separable") => schema.map_type = Some(MapType::Granular),
        Some("associative") if schema.list_map_keys.is_empty() => schema.list_type = Some(ListType::Set),
        Some("associative") => schema.list_type = Some(ListType::Map),
        _ => {}
    }
    schema
}

fn atom(types: &Value, atom: &Value, depth: usize) -> Schema {
    if let (Some(list), Some(map), Some(_)) = (atom.get("list"), atom.get("map"), atom.get("scalar")) {
        let list = self::atom(types, &serde_json::json!({"list": list}), depth);
        let map = self::atom(types, &serde_json::json!({"map": map}), depth);
        return Schema {
            items: list.items,
            list_type: list.list_type,
            list_map_keys: list.list_map_keys,
            type_: None,
            ..map
        };
    }
    if let Some(map) = atom.get("map") {
        let fields = map["fields"].as_array().cloned().unwrap_or_default();
        let properties = fields.iter().map(|field| {
            let mut schema = reference(types, &field["type"], depth);
            schema.default = field.get("default").cloned();
            (field["name"].as_str().expect("name").to_owned(), Arc::new(schema))
        });
        let of = map
            .get("elementType")
            .map(|of| AdditionalProperties::Typed(Arc::new(reference(types, of, depth))));
        return Schema {
            type_: Some(Type::Object),
            properties: properties.collect(),
            additional_properties: of.or(fields.is_empty().then_some(AdditionalProperties::Any(false))),
            map_type: (map["elementRelationship"] == "atomic").then_some(MapType::Atomic),
            ..Schema::default()
        };
    }
    if let Some(list) = atom.get("list") {
        let keys: Vec<String> = list["keys"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|k| k.as_str().expect("key").to_owned())
            .collect();
        return Schema {
            type_: Some(Type::Array),
            items: Some(Arc::new(reference(types, &list["elementType"], depth))),
            list_type: Some(match list["elementRelationship"].as_str() {
                Some("associative") if keys.is_empty() => ListType::Set,
                Some("associative") => ListType::Map,
                _ => ListType::Atomic,
            }),
            list_map_keys: keys,
            ..Schema::default()
        };
    }
    let (type_, format) = match atom["scalar"].as_str() {
        Some("string") => (Type::String, None),
        Some("numeric" | "number") => (Type::Number, None),
        Some("boolean") => (Type::Boolean, None),
        Some("untyped") => (Type::String, Some("any".to_owned())),
        other => panic!("scalar {other:?}"),
    };
    Schema { type_: Some(type_), format, ..Schema::default() }
}

/// A schema of an OpenAPI v3 document, with its references put in their places, so many of them in a row.
pub fn openapi(document: &Value, name: &str, references: usize) -> Schema {
    let resolved = resolve(document, &document["components"]["schemas"][name], references);
    serde_json::from_value(resolved).expect("a schema")
}

fn resolve(document: &Value, value: &Value, depth: usize) -> Value {
    match value {
        Value::Object(map) => {
            if let Some(name) = map.get("$ref").and_then(Value::as_str).and_then(|r| r.rsplit('/').next()) {
                let target = &document["components"]["schemas"][name];
                return if depth == 0 { serde_json::json!({}) } else { resolve(document, target, depth - 1) };
            }
            map.iter()
                .map(|(name, v)| (name.clone(), resolve(document, v, depth)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        Value::Array(items) => items.iter().map(|item| resolve(document, item, depth)).collect(),
        scalar => scalar.clone(),
    }
}
