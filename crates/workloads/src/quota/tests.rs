use engine::testing::{from_json, lines};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

fn check(
    spec: Value,
    status: Value,
    objects: Vec<(&'static str, Value)>,
    n_secrets: usize,
    expected: Expect,
) {
    let quota = json!({
        "metadata": { "namespace": "default", "name": "q", "uid": "q", "resourceVersion": "1" },
        "spec": spec, "status": status,
    });
    let counts = vec![Count { kind: engine::kind::SECRET, number: n_secrets }];
    let observed = Observed { quota: Arc::new(from_json(quota)), objects, counts };
    expected.assert_eq(&lines(&plan(&observed)));
}

fn pod(cpu: &str, phase: &str) -> (&'static str, Value) {
    let resources = json!({ "requests": { "cpu": cpu } });
    (
        "pods",
        json!({ "spec": { "containers": [{ "name": "c", "resources": resources }] }, "status": { "phase": phase } }),
    )
}

#[test]
fn sums_what_lives_and_counts_what_is_there() {
    let hard = json!({ "pods": "5", "requests.cpu": "2", "count/pods": "9", "count/secrets": "9", "limits.memory": "1Gi" });
    check(
        json!({ "hard": hard }),
        Value::Null,
        vec![pod("300m", "Running"), pod("500m", "Pending"), pod("1", "Succeeded")],
        2,
        expect![[r#"
            status ResourceQuota default/q {"hard":{"count/pods":"9","count/secrets":"9","limits.memory":"1Gi","pods":"5","requests.cpu":"2"},"used":{"count/pods":"3","count/secrets":"2","limits.memory":"0","pods":"2","requests.cpu":"800m"}}
        "#]],
    );
}

#[test]
fn scopes_leave_pods_out_and_nothing_new_is_not_written() {
    check(
        json!({ "hard": { "pods": "5" }, "scopes": ["BestEffort"] }),
        json!({ "hard": { "pods": "5" }, "used": { "pods": "0" } }),
        vec![pod("300m", "Running")],
        0,
        expect![[""]],
    );
}

#[test]
fn what_nobody_here_counts_stays_unknown() {
    check(
        json!({ "hard": { "count/widgets.example.org": "5" } }),
        Value::Null,
        vec![],
        0,
        expect![[r#"
            status ResourceQuota default/q {"hard":{"count/widgets.example.org":"5"}}
        "#]],
    );
}
