//! Reading fields of JSON objects where an absent field and an empty one mean the same.

use serde_json::{Map, Value};

const NONE: &[Value] = &[];

pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

pub fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(NONE, Vec::as_slice)
}

pub fn object<'a>(value: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    value.get(field).and_then(Value::as_object)
}

pub fn int(value: &Value, field: &str) -> Option<i64> {
    value.get(field).and_then(Value::as_i64)
}

pub fn flag(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or_default()
}

/// A field that is there and not null.
pub fn some<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    value.get(field).filter(|value| !value.is_null())
}

/// The field as an object, made if it is absent or something else.
pub fn object_mut<'a>(map: &'a mut Map<String, Value>, field: &str) -> &'a mut Map<String, Value> {
    let slot = map.entry(field).or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}
