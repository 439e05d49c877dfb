use std::collections::BTreeSet;

use serde_json::Value;

use super::{ListShape, MapShape, Shape, Type};
use crate::apply::fieldpath::{Node, PathElement, Set};

/// Every field and item that `value` mentions: what an applier of it owns.
pub fn to_set(value: &Value, of: Type<'_>) -> Set {
    walk(value, of).below
}

fn walk(value: &Value, of: Type<'_>) -> Node {
    match of.shape(value) {
        Shape::Scalar(_) => Node::member(),
        Shape::List(shape) if shape.atomic => Node::member(),
        Shape::Map(shape) if shape.atomic => Node::member(),
        Shape::List(shape) => Node { member: false, below: items(value, shape) },
        Shape::Map(shape) => Node { member: false, below: fields(value, shape) },
    }
}

fn fields(value: &Value, shape: MapShape<'_>) -> Set {
    let mut set = Set::new();
    for (name, field) in value.as_object().into_iter().flatten() {
        let declared = shape.declared(name);
        let of = declared.or_else(|| shape.undeclared()).unwrap_or(Type::Deduced);
        let mut node = walk(field, of);
        let nothing_inside = field.is_null() || field.as_object().is_some_and(|map| map.is_empty());
        node.member |= nothing_inside || declared.is_none();
        set.attach(&PathElement::field(name), node);
    }
    set
}

fn items(value: &Value, shape: ListShape<'_>) -> Set {
    let mut set = Set::new();
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let elements: Vec<_> = items.iter().map(|item| (shape.element(item), item)).collect();
    let mut seen = BTreeSet::new();
    let repeated: BTreeSet<_> = elements
        .iter()
        .filter_map(|(element, _)| element.as_ref().ok())
        .filter(|e| !seen.insert(*e))
        .collect();
    for (element, item) in &elements {
        let Ok(element) = element else { continue };
        // items that cannot be told apart are owned together, without what is inside of them
        let below = if repeated.contains(element) { Set::new() } else { walk(item, shape.items).below };
        set.attach(element, Node { member: true, below });
    }
    set
}
