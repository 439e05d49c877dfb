//! The schema of a status field, inferred from its expression.

use std::sync::Arc;

use schema::{AdditionalProperties, Schema, Type as Json};

use super::Type;

/// Deeper than this a status is not described.
const DEEPEST: usize = 8;
/// Fields of objects that a status takes over whole, counted together.
const MOST_FIELDS: usize = 2_000;

/// What a field may hold that gets a value of this type.
pub(crate) fn schema_of(found: &Type) -> Schema {
    let mut left = MOST_FIELDS;
    at(found, 0, &mut left)
}

fn open() -> Schema {
    Schema { preserve_unknown_fields: Some(true), ..Schema::default() }
}

fn leaf(type_: Json) -> Schema {
    Schema { type_: Some(type_), ..Schema::default() }
}

fn text(format: &str) -> Schema {
    Schema { format: Some(format.to_owned()), ..leaf(Json::String) }
}

fn at(found: &Type, depth: usize, left: &mut usize) -> Schema {
    *left = left.saturating_sub(1);
    if depth > DEEPEST || *left == 0 {
        return open();
    }
    match found {
        Type::Bool => leaf(Json::Boolean),
        Type::Int | Type::Uint => leaf(Json::Integer),
        Type::Double => leaf(Json::Number),
        Type::String => leaf(Json::String),
        Type::Bytes => text("byte"),
        Type::Timestamp => text("date-time"),
        Type::Duration => leaf(Json::String),
        Type::List(item) => Schema { items: Some(Arc::new(at(item, depth + 1, left))), ..leaf(Json::Array) },
        Type::Map(entry) => {
            let value = AdditionalProperties::Typed(Arc::new(at(&entry.1, depth + 1, left)));
            Schema { additional_properties: Some(value), ..leaf(Json::Object) }
        }
        Type::Object(schema) => {
            let mut object = leaf(Json::Object);
            for (name, field) in &schema.properties {
                object.properties.insert(name.clone(), Arc::new(at(&Type::of(field), depth + 1, left)));
            }
            if schema.properties.is_empty() || schema.preserves_unknown_fields() {
                object.preserve_unknown_fields = Some(true);
            }
            object
        }
        Type::Literal(fields) => {
            let mut object = leaf(Json::Object);
            for (name, field) in fields.iter() {
                object.properties.insert(name.clone(), Arc::new(at(field, depth + 1, left)));
            }
            object
        }
        Type::Optional(inner) => at(inner, depth, left),
        Type::Dyn | Type::Never | Type::Null | Type::Named(_) => open(),
    }
}
