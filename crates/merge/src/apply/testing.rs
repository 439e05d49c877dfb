//! What the tests of this crate share.

use std::sync::LazyLock;

use proptest::{collection, prelude::*};
use schema::Schema;
use serde_json::{Map, Value, json};

/// A kind with a field of every sort.
pub(crate) fn toy() -> &'static Schema {
    static TOY: LazyLock<Schema> = LazyLock::new(|| {
        let item = json!({"type": "object", "properties": {
            "name": {"type": "string", "default": ""},
            "port": {"type": "integer"},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "a": {"type": "integer"}}}},
        }});
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "default": {}, "required": ["list"], "properties": {
                "replicas": {"type": "integer"},
                "paused": {"type": "boolean"},
                "percent": {"x-kubernetes-int-or-string": true},
                "list": {"type": "array", "items": item,
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"},
                "set": {"type": "array", "items": {"type": "string"},
                    "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge"},
                "args": {"type": "array", "items": {"type": "string"}},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "atom": {"type": "object", "x-kubernetes-map-type": "atomic",
                    "additionalProperties": {"type": "string"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "strategy": {"type": "object", "default": {}, "x-kubernetes-patch-strategy": "retainKeys",
                    "properties": {"type": {"type": "string"}, "rolling": {"type": "object"}}},
            }},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        serde_json::from_value(schema).expect("a schema")
    });
    &TOY
}

/// Any JSON, small, with field names that meet and some that patches give a meaning to.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..4).prop_map(Value::from),
        (-2.0f64..2.0).prop_map(Value::from),
        prop::sample::select(vec!["", "a", "b", "delete", "replace", "merge"]).prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "a",
        "b",
        "name",
        "list",
        "set",
        "map",
        "metadata",
        "managedFields",
        "$patch",
        "$retainKeys",
        "$setElementOrder/list",
        "$deleteFromPrimitiveList/set",
        "op",
        "path",
    ]);
    scalar.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            collection::vec((name.clone(), inner), 0..5).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(name, v)| (name.to_owned(), v)).collect::<Map<_, _>>())
            }),
        ]
    })
}
