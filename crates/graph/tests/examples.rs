//! The manifests under `examples/graphs` compile, make kinds an API server takes, and come up.
#![allow(clippy::unwrap_used, clippy::panic)]

use graph::{
    Graph, Kinds, Options, compile,
    plan::{Objects, Plan, State, plan},
};
use serde_json::{Value, json};

const NOW: &str = "2026-11-17T12:00:00Z";

fn documents(name: &str) -> Vec<Value> {
    let path = format!("{}/../../examples/graphs/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

fn definition(name: &str, kinds: &Kinds) -> Graph {
    let definition = serde_json::from_value(documents(name).remove(0)).unwrap();
    compile(&definition, kinds, &Options::default()).unwrap_or_else(|errors| panic!("{name}: {errors:?}"))
}

/// As an API server would take it: defaulted and valid.
fn admitted(crd: &Value, mut object: Value) -> Value {
    let version = crd["spec"]["versions"][0]["name"].as_str().unwrap();
    let kind = schema::Kind::custom(crd, version).unwrap();
    assert_eq!(kind.decode(&mut object), Ok(vec![]));
    kind.set_defaults(&mut object);
    assert_eq!(kind.validate_create(&object), []);
    object["metadata"]["uid"] = json!("i1");
    object["metadata"]["resourceVersion"] = json!("1");
    object["metadata"]["generation"] = json!(1);
    object
}

/// Carries a plan out, as far as a test needs it: what is wanted is there, and `change` is what others do to it.
fn carry_out(plan: &Plan, change: &dyn Fn(&mut Value)) -> Objects {
    let wanted = plan.nodes.iter().flat_map(|node| node.desired.iter().cloned());
    wanted
        .map(|mut object| {
            change(&mut object);
            object
        })
        .collect()
}

fn come_up(graph: &Graph, instance: &Value, change: &dyn Fn(&mut Value)) -> Plan {
    let mut objects = Objects::default();
    for _ in 0..10 {
        let plan = plan(graph, instance, &objects, NOW);
        if plan.state == State::Active {
            return plan;
        }
        objects = carry_out(&plan, change);
    }
    panic!("never active: {}", plan(graph, instance, &objects, NOW).status);
}

fn running(object: &mut Value) {
    match object["kind"].as_str() {
        Some("Deployment") => {
            object["metadata"]["generation"] = json!(1);
            let replicas = object["spec"]["replicas"].clone();
            object["status"] = json!({
                "observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas,
                "readyReplicas": replicas,
            });
        }
        Some("Service") => object["spec"]["clusterIP"] = json!("10.0.0.7"),
        _ => {}
    }
}

#[test]
fn a_web_application_with_a_scale() {
    let graph = definition("webapp", &Kinds::default());
    assert_eq!(graph.topological_order(), ["config", "deployment", "service"]);
    assert_eq!(
        graph.crd()["spec"]["versions"][0]["subresources"]["scale"],
        json!({ "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector" })
    );
    let documents = documents("instance");
    let instance = admitted(graph.crd(), documents[0].clone());
    assert_eq!(instance["spec"]["replicas"], 2);
    assert_eq!(instance["spec"]["ports"], json!([{ "name": "http", "number": 8080 }]));
    // the autoscaler of the example acts on the kind that is generated
    let target = &documents[1]["spec"]["scaleTargetRef"];
    assert_eq!((&target["kind"], &target["apiVersion"]), (&instance["kind"], &instance["apiVersion"]));

    let plan = come_up(&graph, &instance, &running);
    let status = &plan.status;
    assert_eq!(
        (&status["replicas"], &status["selector"], &status["address"]),
        (&json!(2), &json!("app=shop"), &json!("10.0.0.7"))
    );
    let deployment = &plan.nodes[1].desired[0];
    assert_eq!(
        deployment["spec"]["template"]["spec"]["containers"][0]["ports"],
        json!([{ "name": "http", "containerPort": 8080 }])
    );
    let service = &plan.nodes[2].desired[0];
    assert_eq!(service["spec"]["ports"], json!([{ "name": "http", "port": 8080, "targetPort": 8080 }]));

    // what the status says fits the kind that was generated for it
    let kind = schema::Kind::custom(graph.crd(), "v1alpha1").unwrap();
    let mut with_status = instance.clone();
    with_status["status"] = status.clone();
    assert_eq!(kind.decode(&mut with_status), Ok(vec![]));
    assert_eq!(kind.validate_update(&with_status, &instance, schema::Part::Status), []);

    // through the scale subresource
    let mut scaled = instance.clone();
    scaled["spec"]["replicas"] = json!(5);
    assert_eq!(come_up(&graph, &scaled, &running).status["replicas"], 5);
    // and without the Service
    let mut hidden = instance;
    hidden["spec"]["expose"]["enabled"] = json!(false);
    let plan = come_up(&graph, &hidden, &running);
    assert!(plan.nodes[2].desired.is_empty());
    assert_eq!(plan.status.get("address"), None);
}

/// The kind of definitions is one that an API server takes, and so are the examples.
#[test]
fn definitions_are_objects_of_their_kind() {
    let crd =
        api::crds().into_iter().map(|crd| json!(crd)).find(|crd| crd["spec"]["group"] == "kro.run").unwrap();
    let mut defaulted = crd.clone();
    schema::crd::set_defaults(&mut defaulted);
    assert_eq!(schema::crd::validate(&defaulted, None), []);
    for name in ["webapp", "tenants"] {
        let mut admitted = admitted(&crd, documents(name).remove(0));
        assert_eq!(admitted["spec"]["schema"]["group"], "kro.run");
        let kind = schema::Kind::custom(&crd, "v1alpha1").unwrap();
        let before = admitted.clone();
        admitted["spec"]["schema"]["kind"] = json!("Other");
        let errors = kind.validate_update(&admitted, &before, schema::Part::Whole);
        assert!(errors[0].to_string().contains("kind is immutable"), "{errors:?}");
        admitted["spec"]["resources"][0] = json!({ "id": "x" });
        let errors = kind.validate_create(&admitted);
        assert!(errors[0].to_string().contains("exactly one of template and externalRef"), "{errors:?}");
    }
}

#[test]
fn a_set_of_web_applications() {
    let graph = definition("webapp", &Kinds::default());
    let set_crd = graph.set_crd().unwrap();
    assert_eq!(set_crd["metadata"]["name"], "webappsets.kro.run");
    let set = admitted(set_crd, documents("set").remove(0));
    // its template is an instance, defaults included
    assert_eq!(set["spec"]["template"]["spec"]["replicas"], 2);
    let instance = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "WebApp", "metadata": { "name": "tenants-x7k2p", "namespace": "default" },
        "spec": set["spec"]["template"]["spec"],
    });
    assert_eq!(admitted(graph.crd(), instance)["spec"], set["spec"]["template"]["spec"]);
}

#[test]
fn a_graph_of_graphs() {
    let webapp = definition("webapp", &Kinds::default());
    let definition_without_kinds = serde_json::from_value(documents("tenants").remove(0)).unwrap();
    let errors = compile(&definition_without_kinds, &Kinds::default(), &Options::default()).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "spec.resources[0].template: schema not found for kro.run/v1alpha1 WebApp"
    );

    let mut kinds = Kinds::default();
    kinds.add_crd(webapp.crd());
    let graph = definition("tenants", &kinds);
    assert_eq!(graph.levels(), [vec!["apps"], vec!["directory"]]);
    let instance = admitted(
        graph.crd(),
        json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "Tenant", "metadata": { "name": "acme", "namespace": "default" },
            "spec": { "regions": ["eu", "us"], "replicas": 3 },
        }),
    );
    // the inner graphs come up by themselves: each is an instance of the other definition
    let inner = |object: &mut Value| {
        if object["kind"] == "WebApp" {
            let admitted = admitted(webapp.crd(), object.clone());
            let status = come_up(&webapp, &admitted, &running).status;
            *object = admitted;
            object["status"] = status;
        }
    };
    let plan = come_up(&graph, &instance, &inner);
    assert_eq!(plan.nodes[0].desired.len(), 2);
    assert_eq!(plan.status["ready"], 2);
    // the outer scale is the sum of the inner ones
    assert_eq!(plan.status["replicas"], 6);
    assert_eq!(plan.nodes[1].desired[0]["data"]["addresses"], "acme-eu=10.0.0.7,acme-us=10.0.0.7");
}
