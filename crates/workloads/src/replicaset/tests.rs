use engine::{
    Verb, kind,
    testing::{at, from_json, lines, merge, seconds},
};
use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn set(replicas: i32) -> Arc<ReplicaSet> {
    set_with(replicas, json!({}))
}

fn set_with(replicas: i32, more: serde_json::Value) -> Arc<ReplicaSet> {
    let mut object = json!({
        "metadata": { "namespace": "default", "name": "web-5", "uid": "rs", "generation": 1, "resourceVersion": "9" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" }, "annotations": { "note": "hi" } },
                "spec": { "containers": [{ "name": "c", "command": ["serve"] }] },
            },
        },
    });
    merge(&mut object, more);
    Arc::new(from_json(object))
}

/// `name state`, e.g. `a ready:30 node=n1 cost=5`.
fn pod(line: &str) -> Arc<Pod> {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap();
    let mut object = json!({
        "metadata": {
            "namespace": "default", "name": name, "uid": name, "resourceVersion": "1", "labels": { "app": "web" },
            "creationTimestamp": seconds(-1000),
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5", "uid": "rs",
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": { "containers": [], "nodeName": "n1" },
        "status": { "phase": "Running" },
    });
    for word in words {
        let (key, value) = word.split_once([':', '=']).unwrap_or((word, ""));
        let more = match key {
            "ready" => {
                let since = seconds(-value.parse::<i64>().unwrap_or(1));
                let condition = json!({ "type": "Ready", "status": "True", "lastTransitionTime": since });
                json!({ "status": { "conditions": [condition] } })
            }
            "pending" => json!({ "status": { "phase": "Pending" } }),
            "failed" => json!({ "status": { "phase": "Failed" } }),
            "deleting" => json!({ "metadata": { "deletionTimestamp": seconds(0) } }),
            "node" => json!({ "spec": { "nodeName": value } }),
            "cost" => {
                json!({ "metadata": { "annotations": { "controller.kubernetes.io/pod-deletion-cost": value } } })
            }
            "age" => json!({ "metadata": { "creationTimestamp": seconds(-value.parse::<i64>().unwrap()) } }),
            "restarts" => {
                let n: i32 = value.parse().unwrap();
                let status =
                    json!({ "name": "c", "restartCount": n, "image": "", "imageID": "", "ready": true });
                json!({ "status": { "containerStatuses": [status] } })
            }
            "orphan" => json!({ "metadata": { "ownerReferences": null } }),
            "foreign" => {
                let owner =
                    json!({ "apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": true });
                json!({ "metadata": { "ownerReferences": [owner] } })
            }
            "unlabeled" => json!({ "metadata": { "labels": null } }),
            other => panic!("unknown word {other}"),
        };
        merge(&mut object, more);
    }
    Arc::new(from_json(object))
}

fn check(set: Arc<ReplicaSet>, pods: &[&str], expected: Expect) {
    check_failing(set, pods, None, expected);
}

fn check_failing(set: Arc<ReplicaSet>, pods: &[&str], failure: Option<Failure>, expected: Expect) {
    let candidates: Vec<_> = pods.iter().map(|line| pod(line)).collect();
    let observed = Observed { set, related: candidates.clone(), candidates, failure };
    expected.assert_eq(&lines(&plan(&observed, at(0))));
}

#[test]
fn creates_what_is_missing_and_reports() {
    check(
        set(3),
        &["a ready", "b failed", "c deleting"],
        expect![[r#"
            create Pod default/web-5-
            create Pod default/web-5-
            status ReplicaSet default/web-5 {"availableReplicas":1,"fullyLabeledReplicas":1,"observedGeneration":1,"readyReplicas":1,"replicas":1,"terminatingReplicas":1}
        "#]],
    );
}

#[test]
fn a_created_pod_is_the_template_and_knows_its_owner() {
    let observed = Observed { set: set(1), candidates: vec![], related: vec![], failure: None };
    let plan = plan(&observed, at(0));
    let engine::effect::Effect::Create { body, .. } = &plan.effects[0] else { panic!("{plan:?}") };
    expect![[r#"{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"note":"hi"},"generateName":"web-5-","labels":{"app":"web"},"namespace":"default","ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"ReplicaSet","name":"web-5","uid":"rs"}]},"spec":{"containers":[{"command":["serve"],"name":"c"}]}}"#]]
        .assert_eq(&body.to_string());
}

#[test]
fn nothing_to_do_is_no_effect() {
    let status = json!({ "status": { "replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "observedGeneration": 1, "terminatingReplicas": 0 } });
    check(set_with(1, status), &["a ready"], expect![[""]]);
    let zeros = json!({ "status": { "replicas": 0, "readyReplicas": 0, "availableReplicas": 0, "fullyLabeledReplicas": 0,
        "observedGeneration": 1, "terminatingReplicas": 0, "conditions": [] } });
    check(set_with(0, zeros), &[], expect![[""]]);
}

#[test]
fn takes_over_orphans_and_lets_strangers_go() {
    check(
        set(2),
        &["a orphan ready", "b unlabeled", "c foreign", "d orphan deleting", "e orphan failed"],
        expect![[r#"
            patch Pod default/b {"metadata":{"ownerReferences":null}}
            confirm ReplicaSet default/web-5
            patch Pod default/a {"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"ReplicaSet","name":"web-5","uid":"rs"}]}}
            create Pod default/web-5-
            status ReplicaSet default/web-5 {"availableReplicas":1,"fullyLabeledReplicas":1,"observedGeneration":1,"readyReplicas":1,"replicas":1,"terminatingReplicas":0}
        "#]],
    );
    let deleted =
        json!({ "metadata": { "deletionTimestamp": seconds(0), "finalizers": ["foregroundDeletion"] } });
    check(
        set_with(2, deleted),
        &["a orphan ready", "b unlabeled"],
        expect![[r#"
            status ReplicaSet default/web-5 {"observedGeneration":1,"replicas":0,"terminatingReplicas":0}
        "#]],
    );
}

#[test]
fn an_empty_selector_selects_nothing() {
    let everything = json!({ "spec": { "selector": { "matchLabels": null } } });
    check(set_with(3, everything), &["a orphan ready"], expect![[""]]);
}

#[test]
fn a_failure_is_told_before_the_next_attempt_and_taken_back_after() {
    let failure = Failure {
        verb: Verb::Create,
        kind: kind::POD,
        name: "web-5-".into(),
        message: "exceeded quota".into(),
        conflict: false,
    };
    check_failing(
        set(1),
        &[],
        Some(failure),
        expect![[r#"
            status ReplicaSet default/web-5 {"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"exceeded quota","reason":"FailedCreate","status":"True","type":"ReplicaFailure"}],"observedGeneration":1,"replicas":0,"terminatingReplicas":0}
            create Pod default/web-5-
        "#]],
    );
    let told = json!({ "status": { "replicas": 0, "observedGeneration": 1, "terminatingReplicas": 0,
        "conditions": [{ "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate" }] } });
    check(
        set_with(1, told),
        &["a"],
        expect![[r#"
            status ReplicaSet default/web-5 {"conditions":null,"fullyLabeledReplicas":1,"replicas":1}
        "#]],
    );
}

#[test]
fn min_ready_seconds_delay_availability_and_wake_at_the_moment() {
    check(
        set_with(2, json!({ "spec": { "minReadySeconds": 10 } })),
        &["a ready:4", "b ready:30"],
        expect![[r#"
            status ReplicaSet default/web-5 {"availableReplicas":1,"fullyLabeledReplicas":2,"observedGeneration":1,"readyReplicas":2,"replicas":2,"terminatingReplicas":0}
            look again after 6s
        "#]],
    );
}

#[test]
fn the_cheapest_loss_goes_first() {
    // each row: the first pod goes, for the reason given
    for (loser, keeper, why) in [
        ("z node=", "a ready", "not assigned to a node"),
        ("z pending", "a ready", "pending"),
        ("z", "a ready", "not ready"),
        ("z ready:64 cost=-1", "a ready:64", "cheaper to delete"),
        ("z ready:1", "a ready:64", "ready for a shorter time"),
        ("z ready:64 restarts=3", "a ready:64 restarts=2", "restarts more often"),
        ("z ready:64 age=70", "a ready:64 age=1000", "younger"),
    ] {
        let pods = [pod(keeper), pod(loser)];
        let gone = rank::first_to_go(&pods, &pods, 1, at(0));
        assert_eq!(gone[0].name_any(), "z", "{why}");
    }
    // ages of one magnitude: 60 s and 64 s since ready are not (2^35 ns is 34.4 s, 2^36 ns 68.7 s), so by uid
    let pods = [pod("z ready:60"), pod("a ready:64")];
    assert_eq!(rank::first_to_go(&pods, &pods, 1, at(0))[0].name_any(), "a");
    // a crowded node, counted over all sets of the owner
    let pods = [pod("a ready:64 node=n1"), pod("z ready:64 node=n2")];
    let related = [pods[0].clone(), pods[1].clone(), pod("other ready:64 node=n2")];
    assert_eq!(rank::first_to_go(&pods, &related, 1, at(0))[0].name_any(), "z");
}

#[test]
fn deletes_the_surplus() {
    check(
        set(1),
        &["a ready:64", "b", "c ready:1"],
        expect![[r#"
            delete Pod default/b
            delete Pod default/c
            status ReplicaSet default/web-5 {"availableReplicas":2,"fullyLabeledReplicas":3,"observedGeneration":1,"readyReplicas":2,"replicas":3,"terminatingReplicas":0}
        "#]],
    );
}
