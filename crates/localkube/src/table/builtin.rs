use std::sync::Arc;

use super::{Cell, Column, cells};
use crate::object;

pub fn name() -> Column {
    Column {
        name: "Name".into(),
        kind: "string".into(),
        format: "name".into(),
        description: "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names".into(),
        priority: 0,
        cell: Cell::Computed(|object, _| object::name(object).into()),
    }
}

pub fn age() -> Column {
    Column {
        name: "Age".into(),
        kind: "string".into(),
        format: "".into(),
        description: "".into(),
        priority: 0,
        cell: Cell::Computed(|object, now| {
            match object::parse_timestamp(object::text(object, &["metadata", "creationTimestamp"])) {
                Some(at) => cells::since(at, now).into(),
                None => "<unknown>".into(),
            }
        }),
    }
}

pub fn columns(_kind: &str, _version: &str) -> Arc<[Column]> {
    [name(), age()].into()
}
