//! What each marker does to the schema of its field.

use schema::{ListType, Schema, Type};
use serde_json::{Value, json};

use super::{Built, Mark, MarkKind, markers::Marker};
use crate::error::shown;

/// Puts `markers` on top of what the field has from its type.
pub(super) fn apply(markers: &[Marker], built: &mut Built) -> Result<(), String> {
    for marker in markers {
        one(marker, built)?;
    }
    let schema = &built.schema;
    if !schema.list_map_keys.is_empty() && schema.list_type != Some(ListType::Map) {
        return Err("listMapKey needs listType=map".into());
    }
    if schema.list_type == Some(ListType::Map) && schema.list_map_keys.is_empty() {
        return Err("listType=map needs a listMapKey".into());
    }
    Ok(())
}

fn one(marker: &Marker, built: &mut Built) -> Result<(), String> {
    let (key, value) = (marker.key.as_str(), marker.value.as_str());
    let schema = &mut built.schema;
    match key {
        "required" => built.required = flag(marker)?,
        "default" => schema.default = Some(default(value, schema)?),
        "description" => schema.description = Some(value.to_owned()),
        "minimum" => schema.minimum = Some(number(marker)?),
        "maximum" => schema.maximum = Some(number(marker)?),
        "enum" => schema.enum_ = Some(choices(value, schema)?),
        "validation" => {
            if value.trim().is_empty() {
                return Err("validation needs a rule".into());
            }
            schema.validations.push(json!({ "rule": value, "message": "validation failed" }));
        }
        "immutable" => {
            if flag(marker)? {
                schema
                    .validations
                    .push(json!({ "rule": "self == oldSelf", "message": "field is immutable" }));
            }
        }
        "pattern" => {
            only(marker, schema, Type::String)?;
            if value.is_empty() {
                return Err("pattern must not be empty".into());
            }
            // The size of the compiled pattern is bounded by the crate's default.
            regex::Regex::new(value).map_err(|why| {
                let why = why.to_string();
                let last = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
                format!("pattern '{}' does not compile: {last}", shown(value))
            })?;
            schema.pattern = Some(value.to_owned());
        }
        "minLength" => schema.min_length = Some(count(marker, schema, Type::String)?),
        "maxLength" => schema.max_length = Some(count(marker, schema, Type::String)?),
        "minItems" => schema.min_items = Some(count(marker, schema, Type::Array)?),
        "maxItems" => schema.max_items = Some(count(marker, schema, Type::Array)?),
        "uniqueItems" => {
            only(marker, schema, Type::Array)?;
            if flag(marker)? {
                list_type(ListType::Set, schema)?;
            }
        }
        "listType" => {
            only(marker, schema, Type::Array)?;
            let wanted = match value {
                "atomic" => ListType::Atomic,
                "set" => ListType::Set,
                "map" => ListType::Map,
                other => {
                    return Err(format!("listType is atomic, set or map, not '{}'", shown(other)));
                }
            };
            list_type(wanted, schema)?;
        }
        "listMapKey" => {
            only(marker, schema, Type::Array)?;
            if schema.list_map_keys.iter().any(|known| known == value) {
                return Err(format!("listMapKey '{}' is given twice", shown(value)));
            }
            schema.list_map_keys.push(value.to_owned());
        }
        "scale" | "scaleSelector" => {
            let kind = if key == "scale" { MarkKind::Scale } else { MarkKind::Selector };
            built.marks.retain(|mark| mark.kind != kind || !mark.path.is_empty());
            if flag(marker)? {
                only(marker, schema, kind.type_())?;
                built.marks.push(Mark { kind, path: Vec::new(), unreachable: None });
            }
        }
        other => return Err(format!("unknown marker '{other}'")),
    }
    Ok(())
}

/// As Go reads booleans.
fn flag(marker: &Marker) -> Result<bool, String> {
    match marker.value.as_str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(format!("{} must be true or false, not '{}'", marker.key, shown(other))),
    }
}

fn number(marker: &Marker) -> Result<f64, String> {
    let parsed = marker.value.parse::<f64>().ok().filter(|number| number.is_finite());
    parsed.ok_or_else(|| format!("{} must be a number, not '{}'", marker.key, shown(&marker.value)))
}

fn count(marker: &Marker, schema: &Schema, of: Type) -> Result<u64, String> {
    only(marker, schema, of)?;
    marker.value.parse().map_err(|_| {
        format!("{} must be a whole number of 0 or more, not '{}'", marker.key, shown(&marker.value))
    })
}

fn only(marker: &Marker, schema: &Schema, wanted: Type) -> Result<(), String> {
    if schema.type_ == Some(wanted) {
        return Ok(());
    }
    let has = schema.type_.map_or("any", Type::name);
    Err(format!("marker '{}' is for fields of type {}, this one is {has}", marker.key, wanted.name()))
}

fn list_type(wanted: ListType, schema: &mut Schema) -> Result<(), String> {
    match schema.list_type {
        Some(other) if other != wanted => {
            Err("uniqueItems and listType contradict each other: uniqueItems=true means listType=set".into())
        }
        _ => {
            schema.list_type = Some(wanted);
            Ok(())
        }
    }
}

fn default(text: &str, schema: &Schema) -> Result<Value, String> {
    let wrong = |what: &str| format!("default must be {what}, not '{}'", shown(text));
    match schema.type_ {
        Some(Type::String) => Ok(text.into()),
        Some(Type::Integer) => text.parse::<i64>().map(Value::from).map_err(|_| wrong("a whole number")),
        Some(Type::Number) => {
            let parsed = text.parse::<f64>().ok().filter(|number| number.is_finite());
            parsed.map(Value::from).ok_or_else(|| wrong("a number"))
        }
        Some(Type::Boolean) => {
            let marker = Marker { key: "default".into(), value: text.into() };
            flag(&marker).map(Value::from)
        }
        Some(Type::Array | Type::Object) | None => {
            let value: Value = serde_json::from_str(text).map_err(|why| {
                format!("default must be JSON, and '{}' cannot be read: {why}", shown(text))
            })?;
            match (schema.type_, &value) {
                (Some(Type::Array), Value::Array(_)) | (Some(Type::Object) | None, Value::Object(_)) => {
                    Ok(value)
                }
                (Some(Type::Array), _) => Err(wrong("a JSON list")),
                _ => Err(wrong("a JSON object")),
            }
        }
    }
}

fn choices(text: &str, schema: &Schema) -> Result<Vec<Value>, String> {
    let integers = match schema.type_ {
        Some(Type::String) => false,
        Some(Type::Integer) => true,
        _ => return Err("marker 'enum' is for fields of type string or integer".into()),
    };
    let mut values = Vec::new();
    for choice in text.split(',').map(str::trim) {
        if choice.is_empty() {
            return Err("enum has an empty choice".into());
        }
        let value = if integers {
            let parsed = choice.parse::<i64>();
            parsed
                .map_err(|_| format!("enum of an integer field has '{}', not a whole number", shown(choice)))?
                .into()
        } else {
            Value::from(choice)
        };
        if values.contains(&value) {
            return Err(format!("enum has '{}' twice", shown(choice)));
        }
        values.push(value);
    }
    Ok(values)
}
