use schema::{AdditionalProperties, Schema, Type};
use serde_json::Value;

/// Leaves out of a built-in object what the real server never stores: nulls, and lists and maps without items, unless
/// the field is required. A struct without fields stays (`securityContext: {}`).
///
/// For every write of a built-in kind, before its managers are worked out. Custom resources keep what they are given,
/// except in their `metadata`.
pub fn omit_empty(value: &mut Value, schema: &Schema) {
    let schema = match schema.all_of.as_slice() {
        [only] if schema.type_.is_none() && schema.properties.is_empty() => only,
        _ => schema,
    };
    match value {
        Value::Object(map) => {
            map.retain(|name, field| {
                let declared = schema.properties.get(name);
                if let Some(of) = declared.or(schema.field(name)) {
                    omit_empty(field, of);
                }
                let required = schema.required.iter().any(|required| required == name);
                required || !declared.is_some_and(|of| is_omitted(field, of))
            });
        }
        Value::Array(items) => {
            if let Some(of) = &schema.items {
                items.iter_mut().for_each(|item| omit_empty(item, of));
            }
        }
        _ => {}
    }
}

fn is_omitted(value: &Value, of: &Schema) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty() && of.type_ == Some(Type::Array),
        Value::Object(map) => {
            map.is_empty() && matches!(of.additional_properties, Some(AdditionalProperties::Typed(_)))
        }
        _ => false,
    }
}
