//! JSON as CEL sees it: fields by their escaped names, text of known formats as times and bytes, and of a resource's
//! metadata only the name.

use std::{collections::HashMap, sync::Arc};

use base64::Engine;
use kube_cel::cel::{
    Value as Cel,
    objects::{Key, Map},
};
use serde_json::Value;

use crate::{AdditionalProperties, Schema, Type};

pub(super) fn convert(value: &Value, schema: &Schema, is_resource: bool) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(integer) if schema.type_ != Some(Type::Number) => Cel::Int(integer),
            _ => Cel::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => string(text, schema),
        Value::Array(items) => match &schema.items {
            Some(item) => {
                Cel::List(Arc::new(items.iter().map(|v| convert(v, item, item.embedded_resource)).collect()))
            }
            None => Cel::List(Arc::new(Vec::new())),
        },
        Value::Object(map) => {
            let mut fields = HashMap::with_capacity(map.len());
            for (name, value) in map {
                let converted = match (schema.properties.get(name), &schema.additional_properties) {
                    (_, _) if is_resource && matches!(name.as_str(), "apiVersion" | "kind") => {
                        (name.clone(), untyped(value))
                    }
                    (_, _) if is_resource && name == "metadata" => (name.clone(), name_only(value)),
                    // a null field is an absent field
                    (Some(_), _) if value.is_null() => continue,
                    (Some(field), _) => match escape(name) {
                        Some(escaped) => (escaped, convert(value, field, field.embedded_resource)),
                        None => continue,
                    },
                    (None, Some(AdditionalProperties::Typed(entry))) => {
                        (name.clone(), convert(value, entry, entry.embedded_resource))
                    }
                    // preserved but unknown: not accessible
                    _ => continue,
                };
                fields.insert(Key::String(Arc::new(converted.0)), converted.1);
            }
            Cel::Map(Map { map: Arc::new(fields) })
        }
    }
}

/// Text of a known format as what it stands for: a time, a duration, bytes.
pub fn string(text: &str, schema: &Schema) -> Cel {
    let plain = || Cel::String(Arc::new(text.to_owned()));
    match schema.format.as_deref() {
        Some("date-time") => {
            chrono::DateTime::parse_from_rfc3339(text).map_or_else(|_| plain(), Cel::Timestamp)
        }
        Some("date") => chrono::DateTime::parse_from_rfc3339(&format!("{text}T00:00:00Z"))
            .map_or_else(|_| plain(), Cel::Timestamp),
        Some("duration") => duration(text).map_or_else(plain, Cel::Duration),
        Some("byte") => base64::engine::general_purpose::STANDARD
            .decode(text)
            .map_or_else(|_| plain(), |bytes| Cel::Bytes(Arc::new(bytes))),
        _ => plain(),
    }
}

/// Go's notation: `1h30m`, `-1.5s`.
fn duration(text: &str) -> Option<chrono::Duration> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(chrono::Duration::zero());
    }
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.')?);
        let (unit, tail) =
            tail.split_at(tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len()));
        let scale = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        nanos += number.parse::<f64>().ok()? * scale;
        rest = tail;
    }
    Some(chrono::Duration::nanoseconds((sign * nanos) as i64))
}

fn untyped(value: &Value) -> Cel {
    value.as_str().map_or(Cel::Null, |text| Cel::String(Arc::new(text.to_owned())))
}

fn name_only(metadata: &Value) -> Cel {
    let fields = ["name", "generateName"].into_iter().filter_map(|field| {
        let text = metadata.get(field)?.as_str()?;
        Some((Key::String(Arc::new(field.to_owned())), Cel::String(Arc::new(text.to_owned()))))
    });
    Cel::Map(Map { map: Arc::new(fields.collect()) })
}

/// The size of the largest list or map in `value`: what one loop of a rule can run over.
pub(super) fn longest(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(longest).max().unwrap_or(0).max(items.len()),
        Value::Object(map) => map.values().map(longest).max().unwrap_or(0).max(map.len()),
        _ => 0,
    }
}

const KEYWORDS: [&str; 18] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
];

/// How a field is called in CEL; `None` if it cannot be called.
pub(super) fn escape(name: &str) -> Option<String> {
    if KEYWORDS.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name.chars().peekable();
    let starts = |c: &char| c.is_ascii_alphabetic() || "_.-/".contains(*c);
    if !rest.peek().is_some_and(starts) {
        return None;
    }
    while let Some(c) = rest.next() {
        match c {
            '_' if rest.next_if_eq(&'_').is_some() => escaped.push_str("__underscores__"),
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => escaped.push(c),
            _ => return None,
        }
    }
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_documented() {
        for (name, escaped) in [
            ("namespace", Some("__namespace__")),
            ("x-prop", Some("x__dash__prop")),
            ("redact__d", Some("redact__underscores__d")),
            ("a_b", Some("a_b")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("1a", None),
            ("ä", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }

    #[test]
    fn durations() {
        for (text, millis) in
            [("1h30m", Some(5_400_000)), ("-1.5s", Some(-1500)), ("0", Some(0)), ("1x", None)]
        {
            assert_eq!(duration(text).map(|d| d.num_milliseconds()), millis, "{text}");
        }
    }
}
