//! Values printed the way Go's `fmt` prints them. Clients see these texts in the real server's error messages and
//! tests match on them, so ours are the same.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// `%v`: `map[a:1 b:[x y]]`.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => number(n),
        Value::String(s) => s.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<_> = fields.into_iter().map(|(name, v)| format!("{name}:{}", plain(v))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// `%#v`: `map[string]interface {}{"a":1}`.
pub(crate) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(s) => quoted(s),
        Value::Bool(_) | Value::Number(_) => plain(value),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<_> =
                fields.into_iter().map(|(name, v)| format!("{}:{}", quoted(name), syntax(v))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
    }
}

/// `%T` of a decoded JSON value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// What `encoding/json` calls a JSON value.
pub(crate) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// `%q`.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Go prints a float64 that is whole without a fraction: 3.0 is `3`.
fn number(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => format!("{float}"),
        _ => number.to_string(),
    }
}
