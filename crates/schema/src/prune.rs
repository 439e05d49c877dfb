//! Dropping the fields a schema does not know.

use serde_json::Value;

use crate::{AdditionalProperties, Path, Schema};

/// Fields every resource has whatever its schema says.
pub(crate) const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes from the resource `object` what `schema` does not specify, and returns the paths of what went
/// (`spec.foo`, `spec.list[2].bar`), sorted: an API server warns about them or refuses the write.
pub fn prune(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut dropped = Vec::new();
    node(object, Some(schema), true, &Path::ROOT, &mut dropped);
    dropped.sort();
    dropped
}

fn node(
    value: &mut Value,
    schema: Option<&Schema>,
    resource: bool,
    path: &Path<'_>,
    dropped: &mut Vec<String>,
) {
    let preserve = schema.is_some_and(|s| s.preserve_unknown_fields == Some(true));
    match value {
        Value::Object(map) => map.retain(|name, value| {
            if resource && META.contains(&name.as_str()) {
                return true;
            }
            let here = path.child(name);
            match schema.map(|schema| (schema, schema.properties.get(name.as_str()))) {
                Some((_, Some(field))) => node(value, Some(field), field.embedded_resource, &here, dropped),
                Some((Schema { additional_properties: Some(additional), .. }, None)) => match additional {
                    AdditionalProperties::Typed(entry) => {
                        node(value, Some(entry), entry.embedded_resource, &here, dropped);
                    }
                    // `true` says that there are entries, not what they hold
                    AdditionalProperties::Any(true) if !preserve => node(value, None, false, &here, dropped),
                    AdditionalProperties::Any(_) => {}
                },
                _ if preserve => {}
                _ => {
                    if !path.is_root() || !META.contains(&name.as_str()) {
                        dropped.push(here.to_string());
                    }
                    return false;
                }
            }
            true
        }),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            if preserve && schema.is_none() {
                return;
            }
            for (index, item) in items.iter_mut().enumerate() {
                let embedded = schema.is_some_and(|s| s.embedded_resource);
                node(item, schema, embedded, &path.index(index), dropped);
            }
        }
        _ => {}
    }
}
