use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::apply::testing::{any_json, toy};

fn patched(spec: Value, patch: Value) -> Result<Value, Error> {
    apply(&json!({"spec": spec}), &json!({"spec": patch}), toy()).map(|mut object| object["spec"].take())
}

#[test]
fn patches() {
    for (spec, patch, expected) in [
        // maps are merged, scalars and lists without a key are replaced
        (
            json!({"map": {"a": "1", "b": "2"}}),
            json!({"map": {"b": null, "c": "3"}}),
            json!({"map": {"a": "1", "c": "3"}}),
        ),
        (json!({"args": ["a"]}), json!({"args": ["b"]}), json!({"args": ["b"]})),
        // lists with a key are merged by it, sets by value
        (
            json!({"list": [{"name": "a", "port": 1}, {"name": "b"}]}),
            json!({"list": [{"name": "c"}, {"name": "a", "port": 2}]}),
            json!({"list": [{"name": "c"}, {"name": "a", "port": 2}, {"name": "b"}]}),
        ),
        (json!({"set": ["a", "b"]}), json!({"set": ["c", "b"]}), json!({"set": ["c", "a", "b"]})),
        // also lists in lists
        (
            json!({"list": [{"name": "a", "list": [{"name": "x", "a": 1}]}]}),
            json!({"list": [{"name": "a", "list": [{"name": "y"}]}]}),
            json!({"list": [{"name": "a", "list": [{"name": "y"}]}]}),
        ),
        // directives
        (
            json!({"map": {"a": "1"}}),
            json!({"map": {"$patch": "replace", "b": "2"}}),
            json!({"map": {"b": "2"}}),
        ),
        (json!({"map": {"a": "1"}}), json!({"map": {"$patch": "delete"}}), json!({"map": {}})),
        (
            json!({"list": [{"name": "a"}, {"name": "b"}]}),
            json!({"list": [{"$patch": "delete", "name": "a"}]}),
            json!({"list": [{"name": "b"}]}),
        ),
        (
            json!({"list": [{"name": "a"}, {"name": "b"}]}),
            json!({"list": [{"$patch": "replace"}, {"name": "c"}]}),
            json!({"list": [{"name": "c"}]}),
        ),
        (json!({"set": ["a", "b"]}), json!({"$deleteFromPrimitiveList/set": ["a"]}), json!({"set": ["b"]})),
        (
            json!({"list": [{"name": "a"}, {"name": "b"}, {"name": "z"}]}),
            json!({"$setElementOrder/list": [{"name": "b"}, {"name": "a"}]}),
            json!({"list": [{"name": "b"}, {"name": "a"}, {"name": "z"}]}),
        ),
        (
            json!({"strategy": {"type": "Rolling", "rolling": {"a": 1}}}),
            json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
            json!({"strategy": {"type": "Recreate"}}),
        ),
        (
            json!({"list": [{"name": "a"}]}),
            json!({"list": [{"name": "b", "$setElementOrder/list": [], "list": [{"name": "x", "$patch": "delete"}]}]}),
            json!({"list": [{"name": "b", "list": [{"name": "x"}]}, {"name": "a"}]}),
        ),
        // a value that is both added and deleted is deleted
        (
            json!({"set": ["a"]}),
            json!({"set": ["b"], "$deleteFromPrimitiveList/set": ["b"]}),
            json!({"set": ["a"]}),
        ),
        // what is new comes without nulls and directives
        (
            json!({}),
            json!({"map": {"a": null, "b": "1"}, "list": [{"$patch": "delete", "name": "x"}]}),
            json!({"map": {"b": "1"}, "list": []}),
        ),
    ] {
        let result = patched(spec.clone(), patch.clone());
        assert_eq!(result.as_ref(), Ok(&expected), "{spec} + {patch}");
    }
}

#[test]
fn errors_are_those_of_the_real_server() {
    let mut report = String::new();
    for patch in [
        json!({"$patch": "frob"}),
        json!({"list": [{"$patch": "frob", "name": "a"}]}),
        json!({"list": [{"$patch": "merge", "name": "a"}]}),
        json!({"list": [{"port": 1}]}),
        json!({"list": [{"$patch": "delete"}]}),
        json!({"list": [1]}),
        json!({"strategy": {"$retainKeys": "x"}}),
        json!({"strategy": {"$retainKeys": ["type"], "rolling": {}}}),
        json!({"$setElementOrder/list": [{"name": "x"}], "list": [{"name": "a", "port": 2}]}),
        json!({"$setElementOrder/list": "x"}),
        json!({"$setElementOrder": []}),
        json!({"$deleteFromPrimitiveList": []}),
        json!({"$setElementOrder/nope": []}),
    ] {
        let spec = json!({"list": [{"name": "a", "port": 1}], "strategy": {"type": "Rolling"}});
        report += &match patched(spec, patch) {
            Ok(spec) => format!("ok {spec}\n"),
            Err(Error::BadRequest(e)) => format!("400 {e}\n"),
            Err(Error::Unprocessable(e)) => format!("422 {e}\n"),
            Err(Error::Internal(e)) => format!("500 {e}\n"),
        };
    }
    expect![[r#"
        500 unknown patch type: frob in map: map[$patch:frob]
        500 unknown patch type: frob in map: map[$patch:frob name:a]
        500 merging lists cannot yet be specified in the patch
        500 map: map[port:1] does not contain declared merge key: name
        500 map: map[$patch:delete] does not contain declared merge key: name
        500 list element types are not identical: [[map[name:a port:1]] [1]]
        400 invalid patch format of retainKeys
        400 invalid patch format of retainKeys
        500 The order in patch list:
        [map[name:a port:2]]
         doesn't match $setElementOrder list:
        [map[name:x]]

        500 expected a []interface {}, but received a string
        400 invalid patch format of setElementOrder list
        400 invalid patch format of primitive list
        500 unable to find api field in struct for the json field "nope"
    "#]]
    .assert_eq(&report);
    assert_eq!(
        apply(&json!({}), &json!([1]), toy()).unwrap_err().to_string(),
        "json: cannot unmarshal array into Go value of type map[string]interface {}"
    );
}

proptest! {
    #![proptest_config(repeatable::cases(256))]

    #[test]
    fn any_json_is_applied_or_refused(spec in any_json(), patch in any_json()) {
        let _ = patched(spec.clone(), patch.clone());
        let _ = apply(&spec, &patch, toy());
    }

    #[test]
    fn an_empty_patch_changes_nothing(spec in any_json()) {
        prop_assert_eq!(apply(&json!({"spec": spec}), &json!({}), toy()), Ok(json!({"spec": spec})));
    }
}
