//! Uniqueness in lists of type set and map.

use serde_json::{Map, Value};

use crate::{AdditionalProperties, FieldError, ListType, Path, Schema};

/// Elements that repeat an earlier one: whole values in sets, keys in maps.
pub(crate) fn duplicates(value: &Value, schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                match (schema.properties.get(name), &schema.additional_properties) {
                    (Some(field), _) => duplicates(value, field, &path.child(name), errors),
                    (None, Some(AdditionalProperties::Typed(entry))) => {
                        duplicates(value, entry, &path.key(name), errors);
                    }
                    _ => {}
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type {
                Some(ListType::Set) => {
                    for index in repeated(items.iter()) {
                        errors.push(FieldError::duplicate(path.index(index), items[index].clone()));
                    }
                }
                Some(ListType::Map) => map_keys(items, schema, path, errors),
                _ => {}
            }
            if let Some(item_schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    duplicates(item, item_schema, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn map_keys(items: &[Value], schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(path.index(index), items[index].clone(), detail));
        return;
    }
    let keys: Vec<Value> = items
        .iter()
        .map(|item| {
            let present =
                schema.list_map_keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
            Value::Object(Map::from_iter(present))
        })
        .collect();
    for index in repeated(keys.iter()) {
        errors.push(FieldError::duplicate(path.index(index), keys[index].clone()));
    }
}

/// Where each repeated value occurs for the second time; later repetitions are not news.
fn repeated<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<usize> {
    let mut seen: std::collections::HashMap<String, usize> = Default::default();
    let mut found = Vec::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            found.push(index);
        }
    }
    found
}
