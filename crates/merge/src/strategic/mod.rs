//! Strategic merge patch: a merge patch that knows the schema, so that lists of things with names are merged by
//! name, and that has directives for what a merge cannot say.
//!
//! | in the patch | does |
//! |---|---|
//! | `$patch: replace` or `delete` in a map | the map is replaced by the rest of the patch, or emptied |
//! | `{$patch: delete, name: x}` in a list | the item is deleted |
//! | `{$patch: replace}` in a list | the list is replaced by the other items |
//! | `$deleteFromPrimitiveList/x: […]` | these values are deleted from list `x` |
//! | `$setElementOrder/x: […]` | list `x` gets this order |
//! | `$retainKeys: […]` in a map | all other fields of it are deleted |
//!
//! Only the half that applies a patch is here; clients make them.

mod error;
mod list;
mod meta;
mod order;
#[cfg(test)]
mod tests;

use schema::Schema;
use serde_json::{Map, Value};

pub use error::Error;
use error::{
    BAD_DOCUMENT, BAD_ELEMENT_ORDER, BAD_PRIMITIVE_LIST, BAD_RETAIN_KEYS, bad_directive, expected_list,
    not_an_object,
};
use meta::Strategy;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

/// `target` with `patch` applied to it.
pub fn apply(target: &Value, patch: &Value, schema: &Schema) -> Result<Value, Error> {
    let Value::Object(fields) = target else { return Err(BAD_DOCUMENT) };
    match patch {
        Value::Object(patch) => merge_map(fields.clone(), patch.clone(), Some(schema)).map(Value::Object),
        Value::Null => Ok(target.clone()),
        other => Err(not_an_object(other)),
    }
}

type Fields = Map<String, Value>;

fn merge_map(mut original: Fields, mut patch: Fields, schema: Option<&Schema>) -> Result<Fields, Error> {
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH);
                Ok(patch)
            }
            Some("delete") => Ok(Fields::new()),
            _ => Err(bad_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    merge_ordered_lists(&mut original, &mut patch, schema)?;
    // deletions last, so that they win over a list in the same patch
    let (deletions, rest): (Vec<_>, Vec<_>) =
        patch.into_iter().partition(|(key, _)| key.starts_with(DELETE_FROM));
    for (key, new) in rest.into_iter().chain(deletions) {
        let (name, deletes) = match directive_target(&key, DELETE_FROM) {
            None => (key, false),
            Some(Some(name)) => (name, true),
            Some(None) => return Err(BAD_PRIMITIVE_LIST),
        };
        if new.is_null() {
            original.remove(&name);
            continue;
        }
        let Some(current) = original.get_mut(&name).filter(|current| same_type(current, &new)) else {
            if !deletes {
                match without_directives(without_nulls(new)) {
                    Some(value) => drop(original.insert(name, value)),
                    None => drop(original.remove(&name)),
                }
            }
            continue;
        };
        *current = match (std::mem::take(current), new) {
            (Value::Object(current), Value::Object(new)) => {
                let field = meta::of_map(schema, &name)?;
                Value::Object(match field.strategy {
                    Strategy::Replace => new,
                    _ => merge_map(current, new, field.schema)?,
                })
            }
            (Value::Array(current), Value::Array(new)) => {
                let field = meta::of_list(schema, &name)?;
                Value::Array(if field.strategy == Strategy::Merge || deletes {
                    list::merge(current, new, &field, deletes)?
                } else {
                    new
                })
            }
            (_, new) => new,
        };
    }
    Ok(original)
}

/// `$retainKeys` names every field of the patch and those of the object that stay.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), Error> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = retained else { return Err(BAD_RETAIN_KEYS) };
    let is_retained = |name: &str| retained.iter().any(|key| key == name);
    let is_listed = |(name, value): (&String, &Value)| {
        value.is_null()
            || name.starts_with(DELETE_FROM)
            || name.starts_with(ELEMENT_ORDER)
            || is_retained(name)
    };
    if !patch.iter().all(is_listed) {
        return Err(BAD_RETAIN_KEYS);
    }
    original.retain(|name, _| is_retained(name));
    Ok(())
}

/// Merges every list that the patch gives an order for, and takes it and its order out of the patch.
fn merge_ordered_lists(
    original: &mut Fields,
    patch: &mut Fields,
    schema: Option<&Schema>,
) -> Result<(), Error> {
    let directives: Vec<String> =
        patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let Some(order) = patch.remove(&directive) else { continue };
        let Value::Array(order) = order else { return Err(expected_list(&order)) };
        let Some(Some(name)) = directive_target(&directive, ELEMENT_ORDER) else {
            return Err(BAD_ELEMENT_ORDER);
        };
        let list_of = |fields: &Fields| match fields.get(&name) {
            None => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list.clone())),
            Some(other) => Err(expected_list(other)),
        };
        let (current, new) = (list_of(original)?, list_of(patch)?);
        let field = meta::of_list(schema, &name)?;
        order::check(new.as_deref().unwrap_or_default(), &order, field.merge_key)?;
        let merged = match (current.clone(), new.clone()) {
            (None, None) => continue,
            (Some(current), None) => current,
            (None, Some(new)) => new.into_iter().filter_map(without_directives).collect(),
            (Some(current), Some(new)) if field.strategy == Strategy::Merge => {
                list::merge(current, new, &field, false)?
            }
            (Some(_), Some(new)) => new,
        };
        let (current, new) = (current.unwrap_or_default(), new.unwrap_or_default());
        let items = list::ItemKind::of(&current, &new)?;
        let live_order = order::after_deletions(&current, &new, field.merge_key);
        original.insert(
            name.clone(),
            Value::Array(order::arrange(merged, &order, &live_order, field.merge_key, items)?),
        );
        patch.remove(&name);
    }
    Ok(())
}

/// What stands behind the `/` of a directive; `Some(None)` if nothing does.
fn directive_target(key: &str, directive: &str) -> Option<Option<String>> {
    if !key.starts_with(directive) {
        return None;
    }
    Some(key.split_once('/').filter(|(prefix, _)| *prefix == directive).map(|(_, name)| name.to_owned()))
}

fn same_type(a: &Value, b: &Value) -> bool {
    crate::go::type_name(a) == crate::go::type_name(b)
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, field)| !field.is_null());
            Value::Object(kept.map(|(name, field)| (name, without_nulls(field))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        scalar => scalar,
    }
}

/// An item that a patch adds to a list stays, whatever it says about itself; what it says is not stored.
fn without_directive_fields(value: Value) -> Value {
    let is_directive = |name: &str| {
        [PATCH, RETAIN_KEYS].contains(&name)
            || [DELETE_FROM, ELEMENT_ORDER]
                .iter()
                .any(|directive| name.strip_prefix(directive).is_some_and(|rest| rest.starts_with('/')))
    };
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(name, _)| !is_directive(name));
            Value::Object(kept.map(|(name, field)| (name, without_directive_fields(field))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_directive_fields).collect(),
        scalar => scalar,
    }
}

/// What a patch brings in new, without the parts of it that are directives.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(PATCH) => None,
        Value::Object(map) => {
            let kept = map.into_iter().filter_map(|(name, field)| Some((name, without_directives(field)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        scalar => Some(scalar),
    }
}
