use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

/// A definition around the parts that a test is about.
fn definition(schema: &str, resources: &str) -> ResourceGraphDefinition {
    let mut all: Value = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": { "name": "test", "uid": "u1" },
        "spec": { "schema": { "apiVersion": "v1alpha1", "kind": "Test" }, "resources": [] },
    });
    let parsed: Value = serde_saphyr::from_str(schema).unwrap();
    for (name, value) in parsed.as_object().into_iter().flatten() {
        match name.as_str() {
            "scaling" => all["spec"]["scaling"] = value.clone(),
            _ => all["spec"]["schema"][name] = value.clone(),
        }
    }
    if !resources.trim().is_empty() {
        all["spec"]["resources"] = serde_saphyr::from_str(resources).unwrap();
    }
    serde_json::from_value(all).unwrap()
}

fn build(schema: &str, resources: &str) -> Result<Graph, String> {
    compile(&definition(schema, resources), &Kinds::default(), &Options::default())
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn refused(schema: &str, resources: &str, expected: &str) {
    match build(schema, resources) {
        Ok(_) => panic!("accepted, but expected: {expected}"),
        Err(found) => assert_eq!(found, expected, "{schema}\n{resources}"),
    }
}

const CONFIG: &str = "template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";

#[test]
fn names() {
    let reserved =
        "spec.resources[0].id: naming convention violation: id schema is a reserved keyword in KRO";
    refused("{}", &format!("[{{id: schema, {CONFIG}}}]"), reserved);
    refused(
        "{}",
        &format!("[{{id: My-Id, {CONFIG}}}]"),
        "spec.resources[0].id: naming convention violation: id My-Id is not a valid KRO resource id: must be lower camelCase",
    );
    refused(
        "{}",
        &format!("[{{id: a, {CONFIG}}}, {{id: a, {CONFIG}}}]"),
        "spec.resources[1].id: naming convention violation: found duplicate resource IDs a",
    );
    refused(
        "{kind: lower}",
        "",
        "spec.schema.kind: naming convention violation: kind 'lower' is not a valid KRO kind name: must be UpperCamelCase",
    );
    refused(
        "{apiVersion: '1.0'}",
        "",
        "spec.schema.apiVersion: '1.0' is not a version like v1, v1alpha1 or v2beta3",
    );
    refused(
        "{scaling: {kind: Test}}",
        "",
        "spec.scaling.kind: must not be the kind of the instances, spec.schema.kind",
    );
}

#[test]
fn manifests_are_objects_of_kinds_that_exist() {
    for (template, expected) in [
        (
            "{kind: ConfigMap, metadata: {}}",
            "spec.resources[0].template: is not a valid Kubernetes object: apiVersion field not found",
        ),
        (
            "{apiVersion: v1, metadata: {}}",
            "spec.resources[0].template: is not a valid Kubernetes object: kind field not found",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap}",
            "spec.resources[0].template: is not a valid Kubernetes object: metadata field not found",
        ),
        (
            "{apiVersion: a/b/c, kind: ConfigMap, metadata: {}}",
            "spec.resources[0].template.apiVersion: invalid apiVersion format: 'a/b/c'",
        ),
        (
            "{apiVersion: v1, kind: Nope, metadata: {}}",
            "spec.resources[0].template: schema not found for v1 Nope",
        ),
        (
            "{apiVersion: v1, kind: Namespace, metadata: {name: a, namespace: b}}",
            "spec.resources[0].template.metadata.namespace: a kind of the cluster has no namespace",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {kro.run/x: y}}}",
            "spec.resources[0].template.metadata.labels[\"kro.run/x\"]: keys with the prefix kro.run/ are reserved",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dataa: {}}",
            "spec.resources[0].template.dataa: schema not found for field dataa",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: [x]}",
            "spec.resources[0].template.data: expected object type for path data, got array",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: 5}}",
            "spec.resources[0].template.metadata.name: expected string type for path metadata.name, got integer",
        ),
        (
            "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a}, spec: {group: '${schema.metadata.name}'}}",
            "spec.resources[0].template.spec: CEL expressions in CRDs are only supported for metadata fields",
        ),
    ] {
        refused("{}", &format!("[{{id: a, template: {template}}}]"), expected);
    }
    refused(
        "{scope: Cluster}",
        &format!("[{{id: a, {CONFIG}}}]"),
        "spec.resources[0].template.metadata.namespace: must be set: instances have no namespace",
    );
    refused("{}", "[{id: a}]", "spec.resources[0]: give exactly one of template and externalRef");
}

#[test]
fn references_and_order() {
    let config = |id: &str, value: &str| {
        format!(
            "{{id: {id}, template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: {id}}}, data: {{x: '{value}'}}}}}}"
        )
    };
    let graph = build(
        "{spec: {name: string}}",
        &format!(
            "[{}, {}, {}, {}]",
            config("last", "${left.data.x + right.data.x}"),
            config("left", "${first.data.x}"),
            config("right", "${first.metadata.name}"),
            config("first", "${schema.spec.name}")
        ),
    )
    .unwrap();
    assert_eq!(graph.topological_order(), ["first", "left", "right", "last"]);
    assert_eq!(graph.levels(), [vec!["first"], vec!["left", "right"], vec!["last"]]);
    assert_eq!(
        json!(graph.definition_status().resources),
        json!([
            { "id": "left", "dependencies": [{ "id": "first" }] },
            { "id": "right", "dependencies": [{ "id": "first" }] },
            { "id": "last", "dependencies": [{ "id": "left" }, { "id": "right" }] },
        ])
    );
    refused(
        "{}",
        &format!(
            "[{}, {}, {}]",
            config("a", "${b.data.x}"),
            config("b", "${c.data.x}"),
            config("c", "${a.data.x}")
        ),
        "spec.resources[0]: graph contains a cycle: a -> b -> c -> a",
    );
    refused(
        "{}",
        &format!("[{}]", config("a", "${a.data.x}")),
        "spec.resources[0].template: self references are not allowed: a",
    );
    refused(
        "{}",
        &format!("[{}]", config("a", "${nope.x + other}")),
        "spec.resources[0].template: references unknown identifiers: [nope, other]",
    );
    refused(
        "{}",
        &format!("[{}]", config("a", "${string(runtime.condition(schema, \"X\"))}")),
        "spec.resources[0].template: runtime is only available in status.conditions expressions",
    );
    refused(
        "{}",
        &format!("[{}]", config("a", "${nope(1)}")),
        "spec.resources[0].template.data.x: expression \"nope(1)\": uses unknown functions: nope",
    );
    refused(
        "{}",
        &format!("[{}]", config("a", "${omit()}")),
        "spec.resources[0].template: omit() requires the CELOmitFunction feature gate",
    );
}

#[test]
fn types_are_checked_without_running_anything() {
    let deployment = |replicas: &str| {
        format!(
            "[{{id: web, template: {{apiVersion: apps/v1, kind: Deployment, metadata: {{name: a}}, spec: {{replicas: '{replicas}', selector: {{}}, template: {{}}}}}}}}]"
        )
    };
    let schema = "{spec: {name: string, count: integer, ratio: float, names: '[]string', ports: 'map[string]integer', any: object}}";
    build(schema, &deployment("${schema.spec.count}")).unwrap();
    build(schema, &deployment("${schema.spec.count + 1}")).unwrap();
    build(schema, &deployment("${schema.spec.any.x}")).unwrap();
    build(schema, &deployment("${schema.spec.?count}")).unwrap();
    build(schema, &deployment("${schema.spec.names.size()}")).unwrap();
    build(schema, &deployment("${schema.spec.ports.http}")).unwrap();
    let path = "spec.resources[0].template.spec.replicas";
    for (expression, expected) in [
        (
            "${schema.spec.name}",
            "type mismatch in resource \"web\" at path \"spec.replicas\": expression \"schema.spec.name\" returns type \"string\" but expected \"int\": type kind mismatch",
        ),
        (
            "${schema.spec.ratio}",
            "type mismatch in resource \"web\" at path \"spec.replicas\": expression \"schema.spec.ratio\" returns type \"double\" but expected \"int\": type kind mismatch",
        ),
        (
            "${schema.spec.names}",
            "type mismatch in resource \"web\" at path \"spec.replicas\": expression \"schema.spec.names\" returns type \"list(string)\" but expected \"int\": type kind mismatch",
        ),
        ("${schema.spec.nope}", "expression \"schema.spec.nope\": undefined field 'nope'"),
        (
            "${schema.spec.count.x}",
            "expression \"schema.spec.count.x\": type 'int' does not support field selection",
        ),
        (
            "${schema.spec.count + schema.spec.name}",
            "expression \"schema.spec.count + schema.spec.name\": found no matching overload for '_+_' applied to '(int, string)'",
        ),
        ("${schema.status.x}", "expression \"schema.status.x\": undefined field 'status'"),
        ("n-${schema.spec.name}", "expected integer type for path spec.replicas, got string"),
        (
            "${schema.spec.names.map(n, n + 1)[0]}",
            "expression \"schema.spec.names.map(n, n + 1)[0]\": found no matching overload for '_+_' applied to '(string, int)'",
        ),
        (
            "${quantity(\"1\")}",
            "type mismatch in resource \"web\" at path \"spec.replicas\": expression \"quantity(\"1\")\" returns type \"kubernetes.Quantity\" but expected \"int\": type kind mismatch",
        ),
    ] {
        refused(schema, &deployment(expression), &format!("{path}: {expected}"));
    }
    // text around an expression is a string, and so must the expression be
    refused(
        schema,
        "[{id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: 'x-${schema.spec.count}'}}}]",
        "spec.resources[0].template.metadata.name: type mismatch in resource \"a\" at path \"metadata.name\": expression \"schema.spec.count\" returns type \"int\" but expected \"string\": use string(…) inside text",
    );
    // a map that is written out is held against the fields of the schema
    let service = |ports: &str| {
        format!(
            "[{{id: s, template: {{apiVersion: v1, kind: Service, metadata: {{name: a}}, spec: {{ports: '{ports}'}}}}}}]"
        )
    };
    build(schema, &service("${[{\"port\": 80, \"targetPort\": \"web\"}]}")).unwrap();
    refused(
        schema,
        &service("${[{\"prot\": 80}]}"),
        "spec.resources[0].template.spec.ports: type mismatch in resource \"s\" at path \"spec.ports\": expression \"[{\"prot\": 80}]\" returns type \"list(map(string, dyn))\" but expected \"list(core.v1.ServicePort)\": field \"prot\" exists in output but not in expected type",
    );
    // bytes of a Secret
    refused(
        "{}",
        "[{id: s, template: {apiVersion: v1, kind: Secret, metadata: {name: a}}}, {id: c, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: '${s.data.key}'}}}]",
        "spec.resources[1].template.data.x: type mismatch in resource \"c\" at path \"data.x\": expression \"s.data.key\" returns type \"bytes\" but expected \"string\": bytes have to be written with base64.encode()",
    );
}

#[test]
fn conditions_and_iterators() {
    let with = |more: &str| {
        format!(
            "[{{id: a, {more}, template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: 'x-${{zone}}'}}}}}}]"
        )
    };
    let schema = "{spec: {zones: '[]string', sizes: '[]integer', on: boolean}}";
    let zones = "forEach: [{zone: '${schema.spec.zones}'}]";
    build(schema, &with(&format!("{zones}, readyWhen: ['${{each.metadata.name != \"\"}}']"))).unwrap();
    for (more, expected) in [
        (
            "forEach: [{zone: '${schema.spec.on}'}]",
            "spec.resources[0].forEach.zone: expression \"schema.spec.on\" must return a list, not bool",
        ),
        (
            "forEach: [{zone: 'x ${schema.spec.zones}'}]",
            "spec.resources[0].forEach[0].zone: only standalone expressions are allowed: 'x ${schema.spec.zones}' must be ${…}",
        ),
        (
            "forEach: [{zone: '${schema.spec.zones}'}, {size: '${schema.spec.sizes}'}]",
            "spec.resources[0].template.metadata.name: all forEach dimensions must be used to produce a unique resource identity, missing: [size]",
        ),
        (
            "forEach: [{zone: '${schema.spec.zones}'}, {zone: '${schema.spec.zones}'}]",
            "spec.resources[0].forEach[1]: iterator zone is given twice",
        ),
        (
            "forEach: [{spec: '${schema.spec.zones}'}]",
            "spec.resources[0].forEach[0]: iterator spec is a reserved keyword in KRO",
        ),
        (
            "forEach: [{a: '${schema.spec.zones}'}]",
            "spec.resources[0].forEach[0]: iterator a has the name of a resource",
        ),
        (
            "forEach: [{zone: '${schema.spec.zones}', two: '${schema.spec.zones}'}]",
            "spec.resources[0].forEach[0]: a dimension has one variable, not 2",
        ),
    ] {
        refused(schema, &with(more), expected);
    }
    refused(
        schema,
        &with(&format!("{zones}, includeWhen: ['${{schema.spec.zones}}']")),
        "spec.resources[0].includeWhen: expression \"schema.spec.zones\" must return bool, not list(string)",
    );
    refused(
        schema,
        &with(&format!("{zones}, readyWhen: ['${{schema.spec.on}}']")),
        "spec.resources[0].readyWhen: references unknown identifiers: [schema]: readyWhen knows 'each' and nothing else",
    );
    refused(
        schema,
        "[{id: a, forEach: [{zone: '${schema.spec.zones}'}, {other: '${[zone]}'}], template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${zone}${other}'}}}]",
        "spec.resources[0].forEach: cannot reference other iterators: zone",
    );
    let many = (0..11).map(|n| format!("{{v{n}: '${{schema.spec.zones}}'}}")).collect::<Vec<_>>().join(", ");
    refused(
        schema,
        &with(&format!("forEach: [{many}]")),
        "spec.resources[0].forEach: 11 dimensions are more than the maximum of 10",
    );
}

#[test]
fn external_references() {
    let reference = |metadata: &str, more: &str| {
        format!(
            "[{{id: ext, {more} externalRef: {{apiVersion: v1, kind: ConfigMap, metadata: {metadata}}}}}, {{id: b, template: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: '${{string(ext.size())}}'}}}}}}]"
        )
    };
    build(
        "{}",
        &reference(
            "{selector: {matchLabels: {a: '${schema.metadata.name}'}}}",
            "readyWhen: ['${ext.size() > 0}'],",
        ),
    )
    .unwrap();
    refused(
        "{}",
        &reference("{}", ""),
        "spec.resources[0].externalRef.metadata: give exactly one of name and selector",
    );
    refused(
        "{}",
        &reference("{name: x}", "forEach: [{a: '${[1]}'}],"),
        "spec.resources[0].forEach: externalRef and forEach cannot be used together",
    );
}

fn status(yaml: &str) -> Result<Value, String> {
    let web = "[{id: web, template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: '${schema.spec.count}', selector: {}, template: {}}}}]";
    build(&format!("{{spec: {{count: integer | scale, name: string}}, status: {yaml}}}"), web)
        .map(|graph| graph.crd()["spec"]["versions"][0].clone())
}

#[test]
fn the_status_has_the_types_of_its_expressions() {
    let version = status(
        "{n: '${web.status.replicas} | scale', sel: '${labelSelector(web.spec.selector)} | scaleSelector', t: '${web.metadata.creationTimestamp}', \
          text: 'x-${schema.spec.name}', list: '${web.status.conditions.map(c, c.type)}', deep: {flag: '${web.spec.paused}', half: '${0.5 * double(schema.spec.count)}'}, \
          labels: '${web.metadata.labels}', any: '${json.unmarshal(schema.spec.name)}', two: ['${schema.spec.name}', '${schema.spec.count}']}",
    )
    .unwrap();
    let mut shown = String::new();
    for (name, field) in
        version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"].as_object().unwrap()
    {
        shown.push_str(&format!("{name}: {field}\n"));
    }
    let expected: Expect = expect![[r#"
        any: {"x-kubernetes-preserve-unknown-fields":true}
        conditions: {"items":{"properties":{"lastTransitionTime":{"type":"string"},"message":{"type":"string"},"observedGeneration":{"type":"integer"},"reason":{"type":"string"},"status":{"type":"string"},"type":{"type":"string"}},"type":"object"},"type":"array"}
        deep: {"properties":{"flag":{"type":"boolean"},"half":{"type":"number"}},"type":"object"}
        labels: {"additionalProperties":{"type":"string"},"type":"object"}
        list: {"items":{"type":"string"},"type":"array"}
        n: {"format":"int32","type":"integer"}
        sel: {"type":"string"}
        state: {"type":"string"}
        t: {"format":"date-time","type":"string"}
        text: {"type":"string"}
        two: {"items":{"type":"integer"},"type":"array"}
    "#]];
    expected.assert_eq(&shown);
    assert_eq!(
        version["subresources"],
        json!({ "status": {}, "scale": {
            "specReplicasPath": ".spec.count", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.sel",
        }})
    );
}

#[test]
fn status_and_scale_rules() {
    for (yaml, expected) in [
        (
            "{a: '${schema.spec.name}'}",
            "spec.schema.spec.count: marker 'scale' must be on a field of the spec and on one of the status: the status has none",
        ),
        (
            "{n: integer | scale, m: integer | scale}",
            "spec.schema.status.n: only one field may have the marker 'scale': spec.schema.status.m has it too",
        ),
        (
            "{n: string | scale}",
            "spec.schema.status.n: marker 'scale' is for fields of type integer, this one is string",
        ),
        (
            "{n: '${schema.spec.name} | scale'}",
            "spec.schema.status.n: marker 'scale' is for fields of type integer, and the expression returns string",
        ),
        (
            "{n: ['integer | scale']}",
            "spec.schema.status.n: marker 'scale' must be reached through plain names, without lists",
        ),
        (
            "{n: integer | scale, s: '${schema.spec.count} | scaleSelector'}",
            "spec.schema.status.s: marker 'scaleSelector' is for fields of type string, and the expression returns int",
        ),
        (
            "{n: integer | scale, s: '${schema.spec.name} | sometimes'}",
            "spec.schema.status.s: behind an expression of the status stands | scale or | scaleSelector, not 'sometimes'",
        ),
        ("{n: integer | scale, x: hello}", "spec.schema.status.x: needs an expression: ${…}"),
        (
            "{n: integer | scale, x: 5}",
            "spec.schema.status.x: status fields without expressions are not supported: write ${…}",
        ),
        (
            "{n: integer | scale, x: '${1 + 1}'}",
            "spec.schema.status.x: instance status field must refer to a resource or schema",
        ),
        (
            "{n: integer | scale, x: '${web.status.nope}'}",
            "spec.schema.status.x: expression \"web.status.nope\": undefined field 'nope'",
        ),
        (
            "{n: integer | scale, state: '${schema.spec.name}'}",
            "spec.schema.status.state: state is set by the controller",
        ),
        (
            "{n: integer | scale, conditions: ['${runtime.newCondition({type: \"\", status: \"Maybe\"})}']}",
            "spec.schema.status.conditions[0]: the type of a condition must not be empty\nspec.schema.status.conditions[0]: the status of a condition is True, False or Unknown, not 'Maybe'",
        ),
        (
            "{n: integer | scale, conditions: ['${runtime.newCondition({type: \"A\", status: \"True\"})}', '${runtime.newCondition({type: \"A\", status: \"True\"})}']}",
            "spec.schema.status.conditions[1]: the condition 'A' is given twice",
        ),
        (
            "{n: integer | scale, x: '${runtime.condition(schema, \"Ready\").status}'}",
            "spec.schema.status.x: runtime is only available in status.conditions expressions",
        ),
    ] {
        assert_eq!(status(yaml).unwrap_err(), expected, "{yaml}");
    }
    refused(
        "{spec: {n: integer}, status: {n: integer | scale}}",
        "",
        "spec.schema.status.n: marker 'scale' must be on a field of the spec and on one of the status: the spec has none",
    );
    refused(
        "{spec: {n: string}, status: {s: string | scaleSelector}}",
        "",
        "spec.schema.status.s: marker 'scaleSelector' needs the marker 'scale' beside it",
    );
}

/// What an API server would refuse is refused here, with the path in the definition.
#[test]
fn the_generated_kind_is_one_the_api_takes() {
    refused(
        "{spec: {n: integer | default=5 maximum=3}}",
        "",
        "spec.schema.spec.n: Invalid value: 5: should be less than or equal to 3",
    );
    refused("{spec: {s: 'string | validation=\"self.size( > 1\"'}}", "", &{
        let why = build("{spec: {s: 'string | validation=\"self.size( > 1\"'}}", "").unwrap_err();
        assert!(why.starts_with("spec.schema.spec.s: Invalid value"), "{why}");
        why
    });
    build("{spec: {m: 'map[string]integer | validation=\"self.all(k, v, v > 0)\"'}}", "").unwrap();
    refused(
        "{group: nodots}",
        "",
        "spec.schema (generated spec.group): Invalid value: \"nodots\": should be a domain with at least one dot",
    );
}
