//! The order of a merged list: the items of the patch among themselves as the patch has them, the others among
//! themselves as the object had them, and the two interleaved as the object had them, as far as it can tell.

use serde_json::Value;

use super::{
    ELEMENT_ORDER, PATCH,
    error::{Error, expected_map},
    list::{ItemKind, key_of},
};
use crate::go;

/// `merged` in the order of `patch_order` and `live_order`.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch_order: &[Value],
    live_order: &[Value],
    merge_key: &str,
    kind: ItemKind,
) -> Result<Vec<Value>, Error> {
    let of_kind = |value: &Value| identity(value, merge_key, kind);
    let by_key = |value: &Value| {
        identity(value, merge_key, if merge_key.is_empty() { ItemKind::Scalar } else { ItemKind::Map })
    };
    let partition = patch_order.iter().map(by_key).collect::<Result<Vec<_>, _>>()?;
    let mut from_patch = Vec::new();
    let mut live_only = Vec::new();
    for item in merged {
        if partition.contains(&by_key(&item)?) { from_patch.push(item) } else { live_only.push(item) }
    }
    let patch_order = patch_order.iter().map(of_kind).collect::<Result<Vec<_>, _>>()?;
    let live_order = live_order.iter().map(of_kind).collect::<Result<Vec<_>, _>>()?;
    let mut patch_items = sorted(from_patch, &patch_order, of_kind)?.into_iter().peekable();
    let mut live_items = sorted(live_only, &live_order, of_kind)?.into_iter().peekable();

    let place_in_live = |identity: &Value| live_order.iter().position(|known| known == identity);
    let mut out = Vec::new();
    loop {
        let live_first = match (live_items.peek(), patch_items.peek()) {
            (None, None) => return Ok(out),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((live, _)), Some((patch, _))) => match (place_in_live(live), place_in_live(patch)) {
                (Some(live), Some(patch)) => live < patch,
                _ => false,
            },
        };
        let next = if live_first { live_items.next() } else { patch_items.next() };
        out.extend(next.map(|(_, item)| item));
    }
}

/// Items with their identities, sorted; unknown ones first, items that are to be deleted last.
fn sorted(
    items: Vec<Value>,
    order: &[Value],
    identity: impl Fn(&Value) -> Result<Value, Error>,
) -> Result<Vec<(Value, Value)>, Error> {
    let mut items: Vec<(Value, Value)> =
        items.into_iter().map(|item| Ok((identity(&item)?, item))).collect::<Result<_, Error>>()?;
    items.sort_by_key(|(identity, item)| {
        let place = order.iter().position(|known| known == identity).map_or(0, |place| place + 1);
        (is_deletion(item), place)
    });
    Ok(items)
}

/// The order that the live list gives to the merged one. The real server deletes and appends in place, in the list that
/// it then takes the order from, so that as many items of the patch count as live ones as it deletes; clients see
/// the order that comes of it, so ours is the same.
pub(super) fn after_deletions(live: &[Value], patch: &[Value], merge_key: &str) -> Vec<Value> {
    let key = |item: &Value| item.get(merge_key).cloned();
    let deleted: Vec<_> = patch.iter().filter(|item| is_deletion(item)).map(key).collect();
    let mut order: Vec<Value> = live.to_vec();
    if !deleted.is_empty() {
        order.retain(|item| !deleted.contains(&key(item)));
        let known: Vec<_> = order.iter().map(key).collect();
        let added = patch.iter().filter(|item| item.get(PATCH).is_none() && !known.contains(&key(item)));
        order.extend(added.take(live.len() - order.len()).cloned().collect::<Vec<_>>());
    }
    order
}

/// Does the order name the items of the patch in the patch's own order?
pub(super) fn check(patch: &[Value], order: &[Value], merge_key: &str) -> Result<(), Error> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let kind = if merge_key.is_empty() { ItemKind::Scalar } else { ItemKind::Map };
    let mut ordered = order.iter();
    for item in patch {
        if kind == ItemKind::Map && !item.is_object() {
            return Err(expected_map(item));
        }
        if item.get(PATCH).is_some() {
            continue;
        }
        let wanted = identity(item, merge_key, kind)?;
        loop {
            match ordered.next() {
                None => {
                    return Err(Error::Internal(format!(
                        "The order in patch list:\n{}\n doesn't match {ELEMENT_ORDER} list:\n{}\n",
                        go::plain(&Value::Array(patch.to_vec())),
                        go::plain(&Value::Array(order.to_vec())),
                    )));
                }
                Some(candidate) if identity(candidate, merge_key, kind)? == wanted => break,
                Some(_) => {}
            }
        }
    }
    Ok(())
}

fn identity(value: &Value, merge_key: &str, kind: ItemKind) -> Result<Value, Error> {
    match (kind, value) {
        (ItemKind::Scalar, value) => Ok(value.clone()),
        (ItemKind::Map, Value::Object(fields)) => key_of(fields, merge_key).cloned(),
        (ItemKind::Map, other) => Err(expected_map(other)),
    }
}

fn is_deletion(item: &Value) -> bool {
    item.get(PATCH).and_then(Value::as_str) == Some("delete")
}
