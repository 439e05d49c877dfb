use engine::{
    kind::{POD, SERVICE},
    testing::{at, from_json, lines, seconds},
};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

fn namespace(deleting: bool) -> Value {
    let mut object = json!({
        "metadata": { "name": "shop", "uid": "n", "resourceVersion": "1" },
        "spec": { "finalizers": ["kubernetes", "example.com/hold"] },
        "status": { "phase": "Active" },
    });
    if deleting {
        object["metadata"]["deletionTimestamp"] = json!(seconds(0));
        object["status"]["phase"] = json!("Terminating");
    }
    object
}

fn content(kind: Kind, name: &str, finalizers: &[&str], deleting: bool) -> Content {
    let mut meta = json!({ "namespace": "shop", "name": name, "uid": name, "finalizers": finalizers });
    if deleting {
        meta["deletionTimestamp"] = json!(seconds(0));
    }
    Content { kind, meta: from_json(meta) }
}

fn check(namespace: Value, has_service_account: bool, content: Vec<Content>, expected: Expect) {
    let namespace = Arc::new(from_json(namespace));
    let observed = Observed { namespace, has_service_account, content, collections: vec![POD] };
    let shown = lines(&plan(&observed, at(0))).replace(r#""lastTransitionTime":"2026-01-01T00:00:00Z","#, "");
    expected.assert_eq(&shown);
}

#[test]
fn a_new_namespace_gets_its_service_account() {
    check(
        namespace(false),
        false,
        vec![],
        expect![[r#"
            create ServiceAccount shop/default
        "#]],
    );
    check(namespace(false), true, vec![], expect![[""]]);
}

#[test]
fn content_goes_first_and_what_stays_is_reported() {
    check(
        namespace(true),
        true,
        vec![
            content(POD, "a", &[], false),
            content(POD, "b", &["example.com/slow"], true),
            content(SERVICE, "web", &[], false),
        ],
        expect![[r#"
            delete all Pod in shop
            delete Service shop/web
            status Namespace shop {"conditions":[{"message":"All resources successfully discovered","reason":"ResourcesDiscovered","status":"False","type":"NamespaceDeletionDiscoveryFailure"},{"message":"All legacy kube types successfully parsed","reason":"ParsedGroupVersions","status":"False","type":"NamespaceDeletionGroupVersionParsingFailure"},{"message":"All content successfully deleted, may be waiting on finalization","reason":"ContentDeleted","status":"False","type":"NamespaceDeletionContentFailure"},{"message":"Some resources are remaining: pods has 1 resource instances","reason":"SomeResourcesRemain","status":"True","type":"NamespaceContentRemaining"},{"message":"Some content in the namespace has finalizers remaining: example.com/slow in 1 resource instances","reason":"SomeFinalizersRemain","status":"True","type":"NamespaceFinalizersRemaining"}]}
            look again after 1s
        "#]],
    );
}

#[test]
fn an_empty_namespace_is_let_go() {
    check(
        namespace(true),
        true,
        vec![],
        expect![[r#"
            replace Namespace shop/finalize
        "#]],
    );
    let mut finalized = namespace(true);
    finalized["spec"]["finalizers"] = json!(["example.com/hold"]);
    check(finalized, true, vec![], expect![[""]]);
}
