//! Lists that are merged: of scalars as sets, of maps by their merge key.

use serde_json::{Map, Value};

use super::{
    PATCH,
    error::{Error, LIST_OF_LISTS, bad_directive, no_merge_key},
    merge_map,
    meta::{FieldMeta, kind_name},
    order, without_directive_fields,
};
use crate::go;

/// What the items of a list are. All of them are the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    Map,
    Scalar,
}

impl ItemKind {
    pub(super) fn of(original: &[Value], patch: &[Value]) -> Result<Self, Error> {
        let mut items = original.iter().chain(patch);
        let Some(first) = items.next() else {
            return Err(Error::Internal("no elements in any of the given slices".into()));
        };
        if first.is_array() {
            return Err(LIST_OF_LISTS);
        }
        if first.is_null() || items.any(|item| go::type_name(item) != go::type_name(first)) {
            let all = Value::from(vec![original.to_vec(), patch.to_vec()]);
            return Err(Error::Internal(format!(
                "list element types are not identical: {}",
                go::plain(&all)
            )));
        }
        Ok(if first.is_object() { Self::Map } else { Self::Scalar })
    }
}

/// `deletes`: the patch lists the values that go.
pub(super) fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    field: &FieldMeta<'_>,
    deletes: bool,
) -> Result<Vec<Value>, Error> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let kind = ItemKind::of(&original, &patch)?;
    match kind {
        ItemKind::Scalar if deletes => {
            Ok(original.into_iter().filter(|item| !patch.contains(item)).collect())
        }
        ItemKind::Scalar => {
            let mut merged: Vec<Value> = Vec::with_capacity(original.len() + patch.len());
            for item in original.iter().chain(&patch) {
                if !merged.contains(item) {
                    merged.push(item.clone());
                }
            }
            order::arrange(merged, &patch, &original, field.merge_key, kind)
        }
        ItemKind::Map => {
            if field.merge_key.is_empty() {
                return Err(Error::Internal(format!(
                    "cannot merge lists without merge key for {}",
                    kind_name(field.schema)
                )));
            }
            let (original, patch) = run_directives(original, patch, field.merge_key)?;
            let merged = merge_maps(original.clone(), patch.clone(), field)?;
            order::arrange(merged, &patch, &original, field.merge_key, kind)
        }
    }
}

/// Takes the items with `$patch` out of the patch, and does what they say.
fn run_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut replaces = false;
    for item in patch {
        let Value::Object(fields) = &item else { continue };
        let Some(directive) = fields.get(PATCH) else {
            rest.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let key = fields.get(merge_key).ok_or_else(|| no_merge_key(fields, merge_key))?;
                original.retain(|item| item.get(merge_key) != Some(key));
            }
            Some("replace") => replaces = true,
            Some("merge") => {
                return Err(Error::Internal("merging lists cannot yet be specified in the patch".into()));
            }
            _ => return Err(bad_directive(directive, fields)),
        }
    }
    Ok(if replaces { (rest, Vec::new()) } else { (original, rest) })
}

fn merge_maps(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    field: &FieldMeta<'_>,
) -> Result<Vec<Value>, Error> {
    for item in patch {
        let Value::Object(new) = item else { continue };
        let key = key_of(&new, field.merge_key)?.clone();
        match original.iter_mut().find(|item| item.get(field.merge_key) == Some(&key)) {
            Some(Value::Object(current)) => {
                *current = merge_map(std::mem::take(current), new, field.schema)?;
            }
            _ => original.push(without_directive_fields(Value::Object(new))),
        }
    }
    Ok(original)
}

pub(super) fn key_of<'v>(item: &'v Map<String, Value>, merge_key: &str) -> Result<&'v Value, Error> {
    item.get(merge_key).ok_or_else(|| no_merge_key(item, merge_key))
}
