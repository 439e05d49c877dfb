//! Whether what an expression makes may stand in a field.

use std::sync::Arc;

use schema::{AdditionalProperties, Schema, Type as Json};

use super::types::Type;

/// Types that contain one another are compared this far.
const DEEPEST: usize = 16;

/// `Err` says why not; the types themselves are named by the caller.
pub(crate) fn assign(from: &Type, to: &Arc<Schema>) -> Result<(), String> {
    assign_at(from, to, 0)
}

fn assign_at(from: &Type, to: &Arc<Schema>, depth: usize) -> Result<(), String> {
    if depth > DEEPEST {
        return Ok(());
    }
    let mismatch = || Err("type kind mismatch".to_owned());
    if to.int_or_string {
        return match from {
            Type::Int | Type::Uint | Type::String | Type::Null => Ok(()),
            Type::Optional(inner) => assign_at(inner, to, depth),
            from if from.is_dyn() => Ok(()),
            _ => mismatch(),
        };
    }
    let is_open = to.type_.is_none() && to.properties.is_empty();
    match (from, to.type_) {
        (Type::Dyn | Type::Never | Type::Null, _) => Ok(()),
        (Type::Optional(inner), _) => assign_at(inner, to, depth),
        (Type::Bytes, _) => Err("bytes have to be written with base64.encode()".to_owned()),
        (Type::Named(_), _) => mismatch(),
        _ if is_open => Ok(()),
        (Type::Bool, Some(Json::Boolean))
        | (Type::Int | Type::Uint, Some(Json::Integer | Json::Number))
        | (Type::Double, Some(Json::Number))
        | (Type::String | Type::Timestamp | Type::Duration, Some(Json::String)) => Ok(()),
        (Type::List(item), Some(Json::Array)) => match &to.items {
            Some(items) => assign_at(item, items, depth + 1),
            None => Ok(()),
        },
        (Type::Map(entry), Some(Json::Object) | None) => map(&entry.0, &entry.1, to, depth),
        (Type::Literal(fields), Some(Json::Object) | None) => {
            fields.iter().try_for_each(|(name, found)| field(name, found, to, depth))
        }
        (Type::Object(schema), Some(Json::Object) | None) => {
            if Arc::ptr_eq(schema, to) || (schema.title.is_some() && schema.title == to.title) {
                return Ok(());
            }
            schema.properties.iter().try_for_each(|(name, found)| field(name, &Type::of(found), to, depth))
        }
        _ => mismatch(),
    }
}

fn field(name: &str, found: &Type, to: &Schema, depth: usize) -> Result<(), String> {
    match to.field(name) {
        Some(target) => assign_at(found, target, depth + 1).map_err(|why| format!("field \"{name}\": {why}")),
        None if to.preserves_unknown_fields() => Ok(()),
        None => Err(format!("field \"{name}\" exists in output but not in expected type")),
    }
}

fn map(key: &Type, value: &Type, to: &Schema, depth: usize) -> Result<(), String> {
    if !key.is_dyn() && !matches!(key, Type::String) {
        return Err("the keys of an object are strings".to_owned());
    }
    if let Some(AdditionalProperties::Typed(entry)) = &to.additional_properties {
        return assign_at(value, entry, depth + 1);
    }
    // any key may turn up, so the value has to fit every field
    to.properties.iter().try_for_each(|(name, target)| {
        assign_at(value, target, depth + 1).map_err(|why| format!("field \"{name}\": {why}"))
    })
}
