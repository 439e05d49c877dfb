//! Reading and writing the metadata of an object that is just JSON.

use jiff::{Timestamp, fmt::temporal::DateTimePrinter};
use serde_json::{Map, Value, json};

/// Seconds, as in `metadata.creationTimestamp`.
pub fn timestamp(at: Timestamp) -> String {
    let at = Timestamp::from_second(at.as_second()).unwrap_or(at);
    DateTimePrinter::new().timestamp_to_string(&at)
}

/// Always six digits after the point, as Kubernetes prints a `MicroTime`.
pub fn micro_timestamp(at: Timestamp) -> String {
    DateTimePrinter::new().precision(Some(6)).timestamp_to_string(&at)
}

pub fn parse_timestamp(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

pub fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

pub fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

/// The map at `path`, made on the way where it is missing or is no map.
pub fn map_at<'a>(object: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let mut value = as_map(object);
    for key in path {
        value = as_map(value.entry(*key).or_insert_with(|| json!({})));
    }
    value
}

fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object above"),
    }
}

pub fn remove(object: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    let mut value = object;
    for key in parents {
        value = value.get_mut(key)?;
    }
    value.as_object_mut()?.remove(*last)
}

pub fn meta(object: &mut Value) -> &mut Map<String, Value> {
    map_at(object, &["metadata"])
}

pub fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

pub fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"])
}

pub fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

pub fn resource_version(object: &Value) -> &str {
    text(object, &["metadata", "resourceVersion"])
}

pub fn generation(object: &Value) -> i64 {
    at(object, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default()
}

pub fn is_deleting(object: &Value) -> bool {
    !text(object, &["metadata", "deletionTimestamp"]).is_empty()
}

pub fn finalizers(object: &Value) -> Vec<&str> {
    at(object, &["metadata", "finalizers"])
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Removes what Go would omit: `null` fields, and empty maps and lists of metadata.
pub fn tidy_metadata(object: &mut Value) {
    let metadata = meta(object);
    metadata.retain(|key, value| match value {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::String(text) => !text.is_empty() || key == "name",
        _ => true,
    });
}

/// `web-` becomes `web-x7k2p`: five characters out of those that form no words and look like no others.
pub fn generate_name(base: &str) -> String {
    use rand::Rng;
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    const MAX_LENGTH: usize = 63;
    const SUFFIX: usize = 5;
    let mut base = base;
    while base.len() > MAX_LENGTH - SUFFIX {
        let mut end = MAX_LENGTH - SUFFIX;
        while !base.is_char_boundary(end) {
            end -= 1;
        }
        base = &base[..end];
    }
    let mut rng = rand::rng();
    let suffix: String =
        (0..SUFFIX).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())])).collect();
    format!("{base}{suffix}")
}
