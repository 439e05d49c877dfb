use api::kro::ResourceGraphDefinition;
use engine::{kind, kind::Kind, testing::from_json};
use expect_test::{Expect, expect};
use graph::{
    Graph, Kinds, Options, compile, labels,
    plan::{Identity, Objects, plan_after, teardown},
};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::plan::{Observed, Tried, let_go, plan};

const APP: Kind = Kind::namespaced("kro.run", "v1", "App", "apps");

fn graph() -> Graph {
    let definition: ResourceGraphDefinition = from_json(json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "app"},
        "spec": {
            "schema": {
                "apiVersion": "v1", "kind": "App",
                "spec": {"text": "string | default=one"}, "status": {"text": "${config.data.text}"},
            },
            "resources": [
                {"id": "config", "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.metadata.name}"}, "data": {"text": "${schema.spec.text}"},
                }},
                {"id": "secret", "template": {
                    "apiVersion": "v1", "kind": "Secret",
                    "metadata": {"name": "${schema.metadata.name}"}, "stringData": {"text": "x"},
                }},
                {"id": "after", "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${config.metadata.name}-after"},
                }},
            ],
        },
    }));
    compile(&definition, &Kinds::default(), &Options::default()).unwrap()
}

fn instance() -> Value {
    json!({
        "apiVersion": "kro.run/v1", "kind": "App",
        "metadata": {
            "name": "a", "namespace": "shop", "uid": "u1", "resourceVersion": "3", "generation": 1,
        },
        "spec": {"text": "one"},
    })
}

fn kind_of(identity: &Identity) -> Option<Kind> {
    [kind::CONFIG_MAP, kind::SECRET].into_iter().find(|kind| kind.kind == identity.kind)
}

/// One line an effect: what is done, without what is in it.
fn summary(effects: &[engine::effect::Effect]) -> String {
    effects.iter().map(|effect| effect.summary().replace("; apply", "\n  and apply") + "\n").collect()
}

/// What is wanted for the instance with these objects in the cluster.
fn effects(instance: &Value, objects: &Objects, tried: &mut Tried) -> Vec<engine::effect::Effect> {
    let wanted = plan_after(&graph(), instance, objects, None, "2026-01-01T00:00:00Z");
    let object: DynamicObject = from_json(instance.clone());
    let observed = Observed {
        kind: &APP,
        meta: &object.metadata,
        instance,
        plan: &wanted,
        objects,
        kind_of: &kind_of,
        has_failed: false,
    };
    plan(&observed, tried)
}

/// The instance and its objects after the effects, as an API server would have them. It keeps no `stringData`.
fn carried_out(instance: &mut Value, objects: &mut Vec<Value>, effects: &[engine::effect::Effect]) {
    use engine::effect::Effect;
    let mut apply = |body: &Value| {
        let mut object = body.clone();
        object.as_object_mut().unwrap().remove("stringData");
        object["metadata"]["uid"] = json!(format!("{}-{}", body["kind"], body["metadata"]["name"]));
        object["metadata"]["resourceVersion"] = json!("1");
        objects.retain(|other| Identity::of(other) != Identity::of(&object));
        objects.push(object);
    };
    for effect in effects {
        match effect {
            Effect::Patch { body, .. } => engine::testing::merge(instance, body.clone()),
            Effect::Apply { body, .. } => apply(body),
            Effect::ApplyAll(all) => all.iter().for_each(|one| apply(&one.body)),
            _ => {}
        }
    }
}

fn check(effects: &[engine::effect::Effect], expected: Expect) {
    expected.assert_eq(&summary(effects));
}

#[test]
fn resources_come_in_order_and_side_by_side_where_they_can() {
    let (mut app, mut objects, mut tried) = (instance(), Vec::new(), Tried::new());
    let seen = |objects: &[Value]| objects.iter().cloned().collect::<Objects>();
    let first = effects(&app, &seen(&objects), &mut tried);
    check(
        &first,
        expect![[r#"
        patch App shop/a: metadata.annotations.applyset.kubernetes.io/additional-namespaces, metadata.annotations.applyset.kubernetes.io/contains-group-kinds, metadata.annotations.applyset.kubernetes.io/tooling, metadata.annotations.internal.kro.run/applyset-inventory-hash, metadata.finalizers, metadata.labels.applyset.kubernetes.io/id, metadata.labels.kro.run/kro-version, metadata.labels.kro.run/owned and 1 more
        patch App shop/a/status: conditions, state
        apply ConfigMap shop/a: apiVersion, data.text, kind, metadata.annotations.internal.kro.run/apply-order, metadata.annotations.internal.kro.run/manifest-hash, metadata.labels.app.kubernetes.io/managed-by, metadata.labels.applyset.kubernetes.io/part-of, metadata.labels.kro.run/instance-group and 10 more
          and apply Secret shop/a: apiVersion, kind, metadata.annotations.internal.kro.run/apply-order, metadata.annotations.internal.kro.run/manifest-hash, metadata.labels.app.kubernetes.io/managed-by, metadata.labels.applyset.kubernetes.io/part-of, metadata.labels.kro.run/instance-group, metadata.labels.kro.run/instance-id and 10 more
    "#]],
    );
    carried_out(&mut app, &mut objects, &first);
    let second = effects(&app, &seen(&objects), &mut tried);
    check(
        &second,
        expect![[r#"
        patch App shop/a/status: conditions, text
        apply Secret shop/a: apiVersion, kind, metadata.annotations.internal.kro.run/apply-order, metadata.annotations.internal.kro.run/manifest-hash, metadata.labels.app.kubernetes.io/managed-by, metadata.labels.applyset.kubernetes.io/part-of, metadata.labels.kro.run/instance-group, metadata.labels.kro.run/instance-id and 10 more
          and apply ConfigMap shop/a-after: apiVersion, kind, metadata.annotations.internal.kro.run/apply-order, metadata.annotations.internal.kro.run/manifest-hash, metadata.labels.app.kubernetes.io/managed-by, metadata.labels.applyset.kubernetes.io/part-of, metadata.labels.kro.run/instance-group, metadata.labels.kro.run/instance-id and 9 more
    "#]],
    );
    carried_out(&mut app, &mut objects, &second);
    // A Secret never shows its `stringData`: it is applied once more, and then believed.
    let third = effects(&app, &seen(&objects), &mut tried);
    check(
        &third,
        expect![[r#"
        patch App shop/a/status: conditions, state
        event Active "all resources are ready" on App shop/a
        apply Secret shop/a: apiVersion, kind, metadata.annotations.internal.kro.run/apply-order, metadata.annotations.internal.kro.run/manifest-hash, metadata.labels.app.kubernetes.io/managed-by, metadata.labels.applyset.kubernetes.io/part-of, metadata.labels.kro.run/instance-group, metadata.labels.kro.run/instance-id and 10 more
    "#]],
    );
    carried_out(&mut app, &mut objects, &third);
    check(&effects(&app, &seen(&objects), &mut tried), expect![[""]]);
    assert_eq!(app["status"]["state"], "ACTIVE");

    // what somebody changes is put back, what nobody wants any more goes
    objects[0]["data"]["text"] = json!("changed");
    let mut stray = objects[1].clone();
    stray["metadata"]["name"] = json!("stray");
    stray["metadata"]["labels"][labels::NODE_ID] = json!("forgotten");
    objects.push(stray);
    check(
        &effects(&app, &seen(&objects), &mut tried),
        expect![[r#"
        patch App shop/a/status: text
        apply ConfigMap shop/a: apiVersion, data.text, kind, metadata.annotations.internal.kro.run/apply-order, metadata.annotations.internal.kro.run/manifest-hash, metadata.labels.app.kubernetes.io/managed-by, metadata.labels.applyset.kubernetes.io/part-of, metadata.labels.kro.run/instance-group and 10 more
        delete ConfigMap shop/stray (Background)
    "#]],
    );
}

#[test]
fn a_deleted_instance_lets_its_resources_go_in_the_opposite_order() {
    let (mut app, mut objects, mut tried) = (instance(), Vec::new(), Tried::new());
    for _ in 0..3 {
        let next = effects(&app, &objects.iter().cloned().collect(), &mut tried);
        carried_out(&mut app, &mut objects, &next);
    }
    app["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:01:00Z");
    let mut all = String::new();
    for _ in 0..4 {
        let seen: Objects = objects.iter().cloned().collect();
        let object: DynamicObject = from_json(app.clone());
        let step = let_go(&APP, &object, &app, &teardown(&app, &seen), &seen, &kind_of);
        all += &(summary(&step) + "--\n");
        carried_out(&mut app, &mut objects, &step);
        let gone: Vec<String> = step
            .iter()
            .filter_map(|effect| match effect {
                engine::effect::Effect::Delete { target, .. } => Some(target.uid.clone()),
                _ => None,
            })
            .collect();
        objects.retain(|object| !gone.iter().any(|uid| object["metadata"]["uid"] == uid.as_str()));
    }
    expect![[r#"
        patch App shop/a/status: conditions, state
        delete ConfigMap shop/a-after (Background)
        delete Secret shop/a (Background)
        --
        patch App shop/a/status: conditions
        delete ConfigMap shop/a (Background)
        --
        patch App shop/a: metadata.finalizers
        --
        --
    "#]]
    .assert_eq(&all);
}
