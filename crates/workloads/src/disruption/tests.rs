use engine::testing::{at, from_json, lines, seconds};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

fn budget(spec: Value, status: Value) -> Arc<PodDisruptionBudget> {
    Arc::new(from_json(json!({
        "metadata": { "namespace": "default", "name": "b", "uid": "b", "generation": 2 },
        "spec": spec, "status": status,
    })))
}

fn pods(n_ready: usize, n_unready: usize) -> Vec<Arc<Pod>> {
    let pod = |number: usize| {
        let status = if number < n_ready { "True" } else { "False" };
        let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true });
        Arc::new(from_json(json!({
            "metadata": { "namespace": "default", "name": format!("p{number}"), "ownerReferences": [owner] },
            "status": { "conditions": [{ "type": "Ready", "status": status }] },
        })))
    };
    (0..n_ready + n_unready).map(pod).collect()
}

fn check(budget: Arc<PodDisruptionBudget>, pods: Vec<Arc<Pod>>, scale: Result<i32, &str>, expected: Expect) {
    let scale = scale.map(|replicas| Scale { uid: "d".into(), replicas }).map_err(str::to_owned);
    let observed = Observed { budget, pods, scales: [("r".to_owned(), scale)].into() };
    expected.assert_eq(
        &lines(&plan(&observed, at(0))).replace(r#""lastTransitionTime":"2026-01-01T00:00:00Z","#, ""),
    );
}

#[test]
fn counts_against_what_should_be_there() {
    check(
        budget(json!({ "minAvailable": 2 }), json!(null)),
        pods(3, 1),
        Ok(4),
        expect![[r#"
            status PodDisruptionBudget default/b {"conditions":[{"message":"","observedGeneration":2,"reason":"SufficientPods","status":"True","type":"DisruptionAllowed"}],"currentHealthy":3,"desiredHealthy":2,"disruptionsAllowed":1,"expectedPods":4,"observedGeneration":2}
        "#]],
    );
    // 30 % of 4 rounds up to 2, so 2 must stay
    check(
        budget(json!({ "maxUnavailable": "30%" }), json!(null)),
        pods(3, 0),
        Ok(4),
        expect![[r#"
            status PodDisruptionBudget default/b {"conditions":[{"message":"","observedGeneration":2,"reason":"SufficientPods","status":"True","type":"DisruptionAllowed"}],"currentHealthy":3,"desiredHealthy":2,"disruptionsAllowed":1,"expectedPods":4,"observedGeneration":2}
        "#]],
    );
    check(
        budget(json!({ "minAvailable": "50%" }), json!(null)),
        pods(2, 1),
        Ok(3),
        expect![[r#"
            status PodDisruptionBudget default/b {"conditions":[{"message":"","observedGeneration":2,"reason":"InsufficientPods","status":"False","type":"DisruptionAllowed"}],"currentHealthy":2,"desiredHealthy":2,"disruptionsAllowed":0,"expectedPods":3,"observedGeneration":2}
        "#]],
    );
}

#[test]
fn what_cannot_be_counted_allows_nothing() {
    check(
        budget(json!({ "maxUnavailable": 1 }), json!({ "disruptionsAllowed": 1 })),
        pods(3, 0),
        Err("Widget default/r does not implement the scale subresource"),
        expect![[r#"
            status PodDisruptionBudget default/b {"conditions":[{"message":"Widget default/r does not implement the scale subresource","observedGeneration":2,"reason":"SyncFailed","status":"False","type":"DisruptionAllowed"}],"disruptionsAllowed":0}
        "#]],
    );
}

#[test]
fn an_evicted_pod_counts_as_gone_for_two_minutes() {
    let status = json!({ "disruptedPods": { "p0": seconds(-30), "p1": seconds(-121), "gone": seconds(-1) } });
    check(
        budget(json!({ "minAvailable": 1 }), status),
        pods(3, 0),
        Ok(3),
        expect![[r#"
            status PodDisruptionBudget default/b {"conditions":[{"message":"","observedGeneration":2,"reason":"SufficientPods","status":"True","type":"DisruptionAllowed"}],"currentHealthy":2,"desiredHealthy":1,"disruptedPods":{"gone":null,"p1":null},"disruptionsAllowed":1,"expectedPods":3,"observedGeneration":2}
            look again after 90s
        "#]],
    );
}

#[test]
fn the_same_again_is_no_write() {
    let condition = json!({ "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
        "observedGeneration": 2, "lastTransitionTime": seconds(-100) });
    let status = json!({ "conditions": [condition], "currentHealthy": 3, "desiredHealthy": 2, "disruptionsAllowed": 1,
        "expectedPods": 3, "observedGeneration": 2 });
    check(budget(json!({ "minAvailable": 2 }), status), pods(3, 0), Ok(3), expect![[""]]);
}
