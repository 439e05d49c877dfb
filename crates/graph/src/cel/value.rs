//! Between JSON and the values of expressions.

use std::{collections::HashMap, fmt::Write, sync::Arc};

use chrono::{DateTime, FixedOffset, SecondsFormat};
use kube_cel::cel::{
    Value as Cel,
    objects::{Key, Map, Opaque, OptionalValue},
};
use schema::{Schema, Type};
use serde_json::Value;

use super::Budget;
use super::Failure;

/// What `omit()` answers with: the field or element it stands for is left out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Omit;

impl Opaque for Omit {
    fn runtime_type_name(&self) -> &str {
        "kro.Omit"
    }
}

/// JSON as expressions see it: whole numbers are ints, and text of the formats `byte`, `date-time` and the like is what
/// it stands for. A field that the schema does not know is taken as it is.
pub(crate) fn from_json(value: &Value, schema: Option<&Schema>) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => {
            let is_double = schema.is_some_and(|schema| schema.type_ == Some(Type::Number));
            match (number.as_i64(), number.as_u64()) {
                (Some(integer), _) if !is_double => Cel::Int(integer),
                (None, Some(large)) if !is_double => Cel::UInt(large),
                _ => Cel::Float(number.as_f64().unwrap_or_default()),
            }
        }
        Value::String(text) => match schema {
            Some(schema) if schema.format.is_some() => schema::cel_text(text, schema),
            _ => string(text.as_str()),
        },
        Value::Array(items) => {
            let item_schema = schema.and_then(|schema| schema.items.as_deref());
            list(items.iter().map(|item| from_json(item, item_schema)).collect())
        }
        Value::Object(fields) => {
            let entries = fields.iter().map(|(name, value)| {
                let field = schema.and_then(|schema| schema.field(name)).map(AsRef::as_ref);
                (Key::String(Arc::new(name.clone())), from_json(value, field))
            });
            map(entries.collect())
        }
    }
}

/// What a field is set to; `None` if it is to be left out.
pub(crate) fn to_json(value: &Cel, budget: &Budget) -> Result<Option<Value>, Failure> {
    budget.charge(1)?;
    Ok(Some(match value {
        Cel::Null => Value::Null,
        Cel::Bool(flag) => Value::Bool(*flag),
        Cel::Int(number) => (*number).into(),
        Cel::UInt(number) => match i64::try_from(*number) {
            Ok(number) => number.into(),
            Err(_) => return Err(Failure::error(format!("{number} is too large for a field"))),
        },
        Cel::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => (*number as i64).into(),
        Cel::Float(number) => serde_json::Number::from_f64(*number)
            .map(Value::Number)
            .ok_or_else(|| Failure::error(format!("{number} cannot be written in a field")))?,
        Cel::String(text) => {
            budget.charge_bytes(text.len())?;
            Value::String(text.to_string())
        }
        Cel::Bytes(_) => {
            return Err(Failure::error("bytes cannot be written in a field: use base64.encode()"));
        }
        Cel::Timestamp(time) => Value::String(rfc3339(time)),
        Cel::Duration(duration) => Value::String(go_duration(duration)),
        Cel::List(items) => {
            let mut list = Vec::with_capacity(items.len().min(1024));
            for item in items.iter() {
                list.extend(to_json(item, budget)?);
            }
            Value::Array(list)
        }
        Cel::Map(map) => {
            let mut object = serde_json::Map::new();
            for (key, value) in map.map.iter() {
                if let Some(value) = to_json(value, budget)? {
                    object.insert(key_text(key), value);
                }
            }
            Value::Object(object)
        }
        Cel::Opaque(opaque) if opaque.downcast_ref::<Omit>().is_some() => return Ok(None),
        Cel::Opaque(opaque) => match <&OptionalValue>::try_from(value) {
            Ok(optional) => match optional.value() {
                Some(inner) => return to_json(inner, budget),
                None => Value::Null,
            },
            Err(_) => {
                let name = opaque.runtime_type_name();
                return Err(Failure::error(format!("a {name} cannot be written in a field")));
            }
        },
        Cel::Function(name, _) => {
            return Err(Failure::error(format!("the function {name} cannot be written in a field")));
        }
    }))
}

pub(crate) fn string(text: impl Into<String>) -> Cel {
    Cel::String(Arc::new(text.into()))
}

pub(crate) fn list(items: Vec<Cel>) -> Cel {
    Cel::List(Arc::new(items))
}

pub(crate) fn map(entries: HashMap<Key, Cel>) -> Cel {
    Cel::Map(Map { map: Arc::new(entries) })
}

pub(crate) fn optional(value: Option<Cel>) -> Cel {
    Cel::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// `Some` if it is an optional: what is in it.
pub(crate) fn as_optional(value: &Cel) -> Option<Option<&Cel>> {
    match value {
        Cel::Opaque(_) => <&OptionalValue>::try_from(value).ok().map(OptionalValue::value),
        _ => None,
    }
}

/// The keys of a map in their order: what an expression makes of a map must not depend on chance.
pub(crate) fn sorted(map: &Map) -> Vec<(&Key, &Cel)> {
    let mut entries: Vec<_> = map.map.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
}

pub(crate) fn key_text(key: &Key) -> String {
    match key {
        Key::Int(number) => number.to_string(),
        Key::Uint(number) => number.to_string(),
        Key::Bool(flag) => flag.to_string(),
        Key::String(text) => text.to_string(),
    }
}

/// What a value may be as the key of a map.
pub(crate) fn as_key(value: &Cel) -> Option<Key> {
    Some(match value {
        Cel::Int(number) => Key::Int(*number),
        Cel::UInt(number) => Key::Uint(*number),
        Cel::Bool(flag) => Key::Bool(*flag),
        Cel::String(text) => Key::String(text.clone()),
        _ => return None,
    })
}

/// As cel-go calls the type of a value.
pub(crate) fn type_name(value: &Cel) -> &str {
    match value {
        Cel::Opaque(opaque) => opaque.runtime_type_name(),
        other => schema::cel_type_name(other),
    }
}

pub(crate) fn rfc3339(time: &DateTime<FixedOffset>) -> String {
    time.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// Go's notation: `1h30m0s`, `1.5s`, `300ms`.
pub(crate) fn go_duration(duration: &chrono::Duration) -> String {
    let nanos = duration.num_nanoseconds().unwrap_or(i64::MAX);
    let mut text = String::new();
    if nanos < 0 {
        text.push('-');
    }
    let nanos = nanos.unsigned_abs();
    let decimal = |whole: u64, fraction: u64, digits: usize| {
        let fraction = format!("{fraction:0digits$}");
        match fraction.trim_end_matches('0') {
            "" => whole.to_string(),
            fraction => format!("{whole}.{fraction}"),
        }
    };
    const SECOND: u64 = 1_000_000_000;
    let result = match nanos {
        0 => write!(text, "0s"),
        1..1_000 => write!(text, "{nanos}ns"),
        1_000..1_000_000 => write!(text, "{}µs", decimal(nanos / 1_000, nanos % 1_000, 3)),
        1_000_000..SECOND => write!(text, "{}ms", decimal(nanos / 1_000_000, nanos % 1_000_000, 6)),
        _ => {
            let (hours, minutes) = (nanos / (3600 * SECOND), nanos / (60 * SECOND) % 60);
            let seconds = decimal(nanos / SECOND % 60, nanos % SECOND, 9);
            match (hours, minutes) {
                (0, 0) => write!(text, "{seconds}s"),
                (0, minutes) => write!(text, "{minutes}m{seconds}s"),
                (hours, minutes) => write!(text, "{hours}h{minutes}m{seconds}s"),
            }
        }
    };
    debug_assert!(result.is_ok(), "writing to a String cannot fail");
    text
}
