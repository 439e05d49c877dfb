use std::fmt::Write;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::{Kinds, Options, compile};

const NOW: &str = "2026-11-17T12:00:00Z";

fn graph(schema: &str, resources: &str) -> Graph {
    let yaml = |text: &str| -> Value { serde_saphyr::from_str(text).unwrap() };
    let mut definition = json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": { "name": "app", "uid": "u1" },
        "spec": { "schema": { "apiVersion": "v1", "kind": "App" }, "resources": yaml(resources) },
    });
    for (name, value) in yaml(schema).as_object().unwrap() {
        definition["spec"]["schema"][name] = value.clone();
    }
    let definition = serde_json::from_value(definition).unwrap();
    let options = Options { allow_omit: true, max_collection: 20, ..Options::default() };
    compile(&definition, &Kinds::default(), &options).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn instance(spec: &str) -> Value {
    let spec: Value = serde_saphyr::from_str(spec).unwrap();
    json!({
        "apiVersion": "kro.run/v1", "kind": "App",
        "metadata": { "name": "shop", "namespace": "prod", "uid": "i1", "generation": 3 },
        "spec": spec,
    })
}

/// Everything a plan says, one line a fact; objects without what ties them to their instance.
fn shown(plan: &Plan) -> String {
    let mut text = format!("{}\n", plan.state.as_str());
    for node in &plan.nodes {
        let _ = writeln!(
            text,
            "{}: {:?}{}",
            node.id,
            node.state,
            node.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default()
        );
        for object in &node.desired {
            let mut object = object.clone();
            let metadata = object["metadata"].as_object_mut().unwrap();
            metadata.remove("labels");
            metadata.remove("annotations");
            let _ = writeln!(text, "  {object}");
        }
    }
    for wave in &plan.prune {
        let names: Vec<String> = wave.iter().map(ToString::to_string).collect();
        let _ = writeln!(text, "prune {}", names.join(", "));
    }
    for (name, value) in plan.status.as_object().unwrap() {
        if name != "conditions" && name != "state" {
            let _ = writeln!(text, "status.{name}: {value}");
        }
    }
    let ready =
        plan.status["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == "Ready");
    if let Some(ready) = ready {
        let _ = writeln!(text, "Ready: {} {} {}", ready["status"], ready["reason"], ready["message"]);
    }
    text
}

fn check(graph: &Graph, instance: &Value, observed: &Objects, expected: Expect) -> Plan {
    let plan = plan(graph, instance, observed, NOW);
    expected.assert_eq(&shown(&plan));
    plan
}

/// What the API server would have after the plan was carried out, with `change` done to each object.
fn applied(plan: &Plan, change: impl Fn(&mut Value)) -> Objects {
    plan.nodes
        .iter()
        .flat_map(|node| node.desired.iter().cloned())
        .map(|mut object| {
            change(&mut object);
            object
        })
        .collect()
}

const CHAIN: &str = "
- id: config
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${schema.metadata.name}-config'}, data: {level: '${schema.spec.level}'}}
- id: web
  readyWhen: ['${web.status.availableReplicas == web.spec.replicas}']
  template: {apiVersion: apps/v1, kind: Deployment, metadata: {name: '${schema.metadata.name}'}, spec: {replicas: '${schema.spec.replicas}', selector: {matchLabels: {app: '${config.metadata.name}'}}, template: {}}}
- id: service
  includeWhen: ['${schema.spec.expose}']
  template: {apiVersion: v1, kind: Service, metadata: {name: '${web.metadata.name}'}, spec: {selector: '${web.spec.selector.matchLabels}'}}
";

fn chain() -> Graph {
    graph(
        "{spec: {level: string | default=info, replicas: integer | scale default=2, expose: boolean | default=true}, \
         status: {replicas: integer | scale, selector: string | scaleSelector, address: '${service.spec.clusterIP}', ready: '${web.status.availableReplicas}'}}",
        CHAIN,
    )
}

#[test]
fn an_instance_comes_up_step_by_step() {
    let graph = chain();
    let instance = instance("{level: debug, replicas: 2, expose: true}");
    let first = check(
        &graph,
        &instance,
        &Objects::default(),
        expect![[r#"
        IN_PROGRESS
        config: InProgress (config is to be created)
          {"apiVersion":"v1","data":{"level":"debug"},"kind":"ConfigMap","metadata":{"name":"shop-config","namespace":"prod"}}
        web: InProgress (waits for config)
        service: InProgress (waits for web)
        Ready: "False" "NotReady" "config: config is to be created; web: waits for config; service: waits for web"
    "#]],
    );
    let config = applied(&first, |_| {});
    let second = check(
        &graph,
        &instance,
        &config,
        expect![[r#"
        IN_PROGRESS
        config: Synced
          {"apiVersion":"v1","data":{"level":"debug"},"kind":"ConfigMap","metadata":{"name":"shop-config","namespace":"prod"}}
        web: InProgress (web is to be created)
          {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"shop","namespace":"prod"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"shop-config"}},"template":{}}}
        service: InProgress (waits for web)
        Ready: "False" "NotReady" "web: web is to be created; service: waits for web"
    "#]],
    );
    let not_ready =
        applied(&second, |object| object["status"] = json!({ "replicas": 2, "availableReplicas": 1 }));
    check(
        &graph,
        &instance,
        &not_ready,
        expect![[r#"
        IN_PROGRESS
        config: Synced
          {"apiVersion":"v1","data":{"level":"debug"},"kind":"ConfigMap","metadata":{"name":"shop-config","namespace":"prod"}}
        web: WaitingForReadiness (readyWhen "web.status.availableReplicas == web.spec.replicas" of Deployment prod/shop is false)
          {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"shop","namespace":"prod"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"shop-config"}},"template":{}}}
        service: InProgress (waits for web)
        status.ready: 1
        status.replicas: 2
        status.selector: "app=shop-config"
        Ready: "False" "NotReady" "web: readyWhen \"web.status.availableReplicas == web.spec.replicas\" of Deployment prod/shop is false; service: waits for web"
    "#]],
    );
    let ready = |object: &mut Value| object["status"] = json!({ "replicas": 2, "availableReplicas": 2 });
    let third = plan(&graph, &instance, &applied(&second, ready), NOW);
    let all = applied(&third, |object| {
        ready(object);
        if object["kind"] == "Service" {
            object["spec"]["clusterIP"] = json!("10.0.0.7");
        }
    });
    check(
        &graph,
        &instance,
        &all,
        expect![[r#"
        ACTIVE
        config: Synced
          {"apiVersion":"v1","data":{"level":"debug"},"kind":"ConfigMap","metadata":{"name":"shop-config","namespace":"prod"}}
        web: Synced
          {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"shop","namespace":"prod"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"shop-config"}},"template":{}}}
        service: Synced
          {"apiVersion":"v1","kind":"Service","metadata":{"name":"shop","namespace":"prod"},"spec":{"selector":{"app":"shop-config"}}}
        status.address: "10.0.0.7"
        status.ready: 2
        status.replicas: 2
        status.selector: "app=shop-config"
        Ready: "True" "Ready" ""
    "#]],
    );
}

/// A Deployment that was ready for the old count says nothing about the new one: whoever waits for Ready of this
/// generation must not be told so before the change is applied.
#[test]
fn what_was_ready_before_a_change_is_not_ready_for_it() {
    let graph = chain();
    let ready = |object: &mut Value| object["status"] = json!({ "replicas": 1, "availableReplicas": 1 });
    let before = instance("{level: info, replicas: 1, expose: true}");
    let mut objects = Objects::default();
    for _ in 0..3 {
        objects = applied(&plan(&graph, &before, &objects, NOW), ready);
    }
    assert_eq!(plan(&graph, &before, &objects, NOW).state, State::Active);
    let after = instance("{level: info, replicas: 3, expose: true}");
    let changed = plan(&graph, &after, &objects, NOW);
    assert_eq!(changed.state, State::InProgress);
    assert_eq!(changed.nodes[1].reason.as_deref(), Some("Deployment prod/shop is to be updated"));
    assert_eq!(changed.nodes[1].desired[0]["spec"]["replicas"], 3);
    assert_eq!(changed.nodes[2].reason.as_deref(), Some("waits for web"));
    assert_eq!(changed.prune, Vec::<Vec<Identity>>::new());
    // the API server writes quantities and defaults its own way: that is not a change
    let written = |object: &mut Value| {
        ready(object);
        object["spec"]["progressDeadlineSeconds"] = json!(600);
    };
    let objects = applied(&plan(&graph, &before, &objects, NOW), written);
    assert_eq!(plan(&graph, &before, &objects, NOW).state, State::Active);
}

#[test]
fn a_status_from_before_a_change_says_nothing() {
    let graph = chain();
    let instance = instance("{level: debug, replicas: 2, expose: false}");
    let config = applied(&plan(&graph, &instance, &Objects::default(), NOW), |_| {});
    let second = plan(&graph, &instance, &config, NOW);
    let with = |generation: i64, status: Value| {
        applied(&second, move |object| {
            object["metadata"]["generation"] = json!(generation);
            object["status"] = status.clone();
        })
    };
    let told = |observed: i64| json!({ "availableReplicas": 2, "observedGeneration": observed });
    let reason = |objects: &Objects| {
        let web = plan(&graph, &instance, objects, NOW).nodes.into_iter().find(|node| node.id == "web");
        web.and_then(|web| web.reason)
    };
    assert_eq!(
        reason(&with(3, told(2))).as_deref(),
        Some("the status of Deployment prod/shop is about generation 2, not yet about 3"),
        "although readyWhen holds"
    );
    assert_eq!(reason(&with(3, told(3))), None);
    assert_eq!(reason(&with(3, json!({ "availableReplicas": 2 }))), None, "not every kind tells");
}

#[test]
fn an_instance_of_a_set_tells_which_template_its_status_is_about() {
    let told = |scaling: bool| {
        let mut definition = json!({
            "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": { "name": "app" },
            "spec": { "schema": { "apiVersion": "v1", "kind": "App" }, "resources": [] },
        });
        if scaling {
            definition["spec"]["scaling"] = json!({ "kind": "AppSet", "method": "replicas" });
        }
        let definition = serde_json::from_value(definition).unwrap();
        let graph = compile(&definition, &Kinds::default(), &Options::default()).unwrap();
        let mut instance = instance("{}");
        instance["metadata"]["labels"] = json!({ "kro.run/template-hash": "abc" });
        let status = plan(&graph, &instance, &Objects::default(), NOW).status;
        let known = &graph.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
        let is_known = !known["properties"]["observedTemplateHash"].is_null();
        (status["observedTemplateHash"].as_str().map(str::to_owned), is_known)
    };
    assert_eq!(told(true), (Some("abc".to_owned()), true));
    assert_eq!(told(false), (None, false));
}

#[test]
fn what_is_not_wanted_is_skipped_and_pruned() {
    let graph = chain();
    let up = instance("{level: info, replicas: 1, expose: true}");
    let ready = |object: &mut Value| object["status"] = json!({ "replicas": 1, "availableReplicas": 1 });
    let mut objects = Objects::default();
    for _ in 0..3 {
        objects = applied(&plan(&graph, &up, &objects, NOW), ready);
    }
    // a member of a node that the definition no longer has, one of another instance, and one that is going already
    let member = |name: &str, node: &str, id: &str| {
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": "prod", "labels": {
            "applyset.kubernetes.io/part-of": id, "kro.run/node-id": node,
        }}})
    };
    let id = applyset_id(&up);
    let mut going = member("going", "gone", &id);
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let extra = [member("old", "gone", &id), member("theirs", "gone", "applyset-x-v1"), going];
    let objects: Objects = objects.objects.into_values().chain(extra).collect();
    let down = instance("{level: info, replicas: 1, expose: false}");
    check(
        &graph,
        &down,
        &objects,
        expect![[r#"
        ACTIVE
        config: Synced
          {"apiVersion":"v1","data":{"level":"info"},"kind":"ConfigMap","metadata":{"name":"shop-config","namespace":"prod"}}
        web: Synced
          {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"shop","namespace":"prod"},"spec":{"replicas":1,"selector":{"matchLabels":{"app":"shop-config"}},"template":{}}}
        service: Skipped
        prune Secret prod/old
        prune Service prod/shop
        status.ready: 1
        status.replicas: 1
        status.selector: "app=shop-config"
        Ready: "True" "Ready" ""
    "#]],
    );
}

#[test]
fn nothing_is_pruned_while_something_is_unknown() {
    let graph = chain();
    let instance = instance("{level: info, replicas: 1, expose: true}");
    let old = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "old", "namespace": "prod", "labels": {
        "applyset.kubernetes.io/part-of": applyset_id(&instance),
    }}});
    let plan = plan(&graph, &instance, &Objects::from_iter([old]), NOW);
    assert_eq!(plan.prune, Vec::<Vec<Identity>>::new());
    assert_eq!(plan.inventory_after, plan.inventory);
}

#[test]
fn collections() {
    let graph = graph(
        "{spec: {zones: '[]string', sizes: '[]integer'}, status: {names: '${pools.map(p, p.metadata.name)}'}}",
        "
- id: pools
  forEach: [{zone: '${schema.spec.zones}'}, {size: '${schema.spec.sizes}'}]
  readyWhen: ['${each.data.ready == \"yes\"}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${zone}-${string(size)}'}, data: {zone: '${zone}'}}
- id: summary
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: summary}, data: {all: '${pools.map(p, p.metadata.name).join(\",\")}'}}
",
    );
    let two = instance("{zones: [a, b], sizes: [1, 2]}");
    let first = check(
        &graph,
        &two,
        &Objects::default(),
        expect![[r#"
        IN_PROGRESS
        pools: InProgress (pools is to be created)
          {"apiVersion":"v1","data":{"zone":"a"},"kind":"ConfigMap","metadata":{"name":"a-1","namespace":"prod"}}
          {"apiVersion":"v1","data":{"zone":"a"},"kind":"ConfigMap","metadata":{"name":"a-2","namespace":"prod"}}
          {"apiVersion":"v1","data":{"zone":"b"},"kind":"ConfigMap","metadata":{"name":"b-1","namespace":"prod"}}
          {"apiVersion":"v1","data":{"zone":"b"},"kind":"ConfigMap","metadata":{"name":"b-2","namespace":"prod"}}
        summary: InProgress (waits for pools)
        status.names: []
        Ready: "False" "NotReady" "pools: pools is to be created; summary: waits for pools"
    "#]],
    );
    let labels = &first.nodes[0].desired[3]["metadata"]["labels"];
    assert_eq!(
        (&labels["kro.run/collection-index"], &labels["kro.run/collection-size"]),
        (&json!("3"), &json!("4"))
    );
    let one_missing = applied(&first, |object| {
        let ready = if object["metadata"]["name"] == "b-1" { "no" } else { "yes" };
        object["data"]["ready"] = json!(ready);
    });
    check(
        &graph,
        &two,
        &one_missing,
        expect![[r#"
        IN_PROGRESS
        pools: WaitingForReadiness (readyWhen "each.data.ready == "yes"" of ConfigMap prod/b-1 is false)
          {"apiVersion":"v1","data":{"zone":"a"},"kind":"ConfigMap","metadata":{"name":"a-1","namespace":"prod"}}
          {"apiVersion":"v1","data":{"zone":"a"},"kind":"ConfigMap","metadata":{"name":"a-2","namespace":"prod"}}
          {"apiVersion":"v1","data":{"zone":"b"},"kind":"ConfigMap","metadata":{"name":"b-1","namespace":"prod"}}
          {"apiVersion":"v1","data":{"zone":"b"},"kind":"ConfigMap","metadata":{"name":"b-2","namespace":"prod"}}
        summary: InProgress (waits for pools)
        status.names: ["a-1","a-2","b-1","b-2"]
        Ready: "False" "NotReady" "pools: readyWhen \"each.data.ready == \"yes\"\" of ConfigMap prod/b-1 is false; summary: waits for pools"
    "#]],
    );
    let ready = applied(&first, |object| object["data"]["ready"] = json!("yes"));
    check(
        &graph,
        &two,
        &ready,
        expect![[r#"
        IN_PROGRESS
        pools: Synced
          {"apiVersion":"v1","data":{"zone":"a"},"kind":"ConfigMap","metadata":{"name":"a-1","namespace":"prod"}}
          {"apiVersion":"v1","data":{"zone":"a"},"kind":"ConfigMap","metadata":{"name":"a-2","namespace":"prod"}}
          {"apiVersion":"v1","data":{"zone":"b"},"kind":"ConfigMap","metadata":{"name":"b-1","namespace":"prod"}}
          {"apiVersion":"v1","data":{"zone":"b"},"kind":"ConfigMap","metadata":{"name":"b-2","namespace":"prod"}}
        summary: InProgress (summary is to be created)
          {"apiVersion":"v1","data":{"all":"a-1,a-2,b-1,b-2"},"kind":"ConfigMap","metadata":{"name":"summary","namespace":"prod"}}
        status.names: ["a-1","a-2","b-1","b-2"]
        Ready: "False" "NotReady" "summary: summary is to be created"
    "#]],
    );
    // none is as good as all; what is left over goes
    check(
        &graph,
        &instance("{zones: [], sizes: [1]}"),
        &ready,
        expect![[r#"
        IN_PROGRESS
        pools: Synced
        summary: InProgress (summary is to be created)
          {"apiVersion":"v1","data":{"all":""},"kind":"ConfigMap","metadata":{"name":"summary","namespace":"prod"}}
        prune ConfigMap prod/a-1, ConfigMap prod/a-2, ConfigMap prod/b-1, ConfigMap prod/b-2
        status.names: []
        Ready: "False" "NotReady" "summary: summary is to be created"
    "#]],
    );
    check(
        &graph,
        &instance("{zones: [a, a], sizes: [1]}"),
        &Objects::default(),
        expect![[r#"
        ERROR
        pools: Error (identity collision: ConfigMap prod/a-1 is made twice)
        summary: InProgress (waits for pools)
        Ready: "False" "NotReady" "pools: identity collision: ConfigMap prod/a-1 is made twice"
    "#]],
    );
    let many = instance("{zones: [a, b, c, d, e, f, g], sizes: [1, 2, 3]}");
    check(
        &graph,
        &many,
        &Objects::default(),
        expect![[r#"
        ERROR
        pools: Error (collection size of 21 is over the maximum collection size of 20)
        summary: InProgress (waits for pools)
        Ready: "False" "NotReady" "pools: collection size of 21 is over the maximum collection size of 20"
    "#]],
    );
}

#[test]
fn external_resources_are_read_and_never_written() {
    let graph = graph(
        "{spec: {secret: string}}",
        "
- id: password
  externalRef: {apiVersion: v1, kind: Secret, metadata: {name: '${schema.spec.secret}'}}
- id: peers
  externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {selector: {matchLabels: {app: '${schema.metadata.name}'}}}}
- id: copy
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: copy}, data: {password: '${string(password.data.key)}', peers: '${string(peers.size())}'}}
",
    );
    let instance = instance("{secret: creds}");
    check(
        &graph,
        &instance,
        &Objects::default(),
        expect![[r#"
        IN_PROGRESS
        password: WaitingForReadiness (password does not exist)
        peers: Synced
        copy: InProgress (waits for password)
        Ready: "False" "NotReady" "password: password does not exist; copy: waits for password"
    "#]],
    );
    let config = |name: &str, app: &str, namespace: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": namespace, "labels": { "app": app } } });
    let objects = Objects::from_iter([
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "creds", "namespace": "prod" }, "data": { "key": "aHVudGVyMg==" } }),
        config("one", "shop", "prod"),
        config("two", "other", "prod"),
        config("three", "shop", "elsewhere"),
    ]);
    check(
        &graph,
        &instance,
        &objects,
        expect![[r#"
        IN_PROGRESS
        password: Synced
        peers: Synced
        copy: InProgress (copy is to be created)
          {"apiVersion":"v1","data":{"password":"hunter2","peers":"1"},"kind":"ConfigMap","metadata":{"name":"copy","namespace":"prod"}}
        Ready: "False" "NotReady" "copy: copy is to be created"
    "#]],
    );
}

#[test]
fn what_goes_wrong_is_said() {
    let resources = "
- id: a
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${schema.spec.name}'}, data: {x: '${string(10 / schema.spec.n)}'}}
- id: b
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: other}}
- id: c
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${schema.spec.name}'}}
- id: d
  includeWhen: ['${schema.spec.maybe.flag == true}']
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: d}}
";
    let graph = graph("{spec: {name: string, n: integer, maybe: object}}", resources);
    let foreign = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "other", "namespace": "prod", "labels": { "applyset.kubernetes.io/part-of": "applyset-y-v1" } } });
    let objects = Objects::from_iter([foreign]);
    check(
        &graph,
        &instance("{name: x, n: 0}"),
        &objects,
        expect![[r#"
        ERROR
        a: Error (data.x: expression "string(10 / schema.spec.n)": division by zero)
        b: Error (ConfigMap prod/other: resource belongs to a different ApplySet)
        c: InProgress (c is to be created)
          {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"prod"}}
        d: Error (includeWhen "schema.spec.maybe.flag == true": waiting for schema.spec.maybe)
        Ready: "False" "NotReady" "a: data.x: expression \"string(10 / schema.spec.n)\": division by zero; b: ConfigMap prod/other: resource belongs to a different ApplySet; d: includeWhen \"schema.spec.maybe.flag == true\": waiting for schema.spec.maybe"
    "#]],
    );
    check(
        &graph,
        &instance("{name: x, n: 5, maybe: {flag: false}}"),
        &objects,
        expect![[r#"
        ERROR
        a: InProgress (a is to be created)
          {"apiVersion":"v1","data":{"x":"2"},"kind":"ConfigMap","metadata":{"name":"x","namespace":"prod"}}
        b: Error (ConfigMap prod/other: resource belongs to a different ApplySet)
        c: Error (found resources with conflicts: resourceID: a conflicts with resourceID: c)
        d: Skipped
        Ready: "False" "NotReady" "b: ConfigMap prod/other: resource belongs to a different ApplySet; c: found resources with conflicts: resourceID: a conflicts with resourceID: c"
    "#]],
    );
    check(
        &graph,
        &instance("{name: '', n: 5, maybe: {flag: true}}"),
        &Objects::default(),
        expect![[r#"
        ERROR
        a: Error (metadata.name must not be empty)
        b: InProgress (b is to be created)
          {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other","namespace":"prod"}}
        c: Error (metadata.name must not be empty)
        d: InProgress (d is to be created)
          {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d","namespace":"prod"}}
        Ready: "False" "NotReady" "a: metadata.name must not be empty; c: metadata.name must not be empty"
    "#]],
    );
}

#[test]
fn a_resource_that_is_going_holds_up_what_comes_after() {
    let graph = chain();
    let instance = instance("{level: info, replicas: 1, expose: true}");
    let objects = applied(&plan(&graph, &instance, &Objects::default(), NOW), |object| {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    check(
        &graph,
        &instance,
        &objects,
        expect![[r#"
        IN_PROGRESS
        config: Deleting (ConfigMap prod/shop-config is being deleted)
        web: InProgress (waits for config)
        service: InProgress (waits for web)
        Ready: "False" "ResourceDeleting" "config: ConfigMap prod/shop-config is being deleted"
    "#]],
    );
}

#[test]
fn a_suspended_instance_is_left_alone() {
    let mut instance = instance("{level: info, replicas: 1, expose: true}");
    instance["metadata"]["annotations"] = json!({ "kro.run/reconcile": "Suspended" });
    let plan = check(
        &chain(),
        &instance,
        &Objects::default(),
        expect![[r#"
        IN_PROGRESS
        Ready: "False" "ReconciliationSuspended" "the annotation kro.run/reconcile says so"
    "#]],
    );
    assert!(plan.nodes.is_empty() && plan.prune.is_empty());
}

/// Whoever scales the Deployment itself owns its count; the instance's status says what there is.
#[test]
fn an_autoscaler_of_a_resource_keeps_its_count() {
    let graph = chain();
    let instance = instance("{level: info, replicas: 2, expose: false}");
    let config = applied(&plan(&graph, &instance, &Objects::default(), NOW), |_| {});
    let scaled = applied(&plan(&graph, &instance, &config, NOW), |object| {
        if object["kind"] == "Deployment" {
            object["spec"]["replicas"] = json!(7);
            object["status"] = json!({ "replicas": 7, "availableReplicas": 7 });
            object["metadata"]["managedFields"] = json!([{
                "manager": "kube-controller-manager", "operation": "Update", "subresource": "scale",
                "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": { "f:replicas": {} } },
            }]);
        }
    });
    let plan = plan(&graph, &instance, &scaled, NOW);
    assert_eq!(plan.state, State::Active);
    assert_eq!(plan.nodes[1].desired[0]["spec"].get("replicas"), None);
    assert_eq!((&plan.status["replicas"], &plan.status["selector"]), (&json!(7), &json!("app=shop-config")));
}

/// Without a resource that follows it, the count is the instance's own once it is ready.
#[test]
fn a_scale_that_nothing_follows() {
    let graph = graph(
        "{spec: {n: integer | scale}, status: {n: integer | scale, s: string | scaleSelector}}",
        "[{id: c, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: '${\"c-\" + string(schema.spec.n)}'}}}]",
    );
    let instance = instance("{n: 4}");
    let first = plan(&graph, &instance, &Objects::default(), NOW);
    assert_eq!(first.status.get("n"), None);
    let second = plan(&graph, &instance, &applied(&first, |_| {}), NOW);
    assert_eq!((second.status.get("n"), second.status.get("s")), (Some(&json!(4)), None));
}

#[test]
fn conditions_keep_their_times() {
    let graph = chain();
    let mut instance = instance("{level: info, replicas: 1, expose: true}");
    let first = plan(&graph, &instance, &Objects::default(), NOW);
    let types: Vec<&str> =
        first.status["conditions"].as_array().unwrap().iter().filter_map(|c| c["type"].as_str()).collect();
    assert_eq!(types, ["InstanceManaged", "GraphResolved", "ResourcesReady", "Ready"]);
    assert_eq!(first.status["conditions"][3]["observedGeneration"], 3);
    instance["status"] = first.status.clone();
    // nothing changed: nothing is to be written, however late it is
    assert_eq!(plan(&graph, &instance, &Objects::default(), "2030-01-01T00:00:00Z").status, first.status);
    instance["status"]["conditions"][3]["status"] = json!("True");
    let later = plan(&graph, &instance, &Objects::default(), "2030-01-01T00:00:00Z");
    assert_eq!(later.status["conditions"][3]["lastTransitionTime"], "2030-01-01T00:00:00Z");
    assert_eq!(later.status["conditions"][0]["lastTransitionTime"], NOW);
}

#[test]
fn conditions_of_the_author() {
    let graph = graph(
        "{spec: {n: integer}, status: {conditions: [
           '${runtime.newCondition({type: \"Big\", status: schema.spec.n > 5 ? \"True\" : \"False\", reason: \"Size\", message: \"n is \" + string(schema.spec.n)})}',
           '${runtime.newCondition({type: \"Later\", status: c.data.x})}',
           '${runtime.newCondition({type: \"Built\", status: runtime.condition(schema, \"ResourcesReady\").status})}']}}",
        "[{id: c, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}}]",
    );
    let first = plan(&graph, &instance("{n: 9}"), &Objects::default(), NOW);
    let shown = |plan: &Plan| -> Vec<String> {
        let conditions = plan.status["conditions"].as_array().unwrap();
        conditions
            .iter()
            .map(|c| format!("{}={}", c["type"].as_str().unwrap(), c["status"].as_str().unwrap()))
            .collect()
    };
    assert_eq!(shown(&first), ["Big=True", "Built=False", "Ready=False"]);
    assert_eq!(first.status["conditions"][0]["message"], "n is 9");
    // one whose value is wrong makes the instance's state an error
    let wrong = applied(&first, |object| object["data"] = json!({ "x": "Maybe" }));
    let second = plan(&graph, &instance("{n: 9}"), &wrong, NOW);
    assert_eq!(second.state, State::Error);
    assert_eq!(shown(&second), ["Big=True", "Built=True", "Ready=True"]);
}

#[test]
fn members_are_tied_to_their_instance() {
    // kro's own number for this name
    let app = json!({ "apiVersion": "kro.run/v1alpha1", "kind": "WebApp", "metadata": { "name": "my-app", "namespace": "default" } });
    assert_eq!(applyset_id(&app), "applyset-9sHw3-6HBl2VO07VeDzfkQhwSs1_MRB3IBzTC1N-yt8-v1");
    let graph = chain();
    let mut instance = instance("{level: info, replicas: 1, expose: true}");
    instance["metadata"]["annotations"] =
        json!({ labels::GROUP_KINDS: "Secret,Job.batch", labels::NAMESPACES: "other" });
    let plan = plan(&graph, &instance, &Objects::default(), NOW);
    assert_eq!(
        plan.nodes[0].desired[0]["metadata"]["labels"],
        json!({
            "kro.run/owned": "true", "kro.run/kro-version": labels::OUR_VERSION, "kro.run/instance-id": "i1",
            "kro.run/instance-name": "shop", "kro.run/instance-namespace": "prod", "kro.run/instance-group": "kro.run",
            "kro.run/instance-version": "v1", "kro.run/instance-kind": "App", "kro.run/node-id": "config",
            "app.kubernetes.io/managed-by": "kro", "applyset.kubernetes.io/part-of": applyset_id(&instance),
        })
    );
    assert_eq!(plan.nodes[0].desired[0]["metadata"]["annotations"][labels::APPLY_ORDER], "1");
    // while objects are applied the inventory holds the old members too, and at all times the kinds of the graph
    assert_eq!(
        plan.inventory.annotations[labels::GROUP_KINDS],
        "ConfigMap,Deployment.apps,Job.batch,Secret,Service"
    );
    assert_eq!(plan.inventory.annotations[labels::NAMESPACES], "other");
}

#[test]
fn an_instance_is_taken_down_against_its_order() {
    let graph = chain();
    let mut instance = instance("{level: info, replicas: 1, expose: true}");
    assert_eq!(teardown(&instance, &Objects::default()), Teardown::Done);
    let ready = |object: &mut Value| object["status"] = json!({ "replicas": 1, "availableReplicas": 1 });
    let mut objects = Objects::default();
    let mut last = plan(&graph, &instance, &objects, NOW);
    for _ in 0..3 {
        objects = applied(&last, ready);
        last = plan(&graph, &instance, &objects, NOW);
    }
    instance["metadata"]["labels"] = json!(last.inventory.labels);
    instance["metadata"]["annotations"] = json!(last.inventory.annotations);
    let mut order = Vec::new();
    loop {
        match teardown(&instance, &objects) {
            Teardown::Delete(wave) => {
                for identity in wave {
                    order.push(identity.to_string());
                    let object = objects.objects.get_mut(&identity).unwrap();
                    object["metadata"]["deletionTimestamp"] = json!(NOW);
                }
            }
            Teardown::Wait(wave) => {
                for identity in wave {
                    objects.objects.remove(&identity);
                }
            }
            Teardown::Done => break,
            Teardown::Blocked(why) => panic!("{why}"),
        }
    }
    assert_eq!(order, ["Service prod/shop", "Deployment prod/shop", "ConfigMap prod/shop-config"]);
    instance["metadata"]["annotations"][labels::GROUP_KINDS] = json!("ConfigMap");
    assert!(matches!(teardown(&instance, &objects), Teardown::Blocked(why) if why.contains("inventory")));
}

#[test]
fn text_of_an_instance_is_never_run() {
    let instance = instance("{level: '${schema.spec.replicas}', replicas: 1, expose: false}");
    let plan = plan(&chain(), &instance, &Objects::default(), NOW);
    assert_eq!(plan.nodes[0].desired[0]["data"]["level"], "${schema.spec.replicas}");
}

#[test]
fn a_plan_has_a_price() {
    let graph = graph(
        "{spec: {list: '[]integer'}}",
        "
- id: dear
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: '${string(schema.spec.list.map(a, schema.spec.list.map(b, schema.spec.list.map(c, a * b * c))).size())}'}}
- id: cheap
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {x: '${string(schema.spec.list.size())}'}}
",
    );
    let list: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let plan = plan(&graph, &instance(&format!("{{list: [{}]}}", list.join(","))), &Objects::default(), NOW);
    assert_eq!(plan.nodes[0].state, NodeState::Error);
    assert!(plan.nodes[0].reason.as_ref().unwrap().contains("costs more than is allowed"));
    // what one expression spends too much does not take everything from the others
    assert_eq!(plan.nodes[1].desired[0]["data"]["x"], "500");
}
