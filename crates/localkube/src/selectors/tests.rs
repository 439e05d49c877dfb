use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::storage::{Draft, Storage, Store};

fn kind(plural: &str) -> std::sync::Arc<Kind> {
    let (store, _) = Store::open(&Storage::Memory).unwrap();
    crate::registry::Registry::builtin(&store).resource("", plural).unwrap().clone()
}

fn labels(text: &str) -> crate::storage::Labels {
    text.split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

#[test]
fn label_selectors_select() {
    let matching = |selector: &str| {
        let selector = LabelSelector::parse(selector).unwrap();
        let all = ["", "app=web", "app=db", "app=web,tier=1", "tier=20"];
        all.into_iter()
            .filter(|one| selector.matches(&labels(one)))
            .map(|one| format!("[{one}]"))
            .collect::<String>()
    };
    let table = [
        ("", "[][app=web][app=db][app=web,tier=1][tier=20]"),
        ("app", "[app=web][app=db][app=web,tier=1]"),
        ("!app", "[][tier=20]"),
        ("app=web", "[app=web][app=web,tier=1]"),
        ("app==web,tier", "[app=web,tier=1]"),
        ("app!=web", "[][app=db][tier=20]"),
        ("app in (web, db),!tier", "[app=web][app=db]"),
        ("app notin (web)", "[][app=db][tier=20]"),
        ("tier>5", "[tier=20]"),
        ("tier < 5", "[app=web,tier=1]"),
        ("app=", ""),
    ];
    for (selector, expected) in table {
        assert_eq!(matching(selector), expected, "{selector}");
    }
}

#[test]
fn label_selectors_that_make_no_sense() {
    let check =
        |text: &str, expect: Expect| expect.assert_eq(&LabelSelector::parse(text).unwrap_err().to_string());
    check("app in", expect![[r#"unable to parse requirement: found '' expected: '('"#]]);
    check("a=b,", expect![[r#"found '', expected: identifier after ','"#]]);
    check(
        "a b",
        expect![[r#"unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"#]],
    );
    check("=x", expect![[r#"found '=', expected: !, identifier, or 'end of string'"#]]);
    check(
        "a>x",
        expect![[
            r#"unable to parse requirement: values[0]: Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer"#
        ]],
    );
}

#[test]
fn structured_selectors_become_text() {
    let selector = json!({
        "matchLabels": {"b": "1", "a": "2"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["y", "x"]},
            {"key": "d", "operator": "NotIn", "values": ["z"]},
            {"key": "e", "operator": "Exists"},
            {"key": "f", "operator": "DoesNotExist"},
        ],
    });
    expect![[r#"a=2,b=1,c in (x,y),d notin (z),e,!f"#]].assert_eq(&structured_to_text(&selector));
}

#[test]
fn field_selectors_know_the_fields_of_a_row() {
    let pods = kind("pods");
    let pod = json!({
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running"},
    });
    let record = Draft::new("ns/p", &pod, &pods.selectable).finish(1);
    let table = [
        ("metadata.name=p", true),
        ("metadata.namespace!=ns", false),
        ("spec.nodeName=n1,status.phase!=Failed", true),
        ("spec.nodeName==n2", false),
        ("spec.hostNetwork=false", true),
    ];
    for (selector, expected) in table {
        assert_eq!(FieldSelector::parse(selector, &pods).unwrap().matches(&record), expected, "{selector}");
    }
    let wrong = |text: &str| FieldSelector::parse(text, &pods).unwrap_err();
    expect![[r#"field label not supported: spec.foo"#]].assert_eq(&wrong("spec.foo=1"));
    expect![[r#"invalid selector: 'metadata.name'; can't understand 'metadata.name'"#]]
        .assert_eq(&wrong("metadata.name"));
}

proptest! {
    #![proptest_config(repeatable::cases(256))]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,40}") {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text, &kind("configmaps"));
    }
}
