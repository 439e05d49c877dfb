use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

fn object(yaml: &str) -> Map<String, Value> {
    let value: Value = if yaml.trim().is_empty() { json!({}) } else { serde_saphyr::from_str(yaml).unwrap() };
    value.as_object().unwrap().clone()
}

fn build(spec_yaml: &str, types_yaml: &str) -> Result<SpecSchema, String> {
    spec(&object(spec_yaml), &object(types_yaml))
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn check(spec_yaml: &str, types_yaml: &str, expected: Expect) {
    let found = match build(spec_yaml, types_yaml) {
        Ok(built) => {
            let properties: Vec<String> = built
                .schema
                .properties
                .iter()
                .map(|(name, field)| format!("{name}: {}", json!(field)))
                .collect();
            let mut rest = built.schema.clone();
            rest.properties.clear();
            format!("{}\n{}\n", json!(rest), properties.join("\n"))
        }
        Err(errors) => format!("{errors}\n"),
    };
    expected.assert_eq(&found);
}

#[test]
fn every_type() {
    check(
        "{s: string, i: integer, b: boolean, f: float, o: object, l: '[]string', m: 'map[string]integer', n: '[]map[string][]float'}",
        "",
        expect![[r#"
            {"type":"object"}
            b: {"type":"boolean"}
            f: {"type":"number"}
            i: {"type":"integer"}
            l: {"items":{"type":"string"},"type":"array"}
            m: {"additionalProperties":{"type":"integer"},"type":"object"}
            n: {"items":{"additionalProperties":{"items":{"type":"number"},"type":"array"},"type":"object"},"type":"array"}
            o: {"type":"object","x-kubernetes-preserve-unknown-fields":true}
            s: {"type":"string"}
        "#]],
    );
    check(
        "",
        "",
        expect![[r#"
        {"type":"object"}

    "#]],
    );
}

#[test]
fn every_marker() {
    check(
        r#"
a: string | required=true default=nginx description="what runs" enum="nginx, httpd" pattern="^[a-z]+$" minLength=1 maxLength=9
b: integer | minimum=1 maximum=10 enum="1,2" immutable=true default=2
c: '[]string | minItems=1 maxItems=3 uniqueItems=true default=["x"]'
d: '[]object | listType=map listMapKey=name listMapKey=port'
e: float | default=1.5 validation="self > 0.0" validation="self < 9.0"
f: boolean | default=t
g: 'map[string]string | default={"a": "b"}'
"#,
        "",
        expect![[r#"
            {"required":["a"],"type":"object"}
            a: {"default":"nginx","description":"what runs","enum":["nginx","httpd"],"maxLength":9,"minLength":1,"pattern":"^[a-z]+$","type":"string"}
            b: {"default":2,"enum":[1,2],"maximum":10.0,"minimum":1.0,"type":"integer","x-kubernetes-validations":[{"message":"field is immutable","rule":"self == oldSelf"}]}
            c: {"default":["x"],"items":{"type":"string"},"maxItems":3,"minItems":1,"type":"array","x-kubernetes-list-type":"set"}
            d: {"items":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"type":"array","x-kubernetes-list-map-keys":["name","port"],"x-kubernetes-list-type":"map"}
            e: {"default":1.5,"type":"number","x-kubernetes-validations":[{"message":"validation failed","rule":"self > 0.0"},{"message":"validation failed","rule":"self < 9.0"}]}
            f: {"default":true,"type":"boolean"}
            g: {"additionalProperties":{"type":"string"},"default":{"a":"b"},"type":"object"}
        "#]],
    );
}

#[test]
fn defaults_reach_the_parents_that_nothing_else_demands() {
    check(
        "{image: {name: string | default=nginx, tag: string}, port: {number: integer | required=true, name: string | default=http}, deep: {er: {est: integer | default=1}}}",
        "",
        expect![[r#"
            {"default":{},"type":"object"}
            deep: {"default":{},"properties":{"er":{"default":{},"properties":{"est":{"default":1,"type":"integer"}},"type":"object"}},"type":"object"}
            image: {"default":{},"properties":{"name":{"default":"nginx","type":"string"},"tag":{"type":"string"}},"type":"object"}
            port: {"properties":{"name":{"default":"http","type":"string"},"number":{"type":"integer"}},"required":["number"],"type":"object"}
        "#]],
    );
}

#[test]
fn custom_types_bring_their_markers() {
    check(
        "{port: Port, ports: '[]Port', name: Name, names: '[]Name', other: 'Name | default=b required=false'}",
        "{Port: {number: integer | required=true, protocol: Protocol}, Protocol: 'string | default=TCP enum=\"TCP,UDP\"', Name: 'string | required=true default=a description=who'}",
        expect![[r#"
            {"required":["name"],"type":"object"}
            name: {"default":"a","description":"who","type":"string"}
            names: {"items":{"default":"a","description":"who","type":"string"},"type":"array"}
            other: {"default":"b","description":"who","type":"string"}
            port: {"properties":{"number":{"type":"integer"},"protocol":{"default":"TCP","enum":["TCP","UDP"],"type":"string"}},"required":["number"],"type":"object"}
            ports: {"items":{"properties":{"number":{"type":"integer"},"protocol":{"default":"TCP","enum":["TCP","UDP"],"type":"string"}},"required":["number"],"type":"object"},"type":"array"}
        "#]],
    );
}

#[test]
fn the_scale_gets_what_the_api_needs() {
    let built = build("{app: {replicas: integer | scale, name: string}}", "").unwrap();
    assert_eq!(built.scale, Some(vec!["app".to_owned(), "replicas".to_owned()]));
    assert_eq!(
        json!(built.schema),
        json!({
            "type": "object", "default": {},
            "properties": { "app": { "type": "object", "default": {}, "properties": {
                "name": { "type": "string" },
                "replicas": { "type": "integer", "format": "int32", "minimum": 0.0, "default": 1 },
            }}},
        })
    );
    let of = |text: &str| json!(build(&format!("{{n: {text}}}"), "").unwrap().schema.properties["n"]);
    assert_eq!(of("integer | scale default=3 minimum=2")["default"], 3);
    assert_eq!(of("integer | scale default=3 minimum=2")["minimum"], 2.0);
    assert_eq!(of("integer | required=true scale").get("default"), None);
    assert_eq!(of("integer | scale=false").get("format"), None);
    assert_eq!(build("{n: integer | scale=false}", "").unwrap().scale, None);
    // through an alias
    let built = build("{n: Replicas}", "{Replicas: integer | scale}").unwrap();
    assert_eq!(built.scale, Some(vec!["n".to_owned()]));
}

#[test]
fn what_is_wrong_is_said_with_its_path() {
    check(
        r#"
number: 5
list: [a]
nothing: null
blank: "  "
unknown: Colour
inner: {deep: {er: 'string | required=maybe'}}
"odd.name": "[]"
pattern: string | pattern="("
default: integer | default=many
enum: boolean | enum="a"
length: integer | minLength=1
items: string | minItems=1
negative: string | minLength=-1
both: '[]string | uniqueItems=true listType=map listMapKey=a'
keys: '[]object | listMapKey=a'
map: '[]object | listType=map'
type: '[]object | listType=bag'
json: 'object | default=[1]'
broken: 'object | default={a}'
rule: string | validation=" "
choice: string | enum="a,,b"
"#,
        "",
        expect![[r#"
            spec.schema.spec.blank: the type is missing
            spec.schema.spec.both: uniqueItems and listType contradict each other: uniqueItems=true means listType=set
            spec.schema.spec.broken: default must be JSON, and '{a}' cannot be read: key must be a string at line 1 column 2
            spec.schema.spec.choice: enum has an empty choice
            spec.schema.spec.default: default must be a whole number, not 'many'
            spec.schema.spec.enum: marker 'enum' is for fields of type string or integer
            spec.schema.spec.inner.deep.er: required must be true or false, not 'maybe'
            spec.schema.spec.items: marker 'minItems' is for fields of type array, this one is string
            spec.schema.spec.json: default must be a JSON object, not '[1]'
            spec.schema.spec.keys: listMapKey needs listType=map
            spec.schema.spec.length: marker 'minLength' is for fields of type string, this one is integer
            spec.schema.spec.list: unexpected type: a field is a string or a map of fields, not a list
            spec.schema.spec.map: listType=map needs a listMapKey
            spec.schema.spec.negative: minLength must be a whole number of 0 or more, not '-1'
            spec.schema.spec.nothing: unexpected type: a field is a string or a map of fields, not nothing
            spec.schema.spec.number: unexpected type: a field is a string or a map of fields, not a number
            spec.schema.spec["odd.name"]: '[]' needs the type of its elements: []string
            spec.schema.spec.pattern: pattern '(' does not compile: unclosed group
            spec.schema.spec.rule: validation needs a rule
            spec.schema.spec.type: listType is atomic, set or map, not 'bag'
            spec.schema.spec.unknown: unknown type: Colour
        "#]],
    );
}

#[test]
fn scale_rules() {
    for (spec_yaml, types, expected) in [
        (
            "{a: string | scale}",
            "",
            "spec.schema.spec.a: marker 'scale' is for fields of type integer, this one is string",
        ),
        (
            "{a: '[]integer | scale'}",
            "",
            "spec.schema.spec.a: marker 'scale' is for fields of type integer, this one is array",
        ),
        (
            "{a: string | scaleSelector}",
            "",
            "spec.schema.spec.a: marker 'scaleSelector' is for a field of the status",
        ),
        (
            "{a: integer | scale, b: {c: integer | scale}}",
            "",
            "spec.schema.spec.b.c: only one field may have the marker 'scale': spec.schema.spec.a has it too",
        ),
        (
            "{a: '[]Pool'}",
            "{Pool: {n: integer | scale}}",
            "spec.schema.spec.a.n: marker 'scale' cannot be reached through a list",
        ),
        (
            "{a: 'map[string]Pool'}",
            "{Pool: {n: integer | scale}}",
            "spec.schema.spec.a.n: marker 'scale' cannot be reached through a map",
        ),
        (
            "{'a.b': integer | scale}",
            "",
            "spec.schema.spec[\"a.b\"]: marker 'scale' cannot be reached through a name with dots or brackets",
        ),
        (
            "{a: Pool, b: Pool}",
            "{Pool: {n: integer | scale}}",
            "spec.schema.spec.b.n: only one field may have the marker 'scale': spec.schema.spec.a.n has it too",
        ),
    ] {
        assert_eq!(build(spec_yaml, types).unwrap_err(), expected, "{spec_yaml}");
    }
}

#[test]
fn status_fields_without_an_expression() {
    assert_eq!(declared("integer | scale"), Ok(MarkKind::Scale));
    assert_eq!(declared("string | scaleSelector"), Ok(MarkKind::Selector));
    for (text, expected) in [
        ("string | scale", "marker 'scale' is for fields of type integer, this one is string"),
        (
            "integer | scaleSelector",
            "marker 'scaleSelector' is for fields of type string, this one is integer",
        ),
        ("integer", "status fields without expressions are not supported"),
        ("integer | scale default=1", "no other"),
        ("hello", "needs an expression"),
        ("[]integer | scale", "needs an expression"),
    ] {
        let why = declared(text).unwrap_err();
        assert!(why.contains(expected), "{text}: {why}");
    }
}

#[test]
fn types_that_contain_themselves() {
    for (types, expected) in [
        ("{A: A}", "spec.schema.types.A: cyclic dependency in type: A -> A"),
        ("{A: {b: B}, B: {a: '[]A'}}", "spec.schema.types.B.a: cyclic dependency in type: A -> B -> A"),
        (
            "{string: integer}",
            "spec.schema.types.string: the type 'string' has a name that means something else",
        ),
        ("{A: Nowhere}", "spec.schema.types.A: unknown type: Nowhere"),
    ] {
        let why = build("{x: string}", types).unwrap_err();
        assert!(why.lines().any(|line| line == expected), "{types}: {why}");
    }
}

#[test]
fn hostile_schemas_cost_little() {
    // each type uses the next ten times: 10^12 fields in 13 lines
    let mut types = Map::new();
    for level in 0..12 {
        let next = format!("T{}", level + 1);
        let fields = (0..10).map(|n| (format!("f{n}"), json!(next))).collect::<Map<_, _>>();
        types.insert(format!("T{level}"), Value::Object(fields));
    }
    types.insert("T12".into(), json!("string"));
    let errors = spec(&object("{a: T0}"), &types).unwrap_err();
    assert!(errors[0].message.contains("more than 10000 fields"), "{errors:?}");

    // a chain of types deeper than allowed
    let mut types = Map::new();
    for level in 0..5_000 {
        types.insert(format!("T{level}"), json!({ "f": format!("T{}", level + 1) }));
    }
    types.insert("T5000".into(), json!("string"));
    let errors = spec(&object("{a: T0}"), &types).unwrap_err();
    assert!(errors.iter().any(|error| error.message.contains("nested more than 64 deep")), "{errors:?}");
    assert!(errors.len() <= 50);

    // maps in maps
    let mut deep = json!("string");
    for _ in 0..100 {
        deep = json!({ "f": deep });
    }
    let errors = spec(deep.as_object().unwrap(), &Map::new()).unwrap_err();
    assert!(errors[0].message.contains("nested more than 64 deep"), "{errors:?}");

    // a name of a megabyte does not come back in full
    let long = "x".repeat(1_000_000);
    let errors = spec(json!({ "a": long.clone(), long: 5 }).as_object().unwrap(), &Map::new()).unwrap_err();
    assert!(errors.iter().all(|error| error.to_string().len() < 2_000));
}
