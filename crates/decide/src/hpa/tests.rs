//! Timelines: a spec, then a row a tick; what was decided is appended to the row.
//!
//! A pod is written as its CPU in percent of its request, with a letter for its class: `80` ready, `-` without a sample,
//! `u80` unready since its start, `w80` ready but sampled before it was, `p` pending, `d80` deleting, `f80` failed,
//! `x80` became unready later. `queue=` gives external values, `err` an answer that failed.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{
    input::{ObservedForm, PodForm, ReadingForm},
    *,
};
use crate::{
    quantity::{Figure, Quantity},
    testing::{self, Row},
    window::after,
};

fn pod(idx: usize, text: &str, now: Timestamp) -> PodForm {
    let (class, percent) = match text.find(|c: char| c.is_ascii_digit()) {
        Some(at) => (&text[..at], text[at..].parse::<i64>().ok()),
        None => (text, None),
    };
    let hour_ago = after(now, -3600);
    let (started, status, since) = match class {
        "u" => (hour_ago, Condition::False, hour_ago),
        "x" => (hour_ago, Condition::False, after(now, -60)),
        "w" => (after(now, -60), Condition::True, after(now, -10)),
        _ => (hour_ago, Condition::True, hour_ago),
    };
    let quantities = |value: i64| [("cpu".to_owned(), Quantity(value))].into();
    PodForm {
        name: format!("pod-{idx}"),
        phase: match class {
            "p" => Phase::Pending,
            "f" => Phase::Failed,
            _ => Phase::Running,
        },
        deletion_timestamp: (class == "d").then_some(now),
        start_time: Some(started),
        ready: Some(Ready { status, since }),
        requests: quantities(1000),
        usage: percent
            .map(|percent| ("cpu".to_owned(), Figure(Some(Quantity(percent * 10)))))
            .into_iter()
            .collect(),
        sampled_at: Some(now),
        sample_window_seconds: 30,
        ..PodForm::default()
    }
}

fn observed(row: &Row<'_>) -> ObservedForm {
    let mut observed = ObservedForm { replicas: row.replicas, ..ObservedForm::default() };
    for (key, value) in &row.words {
        match *key {
            "status" => observed.status_replicas = Some(value.parse().unwrap()),
            "zeroed" => observed.scaled_to_zero = *value == "true",
            "cpu" => {
                observed.pods =
                    value.split(',').enumerate().map(|(idx, text)| pod(idx, text, row.now)).collect();
            }
            metric => observed.readings.push(ReadingForm {
                metric: metric.to_owned(),
                error: (*value == "err").then(|| "the adapter timed out".to_owned()),
                values: match *value {
                    "err" => Vec::new(),
                    values => {
                        values.split(',').map(|v| serde_json::from_str(&format!("{v:?}")).unwrap()).collect()
                    }
                },
                ..ReadingForm::default()
            }),
        }
    }
    observed
}

fn timeline(spec: Value, rows: &str) -> (String, Vec<Decision>) {
    testing::timeline(rows, |row, memory| {
        let spec = serde_json::from_value(spec.clone()).unwrap();
        let settings = Settings::default();
        Input { now: row.now, spec, settings, observed: observed(row), memory }.decide().unwrap()
    })
}

fn check(spec: Value, rows: &str, expected: Expect) {
    expected.assert_eq(&timeline(spec, rows).0);
}

fn cpu(percent: i32) -> Value {
    json!({ "type": "Resource", "resource": {
        "name": "cpu", "target": { "type": "Utilization", "averageUtilization": percent } } })
}

fn queue(kind: &str, target: &str) -> Value {
    let field = if kind == "Value" { "value" } else { "averageValue" };
    json!({ "type": "External", "external": {
        "metric": { "name": "queue" }, "target": { "type": kind, field: target } } })
}

fn spec(min: i32, max: i32, metrics: &[Value]) -> Value {
    json!({ "minReplicas": min, "maxReplicas": max, "metrics": metrics, "behavior": {
        "scaleDown": { "stabilizationWindowSeconds": 0 } } })
}

#[test]
fn utilization_is_truncated_and_multiplied_by_ready_pods() {
    check(
        spec(1, 20, &[cpu(50)]),
        "
        t=0s replicas=3 cpu=80,80,80
        t=1s replicas=3 cpu=55,55,55
        t=2s replicas=3 cpu=56,56,56
        t=3s replicas=3 cpu=45,45,45
        t=4s replicas=3 cpu=44,44,44
        t=5s replicas=5 cpu=80,80,80
        ",
        expect![[r#"
            t=0s replicas=3 cpu=80,80,80 => 5 AboveTarget: cpu is above target and asks for 5
            t=1s replicas=3 cpu=55,55,55 => 3 OnTarget: cpu is on target
            t=2s replicas=3 cpu=56,56,56 => 4 AboveTarget: cpu is above target and asks for 4
            t=3s replicas=3 cpu=45,45,45 => 3 OnTarget: cpu is on target
            t=4s replicas=3 cpu=44,44,44 => 3 MetricAsksForNoChange: cpu asks for no change
            t=5s replicas=5 cpu=80,80,80 => 5 MetricAsksForNoChange: cpu asks for no change
        "#]],
    );
}

#[test]
fn pod_classes_and_asymmetric_filling() {
    check(
        spec(1, 20, &[cpu(50)]),
        "
        t=0s replicas=3 cpu=100,100,-
        t=1s replicas=3 cpu=60,60,-
        t=2s replicas=3 cpu=10,10,-
        t=3s replicas=4 cpu=10,10,10,-
        t=4s replicas=3 cpu=100,100,p
        t=5s replicas=3 cpu=100,100,u500
        t=6s replicas=3 cpu=100,100,w500
        t=7s replicas=3 cpu=100,100,x100
        t=8s replicas=2 cpu=10,u100
        t=9s replicas=2 cpu=100,100,d500,f500
        t=10s replicas=2 cpu=60,u10
        t=11s replicas=3 cpu=p,-,u10
        t=12s replicas=3 cpu=d10,f10
        ",
        expect![[r#"
            t=0s replicas=3 cpu=100,100,- => 4 AboveTarget: cpu is above target and asks for 4
            t=1s replicas=3 cpu=60,60,- => 3 MetricAsksForNoChange: cpu asks for no change
            t=2s replicas=3 cpu=10,10,- => 3 MetricAsksForNoChange: cpu asks for no change
            t=3s replicas=4 cpu=10,10,10,- => 3 BelowTarget: cpu is below target and asks for 3
            t=4s replicas=3 cpu=100,100,p => 4 AboveTarget: cpu is above target and asks for 4
            t=5s replicas=3 cpu=100,100,u500 => 4 AboveTarget: cpu is above target and asks for 4
            t=6s replicas=3 cpu=100,100,w500 => 4 AboveTarget: cpu is above target and asks for 4
            t=7s replicas=3 cpu=100,100,x100 => 6 AboveTarget: cpu is above target and asks for 6
            t=8s replicas=2 cpu=10,u100 => 1 BelowTarget: cpu is below target and asks for 1
            t=9s replicas=2 cpu=100,100,d500,f500 => 4 AboveTarget: cpu is above target and asks for 4
            t=10s replicas=2 cpu=60,u10 => 2 MetricAsksForNoChange: cpu asks for no change
            t=11s replicas=3 cpu=p,-,u10 => 3 NoValidMetric: no metric can be used (1 tried), so nothing changes
            t=12s replicas=3 cpu=d10,f10 => 3 NoValidMetric: no metric can be used (1 tried), so nothing changes
        "#]],
    );
}

#[test]
fn totals() {
    check(
        spec(0, 20, &[queue("Value", "10")]),
        "
        t=0s replicas=3 queue=20 cpu=0,0,p
        t=1s replicas=3 queue=11 cpu=0,0,p
        t=2s replicas=3 queue=4,4 cpu=0,0,0
        t=3s replicas=3 queue=0 cpu=0,0,0
        t=4s replicas=0 queue=25 zeroed=true
        t=5s replicas=0 queue=0 zeroed=true
        t=5s replicas=0 queue=6 zeroed=true
        t=6s replicas=0 queue=25
        t=7s replicas=3 queue=20
        t=7s replicas=3 queue=10
        t=8s replicas=3 queue=err cpu=0
        t=9s replicas=3 queue=9223372036854775807,9223372036854775807 cpu=0,0,0
        t=10s replicas=3 queue=-5 cpu=0,0,0
        t=11s replicas=3 queue=NaN cpu=0,0,0
        ",
        expect![[r#"
            t=0s replicas=3 queue=20 cpu=0,0,p => 4 AboveTarget: external metric queue is above target and asks for 4
            t=1s replicas=3 queue=11 cpu=0,0,p => 3 OnTarget: external metric queue is on target
            t=2s replicas=3 queue=4,4 cpu=0,0,0 => 3 MetricAsksForNoChange: external metric queue asks for no change
            t=3s replicas=3 queue=0 cpu=0,0,0 => 0 BelowTarget: external metric queue is below target and asks for 0
            t=4s replicas=0 queue=25 zeroed=true => 3 AboveTarget: external metric queue is above target and asks for 3
            t=5s replicas=0 queue=0 zeroed=true => 0 MetricAsksForNoChange: external metric queue asks for no change
            t=5s replicas=0 queue=6 zeroed=true => 1 MetricAsksForMore: external metric queue asks for 1
            t=6s replicas=0 queue=25 => 0 ScalingDisabled: the target has zero replicas, which is not this autoscaler's doing; it acts again once they are set above zero
            t=7s replicas=3 queue=20 => 3 NoValidMetric: no metric can be used (1 tried), so nothing changes
            t=7s replicas=3 queue=10 => 3 OnTarget: external metric queue is on target
            t=8s replicas=3 queue=err cpu=0 => 3 NoValidMetric: no metric can be used (1 tried), so nothing changes
            t=9s replicas=3 queue=9223372036854775807,9223372036854775807 cpu=0,0,0 => 12 ScaleUpLimit: scaling up is limited to 100 % in 15 s, so 12 and not 20 (-3 already in that period)
            t=10s replicas=3 queue=-5 cpu=0,0,0 => 3 NoValidMetric: no metric can be used (1 tried), so nothing changes
            t=11s replicas=3 queue=NaN cpu=0,0,0 => 3 NoValidMetric: no metric can be used (1 tried), so nothing changes
        "#]],
    );
    check(
        spec(1, 100, &[queue("AverageValue", "10")]),
        "
        t=0s replicas=3 queue=52
        t=1s replicas=3 queue=33
        t=2s replicas=4 queue=33 status=3
        t=3s replicas=3 queue=9E
        ",
        expect![[r#"
            t=0s replicas=3 queue=52 => 6 AboveTarget: external metric queue is above target and asks for 6
            t=1s replicas=3 queue=33 => 3 OnTarget: external metric queue is on target
            t=2s replicas=4 queue=33 status=3 => 3 MetricAsksForFewer: external metric queue asks for 3
            t=3s replicas=3 queue=9E => 8 ScaleUpLimit: scaling up is limited to 4 pods in 15 s, so 8 and not 100 (-1 already in that period)
        "#]],
    );
}

/// Every source and target type in its JSON form, on two pods of two containers each.
#[test]
fn sources_as_they_stand_in_a_manifest() {
    let container = |name: &str, cpu: &str, memory: &str| json!({ "name": name, "requests": { "cpu": "500m" }, "usage": { "cpu": cpu, "memory": memory } });
    let pod = |name: &str, rps: &str, sampled_at: &str| {
        json!({ "name": name, "startTime": "2026-03-01T11:00:00Z", "sampledAt": sampled_at,
            "ready": { "status": "True", "lastTransitionTime": "2026-03-01T11:00:10Z" }, "metrics": { "rps": rps },
            "containers": [container("app", "450m", "1Gi"), container("proxy", "50m", "64Mi")] })
    };
    let identifier = |name: &str| json!({ "name": name, "selector": { "matchLabels": { "q": "a" } } });
    let average = |value: &str| json!({ "type": "AverageValue", "averageValue": value });
    let percent = |percent: i32| json!({ "type": "Utilization", "averageUtilization": percent });
    let described = json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "main" });
    let fresh = "2026-03-01T11:59:30Z";
    let mut text = String::new();
    for (metric, sampled_at) in [
        (json!({ "type": "Resource", "resource": { "name": "cpu", "target": percent(40) } }), fresh),
        (json!({ "type": "Resource", "resource": { "name": "memory", "target": average("512Mi") } }), fresh),
        (json!({ "type": "Resource", "resource": { "name": "memory", "target": percent(40) } }), fresh),
        (
            json!({ "type": "ContainerResource", "containerResource": {
            "name": "cpu", "container": "app", "target": percent(40) } }),
            fresh,
        ),
        (
            json!({ "type": "ContainerResource", "containerResource": {
            "name": "cpu", "container": "gone", "target": percent(40) } }),
            fresh,
        ),
        (json!({ "type": "Pods", "pods": { "metric": { "name": "rps" }, "target": average("4") } }), fresh),
        (
            json!({ "type": "Pods", "pods": { "metric": { "name": "rps" }, "target": average("4") } }),
            "2026-03-01T11:54:59Z",
        ),
        (
            json!({ "type": "Object", "object": { "describedObject": described, "metric": identifier("hits"),
            "target": { "type": "Value", "value": "2k" } } }),
            fresh,
        ),
        (
            json!({ "type": "Object", "object": { "describedObject": described, "metric": identifier("hits"),
            "target": average("1500") } }),
            fresh,
        ),
    ] {
        let readings = match metric["type"].as_str() {
            Some("Object") => {
                json!([{ "metric": "hits", "object": described, "values": ["5k"], "timestamp": fresh }])
            }
            _ => json!([]),
        };
        let input = json!({
            "now": "2026-03-01T12:00:00Z",
            "spec": { "scaleTargetRef": { "kind": "Deployment", "name": "web" }, "maxReplicas": 10, "metrics": [metric] },
            "observed": { "replicas": 2, "readings": readings,
                "pods": [pod("a", "5", sampled_at), pod("b", "7", sampled_at)] },
        });
        let decision = crate::input::parse::<Input>(&input.to_string()).and_then(Input::decide).unwrap();
        text.push_str(&format!("{} {}\n", decision.desired, decision.steps[0].words()));
    }
    expect![[r#"
        3 cpu at 50 % of requests, target 40 %, 2 ready: wants 3
        4 memory at 1140850688 a pod, target 536870912, 2 ready: wants 5
        2 memory cannot be used: container app of pod a has no request for it; set resources.requests
        4 cpu of container app at 90 % of requests, target 40 %, 2 ready: wants 5
        2 cpu of container gone cannot be used: container gone of pod a has no request for it; set resources.requests
        3 pods metric rps at 6 a pod, target 4, 2 ready: wants 3
        2 pods metric rps cannot be used: no usable samples: 2 samples older than 90 s
        4 hits of Ingress/main at 5000, target 2000, 2 ready: wants 5
        4 hits of Ingress/main at 5000 in all, target 1500 a pod: wants 4
    "#]].assert_eq(&text);
}

#[test]
fn several_metrics_the_highest_wins_and_an_invalid_one_forbids_shrinking() {
    check(
        spec(1, 20, &[cpu(50), queue("AverageValue", "10")]),
        "
        t=0s replicas=3 cpu=100,100,100 queue=70
        t=1s replicas=3 cpu=10,10,10 queue=20
        t=2s replicas=3 cpu=10,10,10 queue=err
        t=3s replicas=3 cpu=-,-,- queue=60
        t=4s replicas=3 cpu=-,-,- queue=10
        t=5s replicas=3 cpu=-,-,- queue=err
        ",
        expect![[r#"
            t=0s replicas=3 cpu=100,100,100 queue=70 => 7 AboveTarget: external metric queue is above target and asks for the most: 7
            t=1s replicas=3 cpu=10,10,10 queue=20 => 2 BelowTarget: external metric queue is below target and asks for the most: 2
            t=2s replicas=3 cpu=10,10,10 queue=err => 3 InvalidMetricBlocksScaleDown: cpu would allow 1, but not every metric can be used (1 cannot), so nothing shrinks
            t=3s replicas=3 cpu=-,-,- queue=60 => 6 AboveTarget: external metric queue is above target and asks for 6
            t=4s replicas=3 cpu=-,-,- queue=10 => 3 InvalidMetricBlocksScaleDown: external metric queue would allow 1, but not every metric can be used (1 cannot), so nothing shrinks
            t=5s replicas=3 cpu=-,-,- queue=err => 3 NoValidMetric: no metric can be used (2 tried), so nothing changes
        "#]],
    );
}

#[test]
fn bounds_come_before_metrics_and_a_zero_of_others_switches_off() {
    check(
        spec(2, 6, &[cpu(50)]),
        "
        t=0s replicas=9
        t=1s replicas=1 cpu=0
        t=2s replicas=0 cpu=100
        t=3s replicas=4 cpu=200,200,200,200
        t=4s replicas=4 cpu=1,1,1,1
        t=5s replicas=0 zeroed=true
        ",
        expect![[r#"
            t=0s replicas=9 => 6 TooManyReplicas: 9 is above the maximum of 6
            t=1s replicas=1 cpu=0 => 2 TooFewReplicas: 1 is below the minimum of 2
            t=2s replicas=0 cpu=100 => 0 ScalingDisabled: the target has zero replicas, which is not this autoscaler's doing; it acts again once they are set above zero
            t=3s replicas=4 cpu=200,200,200,200 => 6 TooManyReplicas: 16 is above the maximum of 6
            t=4s replicas=4 cpu=1,1,1,1 => 2 TooFewReplicas: 1 is below the minimum of 2
            t=5s replicas=0 zeroed=true => 0 NoValidMetric: no metric can be used (1 tried), so nothing changes
        "#]],
    );
}

#[test]
fn without_behavior_growth_doubles_and_shrinking_waits_five_minutes() {
    check(
        json!({ "minReplicas": 1, "maxReplicas": 50, "metrics": [queue("AverageValue", "1")] }),
        "
        t=0s replicas=1 queue=40
        t=15s queue=40
        t=30s queue=40
        t=45s queue=40
        t=60s queue=40
        t=120s queue=3
        t=360s queue=3
        t=361s queue=3
        t=420s queue=3
        ",
        expect![[r#"
            t=0s replicas=1 queue=40 => 4 ScaleUpLimit: no more than 4 in one go, so not yet 40
            t=15s queue=40 => 8 ScaleUpLimit: no more than 8 in one go, so not yet 40
            t=30s queue=40 => 16 ScaleUpLimit: no more than 16 in one go, so not yet 40
            t=45s queue=40 => 32 ScaleUpLimit: no more than 32 in one go, so not yet 40
            t=60s queue=40 => 40 AboveTarget: external metric queue is above target and asks for 40
            t=120s queue=3 => 40 ScaleDownStabilized: the scale-down window has seen a recommendation of 40, so not yet 3
            t=360s queue=3 => 40 ScaleDownStabilized: the scale-down window has seen a recommendation of 40, so not yet 3
            t=361s queue=3 => 3 BelowTarget: external metric queue is below target and asks for 3
            t=420s queue=3 => 3 OnTarget: external metric queue is on target
        "#]],
    );
}

#[test]
fn windows_hold_both_ways() {
    let mut both = spec(1, 50, &[queue("AverageValue", "1")]);
    both["behavior"] = json!({
        "scaleUp": { "stabilizationWindowSeconds": 60, "policies": [{ "type": "Pods", "value": 100, "periodSeconds": 15 }] },
        "scaleDown": { "stabilizationWindowSeconds": 120 } });
    check(
        both,
        "
        t=0s replicas=5 queue=10
        t=30s queue=20
        t=59s queue=15
        t=60s queue=20
        t=61s queue=4
        t=100s queue=30
        t=179s queue=4
        t=180s queue=4
        t=220s queue=4
        ",
        expect![[r#"
            t=0s replicas=5 queue=10 => 5 ScaleUpStabilized: first seen at 5 replicas; the scale-up window ends at 2026-03-01T12:01:00Z
            t=30s queue=20 => 5 ScaleUpStabilized: first seen at 5 replicas; the scale-up window ends at 2026-03-01T12:01:00Z
            t=59s queue=15 => 5 ScaleUpStabilized: first seen at 5 replicas; the scale-up window ends at 2026-03-01T12:01:00Z
            t=60s queue=20 => 15 ScaleUpStabilized: the scale-up window has seen a recommendation of 15, so not yet 20
            t=61s queue=4 => 15 ScaleDownStabilized: the scale-down window has seen a recommendation of 20, so 15 stays and not yet 4
            t=100s queue=30 => 15 ScaleUpStabilized: the scale-up window has seen a recommendation of 4, so 15 stays and not yet 30
            t=179s queue=4 => 15 ScaleDownStabilized: the scale-down window has seen a recommendation of 30, so 15 stays and not yet 4
            t=180s queue=4 => 15 ScaleDownStabilized: the scale-down window has seen a recommendation of 30, so 15 stays and not yet 4
            t=220s queue=4 => 4 BelowTarget: external metric queue is below target and asks for 4
        "#]],
    );
}

#[test]
fn budgets_count_what_was_applied() {
    let mut limited = spec(1, 100, &[queue("AverageValue", "1")]);
    limited["behavior"] = json!({
        "scaleUp": { "policies": [
            { "type": "Pods", "value": 2, "periodSeconds": 60 },
            { "type": "Percent", "value": 10, "periodSeconds": 60 }] },
        "scaleDown": { "stabilizationWindowSeconds": 0, "selectPolicy": "Min", "policies": [
            { "type": "Pods", "value": 3, "periodSeconds": 60 },
            { "type": "Percent", "value": 50, "periodSeconds": 60 }] } });
    check(
        limited,
        "
        t=0s replicas=4 queue=90
        t=10s queue=90
        t=60s replicas=6 queue=90
        t=61s replicas=6 queue=90
        t=120s replicas=50 queue=90
        t=200s replicas=10 queue=1
        t=210s queue=1
        t=260s queue=1
        t=320s replicas=3 queue=1
        ",
        expect![[r#"
            t=0s replicas=4 queue=90 => 6 ScaleUpLimit: scaling up is limited to 2 pods in 60 s, so 6 and not 90
            t=10s queue=90 => 6 ScaleUpLimit: scaling up is limited to 2 pods in 60 s, so 6 and not 90 (+2 already in that period)
            t=60s replicas=6 queue=90 => 8 ScaleUpLimit: scaling up is limited to 2 pods in 60 s, so 8 and not 90
            t=61s replicas=6 queue=90 => 8 ScaleUpLimit: scaling up is limited to 2 pods in 60 s, so 8 and not 90
            t=120s replicas=50 queue=90 => 53 ScaleUpLimit: scaling up is limited to 10 % in 60 s, so 53 and not 90 (+2 already in that period)
            t=200s replicas=10 queue=1 => 7 ScaleDownLimit: scaling down is limited to 3 pods in 60 s, so 7 and not 1
            t=210s queue=1 => 7 ScaleDownLimit: scaling down is limited to 3 pods in 60 s, so 7 and not 1 (-3 already in that period)
            t=260s queue=1 => 4 ScaleDownLimit: scaling down is limited to 3 pods in 60 s, so 4 and not 1
            t=320s replicas=3 queue=1 => 1 BelowTarget: external metric queue is below target and asks for 1
        "#]],
    );
    let mut frozen = spec(1, 100, &[queue("AverageValue", "1")]);
    frozen["behavior"] =
        json!({ "scaleUp": { "selectPolicy": "Disabled" }, "scaleDown": { "selectPolicy": "Disabled" } });
    check(
        frozen,
        "
        t=0s replicas=4 queue=90
        t=400s replicas=4 queue=1
        ",
        expect![[r#"
            t=0s replicas=4 queue=90 => 4 ScaleUpLimit: scaling up is switched off
            t=400s replicas=4 queue=1 => 4 ScaleDownLimit: scaling down is switched off
        "#]],
    );
}

/// Which of budget and bound is named where both would limit: as the real controller has it, the bound wins a tie.
#[test]
fn what_limits_is_named_as_upstream_names_it() {
    let mut limited = spec(2, 8, &[queue("AverageValue", "1")]);
    limited["behavior"] = json!({
        "scaleUp": { "policies": [{ "type": "Pods", "value": 4, "periodSeconds": 60 }] },
        "scaleDown": { "stabilizationWindowSeconds": 0, "policies": [{ "type": "Pods", "value": 3, "periodSeconds": 60 }] } });
    let reason = |replicas: i32, queue: i32| {
        let (_, decisions) = timeline(limited.clone(), &format!("t=0s replicas={replicas} queue={queue}"));
        let form: input::SpecForm = serde_json::from_value(limited.clone()).unwrap();
        let report = status::report(&form.resolve(Settings::default()).unwrap(), &decisions[0]);
        let condition = report.conditions.iter().find(|one| one.kind == "ScalingLimited").unwrap();
        format!("{replicas} -> {} {} {}\n", decisions[0].desired, decisions[0].reason.code, condition.reason)
    };
    expect![[r#"
        3 -> 7 ScaleUpLimit ScaleUpLimit
        4 -> 8 TooManyReplicas TooManyReplicas
        5 -> 8 TooManyReplicas TooManyReplicas
        8 -> 8 TooManyReplicas TooManyReplicas
        8 -> 5 ScaleDownLimit ScaleDownLimit
        5 -> 2 TooFewReplicas TooFewReplicas
        4 -> 2 TooFewReplicas TooFewReplicas
        3 -> 2 TooFewReplicas TooFewReplicas
        3 -> 3 OnTarget DesiredWithinRange
    "#]]
    .assert_eq(
        &[(3, 20), (4, 20), (5, 20), (8, 20), (8, 1), (5, 1), (4, 1), (3, 1), (3, 3)]
            .map(|(n, queue)| reason(n, queue))
            .concat(),
    );
}

/// Time alone changes the answer at `nextCheck`, not before, and never at the moment itself that was just looked at.
#[test]
fn the_next_check_is_the_first_moment_that_changes_something() {
    let legacy = json!({ "minReplicas": 1, "maxReplicas": 50, "metrics": [queue("AverageValue", "1")] });
    let (_, decisions) = timeline(
        legacy,
        "
        t=0s replicas=9 queue=9
        t=60s queue=3
        t=300s queue=3
        t=301s queue=3
    ",
    );
    let mut windows = spec(1, 50, &[queue("AverageValue", "1")]);
    windows["behavior"]["scaleDown"] = json!({ "stabilizationWindowSeconds": 120 });
    // 12 and 11 leave the window before 10 does, and neither makes a difference to 10 replicas.
    let (_, more) = timeline(
        windows,
        "
        t=0s replicas=10 queue=12
        t=10s replicas=10 queue=11
        t=20s replicas=10 queue=10
        t=30s replicas=10 queue=3
        t=140s replicas=10 queue=3
    ",
    );
    // A pod that is ready and was sampled since counts already: the end of its initialization period changes nothing.
    let (_, warm) = timeline(
        spec(1, 20, &[cpu(50)]),
        "
        t=0s replicas=2 cpu=50,w50
        t=1s replicas=2 cpu=50,50
    ",
    );
    let next = |decisions: &[Decision]| {
        let text = |decision: &Decision| decision.next_check.map_or("never".to_owned(), |at| at.to_string());
        decisions.iter().map(text).collect::<Vec<_>>().join(" ")
    };
    expect![[r#"
        never 2026-03-01T12:05:00.001Z 2026-03-01T12:05:00.001Z never
        never never never 2026-03-01T12:02:20Z never
        2026-03-01T12:04:00Z never
    "#]]
    .assert_eq(&format!("{}\n{}\n{}\n", next(&decisions), next(&more), next(&warm)));
}

/// Three pods that request memory as a whole and CPU by container: what the pod does not say, its containers do.
#[test]
fn requests_of_the_pod_do_not_hide_those_of_its_containers() {
    let pod = |name: &str, requests: Value| {
        json!({ "name": name, "requests": requests, "startTime": "2026-03-01T11:00:00Z",
            "ready": { "status": "True", "lastTransitionTime": "2026-03-01T11:00:10Z" },
            "containers": [{ "name": "app", "requests": { "cpu": "100m" }, "usage": { "cpu": "100m" } },
                           { "name": "proxy", "usage": { "cpu": "0" } }] })
    };
    let mut text = String::new();
    for requests in [json!({ "memory": "1Gi" }), json!({ "cpu": "200m" }), json!({})] {
        let pods: Vec<Value> = ["a", "b", "c"].iter().map(|name| pod(name, requests.clone())).collect();
        let input = json!({ "now": "2026-03-01T12:00:00Z", "observed": { "replicas": 3, "pods": pods },
            "spec": { "maxReplicas": 10, "metrics": [cpu(50)] } });
        let decision = crate::input::parse::<Input>(&input.to_string()).and_then(Input::decide).unwrap();
        text.push_str(&format!("{} {}\n", decision.desired, decision.steps[0].words()));
    }
    expect![[r#"
        6 cpu at 100 % of requests, target 50 %, 3 ready: wants 6
        3 cpu at 50 % of requests, target 50 %, 3 ready: no change
        3 cpu cannot be used: container proxy of pod a has no request for it; set resources.requests
    "#]]
    .assert_eq(&text);
}

#[test]
fn what_keeps_a_metric_from_being_used_is_counted() {
    let metric = json!({ "type": "Pods", "pods": { "metric": { "name": "rps" },
        "target": { "type": "AverageValue", "averageValue": "4" } } });
    let pod = |name: &str, more: Value| {
        let mut pod = json!({ "name": name, "metrics": { "rps": "5" }, "sampledAt": "2026-03-01T11:59:30Z" });
        pod.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pod
    };
    let input = json!({ "now": "2026-03-01T12:00:00Z", "spec": { "maxReplicas": 10, "metrics": [metric] },
        "observed": { "replicas": 7, "pods": [
            pod("a", json!({ "phase": "Pending" })), pod("b", json!({ "phase": "Pending" })),
            pod("c", json!({ "sampledAt": "2026-03-01T11:50:00Z" })),
            pod("d", json!({ "metrics": {} })), pod("e", json!({ "metrics": { "rps": "-1" } })),
            pod("f", json!({ "phase": "Failed" }))] } });
    let decision = crate::input::parse::<Input>(&input.to_string()).and_then(Input::decide).unwrap();
    expect!["pods metric rps cannot be used: no usable samples: 2 pods not ready, 1 sample older than 90 s, 1 sample below zero, 1 pod without a sample, 1 pod failed or being deleted"].assert_eq(&decision.steps[0].words().to_string());
}

#[test]
fn tolerance_can_differ_by_direction() {
    let mut uneven = spec(1, 100, &[queue("AverageValue", "10")]);
    uneven["behavior"] = json!({
        "scaleUp": { "tolerance": "0" },
        "scaleDown": { "tolerance": "0.5", "stabilizationWindowSeconds": 0 } });
    check(
        uneven,
        "
        t=0s replicas=10 queue=101
        t=1s replicas=10 queue=50
        t=2s replicas=10 queue=49
        ",
        expect![[r#"
            t=0s replicas=10 queue=101 => 11 AboveTarget: external metric queue is above target and asks for 11
            t=1s replicas=10 queue=50 => 10 OnTarget: external metric queue is on target
            t=2s replicas=10 queue=49 => 5 BelowTarget: external metric queue is below target and asks for 5
        "#]],
    );
}

#[test]
fn the_chain_explains_itself() {
    let (_, decisions) = timeline(
        spec(1, 6, &[cpu(50), queue("AverageValue", "10")]),
        "t=0s replicas=3 cpu=120,110,- queue=err",
    );
    expect![[r#"
        3 -> 5  AboveTarget: cpu is above target and asks for 5
          metric         3 -> 5  cpu at 115 % of requests, target 50 %, 2 ready, 1 without a sample, 76 % with those filled in: wants 5
          invalidMetric  3 -> 3  external metric queue cannot be used: the adapter timed out
          highest        3 -> 5  cpu is above target and asks for 5
          stabilized     5 -> 5  no recent recommendation disagrees
          bounds         5 -> 5  between 1 and 6
          budget         5 -> 5  within 4 pods in 15 s"#]].assert_eq(&decisions[0].explain().to_string());
    expect![[r#"
        {
          "current": 3,
          "desired": 5,
          "reason": {
            "code": "AboveTarget",
            "step": 2,
            "words": "cpu is above target and asks for 5"
          },
          "steps": [
            {
              "rule": "metric",
              "input": {
                "metric": "cpu",
                "model": {
                  "utilization": {
                    "average": 1150
                  }
                },
                "usage": 115,
                "target": 50,
                "refilled": 76,
                "count": 3,
                "statusReplicas": 3,
                "tolerance": {
                  "up": 0.1,
                  "down": 0.1
                },
                "pods": {
                  "ready": 2,
                  "unready": 0,
                  "missing": 1,
                  "ignored": 0
                }
              },
              "before": 3,
              "after": 5,
              "words": "cpu at 115 % of requests, target 50 %, 2 ready, 1 without a sample, 76 % with those filled in: wants 5"
            },
            {
              "rule": "invalidMetric",
              "input": {
                "metric": "external metric queue",
                "cause": {
                  "failed": {
                    "message": "the adapter timed out"
                  }
                }
              },
              "before": 3,
              "after": 3,
              "words": "external metric queue cannot be used: the adapter timed out"
            },
            {
              "rule": "highest",
              "input": {
                "proposed": 5,
                "metric": "cpu",
                "standing": "above",
                "valid": 1,
                "invalid": 1
              },
              "before": 3,
              "after": 5,
              "words": "cpu is above target and asks for 5"
            },
            {
              "rule": "stabilized",
              "input": {
                "window": "between",
                "current": 3,
                "lowest": 5,
                "highest": 5
              },
              "before": 5,
              "after": 5,
              "words": "no recent recommendation disagrees"
            },
            {
              "rule": "bounds",
              "input": {
                "min": 1,
                "max": 6
              },
              "before": 5,
              "after": 5,
              "words": "between 1 and 6"
            },
            {
              "rule": "budget",
              "input": {
                "direction": "up",
                "limit": 7,
                "policy": {
                  "type": "Pods",
                  "value": 4,
                  "periodSeconds": 15
                },
                "spent": 0
              },
              "before": 5,
              "after": 5,
              "words": "within 4 pods in 15 s"
            }
          ],
          "nextCheck": null,
          "memory": {
            "recommendations": [
              {
                "at": "2026-03-01T12:00:00Z",
                "replicas": 3,
                "firstSeen": true
              },
              {
                "at": "2026-03-01T12:00:00Z",
                "replicas": 5
              }
            ],
            "changes": {
              "pending": {
                "at": "2026-03-01T12:00:00Z",
                "from": 3,
                "to": 5
              }
            }
          }
        }"#]].assert_eq(&serde_json::to_string_pretty(&decisions[0]).unwrap());
}

#[test]
fn status_in_the_terms_of_the_api() {
    let form = spec(1, 6, &[cpu(50), queue("AverageValue", "10")]);
    let resolved = |line: &str| {
        let resolved =
            serde_json::from_value::<input::SpecForm>(form.clone()).unwrap().resolve(Settings::default());
        status::report(&resolved.unwrap(), &timeline(form.clone(), line).1[0])
    };
    expect![[r#"
        Report {
            conditions: [
                Condition {
                    kind: "ScalingActive",
                    status: true,
                    reason: "ValidMetricFound",
                    message: "cpu is above target and asks for the most: 7",
                },
                Condition {
                    kind: "AbleToScale",
                    status: true,
                    reason: "ReadyForNewScale",
                    message: "no recent recommendation disagrees",
                },
                Condition {
                    kind: "ScalingLimited",
                    status: true,
                    reason: "TooManyReplicas",
                    message: "7 is above the maximum of 6",
                },
            ],
            metrics: [
                Some(
                    Current {
                        average_utilization: Some(
                            110,
                        ),
                        average_value: Some(
                            Quantity(
                                1100,
                            ),
                        ),
                        value: None,
                    },
                ),
                Some(
                    Current {
                        average_utilization: None,
                        average_value: Some(
                            Quantity(
                                11667,
                            ),
                        ),
                        value: None,
                    },
                ),
            ],
            rescale: Some(
                "cpu is above target and asks for the most: 7",
            ),
        }
    "#]]
    .assert_debug_eq(&resolved("t=0s replicas=3 cpu=120,110,100 queue=35"));
    expect![[r#"
        Report {
            conditions: [
                Condition {
                    kind: "ScalingActive",
                    status: false,
                    reason: "FailedGetExternalMetric",
                    message: "external metric queue cannot be used: the adapter timed out",
                },
            ],
            metrics: [
                Some(
                    Current {
                        average_utilization: Some(
                            1,
                        ),
                        average_value: Some(
                            Quantity(
                                10,
                            ),
                        ),
                        value: None,
                    },
                ),
                None,
            ],
            rescale: None,
        }
    "#]]
    .assert_debug_eq(&resolved("t=0s replicas=3 cpu=1,1,1 queue=err"));
}

#[test]
fn input_errors_name_the_field() {
    let good = json!({ "now": "2026-03-01T12:00:00Z", "spec": spec(1, 5, &[cpu(50)]), "observed": { "replicas": 1 } });
    let mut text = String::new();
    for (pointer, value) in [
        ("/now", json!("yesterday")),
        ("/spec/maxReplicas", json!(0)),
        ("/spec/minReplicas", json!(0)),
        ("/spec/maxReplicas", json!("ten")),
        ("/spec/metrics/0/type", json!("Pods")),
        ("/spec/metrics/0/resource/target/averageUtilization", json!(0)),
        ("/spec/metrics/0/resource/target/type", json!("Value")),
        ("/spec/metrics/0/resource/target", json!({ "type": "AverageValue", "averageValue": "1x" })),
        ("/spec/behavior/scaleDown", json!({ "policies": [] })),
        (
            "/spec/behavior/scaleDown",
            json!({ "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 4000 }] }),
        ),
        ("/spec/behavior/scaleDown", json!({ "window": 3 })),
        ("/observed", json!({ "replicas": -1 })),
        ("/observed", json!({ "replicas": 1, "readings": [{ "metric": "queue" }] })),
        ("/observed", json!({ "replicas": 1, "pods": [{ "name": "a", "phase": "Sleeping" }] })),
    ] {
        let mut input = good.clone();
        *input.pointer_mut(pointer).unwrap() = value;
        let result = crate::input::parse::<Input>(&input.to_string()).and_then(Input::decide);
        text.push_str(&format!("{}\n", result.expect_err(pointer)));
    }
    expect![[r#"
        now: expected a time such as 2026-03-01T12:00:00Z, found "yesterday" at line 1 column 18
        spec.maxReplicas: expected a number from 1 to 2147483647, found 0
        spec.metrics: expected at least one Object or External metric with minReplicas 0: without pods no other has a value
        spec.maxReplicas: expected a whole number of at most 2147483647, found "ten" at line 1 column 141
        spec.metrics[0].resource: does not belong to type Pods; remove it
        spec.metrics[0].resource.target.averageUtilization: expected a number from 1 to 2147483647, found 0
        spec.metrics[0].resource.target.type: expected Utilization or AverageValue, found Value
        spec.metrics[0].resource.target.averageValue: "1x" is not a quantity; expected a number with an optional suffix, such as 100m, 2 or 1Gi at line 1 column 204
        spec.behavior.scaleDown.policies: expected at least one policy, or leave it out
        spec.behavior.scaleDown.policies[0].periodSeconds: expected a number from 1 to 1800, found 4000
        spec.behavior.scaleDown.window: unknown field "window", expected one of stabilizationWindowSeconds, selectPolicy, policies, tolerance at line 1 column 97
        observed.replicas: expected a number from 0 to 2147483647, found -1
        observed.readings[0].metric: the spec has no metric "queue" with that selector and object
        observed.pods[0].phase: unknown value "Sleeping", expected one of Pending, Running, Succeeded, Failed, Unknown at line 1 column 80
    "#]].assert_eq(&text);
}
