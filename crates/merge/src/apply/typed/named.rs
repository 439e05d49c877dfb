use super::Type;
use crate::apply::fieldpath::{Node, PathElement, Set};

/// `set` and the declared fields above its paths. An owner of `.spec.replicas` does not own `.spec`, but when its
/// last field goes, `.spec` may go with it; an item of a map or list is an owner's only if it is in the set.
#[must_use]
pub fn with_named_parents(set: &Set, of: Type<'_>) -> Set {
    walk(set, Some(of))
}

fn walk(set: &Set, of: Option<Type<'_>>) -> Set {
    let (map, list) = (of.and_then(Type::map), of.and_then(Type::list));
    set.filter_map(|element, node| {
        let (declared, inner) = match element {
            PathElement::Field(name) => {
                let declared = map.and_then(|map| map.declared(name));
                (declared.is_some(), declared.or_else(|| map.and_then(|map| map.undeclared())))
            }
            PathElement::Key(_) => (false, list.map(|list| list.items)),
            PathElement::Value(_) | PathElement::Index(_) => (false, None),
        };
        Some(Node {
            member: node.member || (declared && !node.below.is_empty()),
            below: walk(&node.below, inner),
        })
    })
}
