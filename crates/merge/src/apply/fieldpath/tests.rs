use expect_test::expect;
use proptest::{collection, prelude::*};
use serde_json::{Value, json};

use super::*;

#[test]
fn every_kind_of_element_has_a_text_and_a_code() {
    let set: Set = [
        Path::fields(["spec", "replicas"]),
        Path(vec![
            PathElement::field("list"),
            PathElement::key(vec![("port".into(), json!(80)), ("name".into(), json!("a<b"))]),
        ]),
        Path(vec![PathElement::field("list")]),
        Path(vec![PathElement::field("set"), PathElement::Value(json!("x\"y"))]),
        Path(vec![PathElement::field("set"), PathElement::Value(json!(true))]),
        Path(vec![PathElement::field("args"), PathElement::Index(3), PathElement::field("v")]),
    ]
    .into_iter()
    .collect();
    expect![[r#"
        .list
        .args[3].v
        .list[name="a<b",port=80]
        .set[="x\"y"]
        .set[=true]
        .spec.replicas"#]]
    .assert_eq(&set.to_string());
    let code = encode(&set);
    expect![[
        r#"{"f:args":{"i:3":{"f:v":{}}},"f:list":{".":{},"k:{\"name\":\"a\\u003cb\",\"port\":80}":{}},"f:set":{"v:\"x\\\"y\"":{},"v:true":{}},"f:spec":{"f:replicas":{}}}"#
    ]]
    .assert_eq(&code.to_string());
    assert_eq!(decode(&code), Ok(set));
}

#[test]
fn what_cannot_be_read_is_named() {
    let mut report = String::new();
    for code in [
        json!({"f": {}}),
        json!({"": {}}),
        json!({"fx:a": {}}),
        json!({"k:[]": {}}),
        json!({"k:{": {}}),
        json!({"v:": {}}),
        json!({"i:x": {}}),
        json!({"f:a": 1}),
        json!(1),
    ] {
        report += &format!("{}\n", decode(&code).unwrap_err());
    }
    expect![[r#"
        key must be 2 characters long:
        key must be 2 characters long:
        missing colon: fx:a
        not a map of key fields: k:[]
        EOF while parsing an object at line 1 column 1 in path element k:{
        EOF while parsing a value at line 1 column 0 in path element v:
        not an index: i:x
        expected a map of path elements, got 1
        expected a map of path elements, got 1
    "#]]
    .assert_eq(&report);
    // kinds that we do not know may come from a later version
    assert_eq!(decode(&json!({"z:a": {}, "f:b": null})), Ok([Path::fields(["b"])].into_iter().collect()));
}

#[test]
fn one_and_one_point_zero_are_the_same_item() {
    let element = |value: Value| Path(vec![PathElement::Value(value)]);
    let set: Set = [element(json!(1))].into_iter().collect();
    assert!(set.contains(&element(json!(1.0))));
    assert!(!set.contains(&element(json!("1"))));
}

fn any_set() -> impl Strategy<Value = Set> {
    let element = prop::sample::select(vec![
        PathElement::field("a"),
        PathElement::field("b"),
        PathElement::key(vec![("name".into(), json!("x"))]),
        PathElement::Value(json!(1)),
        PathElement::Index(0),
    ]);
    let path = collection::vec(element, 1..4).prop_map(Path);
    collection::vec(path, 0..8).prop_map(|paths| paths.into_iter().collect())
}

proptest! {
    #![proptest_config(repeatable::cases(256))]

    #[test]
    fn sets_obey_the_laws_of_sets(a in any_set(), b in any_set(), c in any_set()) {
        let both = a.clone().union(&b);
        prop_assert_eq!(&both, &b.clone().union(&a));
        prop_assert_eq!(both.clone().union(&c), a.clone().union(&b.clone().union(&c)));
        prop_assert_eq!(&a.clone().union(&a), &a);
        prop_assert_eq!(&a.intersection(&b), &b.intersection(&a));
        prop_assert_eq!(&a.intersection(&both), &a);
        prop_assert_eq!(&a.difference(&b).union(&a.intersection(&b)), &a);
        prop_assert!(a.difference(&a).is_empty());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        // what is below a path goes with it, and stays with it
        prop_assert!(a.difference_with_children(&b).difference(&a.difference(&b)).is_empty());
        prop_assert!(a.difference_with_children(&b).intersection(&a.only_under(&b)).leaves().intersection(&b).is_empty());
        prop_assert!(a.leaves().difference(&a).is_empty());
        prop_assert_eq!(a.leaves().is_empty(), a.is_empty());
    }

    #[test]
    fn a_set_is_its_paths_and_its_code(a in any_set()) {
        prop_assert_eq!(&a.paths().into_iter().collect::<Set>(), &a);
        prop_assert!(a.paths().iter().all(|path| a.contains(path)));
        prop_assert_eq!(decode(&encode(&a)), Ok(a));
    }

    #[test]
    fn any_json_is_read_or_refused(code in crate::apply::testing::any_json()) {
        if let Ok(set) = decode(&code) {
            prop_assert_eq!(decode(&encode(&set)), Ok(set));
        }
    }
}
