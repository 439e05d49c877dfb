//! What a real API server answered to the same objects, word for word.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

const CRD: &str = r#"
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {plural: widgets, kind: Widget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-validations:
        - {rule: "self.spec.replicas <= 10", message: too many}
        properties:
          spec:
            type: object
            required: [size]
            x-kubernetes-validations:
            - {rule: "!has(oldSelf.size) || self.size == oldSelf.size", message: size is immutable, fieldPath: .size, reason: FieldValueForbidden}
            - {rule: "self.replicas > 0 || self.size == 'small'", messageExpression: "'few ' + self.size"}
            properties:
              size: {type: string, enum: [small, big], maxLength: 5}
              replicas: {type: integer, format: int32, minimum: 0, default: 1}
              ratio: {type: number, maximum: 0.5, exclusiveMaximum: true}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                maxItems: 3
                items:
                  type: object
                  required: [name]
                  properties:
                    name: {type: string, pattern: "^[a-z]+$"}
                    at: {type: string, format: date-time}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              any: {x-kubernetes-int-or-string: true}
              labels: {type: object, additionalProperties: {type: string, minLength: 2}}
              obj: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              one:
                type: object
                properties: {a: {type: string}, b: {type: string}}
                oneOf: [{required: [a]}, {required: [b]}]
          status:
            type: object
            properties:
              replicas: {type: integer}
"#;

fn widget_kind() -> Custom {
    let mut crd: Value = serde_saphyr::from_str(CRD).unwrap();
    crd::set_defaults(&mut crd);
    assert_eq!(crd::validate(&crd, None), []);
    Custom::new(&crd, "v1").unwrap()
}

fn widget(spec: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": { "name": "a", "namespace": "default", "resourceVersion": "1" },
        "spec": serde_saphyr::from_str::<Value>(spec).unwrap(),
    })
}

fn shown(errors: &[FieldError]) -> String {
    errors.iter().map(|e| format!("{} | {e}\n", e.kind.cause())).collect()
}

fn check_create(spec: &str, expected: Expect) {
    let kind = widget_kind();
    let mut object = widget(spec);
    kind.decode(&mut object).unwrap();
    kind.set_defaults(&mut object);
    expected.assert_eq(&shown(&kind.validate_create(&object)));
}

#[test]
fn missing_and_mistyped_fields() {
    check_create(
        "{}",
        expect![[r#"
        FieldValueRequired | spec.size: Required value
        FieldValueInvalid | <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
    "#]],
    );
    check_create(
        "{size: tiny, replicas: x}",
        expect![[r#"
        FieldValueTypeInvalid | spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"
        FieldValueNotSupported | spec.size: Unsupported value: "tiny": supported values: "small", "big"
        FieldValueInvalid | .spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64
        FieldValueInvalid | <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
    "#]],
    );
    check_create(
        "[]",
        expect![[r#"
        FieldValueTypeInvalid | spec: Invalid value: "array": spec in body must be of type object: "array"
        FieldValueInvalid | .spec.replicas: Invalid value: 0: .spec.replicas accessor error: [] is of the type []interface {}, expected map[string]interface{}
        FieldValueInvalid | <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
    "#]],
    );
    check_create(
        "{size: small, ratio: x, any: {}, replicas: true, labels: [], tags: {}}",
        expect![[r#"
        FieldValueTypeInvalid | spec.any: Invalid value: "object": spec.any in body must be of type integer,string: "object"
        FieldValueTypeInvalid | spec.labels: Invalid value: "array": spec.labels in body must be of type object: "array"
        FieldValueTypeInvalid | spec.ratio: Invalid value: "string": spec.ratio in body must be of type number: "string"
        FieldValueTypeInvalid | spec.replicas: Invalid value: "": spec.replicas in body must be of type int32: ""
        FieldValueTypeInvalid | spec.tags: Invalid value: "object": spec.tags in body must be of type array: "object"
        FieldValueInvalid | .spec.replicas: Invalid value: 0: .spec.replicas accessor error: true is of the type bool, expected int64
        FieldValueInvalid | <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
    "#]],
    );
}

#[test]
fn numbers() {
    check_create(
        "{size: small, replicas: 5000000000}",
        expect![[r#"
        FieldValueInvalid | <nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.replicas
        FieldValueInvalid | .spec.replicas: Invalid value: 5000000000: should be less than or equal to 2147483647
        FieldValueInvalid | <nil>: Invalid value: too many
    "#]],
    );
    check_create(
        "{size: small, replicas: 1.5}",
        expect![[r#"
        FieldValueTypeInvalid | spec.replicas: Invalid value: "float64": spec.replicas in body must be of type int32: "float64"
        FieldValueInvalid | <nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.replicas
        FieldValueInvalid | .spec.replicas: Invalid value: 0: .spec.replicas accessor error: 1.5 is of the type float64, expected int64
        FieldValueInvalid | <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
    "#]],
    );
    check_create(
        "{size: small, replicas: -1}",
        expect![[r#"
        FieldValueInvalid | spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0
        FieldValueInvalid | .spec.replicas: Invalid value: -1: should be a non-negative integer
    "#]],
    );
}

#[test]
fn rules_run_on_sound_objects() {
    check_create("{size: small}", expect![[r#""#]]);
    check_create(
        "{size: small, replicas: 11}",
        expect![[r#"
        FieldValueInvalid | <nil>: Invalid value: too many
    "#]],
    );
    check_create(
        "{size: big, replicas: 0}",
        expect![[r#"
        FieldValueInvalid | spec: Invalid value: few big
    "#]],
    );
}

#[test]
fn lists_maps_and_alternatives() {
    check_create(
        "{size: small, ratio: 0.5, ports: [{name: a, at: foo},{name: a},{name: B}], tags: [x,x,x], any: true, labels: {a: x}, obj: {}, one: {}}",
        expect![[r#"
            FieldValueTypeInvalid | spec.any: Invalid value: "boolean": spec.any in body must be of type integer,string: "boolean"
            FieldValueInvalid | spec.labels.a: Invalid value: "x": spec.labels.a in body should be at least 2 chars long
            FieldValueInvalid | <nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found none valid
            FieldValueRequired | spec.one.a: Required value
            FieldValueTypeInvalid | spec.ports[0].at: Invalid value: "foo": spec.ports[0].at in body must be of type date-time: "foo"
            FieldValueInvalid | spec.ports[2].name: Invalid value: "B": spec.ports[2].name in body should match '^[a-z]+$'
            FieldValueInvalid | spec.ratio: Invalid value: 0.5: spec.ratio in body should be less than 0.5
            FieldValueRequired | spec.obj.apiVersion: Required value
            FieldValueRequired | spec.obj.kind: Required value
            FieldValueDuplicate | spec.ports[1]: Duplicate value: {"name":"a"}
            FieldValueDuplicate | spec.tags[1]: Duplicate value: "x"
            FieldValueInvalid | <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
        "#]],
    );
    check_create(
        "{size: small, one: {a: x, b: z}, ports: [{name: a},{name: b},{name: c},{name: d}]}",
        expect![[r#"
            FieldValueInvalid | <nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives
            FieldValueTooMany | spec.ports: Too many: 4: must have at most 3 items
            FieldValueInvalid | <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
        "#]],
    );
    check_create(
        "{size: toolong}",
        expect![[r#"
        FieldValueTooLong | spec.size: Too long: may not be more than 5 bytes
        FieldValueNotSupported | spec.size: Unsupported value: "toolong": supported values: "small", "big"
        FieldValueInvalid | <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
    "#]],
    );
    check_create(
        "{size: small, replicas: null, obj: {apiVersion: v1, kind: Pod, metadata: {name: A/b, labels: {a: '!!'}}}}",
        expect![[r#"
            FieldValueInvalid | spec.obj.metadata.name: Invalid value: "A/b": may not contain '/'
            FieldValueInvalid | spec.obj.metadata.labels: Invalid value: "!!": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
        "#]],
    );
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let kind = widget_kind();
    let mut object =
        widget("{size: small, foo: 1, ports: [{name: a, bar: {}}], obj: {kind: Pod, spec: {x: 1}}}");
    object["extra"] = json!({});
    assert_eq!(kind.decode(&mut object).unwrap(), ["extra", "spec.foo", "spec.ports[0].bar"]);
    assert_eq!(
        object["spec"],
        json!({ "size": "small", "ports": [{ "name": "a" }], "obj": { "kind": "Pod", "spec": { "x": 1 } } })
    );
}

#[test]
fn metadata_is_read_as_metadata() {
    let kind = widget_kind();
    let decode =
        |mut object: Value| kind.decode(&mut object).map(|unknown| (unknown, object["metadata"].take()));
    let mut object =
        widget("{size: small, foo: 1, obj: {apiVersion: v1, kind: Pod, metadata: {name: x, bar: 1}}}");
    object["metadata"]["zap"] = json!(1);
    object["metadata"]["creationTimestamp"] = Value::Null;
    let metadata = json!({ "name": "a", "namespace": "default", "resourceVersion": "1" });
    let unknown = ["metadata.zap", "spec.foo", "spec.obj.metadata.bar"].map(str::to_owned).to_vec();
    assert_eq!(decode(object), Ok((unknown, metadata)));
    let mut messages = String::new();
    for (metadata, spec) in [
        (json!({ "labels": { "x": 1 } }), "{}"),
        (json!({ "labels": [] }), "{}"),
        (json!([]), "{}"),
        (json!({}), "{obj: {metadata: {labels: {a: 1}}}}"),
    ] {
        let mut object = widget(spec);
        object["metadata"] = metadata;
        messages.push_str(&decode(object).unwrap_err());
        messages.push('\n');
    }
    expect![[r#"
        Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string
        Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string
        Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal array into Go value of type v1.ObjectMeta
        Widget in version "v1" cannot be handled as a Widget: spec.obj.metadata: Invalid value: {"labels":{"a":1}}: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string
    "#]].assert_eq(&messages);
}

#[test]
fn updates_compare_with_the_old_object() {
    let kind = widget_kind();
    let check = |old: &str, new: &str| shown(&kind.validate_update(&widget(new), &widget(old), Part::Whole));
    expect![[r#"
        FieldValueForbidden | spec.size: Forbidden: size is immutable
    "#]]
    .assert_eq(&check("{size: small, replicas: 1}", "{size: big, replicas: 1}"));
    // what was stored before the schema forbade it may stay as long as it is not touched
    assert_eq!(check("{size: huge, replicas: 1}", "{size: huge, replicas: 2}"), "");
    assert_eq!(
        check(
            "{size: small, replicas: 1, tags: [x, x]}",
            "{size: small, replicas: 1, tags: [x, x], ratio: 0.1}"
        ),
        ""
    );
    expect![[r#"
        FieldValueNotSupported | spec.size: Unsupported value: "tiny": supported values: "small", "big"
        FieldValueForbidden | spec.size: Forbidden: size is immutable
    "#]]
    .assert_eq(&check("{size: huge, replicas: 1}", "{size: tiny, replicas: 1}"));
}

#[test]
fn a_status_write_is_checked_for_its_status() {
    let kind = widget_kind();
    let old = widget("{size: wrong, replicas: 1}");
    let mut new = old.clone();
    new["status"] = json!({ "replicas": "x" });
    expect![[r#"
        FieldValueTypeInvalid | status.replicas: Invalid value: "string": replicas in body must be of type integer: "string"
        FieldValueInvalid | .status.replicas: Invalid value: 0: .status.replicas accessor error: x is of the type string, expected int64
        FieldValueInvalid | <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
    "#]].assert_eq(&shown(&kind.validate_update(&new, &old, Part::Status)));
}
