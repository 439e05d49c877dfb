//! What a decision remembers is bounded: days of ticks leave no more behind than an hour of them.

#![allow(clippy::unwrap_used)]

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

const TICK: SignedDuration = SignedDuration::from_secs(15);
/// Longer than every window below, so that whatever is kept for a window is full by then.
const SETTLED: usize = 240;
const TICKS: usize = 6000;

/// Decides again and again on a load that goes up and down, each time from what the last decision left behind.
fn check(policy: &str, input: impl Fn(u32, i64) -> Value) {
    let mut now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let (mut replicas, mut memory) = (2, json!({}));
    let mut sizes = Vec::with_capacity(TICKS);
    let mut counts = std::collections::BTreeSet::new();
    for tick in 0..TICKS {
        now += TICK;
        let load = 10 + i64::try_from(tick % 97).unwrap() * 5;
        let mut input = input(replicas, load);
        input["now"] = json!(now);
        input["memory"] = memory;
        let decision = decide::policy::decide(policy, &input.to_string()).unwrap().json;
        replicas = u32::try_from(decision["desired"].as_i64().unwrap()).unwrap();
        counts.insert(replicas);
        memory = decision["memory"].clone();
        sizes.push(memory.to_string().len());
    }
    assert!(counts.len() > 3, "{policy}: nothing happened, only {counts:?}");
    let at_first = sizes[..SETTLED].iter().max().unwrap();
    let later = sizes[SETTLED..].iter().max().unwrap();
    // Timestamps with and without fractions differ in length, and so do counts.
    assert!(later <= &(at_first * 5 / 4), "{policy}: {at_first} bytes in an hour, {later} later");
}

#[test]
fn of_the_horizontal_autoscaler() {
    check("hpa", |replicas, load| {
        json!({
            "spec": {
                "minReplicas": 1,
                "maxReplicas": 50,
                "metrics": [{"type": "External", "external": {
                    "metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}}],
                "behavior": {
                    "scaleUp": {"stabilizationWindowSeconds": 60},
                    "scaleDown": {"stabilizationWindowSeconds": 600,
                                  "policies": [{"type": "Pods", "value": 2, "periodSeconds": 1800}]},
                },
            },
            "observed": {"replicas": replicas, "readings": [{"metric": "queue", "values": [load.to_string()]}]},
        })
    });
}

#[test]
fn of_functions_on_demand() {
    check("demand", |replicas, load| {
        json!({
            "function": {
                "name": "f",
                "scale": {
                    "ReplicaMax": 50,
                    "Triggers": [{"MetricName": "queue", "Query": "sum(queue)", "Threshold": 10.0}],
                    "Behavior": {
                        "ScaleUp": {"StabilizationWindowSeconds": 60},
                        "ScaleDown": {"StabilizationWindowSeconds": 600,
                                      "Policies": [{"Type": "Pods", "Value": 2, "PeriodSeconds": 1800}]},
                    },
                },
            },
            "observed": {"replicas": replicas, "activeCalls": 1, "triggers": [{"value": load}]},
        })
    });
}

#[test]
fn of_vertices() {
    check("vertex", |replicas, load| {
        json!({
            "vertex": {"kind": "Source", "scale": {"min": 1, "max": 50, "targetProcessingSeconds": 3}},
            "observed": {"replicas": replicas, "partitions": [{"rate": 100, "pending": load * 10}]},
        })
    });
}
