use serde_json::{Value, json};

use super::*;
use crate::{Kinds, Options, compile};

fn crd(spec: &str, status: &str, more: Value) -> (Value, Option<Value>) {
    let yaml = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap() };
    let mut definition = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": { "name": "app", "uid": "u1" },
        "spec": { "schema": { "apiVersion": "v1", "kind": "App", "group": "example.org", "spec": yaml(spec), "status": yaml(status) } },
    });
    for (name, value) in more.as_object().unwrap() {
        match name.as_str() {
            "scaling" => definition["spec"]["scaling"] = value.clone(),
            _ => definition["spec"]["schema"][name] = value.clone(),
        }
    }
    let definition = serde_json::from_value(definition).unwrap();
    let graph = compile(&definition, &Kinds::default(), &Options::default()).unwrap();
    (graph.crd().clone(), graph.set_crd().cloned())
}

fn simple(spec: &str) -> Value {
    crd(spec, "{}", json!({})).0
}

#[test]
fn a_generated_kind() {
    let (crd, set) = crd(
        "{replicas: integer | scale}",
        "{replicas: integer | scale, podSelector: string | scaleSelector}",
        json!({ "shortNames": ["ap"], "categories": ["all"], "metadata": { "labels": { "team": "a" }, "annotations": { "x": "y" } } }),
    );
    assert!(set.is_none());
    assert_eq!(
        crd["metadata"],
        json!({
            "name": "apps.example.org",
            "labels": {
                "team": "a", "kro.run/owned": "true", "kro.run/kro-version": labels::OUR_VERSION,
                "kro.run/resource-graph-definition-name": "app", "kro.run/resource-graph-definition-id": "u1",
            },
            "annotations": { "x": "y" },
        })
    );
    assert_eq!(
        crd["spec"]["names"],
        json!({ "kind": "App", "listKind": "AppList", "plural": "apps", "singular": "app", "shortNames": ["ap"], "categories": ["all"] })
    );
    assert_eq!(crd["spec"]["scope"], "Namespaced");
    let version = &crd["spec"]["versions"][0];
    assert_eq!((&version["served"], &version["storage"]), (&json!(true), &json!(true)));
    assert_eq!(
        version["subresources"]["scale"],
        json!({ "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.podSelector" })
    );
    let columns: Vec<&str> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|column| column["name"].as_str())
        .collect();
    assert_eq!(columns, ["State", "Ready", "Age"]);
    let own = json!([{ "name": "N", "type": "integer", "jsonPath": ".spec.n" }]);
    let (crd, _) = self::crd("{n: integer}", "{}", json!({ "additionalPrinterColumns": own }));
    assert_eq!(crd["spec"]["versions"][0]["additionalPrinterColumns"], own);
    // a kind can be made of it
    assert!(schema::Kind::custom(&crd, "v1").is_some());
}

#[test]
fn a_generated_set() {
    let (_, set) = crd(
        "{name: string | required=true, size: integer | default=5}",
        "{}",
        json!({ "scaling": { "kind": "AppSet", "method": "replicas" }, "scope": "Cluster" }),
    );
    let set = set.unwrap();
    assert_eq!(set["metadata"]["name"], "appsets.example.org");
    assert_eq!(set["metadata"]["labels"]["kro.run/resource-graph-definition-name"], "app");
    assert_eq!(set["spec"]["scope"], "Cluster");
    let version = &set["spec"]["versions"][0];
    assert_eq!(
        version["subresources"],
        json!({ "status": {}, "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector" } })
    );
    // what an API server makes of one: defaults, also those of the template
    let kind = schema::Kind::custom(&set, "v1").unwrap();
    let mut object = json!({
        "apiVersion": "example.org/v1", "kind": "AppSet", "metadata": { "name": "s" },
        "spec": { "template": { "spec": { "name": "x" } } },
    });
    assert_eq!(kind.decode(&mut object), Ok(vec![]));
    kind.set_defaults(&mut object);
    assert_eq!(
        object["spec"],
        json!({ "replicas": 1, "rollingUpdate": { "maxConcurrentUpdated": 1 }, "template": { "spec": { "name": "x", "size": 5 } } })
    );
    assert_eq!(kind.validate_create(&object), []);
    object["spec"]["rollingUpdate"]["maxConcurrentUpdated"] = json!(0);
    object["spec"]["replicas"] = json!(-1);
    object["spec"]["template"]["spec"] = json!({});
    let mut fields: Vec<String> =
        kind.validate_create(&object).into_iter().map(|error| error.field).collect();
    fields.sort();
    fields.dedup();
    assert_eq!(
        fields,
        [
            ".spec.replicas",
            "spec.replicas",
            "spec.rollingUpdate.maxConcurrentUpdated",
            "spec.template.spec.name",
        ]
    );
}

fn changes(old: &str, new: &str) -> String {
    let Changes { breaking, harmless } = compare(&simple(old), &simple(new));
    format!("breaking: {breaking:?} harmless: {harmless:?}")
}

#[test]
fn what_breaks_and_what_does_not() {
    for (old, new, expected) in [
        ("{a: string}", "{a: string}", "breaking: [] harmless: []"),
        ("{a: string}", "{}", r#"breaking: ["spec.a: property removed"] harmless: []"#),
        (
            "{a: string}",
            "{a: integer}",
            r#"breaking: ["spec.a: type changed from \"string\" to \"integer\""] harmless: []"#,
        ),
        (
            "{a: string}",
            "{a: string | required=true}",
            r#"breaking: ["spec.a: newly required"] harmless: []"#,
        ),
        (
            "{a: string | required=true}",
            "{a: string}",
            r#"breaking: [] harmless: ["spec.a: not required any more"]"#,
        ),
        (
            "{}",
            "{a: string | required=true}",
            r#"breaking: ["spec.a: new required field without a default"] harmless: []"#,
        ),
        ("{}", "{a: string}", r#"breaking: [] harmless: ["spec.a: property added"]"#),
        (
            "{a: string | required=true default=x}",
            "{a: string | required=true}",
            r#"breaking: ["spec.a: the default of a required field removed"] harmless: ["spec.a: default changed"]"#,
        ),
        (
            "{a: 'string | enum=\"x,y\"'}",
            "{a: 'string | enum=\"x,z\"'}",
            r#"breaking: ["spec.a: enum values removed: \"y\""] harmless: []"#,
        ),
        (
            "{a: 'string | enum=\"x\"'}",
            "{a: 'string | enum=\"x,z\"'}",
            r#"breaking: [] harmless: ["spec.a: enum expanded"]"#,
        ),
        ("{a: string}", "{a: 'string | enum=\"x\"'}", r#"breaking: ["spec.a: enum added"] harmless: []"#),
        (
            "{a: string}",
            "{a: 'string | pattern=\"x\"'}",
            r#"breaking: ["spec.a: pattern added or changed"] harmless: []"#,
        ),
        (
            "{a: 'string | pattern=\"x\"'}",
            "{a: string}",
            r#"breaking: [] harmless: ["spec.a: pattern removed"]"#,
        ),
        (
            "{a: integer | minimum=1}",
            "{a: integer | minimum=2}",
            r#"breaking: ["spec.a: minimum tightened from 1 to 2"] harmless: []"#,
        ),
        (
            "{a: integer | minimum=2}",
            "{a: integer | minimum=1}",
            r#"breaking: [] harmless: ["spec.a: minimum relaxed"]"#,
        ),
        ("{a: integer}", "{a: integer | maximum=5}", r#"breaking: ["spec.a: maximum added"] harmless: []"#),
        (
            "{a: string | maxLength=5}",
            "{a: string | maxLength=4}",
            r#"breaking: ["spec.a: maxLength tightened from 5 to 4"] harmless: []"#,
        ),
        (
            "{a: '[]string | minItems=1'}",
            "{a: '[]string'}",
            r#"breaking: [] harmless: ["spec.a: minItems removed"]"#,
        ),
        (
            "{a: '[]string'}",
            "{a: '[]integer'}",
            r#"breaking: ["spec.a[]: type changed from \"string\" to \"integer\""] harmless: []"#,
        ),
        (
            "{a: 'map[string]string'}",
            "{a: 'map[string]integer'}",
            r#"breaking: ["spec.a[*]: type changed from \"string\" to \"integer\""] harmless: []"#,
        ),
        (
            "{a: string}",
            "{a: 'string | validation=\"self != string(1)\"'}",
            r#"breaking: ["spec.a: validation rule added: \"self != string(1)\""] harmless: []"#,
        ),
        (
            "{a: string | immutable=true}",
            "{a: string}",
            r#"breaking: [] harmless: ["spec.a: validation rule removed: \"self == oldSelf\""]"#,
        ),
        (
            "{a: object}",
            "{a: {b: string}}",
            r#"breaking: ["spec.a: unknown fields are not kept any more"] harmless: ["spec.a.b: property added"]"#,
        ),
        (
            "{a: string}",
            "{a: string | description=x}",
            r#"breaking: [] harmless: ["spec.a: description changed"]"#,
        ),
        (
            "{a: '[]object | listType=atomic'}",
            "{a: '[]object'}",
            r#"breaking: ["spec.a: x-kubernetes-list-type changed"] harmless: []"#,
        ),
    ] {
        assert_eq!(changes(old, new), expected, "{old} -> {new}");
    }
}

#[test]
fn scale_columns_and_versions_are_compared_too() {
    let with = |spec: &str, status: &str| crd(spec, status, json!({})).0;
    let scaled = with("{n: integer | scale, m: integer}", "{n: integer | scale}");
    let moved = with("{n: integer, m: integer | scale}", "{n: integer | scale}");
    let selected =
        with("{n: integer | scale, m: integer}", "{n: integer | scale, s: string | scaleSelector}");
    let mut unscaled = scaled.clone();
    unscaled["spec"]["versions"][0]["subresources"] = json!({ "status": {} });
    assert_eq!(compare(&scaled, &unscaled).breaking, ["scale subresource removed"]);
    assert_eq!(compare(&unscaled, &scaled).harmless, ["scale subresource added"]);
    assert!(compare(&scaled, &moved).breaking.iter().any(|change| change == "scale subresource: specReplicasPath changed from .spec.n to \".spec.m\""));
    assert!(
        compare(&scaled, &selected)
            .harmless
            .iter()
            .any(|change| change.starts_with("scale subresource: labelSelectorPath"))
    );
    let mut columns = scaled.clone();
    columns["spec"]["versions"][0]["additionalPrinterColumns"][0]["name"] = json!("Other");
    assert_eq!(
        compare(&scaled, &columns),
        Changes { breaking: vec![], harmless: vec!["printer columns changed".into()] }
    );
    let mut renamed = scaled.clone();
    renamed["spec"]["versions"][0]["name"] = json!("v2");
    assert_eq!(compare(&scaled, &renamed).breaking, ["version \"v1\" removed"]);
    let mut unserved = scaled.clone();
    unserved["spec"]["versions"][0]["served"] = json!(false);
    assert_eq!(compare(&scaled, &unserved).breaking, ["version \"v1\" is not served any more"]);
    let mut stateless = unscaled.clone();
    stateless["spec"]["versions"][0]["subresources"] = json!({});
    assert_eq!(compare(&unscaled, &stateless).breaking, ["status subresource removed"]);
}

#[test]
fn who_a_kind_belongs_to() {
    let owner = Owner { name: "app".into(), uid: "u1".into() };
    let wanted = simple("{a: string, b: string, c: string, d: string, e: string}");
    assert_eq!(ensure(None, &wanted, &owner, false), Ensure::Create);
    // as the API server has it: with defaults and a status
    let mut live = wanted.clone();
    schema::crd::set_defaults(&mut live);
    assert_eq!(ensure(Some(&live), &wanted, &owner, false), Ensure::Unchanged);
    let more = simple("{a: string, b: string, c: string, d: string, e: string, f: string}");
    assert!(matches!(ensure(Some(&live), &more, &owner, false), Ensure::Update(_)));
    let fewer = simple("{e: string}");
    assert_eq!(
        ensure(Some(&live), &fewer, &owner, false),
        Ensure::Refused(
            "cannot update CRD apps.example.org: breaking changes detected: spec.a: property removed; spec.b: property removed; spec.c: property removed; and 1 more changes"
                .into()
        )
    );
    assert!(matches!(ensure(Some(&live), &fewer, &owner, true), Ensure::Update(_)));
    let again = Owner { uid: "u2".into(), ..owner.clone() };
    assert!(
        matches!(ensure(Some(&live), &wanted, &again, false), Ensure::Update(changes) if changes.is_empty())
    );
    let other = Owner { name: "other".into(), ..owner.clone() };
    assert_eq!(
        ensure(Some(&live), &wanted, &other, false),
        Ensure::Refused("CRD apps.example.org is owned by another ResourceGraphDefinition app".into())
    );
    live["metadata"]["labels"] = json!({});
    assert_eq!(
        ensure(Some(&live), &wanted, &owner, true),
        Ensure::Refused("CRD apps.example.org already exists and is not owned by KRO".into())
    );
}
