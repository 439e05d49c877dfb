use schema::{Schema, Type};
use serde_json::{Map, Value, json};

/// A built-in object before anything is set in it. The real server compares a new object with its zero value, so
/// that a creator does not own what every object has: `.spec.strategy` of a Deployment, `.spec.containers` of a pod.
/// Custom resources have no such fields: theirs is `{}`.
///
/// The schema tells by its defaults (a field that is never absent has its zero value there) and by `required`.
pub fn zero_value(schema: &Schema) -> Value {
    let mut out = Map::new();
    for (name, field) in &schema.properties {
        let inner = field.all_of.first().filter(|_| field.type_.is_none()).unwrap_or(field);
        let required = schema.required.iter().any(|r| r == name);
        let value = match &field.default {
            Some(Value::Object(map)) if map.is_empty() => zero_value(inner),
            Some(zero) if [json!(""), json!(0), json!(false)].contains(zero) => zero.clone(),
            _ if !required => continue,
            _ => match inner.type_ {
                Some(Type::String) if inner.format.is_none() => json!(""),
                Some(Type::Integer | Type::Number) => json!(0),
                Some(Type::Boolean) => json!(false),
                _ => Value::Null,
            },
        };
        out.insert(name.clone(), value);
    }
    Value::Object(out)
}
