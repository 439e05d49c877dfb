use serde_json::Value;

use super::{Shape, Type};
use crate::apply::fieldpath::{Node, PathElement, Set};

/// A set that was recorded under an older schema, in terms of the present one: where a container has become atomic
/// since, whoever owned something in it owns it as a whole. The other direction needs nothing.
#[must_use]
pub fn reconcile(set: &Set, of: Type<'_>) -> Set {
    walk(set, of)
}

fn walk(set: &Set, of: Type<'_>) -> Set {
    // with no value at hand, the first shape that the type allows counts
    match of.shape(&Value::Null) {
        Shape::Scalar(_) => set.clone(),
        Shape::List(shape) => set.filter_map(|_, node| Some(inner(node, shape.items))),
        Shape::Map(shape) if shape.is_deduced() => set.clone(),
        Shape::Map(shape) => set.filter_map(|element, node| {
            let of = match element {
                PathElement::Field(name) => shape.field(name),
                _ => shape.undeclared(),
            };
            // fields that the schema does not know are left as they are
            Some(of.map_or_else(|| node.clone(), |of| inner(node, of)))
        }),
    }
}

fn inner(node: &Node, of: Type<'_>) -> Node {
    let became_atomic = match of.shape(&Value::Null) {
        Shape::Scalar(_) => false,
        Shape::List(shape) => shape.atomic,
        Shape::Map(shape) => shape.atomic && !shape.is_deduced(),
    };
    if node.below.is_empty() {
        node.clone()
    } else if became_atomic {
        Node::member()
    } else {
        Node { member: node.member, below: walk(&node.below, of) }
    }
}
