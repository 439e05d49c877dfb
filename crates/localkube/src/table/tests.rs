use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

fn row(kind: &str, object: Value) -> String {
    let now = "2024-01-01T02:00:00Z".parse().unwrap();
    let table = table(
        &builtin::columns(kind, docs::Docs::of_metadata()),
        &[&object],
        IncludeObject::None,
        json!({}),
        now,
        true,
    );
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    let names = table["columnDefinitions"].as_array().unwrap();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    names.iter().zip(cells).map(|(name, cell)| format!("{}={}\n", text(&name["name"]), text(cell))).collect()
}

fn check(kind: &str, object: Value, expect: Expect) {
    expect.assert_eq(&row(kind, object));
}

#[test]
fn workloads() {
    let template =
        json!({"spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y"}]}});
    check(
        "Deployment",
        json!({
            "metadata": {"name": "web", "creationTimestamp": "2024-01-01T01:57:00Z"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template},
            "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1},
        }),
        expect![[r#"
            Name=web
            Ready=2/3
            Up-to-date=3
            Available=1
            Age=3m
            Containers=a,b
            Images=x:1,y
            Selector=app=web
        "#]],
    );
    check(
        "HorizontalPodAutoscaler",
        json!({
            "metadata": {"name": "h", "creationTimestamp": "2024-01-01T00:00:00Z"},
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 9,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
                    {"type": "Pods", "pods": {"target": {"averageValue": "10"}}},
                    {"type": "External", "external": {"target": {"value": "5"}}},
                ],
            },
            "status": {"currentReplicas": 4, "currentMetrics": [{"type": "Resource", "resource": {"current": {"averageUtilization": 40}}}]},
        }),
        expect![[r#"
            Name=h
            Reference=Deployment/web
            Targets=cpu: 40%/80%, <unknown>/10 + 1 more...
            MinPods=<unset>
            MaxPods=9
            Replicas=4
            Age=120m
        "#]],
    );
}

/// Name and age aside: what a pod is doing, in the words of its containers.
#[test]
fn pods() {
    let pod = |status: Value| {
        json!({
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]},
            "status": status,
        })
    };
    let summary = |pod: &Value| {
        let summary = super::pod::summary(pod, "2024-01-01T00:00:00Z".parse().unwrap());
        format!("{} {} {}", summary.ready, summary.status, summary.restarts)
    };
    let running = json!({"name": "c", "ready": true, "restartCount": 2, "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2023-12-31T23:59:00Z"}}});
    let table = [
        (json!({"phase": "Pending"}), "0/2 Pending 0"),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
            "0/2 Init:0/2 0",
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}),
            "0/2 Init:Error 0",
        ),
        (json!({"phase": "Running", "containerStatuses": [running]}), "1/2 Running 2 (60s ago)"),
        (
            json!({"phase": "Running", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 3}]}),
            "0/2 CrashLoopBackOff 3",
        ),
        (
            json!({"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 137, "signal": 9}}}]}),
            "0/2 Signal:9 0",
        ),
        (
            json!({"phase": "Succeeded", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}),
            "0/2 Completed 0",
        ),
        (json!({"phase": "Failed", "reason": "Evicted"}), "0/2 Evicted 0"),
    ];
    for (status, expected) in table {
        assert_eq!(summary(&pod(status.clone())), expected, "{status}");
    }
    let mut deleted = pod(json!({"phase": "Running"}));
    deleted["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z".into();
    assert_eq!(summary(&deleted), "0/2 Terminating 0");
}

#[test]
fn custom_columns_follow_their_paths() {
    let columns = custom_columns(&json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "Ports", "type": "string", "jsonPath": ".spec.ports[*].name"},
        {"name": "Dotted", "type": "string", "jsonPath": ".metadata.annotations.a\\.b/c"},
        {"name": "Since", "type": "date", "jsonPath": ".status.since"},
        {"name": "Missing", "type": "string", "jsonPath": ".nothing.here"},
    ]));
    let object = json!({
        "metadata": {"name": "n", "annotations": {"a.b/c": "d"}},
        "spec": {"size": 3, "ports": [{"name": "x"}, {"name": "y"}]},
        "status": {"since": "2024-01-01T00:00:00Z", "conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]},
    });
    let now = "2024-01-03T12:00:00Z".parse().unwrap();
    let table = table(&columns, &[&object], IncludeObject::None, json!({}), now, true);
    expect![[r#"["n",3,"True","x y","d","2d12h",null]"#]].assert_eq(&table["rows"][0]["cells"].to_string());
}

#[test]
fn times_in_few_figures() {
    let table = [
        (-5, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (600, "10m"),
        (3600 * 3, "3h"),
        (3600 * 3 + 60, "3h1m"),
        (3600 * 9, "9h"),
        (86400 * 2, "2d"),
        (86400 * 2 + 3600, "2d1h"),
        (86400 * 9, "9d"),
        (86400 * 800, "2y70d"),
        (86400 * 4000, "10y"),
    ];
    for (seconds, expected) in table {
        assert_eq!(cells::human(seconds), expected);
    }
}
