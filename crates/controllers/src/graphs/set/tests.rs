use std::sync::Arc;

use engine::{
    Failure, Verb,
    kind::Kind,
    testing::{at, from_json, lines, merge, seconds},
};
use expect_test::{Expect, expect};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{
    children,
    plan::{Observed, plan},
};

const SET: Kind = Kind::namespaced("kro.run", "v1", "AppSet", "appsets");
const APP: Kind = Kind::namespaced("kro.run", "v1", "App", "apps");

fn template(text: &str) -> Value {
    json!({ "metadata": { "labels": { "tier": "web" } }, "spec": { "text": text, "replicas": 2 } })
}

fn set(change: Value) -> Arc<DynamicObject> {
    let mut set = json!({
        "apiVersion": "kro.run/v1", "kind": "AppSet",
        "metadata": {
            "name": "row", "namespace": "shop", "uid": "s1", "resourceVersion": "9", "generation": 4,
        },
        "spec": {
            "replicas": 3, "rollingUpdate": { "maxConcurrentUpdated": 1 }, "template": template("new"),
        },
    });
    merge(&mut set, change);
    Arc::new(from_json(set))
}

/// One that the Set controls, made from the template with this text.
fn instance(number: u64, text: &str, change: Value) -> Arc<DynamicObject> {
    let mut instance = json!({
        "apiVersion": "kro.run/v1", "kind": "App",
        "metadata": {
            "name": format!("row-{number}"), "namespace": "shop", "uid": format!("i{number}"),
            "resourceVersion": "5", "generation": 1, "creationTimestamp": seconds(number as i64),
            "labels": {
                "kro.run/set-name": "row", "kro.run/template-hash": children::revision(&template(text)),
            },
            "annotations": { "internal.kro.run/set-sequence": number.to_string() },
            "ownerReferences": [{
                "apiVersion": "kro.run/v1", "kind": "AppSet", "name": "row", "uid": "s1",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": { "text": text, "replicas": 2 },
        "status": { "conditions": [{ "type": "Ready", "status": "True", "observedGeneration": 1 }] },
    });
    merge(&mut instance, change);
    Arc::new(from_json(instance))
}

fn observed(set: Arc<DynamicObject>, instances: Vec<Arc<DynamicObject>>) -> Observed {
    Observed { kind: SET, instance_kind: APP, set, instances, failure: None }
}

fn check(observed: &Observed, expected: Expect) {
    expected.assert_eq(&lines(&plan(observed, at(100)).plan));
}

#[test]
fn what_is_missing_is_made_in_growing_batches() {
    check(
        &observed(set(json!({})), vec![]),
        expect![[r#"
        status AppSet shop/row {"conditions":[{"lastTransitionTime":"2026-01-01T00:01:40Z","message":"0 instances, 3 wanted: 3 more","observedGeneration":4,"reason":"ScaleUp","status":"True","type":"Progressing"},{"lastTransitionTime":"2026-01-01T00:01:40Z","message":"0 of 3 instances are ready, 0 are up to date","observedGeneration":4,"reason":"InstancesNotReady","status":"False","type":"Ready"}],"observedGeneration":4,"readyReplicas":0,"replicas":0,"selector":"kro.run/set-name=row","terminatingReplicas":0,"updateRevision":"50d9b9d0b3229c27","updatedReadyReplicas":0,"updatedReplicas":0}
        apply App shop/row-2qq55 {"metadata":{"annotations":{"internal.kro.run/set-sequence":"0"},"labels":{"kro.run/set-name":"row","kro.run/template-hash":"50d9b9d0b3229c27","tier":"web"},"ownerReferences":[{"apiVersion":"kro.run/v1","blockOwnerDeletion":true,"controller":true,"kind":"AppSet","name":"row","uid":"s1"}]},"spec":{"replicas":2,"text":"new"}}
        event SuccessfulCreate "created instance row-2qq55" on AppSet shop/row
        apply App shop/row-624bm {"metadata":{"annotations":{"internal.kro.run/set-sequence":"1"},"labels":{"kro.run/set-name":"row","kro.run/template-hash":"50d9b9d0b3229c27","tier":"web"},"ownerReferences":[{"apiVersion":"kro.run/v1","blockOwnerDeletion":true,"controller":true,"kind":"AppSet","name":"row","uid":"s1"}]},"spec":{"replicas":2,"text":"new"}}
        apply App shop/row-68szl {"metadata":{"annotations":{"internal.kro.run/set-sequence":"2"},"labels":{"kro.run/set-name":"row","kro.run/template-hash":"50d9b9d0b3229c27","tier":"web"},"ownerReferences":[{"apiVersion":"kro.run/v1","blockOwnerDeletion":true,"controller":true,"kind":"AppSet","name":"row","uid":"s1"}]},"spec":{"replicas":2,"text":"new"}}
        event SuccessfulCreate "created instance row-624bm" on AppSet shop/row
        event SuccessfulCreate "created instance row-68szl" on AppSet shop/row
    "#]],
    );
}

/// Two leaders in a row, of whom the second does not know of what the first has done: they make the same instances.
#[test]
fn who_makes_an_instance_twice_gives_it_the_same_name() {
    let names = |instances: Vec<Arc<DynamicObject>>| -> Vec<String> {
        let text = lines(&plan(&observed(set(json!({})), instances), at(100)).plan);
        let made = text.lines().filter(|line| line.contains("SuccessfulCreate"));
        made.map(str::to_owned).collect()
    };
    let first = names(vec![]);
    assert_eq!(first.len(), 3);
    assert_eq!(names(vec![]), first);
    // one of them is seen: the other two are the same as before
    let mut seen = (*instance(0, "new", json!({}))).clone();
    seen.metadata.name = Some("row-seen".to_owned());
    assert_eq!(names(vec![Arc::new(seen)]), first[1..]);
}

#[test]
fn the_oldest_is_changed_first_and_one_at_a_time() {
    let old = |number| instance(number, "old", json!({}));
    check(
        &observed(set(json!({})), vec![old(2), old(0), old(1)]),
        expect![[r#"
        status AppSet shop/row {"conditions":[{"lastTransitionTime":"2026-01-01T00:01:40Z","message":"3 outdated, 0 of at most 1 not ready after an update: updates 1 now","observedGeneration":4,"reason":"RollingUpdate","status":"True","type":"Progressing"},{"lastTransitionTime":"2026-01-01T00:01:40Z","message":"3 of 3 instances are ready, 0 are up to date","observedGeneration":4,"reason":"InstancesNotReady","status":"False","type":"Ready"}],"observedGeneration":4,"readyReplicas":3,"replicas":3,"selector":"kro.run/set-name=row","terminatingReplicas":0,"updateRevision":"50d9b9d0b3229c27","updatedReadyReplicas":0,"updatedReplicas":0}
        apply App shop/row-0 {"metadata":{"annotations":{"internal.kro.run/set-sequence":"0","internal.kro.run/set-updated-to":"50d9b9d0b3229c27"},"labels":{"kro.run/set-name":"row","kro.run/template-hash":"50d9b9d0b3229c27","tier":"web"},"ownerReferences":[{"apiVersion":"kro.run/v1","blockOwnerDeletion":true,"controller":true,"kind":"AppSet","name":"row","uid":"s1"}]},"spec":{"replicas":2,"text":"new"}}
        event SuccessfulUpdate "updated instance row-0 to template 50d9b9d0b3229c27" on AppSet shop/row
        event SuccessfulUpdate "updated to template 50d9b9d0b3229c27 of row" on App shop/row-0
    "#]],
    );
    // one that was changed and is not ready since keeps the others waiting, whatever it said before it was changed
    let changing = instance(
        0,
        "new",
        json!({"metadata": {"generation": 2, "annotations": {"internal.kro.run/set-updated-to": "x"}}}),
    );
    check(
        &observed(set(json!({})), vec![changing, old(1), old(2)]),
        expect![[r#"
        status AppSet shop/row {"conditions":[{"lastTransitionTime":"2026-01-01T00:01:40Z","message":"2 outdated, 1 of at most 1 not ready after an update: updates 0 now","observedGeneration":4,"reason":"WaitingForReady","status":"True","type":"Progressing"},{"lastTransitionTime":"2026-01-01T00:01:40Z","message":"2 of 3 instances are ready, 1 are up to date","observedGeneration":4,"reason":"InstancesNotReady","status":"False","type":"Ready"}],"observedGeneration":4,"readyReplicas":2,"replicas":3,"selector":"kro.run/set-name=row","terminatingReplicas":0,"updateRevision":"50d9b9d0b3229c27","updatedReadyReplicas":0,"updatedReplicas":1}
    "#]],
    );
}

/// New labels are no new generation, so that the condition of before looks like one of now.
#[test]
fn a_status_about_another_template_is_not_believed() {
    let of = |text: &str| {
        let status = json!({"observedTemplateHash": children::revision(&template(text))});
        let annotations = json!({"internal.kro.run/set-updated-to": "x"});
        instance(0, "new", json!({"metadata": {"annotations": annotations}, "status": status}))
    };
    let updates = |changed| {
        let others = [1, 2].map(|number| instance(number, "old", json!({})));
        let instances = [vec![changed], others.to_vec()].concat();
        let text = lines(&plan(&observed(set(json!({})), instances), at(100)).plan);
        text.lines().filter(|line| line.starts_with("apply")).count()
    };
    assert_eq!(updates(of("old")), 0);
    assert_eq!(updates(of("new")), 1);
}

/// The count that an autoscaler has written through the scale subresource is not part of what is applied.
#[test]
fn a_count_of_an_autoscaler_stays() {
    let scaled = instance(
        0,
        "old",
        json!({"metadata": {"managedFields": [{
            "manager": "kube-controller-manager", "operation": "Update", "subresource": "scale",
            "apiVersion": "kro.run/v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:replicas": {}}},
        }]}, "spec": {"replicas": 7}}),
    );
    let text = lines(&plan(&observed(set(json!({"spec": {"replicas": 1}})), vec![scaled]), at(100)).plan);
    let apply = text.lines().find(|line| line.starts_with("apply")).unwrap();
    assert!(apply.contains(r#""spec":{"text":"new"}"#), "{apply}");
}

#[test]
fn the_newest_goes_first_and_those_on_their_way_out_are_not_counted() {
    let leaving = instance(3, "new", json!({"metadata": {"deletionTimestamp": seconds(90)}}));
    let instances = vec![
        instance(0, "new", json!({})),
        instance(1, "new", json!({})),
        instance(2, "new", json!({})),
        leaving,
    ];
    check(
        &observed(set(json!({"spec": {"replicas": 1}})), instances),
        expect![[r#"
        status AppSet shop/row {"conditions":[{"lastTransitionTime":"2026-01-01T00:01:40Z","message":"3 instances, 1 wanted: the newest 2 go","observedGeneration":4,"reason":"ScaleDown","status":"True","type":"Progressing"},{"lastTransitionTime":"2026-01-01T00:01:40Z","message":"3 of 1 instances are ready, 3 are up to date","observedGeneration":4,"reason":"InstancesNotReady","status":"False","type":"Ready"}],"observedGeneration":4,"readyReplicas":3,"replicas":3,"selector":"kro.run/set-name=row","terminatingReplicas":1,"updateRevision":"50d9b9d0b3229c27","updatedReadyReplicas":3,"updatedReplicas":3}
        delete App shop/row-2 (Background)
        delete App shop/row-1 (Background)
    "#]],
    );
}

#[test]
fn an_orphan_with_the_mark_is_taken_in_and_one_without_it_is_let_go() {
    let orphan = instance(0, "new", json!({"metadata": {"ownerReferences": null}}));
    let unmarked = instance(1, "new", json!({"metadata": {"labels": {"kro.run/set-name": null}}}));
    check(
        &observed(set(json!({})), vec![orphan, unmarked, instance(2, "new", json!({}))]),
        expect![[r#"
        status AppSet shop/row {"conditions":[{"lastTransitionTime":"2026-01-01T00:01:40Z","message":"1 instances, 3 wanted: 2 more","observedGeneration":4,"reason":"ScaleUp","status":"True","type":"Progressing"},{"lastTransitionTime":"2026-01-01T00:01:40Z","message":"1 of 3 instances are ready, 1 are up to date","observedGeneration":4,"reason":"InstancesNotReady","status":"False","type":"Ready"}],"observedGeneration":4,"readyReplicas":1,"replicas":1,"selector":"kro.run/set-name=row","terminatingReplicas":0,"updateRevision":"50d9b9d0b3229c27","updatedReadyReplicas":1,"updatedReplicas":1}
        confirm AppSet shop/row
        patch App shop/row-0 {"metadata":{"ownerReferences":[{"apiVersion":"kro.run/v1","blockOwnerDeletion":true,"controller":true,"kind":"AppSet","name":"row","uid":"s1"}]}}
        patch App shop/row-1 {"metadata":{"ownerReferences":[]}}
    "#]],
    );
}

#[test]
fn a_paused_set_and_one_that_the_api_refuses_say_so() {
    let paused = set(json!({"metadata": {"annotations": {"kro.run/reconcile": "suspended"}}}));
    check(
        &observed(paused, vec![]),
        expect![[r#"
        status AppSet shop/row {"conditions":[{"lastTransitionTime":"2026-01-01T00:01:40Z","message":"the annotation kro.run/reconcile says so","observedGeneration":4,"reason":"Paused","status":"Unknown","type":"Progressing"},{"lastTransitionTime":"2026-01-01T00:01:40Z","message":"0 of 3 instances are ready, 0 are up to date","observedGeneration":4,"reason":"InstancesNotReady","status":"False","type":"Ready"}],"observedGeneration":4,"readyReplicas":0,"replicas":0,"selector":"kro.run/set-name=row","terminatingReplicas":0,"updateRevision":"50d9b9d0b3229c27","updatedReadyReplicas":0,"updatedReplicas":0}
    "#]],
    );
    let failure = Failure {
        verb: Verb::Update,
        kind: APP,
        name: "row-x".into(),
        message: "spec.text is immutable".into(),
        conflict: false,
    };
    let refused = Observed { failure: Some(failure), ..observed(set(json!({})), vec![]) };
    let text = lines(&plan(&refused, at(100)).plan);
    let told = text.lines().find(|line| line.starts_with("warning")).unwrap();
    assert_eq!(told, r#"warning ReplicaFailure "row-x: spec.text is immutable" on AppSet shop/row"#);
}

/// For who asks why, with counts instead of names.
#[test]
fn a_decision_is_recorded_with_its_steps() {
    let recorded = |set, instances| {
        let record = plan(&observed(set, instances), at(100)).record;
        let steps: Vec<String> = record
            .steps
            .values()
            .iter()
            .map(|step| format!("{} -> {} {}", step["before"], step["after"], step["words"]))
            .collect();
        let (outcome, steps) = (format!("{:?}", record.outcome), steps.join("\n  "));
        format!(
            "{} {} -> {} {} {outcome}\n  {steps}\n",
            record.object, record.current, record.desired, record.reason
        )
    };
    let old = |number| instance(number, "old", json!({}));
    let paused = json!({"metadata": {"annotations": {"kro.run/reconcile": "suspended"}}});
    let all = recorded(set(json!({})), vec![old(1)])
        + &recorded(set(json!({})), vec![old(1), old(2), old(3)])
        + &recorded(set(paused), vec![old(1), old(2), old(3)]);
    expect![[r#"
        AppSet/row 1 -> 3 RollingUpdate Written
          "nothing" -> "create 2" "1 instances, 3 wanted: 2 more"
          "create 2" -> "create 2, update 1" "1 outdated, 0 of at most 1 not ready after an update: updates 1 now"
        AppSet/row 3 -> 3 RollingUpdate Written
          "nothing" -> "update 1" "3 outdated, 0 of at most 1 not ready after an update: updates 1 now"
        AppSet/row 3 -> 3 RollingUpdate Held("the annotation kro.run/reconcile says so")
          "nothing" -> "update 1" "3 outdated, 0 of at most 1 not ready after an update: updates 1 now"
    "#]].assert_eq(&all);
}
