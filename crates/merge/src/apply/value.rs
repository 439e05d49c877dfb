//! Equality and order of JSON values as server-side apply sees them: 1 and 1.0 are the same number.

use std::cmp::Ordering;

use serde_json::{Number, Value};

pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

/// A total order, so that values can be path elements: numbers, strings, booleans, lists, maps, null.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => a
            .iter()
            .zip(b)
            .map(|(a, b)| compare(a, b))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| a.len().cmp(&b.len())),
        (Value::Object(a), Value::Object(b)) => sorted(a)
            .into_iter()
            .zip(sorted(b))
            .map(|((name_a, a), (name_b, b))| name_a.cmp(name_b).then_with(|| compare(a, b)))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| a.len().cmp(&b.len())),
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

/// As a path shows it: `"a"`, `8080`, `true`.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::String(s) => crate::go::quoted(s),
        Value::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            sorted(map).into_iter().map(|(name, value)| format!("{name}={}", text(value))).collect()
        }
        Value::Bool(_) | Value::Number(_) => crate::go::plain(value),
    }
}

fn sorted(map: &serde_json::Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = map.iter().collect();
    fields.sort_by_key(|(name, _)| *name);
    fields
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().unwrap_or(f64::MAX).total_cmp(&b.as_f64().unwrap_or(f64::MAX)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}
