use api::kro::ResourceGraphDefinition;
use engine::testing::{at, from_json};
use expect_test::expect;
use graph::{Graph, Kinds, Options, compile};
use serde_json::{Value, json};

use super::{
    plan::{Observed, plan},
    status::complete,
};
use crate::graphs::registry::Serving;

fn definition(generation: i64, spec: Value) -> ResourceGraphDefinition {
    from_json(json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition",
        "metadata": {"name": "app", "uid": "d1", "resourceVersion": "7", "generation": generation},
        "spec": {
            "schema": {"apiVersion": "v1", "kind": "App", "spec": spec},
            "resources": [{"id": "config", "template": {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.metadata.name}"},
            }}],
        },
    }))
}

fn compiled(definition: &ResourceGraphDefinition) -> Result<Graph, Vec<graph::Error>> {
    compile(definition, &Kinds::default(), &Options::default())
}

/// As the API server has it once it serves it.
fn established(crd: &Value) -> Value {
    let mut crd = crd.clone();
    crd["metadata"]["uid"] = json!("c1");
    crd["metadata"]["resourceVersion"] = json!("8");
    crd["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
    crd
}

/// What is written, and what the conditions say then.
fn told(definition: &ResourceGraphDefinition, found: &[Option<Value>], serving: Option<Serving>) -> String {
    let graph = compiled(definition);
    let graph = graph.as_ref().map_err(Vec::as_slice);
    let observed = Observed { definition, graph, found, failure: None };
    let step = plan(&observed);
    let mut text = format!("serve: {}\n", step.serve);
    let (plan, is_active) = complete(step, &observed, serving, at(0));
    text += &format!("active: {is_active}\n");
    for effect in &plan.effects {
        match effect {
            engine::effect::Effect::Patch { body, .. } => {
                for condition in body["status"]["conditions"].as_array().into_iter().flatten() {
                    text += &format!(
                        "{} {} {} {}\n",
                        condition["type"], condition["status"], condition["reason"], condition["message"]
                    );
                }
            }
            other => text += &(other.summary() + "\n"),
        }
    }
    text
}

#[test]
fn a_definition_becomes_a_kind_and_is_served_when_that_is() {
    let first = definition(1, json!({"text": "string"}));
    expect![[r#"
        serve: false
        active: false
        "GraphRevisionsResolved" "True" "Resolved" "revisions are not kept apart"
        "GraphAccepted" "True" "Valid" "the definition is valid"
        "KindReady" "Unknown" "Waiting" "CRD apps.kro.run is being written"
        "ControllerReady" "Unknown" "Waiting" "it starts when the kinds are served"
        "Ready" "Unknown" "Waiting" "CRD apps.kro.run is being written"
        warning Inactive "CRD apps.kro.run is being written" on ResourceGraphDefinition app
        apply CustomResourceDefinition apps.kro.run: apiVersion, kind, metadata.annotations.internal.kro.run/accepted-definition, metadata.labels.kro.run/kro-version, metadata.labels.kro.run/owned, metadata.labels.kro.run/resource-graph-definition-id, metadata.labels.kro.run/resource-graph-definition-name, metadata.name and 7 more
    "#]].assert_eq(&told(&first, &[None], None));
    let observed =
        Observed { definition: &first, graph: Ok(&compiled(&first).unwrap()), found: &[None], failure: None };
    let step = plan(&observed);
    let engine::effect::Effect::Apply { body, .. } = &step.effects[0] else { panic!("{step:?}") };
    let there = established(body);
    expect![[r#"
        serve: true
        active: true
        "GraphRevisionsResolved" "True" "Resolved" "revisions are not kept apart"
        "GraphAccepted" "True" "Valid" "the definition is valid"
        "KindReady" "True" "Ready" "the generated kinds are served"
        "ControllerReady" "True" "Running" "instances are looked after"
        "Ready" "True" "Ready" null
        event Active "instances are looked after" on ResourceGraphDefinition app
    "#]]
    .assert_eq(&told(&first, &[Some(there.clone())], Some(Serving::Graph(Some(1)))));

    // a version that is wrong, one that would break what exists, and a kind of somebody else's
    let wrong = definition(2, json!({"text": "strung"}));
    expect![[r#"
        serve: false
        active: false
        "GraphRevisionsResolved" "True" "Resolved" "revisions are not kept apart"
        "GraphAccepted" "False" "InvalidResourceGraph" "spec.schema.spec.text: unknown type: strung; generation 1, accepted before, keeps being served"
        "KindReady" "Unknown" "Waiting" "the definition is not accepted"
        "ControllerReady" "True" "Running" "instances are looked after"
        "Ready" "False" "InvalidResourceGraph" "spec.schema.spec.text: unknown type: strung; generation 1, accepted before, keeps being served"
        warning Inactive "spec.schema.spec.text: unknown type: strung; generation 1, accepted before, keeps being served" on ResourceGraphDefinition app
    "#]].assert_eq(&told(&wrong, &[], Some(Serving::Graph(Some(1)))));
    let breaking = definition(3, json!({"text": "integer"}));
    expect![[r#"
        serve: false
        active: false
        "GraphRevisionsResolved" "True" "Resolved" "revisions are not kept apart"
        "GraphAccepted" "True" "Valid" "the definition is valid"
        "KindReady" "False" "Failed" "cannot update CRD apps.kro.run: breaking changes detected: spec.text: type changed from \"string\" to \"integer\"; generation 1, accepted before, keeps being served"
        "ControllerReady" "True" "Running" "instances are looked after"
        "Ready" "False" "Failed" "cannot update CRD apps.kro.run: breaking changes detected: spec.text: type changed from \"string\" to \"integer\"; generation 1, accepted before, keeps being served"
        warning Inactive "cannot update CRD apps.kro.run: breaking changes detected: spec.text: type changed from \"string\" to \"integer\"; generation 1, accepted before, keeps being served" on ResourceGraphDefinition app
    "#]].assert_eq(&told(&breaking, &[Some(there.clone())], Some(Serving::Graph(Some(1)))));
    let mut foreign = there;
    foreign["metadata"]["labels"] = json!({});
    expect![[r#"
        serve: false
        active: false
        "GraphRevisionsResolved" "True" "Resolved" "revisions are not kept apart"
        "GraphAccepted" "True" "Valid" "the definition is valid"
        "KindReady" "False" "Failed" "CRD apps.kro.run already exists and is not owned by KRO"
        "ControllerReady" "Unknown" "Waiting" "it starts when the kinds are served"
        "Ready" "False" "Failed" "CRD apps.kro.run already exists and is not owned by KRO"
        warning Inactive "CRD apps.kro.run already exists and is not owned by KRO" on ResourceGraphDefinition app
    "#]].assert_eq(&told(&first, &[Some(foreign)], None));
}
