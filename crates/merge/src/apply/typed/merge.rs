use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{ListShape, MapShape, Shape, Type};
use crate::apply::fieldpath::PathElement;

/// `live` with everything that `config` says. Nothing is removed; items of a list that `config` mentions stand in
/// its order, between the others where they were.
pub fn merge(live: &Value, config: &Value, of: Type<'_>) -> Value {
    walk(Some(live), Some(config), of).unwrap_or(Value::Null)
}

fn walk<'a>(live: Option<&'a Value>, config: Option<&'a Value>, of: Type<'_>) -> Option<Value> {
    let whole = || config.or(live).cloned();
    match of.shape(config.or(live)?) {
        Shape::Scalar(_) => whole(),
        Shape::Map(shape) => {
            let (live_map, config_map) = (live.and_then(Value::as_object), config.and_then(Value::as_object));
            let nothing = live_map.is_none_or(|m| m.is_empty()) && config_map.is_none_or(|m| m.is_empty());
            if shape.atomic || nothing { whole() } else { fields(live_map, config_map, shape) }
        }
        Shape::List(shape) => {
            let (live_list, config_list) = (live.and_then(Value::as_array), config.and_then(Value::as_array));
            let nothing = live_list.is_none_or(Vec::is_empty) && config_list.is_none_or(Vec::is_empty);
            if shape.atomic || nothing {
                return whole();
            }
            let slice = |list: Option<&'a Vec<Value>>| list.map(Vec::as_slice).unwrap_or_default();
            items(slice(live_list), slice(config_list), shape)
        }
    }
}

type Fields = Map<String, Value>;

fn fields(live: Option<&Fields>, config: Option<&Fields>, shape: MapShape<'_>) -> Option<Value> {
    let names: BTreeSet<&String> = live.into_iter().chain(config).flat_map(|map| map.keys()).collect();
    let merged: Fields = names
        .into_iter()
        .filter_map(|name| {
            let of = shape.field(name).unwrap_or(Type::Deduced);
            let value = walk(live.and_then(|m| m.get(name)), config.and_then(|m| m.get(name)), of)?;
            Some((name.clone(), value))
        })
        .collect();
    (!merged.is_empty()).then_some(Value::Object(merged))
}

fn items(live: &[Value], config: &[Value], shape: ListShape<'_>) -> Option<Value> {
    let (live_order, live_by) = index(live, shape);
    let (config_order, config_by) = index(config, shape);
    let both = |element: &PathElement| {
        walk(
            live_by.get(element).map(|item| item.unwrap_or(&Value::Null)),
            config_by.get(element).map(|item| item.unwrap_or(&Value::Null)),
            shape.items,
        )
    };

    // the items that both have, in the order in which the result must have them
    let mut shared = config_order.iter().map(|(element, _)| element).filter(|e| live_by.contains_key(*e));
    let mut next_shared = shared.next();
    let mut taken = BTreeSet::new();
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    let (mut l, mut c) = (0, 0);
    while l < live_order.len() || c < config_order.len() {
        if let (Some((ours, _)), Some((theirs, _))) = (live_order.get(l), config_order.get(c)) {
            if ours == theirs {
                taken.insert(ours);
                out.extend(both(ours));
                (l, c) = (l + 1, c + 1);
                next_shared = shared.next();
                continue;
            }
            if config_by.contains_key(ours) && next_shared.is_some_and(|next| next != ours) {
                // shared, but its turn comes later
                l += 1;
                continue;
            }
        }
        if let Some((ours, item)) = live_order.get(l) {
            if !config_by.contains_key(ours) {
                out.extend(walk(Some(item), None, shape.items));
                l += 1;
                continue;
            }
            if taken.contains(ours) {
                l += 1;
            }
        }
        if let Some((theirs, _)) = config_order.get(c) {
            taken.insert(theirs);
            out.extend(both(theirs));
            c += 1;
            if next_shared == Some(theirs) {
                next_shared = shared.next();
            }
        }
    }
    (!out.is_empty()).then_some(Value::Array(out))
}

type Index<'v> = (Vec<(PathElement, &'v Value)>, BTreeMap<PathElement, Option<&'v Value>>);

/// Items in order, and by what tells them apart; `None` where several are the same, since such an item cannot be
/// merged with another.
fn index<'v>(items: &'v [Value], shape: ListShape<'_>) -> Index<'v> {
    let mut order = Vec::with_capacity(items.len());
    let mut by_element: BTreeMap<PathElement, Option<&Value>> = BTreeMap::new();
    for item in items {
        let Ok(element) = shape.element(item) else { continue };
        by_element.entry(element.clone()).and_modify(|known| *known = None).or_insert(Some(item));
        order.push((element, item));
    }
    (order, by_element)
}
