use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{ListShape, MapShape, Shape, Type};
use crate::apply::{
    fieldpath::{Node, PathElement, Set},
    value::equal,
};

/// What changed from one object to another. No path is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub removed: Set,
    pub modified: Set,
    pub added: Set,
}

pub fn compare(old: &Value, new: &Value, of: Type<'_>) -> Comparison {
    let Delta { removed, modified, added } = walk(Some(old), Some(new), of);
    Comparison { removed: removed.below, modified: modified.below, added: added.below }
}

/// A comparison below a path and at it.
#[derive(Default)]
struct Delta {
    removed: Node,
    modified: Node,
    added: Node,
}

fn walk(old: Option<&Value>, new: Option<&Value>, of: Type<'_>) -> Delta {
    let shape_of = |value: &Value| of.shape(value);
    let (before, after) = (old.map(shape_of), new.map(shape_of));
    let (mut delta, is_leaf) = match (before, after) {
        (None, None) => return Delta::default(),
        (Some(shape), None) | (None, Some(shape)) => visit(old, new, shape),
        (Some(before), Some(after)) if before.same_kind(&after) => visit(old, new, after),
        (Some(before), Some(after)) => {
            let (mut delta, _) = visit(old, new, before);
            let (other, is_leaf) = visit(old, new, after);
            delta.union(other);
            (delta, is_leaf)
        }
    };
    if !is_leaf {
        delta.added.member |= old.is_none();
        delta.removed.member |= new.is_none();
    }
    delta
}

/// The second of the pair: it was compared as one value.
fn visit<'a>(old: Option<&'a Value>, new: Option<&'a Value>, shape: Shape<'_>) -> (Delta, bool) {
    match shape {
        Shape::Scalar(_) => (leaf(old, new), true),
        Shape::Map(shape) => {
            let (old_map, new_map) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            let nothing = old_map.is_none_or(|m| m.is_empty()) && new_map.is_none_or(|m| m.is_empty());
            // "nothing" keeps null, absent and empty apart
            if shape.atomic || nothing {
                return (leaf(old, new), true);
            }
            (fields(old_map, new_map, shape), false)
        }
        Shape::List(shape) => {
            let (old_list, new_list) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
            let nothing = old_list.is_none_or(Vec::is_empty) && new_list.is_none_or(Vec::is_empty);
            if shape.atomic || nothing {
                return (leaf(old, new), true);
            }
            let slice = |list: Option<&'a Vec<Value>>| list.map(Vec::as_slice).unwrap_or_default();
            (items(slice(old_list), slice(new_list), shape), false)
        }
    }
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Delta {
    let mut delta = Delta::default();
    match (old, new) {
        (None, _) => delta.added.member = true,
        (_, None) => delta.removed.member = true,
        (Some(old), Some(new)) => delta.modified.member = !equal(old, new),
    }
    delta
}

type Fields = serde_json::Map<String, Value>;

fn fields(old: Option<&Fields>, new: Option<&Fields>, shape: MapShape<'_>) -> Delta {
    let names: BTreeSet<&String> = old.into_iter().chain(new).flat_map(|map| map.keys()).collect();
    let mut delta = Delta::default();
    for name in names {
        let of = shape.field(name).unwrap_or(Type::Deduced);
        let field = walk(old.and_then(|m| m.get(name)), new.and_then(|m| m.get(name)), of);
        delta.attach(&PathElement::field(name), field);
    }
    delta
}

fn items(old: &[Value], new: &[Value], shape: ListShape<'_>) -> Delta {
    let mut by_element: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for item in old {
        if let Ok(element) = shape.element(item) {
            by_element.entry(element).or_default().0.push(item);
        }
    }
    for item in new {
        if let Ok(element) = shape.element(item) {
            by_element.entry(element).or_default().1.push(item);
        }
    }
    let mut delta = Delta::default();
    for (element, (old, new)) in &by_element {
        let item = match (old.as_slice(), new.as_slice()) {
            ([] | [_], [] | [_]) => walk(old.first().copied(), new.first().copied(), shape.items),
            // items that cannot be told apart are compared as one value
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len() && old.iter().zip(new).all(|(a, b)| equal(a, b));
                let mut delta = Delta::default();
                delta.modified.member = !same;
                delta
            }
            ([_, _, ..], rest) => {
                let mut delta =
                    rest.first().map(|new| walk(None, Some(new), shape.items)).unwrap_or_default();
                delta.removed.member = true;
                delta
            }
            (rest, [_, _, ..]) => {
                let mut delta =
                    rest.first().map(|old| walk(Some(old), None, shape.items)).unwrap_or_default();
                delta.added.member = true;
                delta
            }
        };
        delta.attach(element, item);
    }
    delta
}

// === impl Delta ===

impl Delta {
    fn attach(&mut self, element: &PathElement, below: Delta) {
        self.removed.below.attach(element, below.removed);
        self.modified.below.attach(element, below.modified);
        self.added.below.attach(element, below.added);
    }

    fn union(&mut self, other: Delta) {
        for (ours, theirs) in [
            (&mut self.removed, other.removed),
            (&mut self.modified, other.modified),
            (&mut self.added, other.added),
        ] {
            ours.member |= theirs.member;
            ours.below = std::mem::take(&mut ours.below).union(&theirs.below);
        }
    }
}
