use serde_json::{Map, Value};

use super::{ListShape, MapShape, Shape, Type};
use crate::apply::fieldpath::{PathElement, Set};

/// `value` without the fields and items in `set`.
pub fn remove(value: &Value, set: &Set, of: Type<'_>) -> Value {
    walk(value, set, of, Keep::Others)
}

/// Only the fields and items of `value` in `set`, and what leads to them.
pub fn extract(value: &Value, set: &Set, of: Type<'_>) -> Value {
    walk(value, set, of, Keep::Chosen)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Chosen,
    Others,
}

/// A container that loses all it had becomes null; one that was empty before, too, unless it is extracted.
fn walk(value: &Value, set: &Set, of: Type<'_>, keep: Keep) -> Value {
    let whole = || if keep == Keep::Chosen { value.clone() } else { Value::Null };
    match (of.shape(value), value) {
        (Shape::Scalar(_), _) => value.clone(),
        (Shape::Map(shape), Value::Object(map)) if !map.is_empty() && !shape.atomic => {
            fields(map, set, shape, keep)
        }
        (Shape::List(shape), Value::Array(list)) if !list.is_empty() && !shape.atomic => {
            items(list, set, shape, keep)
        }
        _ => whole(),
    }
}

fn fields(map: &Map<String, Value>, set: &Set, shape: MapShape<'_>, keep: Keep) -> Value {
    let mut out = Map::new();
    for (name, field) in map {
        let element = PathElement::field(name);
        let below = set.below(&element);
        let of = shape.field(name).unwrap_or(Type::Deduced);
        match (keep, set.has(&element)) {
            (Keep::Others, true) => {}
            (Keep::Chosen, false) if below.is_empty() => {}
            (Keep::Others, false) if below.is_empty() => {
                out.insert(name.clone(), field.clone());
            }
            _ => {
                out.insert(name.clone(), walk(field, below, of, keep));
            }
        }
    }
    if out.is_empty() { Value::Null } else { Value::Object(out) }
}

fn items(list: &[Value], set: &Set, shape: ListShape<'_>, keep: Keep) -> Value {
    let mut out = Vec::new();
    for item in list {
        let Ok(element) = shape.element(item) else {
            // not an item that a path can name: never chosen
            if keep == Keep::Others {
                out.push(item.clone());
            }
            continue;
        };
        let below = set.below(&element);
        let rest = || if below.is_empty() { item.clone() } else { walk(item, below, shape.items, keep) };
        match (keep, set.has(&element)) {
            (Keep::Others, true) => {}
            (Keep::Chosen, false) if below.is_empty() => {}
            _ => out.push(rest()),
        }
    }
    if out.is_empty() { Value::Null } else { Value::Array(out) }
}
