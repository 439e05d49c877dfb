//! Filling in what a schema has defaults for.

use serde_json::Value;

use crate::Schema;

/// Sets absent fields of `value` to their defaults. A `null` where none may stand counts as absent: it becomes the
/// default, or goes.
pub fn default(value: &mut Value, schema: &Schema) {
    drop_nulls(value, Some(schema));
    fill(value, schema);
}

fn is_refused_null(value: &Value, schema: &Schema) -> bool {
    value.is_null() && !schema.nullable
}

fn drop_nulls(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let field = schema.and_then(|schema| schema.field(name));
            if field.is_some_and(|field| is_refused_null(value, field) && field.default.is_none()) {
                return false;
            }
            drop_nulls(value, field.map(|field| &**field));
            true
        }),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            items.iter_mut().for_each(|item| drop_nulls(item, schema));
        }
        _ => {}
    }
}

fn fill(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => {
            for (name, field) in &schema.properties {
                if map.get(name).is_none_or(|value| is_refused_null(value, field))
                    && let Some(default) = default_of(field)
                {
                    map.insert(name.clone(), default);
                }
            }
            for (name, value) in map.iter_mut() {
                if let Some(field) = schema.field(name) {
                    replace_null(value, field);
                    fill(value, field);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for item in items {
                replace_null(item, schema);
                fill(item, schema);
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, schema: &Schema) {
    if is_refused_null(value, schema)
        && let Some(default) = default_of(schema)
    {
        *value = default;
    }
}

/// A default may itself hold nulls that may not stand.
fn default_of(schema: &Schema) -> Option<Value> {
    let mut default = schema.default.clone()?;
    drop_nulls(&mut default, Some(schema));
    Some(default)
}
