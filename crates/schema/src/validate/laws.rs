//! Laws that hold for any value and any schema.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;
use crate::{MapType, Rules, default::default, prune::prune};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-d]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(Map::from_iter(map))),
        ]
    })
}

fn any_schema() -> impl Strategy<Value = Schema> {
    let types = prop::option::of(prop::sample::select(vec![
        Type::Object,
        Type::Array,
        Type::String,
        Type::Integer,
        Type::Number,
        Type::Boolean,
    ]));
    let format = prop::option::of(prop::sample::select(vec!["int32", "date-time", "byte", "nonsense"]));
    let leaf =
        (types, format, prop::option::of(any_json()), any::<(bool, bool, bool)>(), any::<Option<u8>>())
            .prop_map(|(type_, format, default, (nullable, int_or_string, embedded), bound)| Schema {
                type_,
                format: format.map(str::to_owned),
                default: default.filter(|d| !d.is_null()),
                nullable,
                int_or_string,
                embedded_resource: embedded,
                minimum: bound.map(f64::from),
                multiple_of: bound.map(f64::from),
                max_length: bound.map(u64::from),
                min_items: bound.map(u64::from),
                pattern: bound.map(|_| "^[a-c]*$".to_owned()),
                ..Schema::default()
            });
    leaf.prop_recursive(3, 16, 4, |inner| {
        (
            inner.clone(),
            prop::collection::btree_map("[a-d]", inner.clone().prop_map(Arc::new), 0..4),
            prop::option::of(inner.clone().prop_map(Arc::new)),
            prop::collection::vec(inner.clone().prop_map(Arc::new), 0..3),
            any::<(Option<bool>, u8)>(),
        )
            .prop_map(|(base, properties, items, alternatives, (preserve, choice))| Schema {
                properties,
                items: items.clone(),
                additional_properties: items.filter(|_| choice % 3 == 0).map(AdditionalProperties::Typed),
                any_of: if choice % 2 == 0 { alternatives.clone() } else { Vec::new() },
                one_of: if choice % 5 == 0 { alternatives.clone() } else { Vec::new() },
                all_of: if choice % 7 == 0 { alternatives } else { Vec::new() },
                preserve_unknown_fields: preserve.filter(|p| *p),
                list_type: [None, Some(ListType::Set), Some(ListType::Map)][choice as usize % 3],
                list_map_keys: vec!["a".to_owned()],
                map_type: [None, Some(MapType::Atomic)][choice as usize % 2],
                validations: vec![serde_json::json!({ "rule": "self.a == 1 || self.b.all(x, x > 0)" })],
                ..base
            })
    })
}

proptest! {
    #![proptest_config(repeatable::cases(256))]

    #[test]
    fn nothing_panics(value in any_json(), old in any_json(), schema in any_schema()) {
        let schema = Arc::new(schema);
        let _ = validate(&value, Some(&old), &schema, &Path::ROOT);
        let mut errors = Vec::new();
        lists::duplicates(&value, &schema, &Path::ROOT, &mut errors);
        embedded::resources(&value, &schema, true, &Path::ROOT, &mut errors);
        if let Some(rules) = Rules::compile(&schema) {
            let _ = rules.validate(&value, Some(&old), &Path::ROOT);
        }
        let _ = errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    }

    #[test]
    fn pruning_twice_is_pruning_once(mut value in any_json(), schema in any_schema()) {
        prune(&mut value, &schema);
        let once = value.clone();
        prop_assert_eq!(prune(&mut value, &schema), Vec::<String>::new());
        prop_assert_eq!(value, once);
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(mut value in any_json(), schema in any_schema()) {
        default(&mut value, &schema);
        let once = value.clone();
        default(&mut value, &schema);
        prop_assert_eq!(value, once);
    }

    #[test]
    fn an_unchanged_value_is_not_held_against_the_writer(value in any_json(), schema in any_schema()) {
        prop_assert_eq!(validate(&value, Some(&value), &schema, &Path::ROOT), vec![]);
    }
}
