use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::apply::testing::{any_json, toy};

fn object(spec: Value) -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "Toy", "metadata": {"name": "t"}, "spec": spec})
}

#[test]
fn what_an_object_mentions() {
    let mut value = object(json!({
        "replicas": 1,
        "percent": "5%",
        "list": [{"name": "a", "list": [{"name": "b", "a": 1}]}, {"port": 2}],
        "set": ["x"],
        "args": ["y", "z"],
        "map": {"k": "v"},
        "atom": {"k": "v"},
        "free": {"a": {"b": [1]}, "c": {}},
        "strategy": {},
        "paused": null,
    }));
    value["metadata"]["labels"] = json!({"l": "1"});
    value["metadata"]["finalizers"] = json!(["f"]);
    value["metadata"]["ownerReferences"] = json!([{"uid": "u", "kind": "K"}]);
    expect![[r#"
        .apiVersion
        .kind
        .metadata.name
        .metadata.finalizers[="f"]
        .metadata.labels.l
        .metadata.ownerReferences[uid="u"]
        .spec.args
        .spec.atom
        .spec.paused
        .spec.percent
        .spec.replicas
        .spec.strategy
        .spec.free.a
        .spec.free.c
        .spec.free.a.b
        .spec.list[name=""]
        .spec.list[name="a"]
        .spec.list[name=""].port
        .spec.list[name="a"].name
        .spec.list[name="a"].list[name="b"]
        .spec.list[name="a"].list[name="b"].a
        .spec.list[name="a"].list[name="b"].name
        .spec.map.k
        .spec.set[="x"]"#]]
    .assert_eq(&to_set(&value, Type::object(toy())).to_string());
}

#[test]
fn without_a_schema_maps_have_owners_inside_and_lists_do_not() {
    let value = json!({"a": {"b": {"c": 1}}, "list": [{"name": "x"}]});
    expect![[r#"
        .a
        .list
        .a.b
        .a.b.c"#]]
    .assert_eq(&to_set(&value, Type::Deduced).to_string());
}

#[test]
fn mismatches_are_named_with_their_place() {
    let check = |spec: Value, expect: Expect| {
        let error = validate(&object(spec), Type::object(toy()), Duplicates::Refuse).unwrap_err();
        expect.assert_eq(&error.to_string());
    };
    check(json!({"replcas": 1}), expect![".spec.replcas: field not declared in schema"]);
    check(
        json!({"replicas": "x", "paused": 1, "args": {}, "map": {"k": 1}, "list": [{"name": "a", "port": true}]}),
        expect![[r#"
            errors:
              .spec.args: expected list, got &{map[]}
              .spec.list[name="a"].port: expected numeric (int or float), got bool
              .spec.map.k: expected string, got &value.valueUnstructured{Value:1}
              .spec.paused: expected boolean, got &{1}
              .spec.replicas: expected numeric (int or float), got string"#]],
    );
    check(
        json!({"list": [{"name": "a"}, {"name": "a"}], "set": ["x", "x"]}),
        expect![[r#"
            errors:
              .spec.list: duplicate entries for key [name="a"]
              .spec.set: duplicate entries for key [="x"]"#]],
    );
    check(
        json!({"list": ["a"]}),
        expect![".spec.list: element 0: associative list with keys may not have non-map elements"],
    );
    check(
        json!({"set": [null]}),
        expect![".spec.set: element 0: associative list without keys has an element that's an explicit null"],
    );
    check(
        json!({"list": [{"name": "a", "list": [{"a": 1}]}]}),
        expect![[
            r#".spec.list[name="a"].list: element 0: associative list with keys has an element that omits all key fields ["name"] (and doesn't have default values for any key fields)"#
        ]],
    );
    assert!(validate(&object(json!({"set": ["x", "x"]})), Type::object(toy()), Duplicates::Allow).is_ok());
}

#[test]
fn merged_lists_keep_the_order_of_both() {
    let names = |names: &str| {
        object(json!({"list": names.chars().map(|c| json!({"name": c.to_string()})).collect::<Vec<_>>()}))
    };
    for (live, config, merged) in [
        ("abc", "abc", "abc"),
        ("abc", "b", "abc"),
        ("abc", "ca", "bca"),
        ("abc", "xb", "axbc"),
        ("abc", "xy", "abcxy"),
        ("", "ba", "ba"),
        ("abcd", "dxa", "bcdxa"),
    ] {
        assert_eq!(
            merge(&names(live), &names(config), Type::object(toy())),
            names(merged),
            "{live} + {config}"
        );
    }
}

#[test]
fn the_zero_value_has_what_is_never_absent() {
    assert_eq!(zero_value(toy()), json!({"spec": {"list": null, "strategy": {}}}));
}

#[test]
fn empty_fields_are_left_out_of_built_in_objects() {
    let mut value = object(json!({
        "paused": null, "args": [], "map": {}, "list": [], "strategy": {},
        "set": ["a"], "replicas": 0, "atom": {"k": ""},
    }));
    omit_empty(&mut value, toy());
    let expected =
        object(json!({"list": [], "strategy": {}, "set": ["a"], "replicas": 0, "atom": {"k": ""}}));
    assert_eq!(value, expected);

    let mut value = object(json!({"list": [{"name": "a", "list": []}]}));
    omit_empty(&mut value, toy());
    assert_eq!(value, object(json!({"list": [{"name": "a"}]})));
}

proptest! {
    #![proptest_config(repeatable::cases(256))]

    /// Also values that are not of their type: nothing but `validate` may refuse them.
    #[test]
    fn operations_take_any_json(a in any_json(), b in any_json()) {
        for of in [Type::object(toy()), Type::of(toy()), Type::Deduced, Type::Atomic] {
            let _ = validate(&a, of, Duplicates::Refuse).map_err(|e| e.to_string());
            prop_assert_eq!(compare(&a, &a, of), Comparison::default());
            let there = compare(&a, &b, of);
            let back = compare(&b, &a, of);
            prop_assert_eq!((there.added, there.modified, there.removed), (back.removed, back.modified, back.added));
            let set = to_set(&b, of);
            remove(&a, &with_named_parents(&set, of), of);
            extract(&a, &reconcile(&set, of), of);
            merge(&a, &b, of);
        }
    }

    #[test]
    fn merging_again_changes_nothing(live in any_json(), config in any_json()) {
        let of = Type::object(toy());
        let (live, config) = (object(json!({"free": live})), object(json!({"free": config})));
        let merged = merge(&live, &config, of);
        prop_assert_eq!(merge(&merged, &config, of), merged);
    }
}
