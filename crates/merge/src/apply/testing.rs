//! What the tests of this crate share.

use proptest::{collection, prelude::*};
use serde_json::{Map, Value};

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
