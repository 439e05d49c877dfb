//! Hostile definitions and expressions: whatever comes in, an answer comes out, and it is always the same.
#![allow(clippy::unwrap_used, clippy::panic)]

use graph::{
    Kinds, Options, compile,
    plan::{Objects, plan},
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Pieces that mean something, put together without sense.
fn expression() -> impl Strategy<Value = String> {
    const PIECES: [&str; 44] = [
        "schema",
        ".spec",
        ".name",
        ".list",
        ".map",
        ".any",
        "a",
        "b",
        "each",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "'x'",
        "\"y\"",
        "1",
        "0",
        "-",
        "+",
        "*",
        "/",
        "%",
        "&&",
        "||",
        "==",
        "<",
        "in ",
        "?",
        ":",
        ",",
        ".?",
        "[?",
        "!",
        ".map(x, x)",
        ".all(k, v, v)",
        "size(",
        "string(",
        "lists.range(9)",
        "cel.bind(q, 1, q)",
        "omit()",
        "$",
        "${",
    ];
    prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..14).prop_map(|pieces| pieces.concat())
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        expression().prop_map(|inner| format!("${{{inner}}}")),
        expression().prop_map(|inner| format!("x-${{{inner}}}-${{schema.spec.name}}")),
        expression(),
        "\\PC{0,12}",
    ]
}

fn field_type() -> impl Strategy<Value = String> {
    const PIECES: [&str; 36] = [
        "string",
        "integer",
        "boolean",
        "float",
        "object",
        "[]",
        "map[string]",
        "map[",
        "T",
        "U",
        " | ",
        "default=",
        "1",
        "true",
        "\"",
        "\\",
        "required=true",
        "enum=\"a,b\"",
        "scale",
        "scaleSelector",
        "minimum=0",
        "maximum=-1",
        "pattern=\"[\"",
        "validation=\"self == self\"",
        "immutable=true",
        "listType=set",
        "listType=map",
        "listMapKey=a",
        "{",
        "}",
        "]",
        " ",
        "=",
        "x",
        "|",
        "minItems=1",
    ];
    prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..7).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        text().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z.]{0,6}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

fn fields() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(
        "[a-zA-Z.]{0,5}",
        prop_oneof![field_type().prop_map(Value::from), value()],
        0..5,
    )
    .prop_map(|map| json!(map))
}

fn compiled(definition: &Value) -> Option<Result<graph::Graph, Vec<graph::Error>>> {
    let definition = serde_json::from_value(definition.clone()).ok()?;
    Some(compile(&definition, &Kinds::default(), &Options { allow_omit: true, ..Options::default() }))
}

/// Compiles, plans twice, and holds the answers against each other.
fn answer(definition: &Value, instance: &Value) -> Result<bool, TestCaseError> {
    let Some(result) = compiled(definition) else { return Ok(false) };
    match result {
        Err(errors) => {
            prop_assert!(!errors.is_empty() && errors.len() <= 50);
            for error in errors {
                prop_assert!(error.path.starts_with("spec."), "{}", error);
                prop_assert!(error.to_string().len() < 4_000, "{}", error);
            }
            Ok(false)
        }
        Ok(graph) => {
            // a kind that we made is one that the API takes
            let mut crd = graph.crd().clone();
            schema::crd::set_defaults(&mut crd);
            prop_assert_eq!(schema::crd::validate(&crd, None), []);
            let first = plan(&graph, instance, &Objects::default(), "2026-01-01T00:00:00Z");
            let again = compiled(definition).unwrap().unwrap();
            prop_assert_eq!(graph.crd(), again.crd());
            prop_assert_eq!(&first, &plan(&again, instance, &Objects::default(), "2026-01-01T00:00:00Z"));
            // what was applied is found again, and nothing of it is pruned
            let objects: Objects = first.nodes.iter().flat_map(|node| node.desired.iter().cloned()).collect();
            let second = plan(&graph, instance, &objects, "2026-01-01T00:00:00Z");
            prop_assert!(second.prune.is_empty());
            Ok(true)
        }
    }
}

fn instance(spec: Value) -> Value {
    json!({ "apiVersion": "kro.run/v1", "kind": "Test", "metadata": { "name": "t", "namespace": "n", "uid": "u" }, "spec": spec })
}

proptest! {
    #![proptest_config(repeatable::cases(400))]

    #[test]
    fn any_schema_gets_an_answer(spec in fields(), types in fields(), status in fields()) {
        let definition = json!({
            "metadata": { "name": "t" },
            "spec": { "schema": { "apiVersion": "v1", "kind": "Test", "spec": spec, "types": types, "status": status } },
        });
        answer(&definition, &instance(json!({})))?;
    }

    #[test]
    fn any_template_gets_an_answer(data in value(), one in text(), two in text(), condition in text(), given in value()) {
        let definition = json!({
            "metadata": { "name": "t" },
            "spec": {
                "schema": {
                    "apiVersion": "v1", "kind": "Test",
                    "spec": { "name": "string", "list": "[]integer", "map": "map[string]string", "any": "object" },
                    "status": { "x": two.clone() },
                },
                "resources": [
                    { "id": "a", "includeWhen": [condition.clone()], "template": { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": one, "labels": data } } },
                    { "id": "b", "readyWhen": [condition], "template": { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "b" }, "data": { "x": two } } },
                ],
            },
        });
        answer(&definition, &instance(json!({ "name": "n", "list": [1, 2], "map": { "k": "v" }, "any": given })))?;
    }

    /// Expressions that compile have a value or a reason; none of them takes the program down.
    #[test]
    fn any_expression_gets_an_answer(source in expression(), given in value()) {
        let definition = json!({
            "metadata": { "name": "t" },
            "spec": {
                "schema": { "apiVersion": "v1", "kind": "Test", "spec": { "name": "string", "list": "[]integer", "map": "map[string]string", "any": "object" } },
                "resources": [{ "id": "r", "template": { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "r" }, "data": { "x": format!("${{json.marshal({source})}}") } } }],
            },
        });
        answer(&definition, &instance(json!({ "name": "n", "list": [1, 2], "map": { "k": "v" }, "any": given })))?;
    }

    /// What the static check calls sound does not fail for its types when it runs.
    #[test]
    fn what_passes_the_check_has_the_type_it_said(operator in prop::sample::select(vec!["+", "-", "*", "/", "%", "<", "==", "&&", "in"]), left in 0..7_usize, right in 0..7_usize) {
        const OPERANDS: [&str; 7] = ["schema.spec.name", "schema.spec.list", "schema.spec.map", "schema.spec.n", "schema.spec.f", "schema.spec.flag", "schema.spec.list[0]"];
        let source = format!("${{json.marshal({} {operator} {})}}", OPERANDS[left], OPERANDS[right]);
        let definition = json!({
            "metadata": { "name": "t" },
            "spec": {
                "schema": { "apiVersion": "v1", "kind": "Test", "spec": { "name": "string", "list": "[]integer", "map": "map[string]string", "n": "integer", "f": "float", "flag": "boolean" } },
                "resources": [{ "id": "r", "template": { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "r" }, "data": { "x": source } } }],
            },
        });
        if let Some(Ok(graph)) = compiled(&definition) {
            let instance = instance(json!({ "name": "n", "list": [1, 2], "map": { "k": "v" }, "n": 5, "f": 2, "flag": true }));
            let plan = plan(&graph, &instance, &Objects::default(), "2026-01-01T00:00:00Z");
            let reason = plan.nodes[0].reason.clone().unwrap_or_default();
            prop_assert!(!reason.contains("no such overload") && !reason.contains("are for bools"), "{} {}", source, reason);
        }
    }
}

/// The drawing itself: some of what is drawn is accepted, or the properties above would say little.
#[test]
fn some_definitions_are_accepted() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::new(repeatable::cases(300));
    let mut n_accepted = 0;
    for _ in 0..300 {
        let spec = fields().new_tree(&mut runner).unwrap().current();
        let definition = json!({ "metadata": { "name": "t" }, "spec": { "schema": { "apiVersion": "v1", "kind": "Test", "spec": spec } } });
        n_accepted += usize::from(answer(&definition, &instance(json!({}))).unwrap());
    }
    assert!(n_accepted > 20, "only {n_accepted} of 300");
}
