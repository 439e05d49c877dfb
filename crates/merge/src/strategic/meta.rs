//! What the schema says about patching a field.

use schema::{Schema, Type};

use super::error::Error;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Strategy {
    Merge,
    Replace,
    /// Maps are merged, lists are replaced.
    Default,
}

pub(super) struct FieldMeta<'a> {
    pub strategy: Strategy,
    pub merge_key: &'a str,
    /// The schema of the field, or of its items; none where anything may stand (nothing is known below).
    pub schema: Option<&'a Schema>,
}

/// The field of an object.
pub(super) fn of_map<'a>(parent: Option<&'a Schema>, name: &str) -> Result<FieldMeta<'a>, Error> {
    lookup(parent, name, |field| field)
}

/// The field of an object that holds a list.
pub(super) fn of_list<'a>(parent: Option<&'a Schema>, name: &str) -> Result<FieldMeta<'a>, Error> {
    lookup(parent, name, |field| field.items.as_deref().unwrap_or(field))
}

fn lookup<'a>(
    parent: Option<&'a Schema>,
    name: &str,
    inner: impl Fn(&'a Schema) -> &'a Schema,
) -> Result<FieldMeta<'a>, Error> {
    let unknown = FieldMeta { strategy: Strategy::Default, merge_key: "", schema: None };
    let Some(parent) = parent.map(resolve) else { return Ok(unknown) };
    if parent.properties.is_empty() && parent.additional_properties.is_none() {
        return Ok(unknown);
    }
    let Some(field) = parent.properties.get(name) else {
        return Err(Error::Internal(match parent.additional_properties {
            // only structs are merged field by field, not maps of structs
            Some(_) => "merging an object in json but data type is not struct, instead is: map".to_owned(),
            None => {
                format!("unable to find api field in struct for the json field {}", crate::go::quoted(name))
            }
        }));
    };
    let mut strategy = Strategy::Default;
    let strategies = field.patch_strategy.as_deref().unwrap_or_default();
    for word in strategies.split(',').filter(|word| !word.is_empty()) {
        match word {
            "merge" => strategy = Strategy::Merge,
            "replace" => strategy = Strategy::Replace,
            // the patch itself says which keys to retain
            "retainKeys" => {}
            _ => return Err(Error::Internal(format!("unexpected patch strategy: [{strategies}]"))),
        }
    }
    Ok(FieldMeta {
        strategy,
        merge_key: field.patch_merge_key.as_deref().unwrap_or_default(),
        schema: Some(resolve(inner(resolve(field)))),
    })
}

/// A reference to a type is written as an `allOf` of one.
fn resolve(schema: &Schema) -> &Schema {
    match schema.all_of.as_slice() {
        [only] if schema.type_.is_none() && schema.properties.is_empty() => only,
        _ => schema,
    }
}

/// What the real server calls the type of a list's items in a message.
pub(super) fn kind_name(schema: Option<&Schema>) -> &'static str {
    match schema.and_then(|schema| schema.type_) {
        Some(Type::Array) => "slice",
        Some(Type::String) => "string",
        Some(Type::Integer) => "int",
        Some(Type::Number) => "float64",
        Some(Type::Boolean) => "bool",
        Some(Type::Object) | None => "struct",
    }
}
