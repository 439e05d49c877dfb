//! Timelines of single functions. `call=10` is the last call, seconds after the start; `active=1` a call under way;
//! `full=…` a scheduling failure; `hpa=…` a HorizontalPodAutoscaler of the same workload; every other word is a
//! trigger's reading: a number, `quiet` or `err`.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{
    input::{FunctionForm, ObservedForm, OtherForm, ReadingForm},
    *,
};
use crate::{
    number::Number,
    testing::{self, Row, start},
};

fn observed(function: &FunctionForm, row: &Row<'_>) -> ObservedForm {
    let reading = |text: &str| ReadingForm {
        value: text.parse().ok().map(Number),
        no_demand: text == "quiet",
        error: (text == "err").then(|| "no such series".to_owned()),
        ..ReadingForm::default()
    };
    let triggers = function.scale.iter().flat_map(|scale| &scale.triggers);
    ObservedForm {
        replicas: row.replicas,
        last_call: row.get("call").map(|seconds| after(start(), seconds.parse().unwrap())),
        active_calls: row.get("active").map_or(0, |calls| calls.parse().unwrap()),
        scheduling_failure: row.get("full").map(str::to_owned),
        autoscaler: row.get("hpa").map(str::to_owned),
        triggers: triggers
            .map(|trigger| row.get(&trigger.metric_name).map(reading).unwrap_or_default())
            .collect(),
    }
}

fn timeline_with(function: Value, others: Value, rows: &str) -> (String, Vec<Decision>) {
    let function: FunctionForm = serde_json::from_value(function).unwrap();
    let others: Vec<OtherForm> = serde_json::from_value(others).unwrap();
    testing::timeline(rows, |row, memory| {
        let observed = observed(&function, row);
        Input { now: row.now, function: function.clone(), observed, others: others.clone(), memory }
            .decide()
            .unwrap()
    })
}

fn check(function: Value, rows: &str, expected: Expect) {
    expected.assert_eq(&timeline_with(function, json!([]), rows).0);
}

fn scaled(triggers: Value, behavior: Value) -> Value {
    json!({ "name": "fib", "scale": { "ReplicaMax": 20, "Triggers": triggers, "Behavior": behavior } })
}

fn rps() -> Value {
    json!([{ "MetricName": "rps", "Query": "sum(rate(calls[1m]))", "Threshold": 50 }])
}

/// Neither windows nor budgets worth mentioning.
fn at_once() -> Value {
    json!({ "ScaleUp": { "Policies": [{ "Type": "Pods", "Value": 100, "PeriodSeconds": 1 }] },
            "ScaleDown": { "StabilizationWindowSeconds": 0 } })
}

#[test]
fn sleeps_after_the_timeout_and_wakes_on_a_call() {
    check(
        json!({ "name": "fib", "replicasAtStart": 2 }),
        "
        t=0s replicas=0
        t=10s call=10
        t=310s call=10
        t=311s call=10
        t=320s call=10 active=1 replicas=2
        t=330s call=400
        t=340s replicas=0 call=340 full=no_room
        t=350s replicas=3 call=350 full=no_room
        ",
        expect![[r#"
            t=0s replicas=0 => 0 Idle: never called
            t=10s call=10 => 2 WakeUp: wakes up with 2
            t=310s call=10 => 2 Active: a call 300 s ago, timeout 300 s
            t=311s call=10 => 0 Idle: idle, so down to the minimum of 0
            t=320s call=10 active=1 replicas=2 => 2 Active: a call under way
            t=330s call=400 => 2 Active: a call 0 s ago, timeout 300 s
            t=340s replicas=0 call=340 full=no_room => 0 Unschedulable: no more are asked for while pods find no place: no_room
            t=350s replicas=3 call=350 full=no_room => 3 Active: a call 0 s ago, timeout 300 s
        "#]],
    );
    check(
        json!({ "name": "fib", "replicasMin": 3, "replicasAtStart": 1, "scale": { "ReplicaMax": 2 } }),
        "
        t=0s replicas=0 call=0
        t=1s replicas=1
        t=2s replicas=9 call=0
        ",
        expect![[r#"
            t=0s replicas=0 call=0 => 2 WakeUp: wakes up with 2
            t=1s replicas=1 => 2 TooManyReplicas: 3 is above the maximum of 2
            t=2s replicas=9 call=0 => 2 TooManyReplicas: 9 is above the maximum of 2
        "#]],
    );
}

#[test]
fn only_zero_is_decided_where_an_autoscaler_decides_the_rest() {
    let with_floor = json!({ "name": "fib", "replicasMin": 3, "scale": { "ReplicaMax": 5 } });
    check(
        with_floor,
        "
        t=0s replicas=0 hpa=web
        t=10s replicas=1 call=10 hpa=web
        t=20s replicas=9 call=10 hpa=web
        t=400s replicas=2 call=10 hpa=web
        t=401s replicas=2 call=10
        ",
        expect![[r#"
            t=0s replicas=0 hpa=web => 3 Idle: up to the minimum of 3
            t=10s replicas=1 call=10 hpa=web => 1 LeftToAutoscaler: HorizontalPodAutoscaler web decides above zero, so 1 stays
            t=20s replicas=9 call=10 hpa=web => 9 LeftToAutoscaler: HorizontalPodAutoscaler web decides above zero, so 9 stays
            t=400s replicas=2 call=10 hpa=web => 2 LeftToAutoscaler: HorizontalPodAutoscaler web decides above zero, so 2 stays
            t=401s replicas=2 call=10 => 3 Idle: up to the minimum of 3
        "#]],
    );
    check(
        scaled(
            rps(),
            json!({ "ScaleDown": { "Policies": [{ "Type": "Pods", "Value": 1, "PeriodSeconds": 60 }] } }),
        ),
        "
        t=0s replicas=0 call=0 rps=900 hpa=web
        t=10s replicas=1 call=0 rps=900 hpa=web
        t=20s replicas=5 call=0 rps=0 hpa=web
        t=400s replicas=5 call=0 rps=60 hpa=web
        t=410s replicas=5 call=0 rps=err hpa=web
        t=420s replicas=5 call=0 rps=0 hpa=web
        t=430s replicas=0 call=0 rps=0 hpa=web
        ",
        expect![[r#"
            t=0s replicas=0 call=0 rps=900 hpa=web => 1 WakeUp: wakes up with 1
            t=10s replicas=1 call=0 rps=900 hpa=web => 1 LeftToAutoscaler: HorizontalPodAutoscaler web decides above zero, so 1 stays
            t=20s replicas=5 call=0 rps=0 hpa=web => 5 LeftToAutoscaler: HorizontalPodAutoscaler web decides above zero, so 5 stays
            t=400s replicas=5 call=0 rps=60 hpa=web => 5 LeftToAutoscaler: HorizontalPodAutoscaler web decides above zero, so 5 stays
            t=410s replicas=5 call=0 rps=err hpa=web => 5 MetricsVeto: idle, but the metrics do not agree to fewer than 5
            t=420s replicas=5 call=0 rps=0 hpa=web => 0 BothAgreeOnZero: idle, and the metrics agree on zero
            t=430s replicas=0 call=0 rps=0 hpa=web => 0 Idle: nothing for 430 s, timeout 300 s; the last was a call
        "#]],
    );
}

#[test]
fn totals_are_shared_out_and_figures_per_pod_follow_the_ratio() {
    let p95 = json!([{ "MetricName": "p95", "Query": "histogram_quantile(0.95, x)", "Threshold": 0.5, "Per": "Pod" }]);
    let level = json!([{ "MetricName": "level", "MetricType": "Value", "Query": "q", "Threshold": 200 }]);
    check(
        scaled(rps(), at_once()),
        "
        t=0s replicas=2 call=0 rps=120
        t=60s call=60 rps=120
        t=120s call=120 rps=100.0000000001
        t=180s call=180 rps=2000
        t=240s call=240 rps=0
        ",
        expect![[r#"
            t=0s replicas=2 call=0 rps=120 => 3 AboveThreshold: rps asks for 3
            t=60s call=60 rps=120 => 3 Active: a call 0 s ago, timeout 300 s
            t=120s call=120 rps=100.0000000001 => 2 BelowThreshold: rps asks for the most: 2
            t=180s call=180 rps=2000 => 20 TooManyReplicas: 40 is above the maximum of 20
            t=240s call=240 rps=0 => 1 Active: the metrics ask for none, but there is activity, so one stays up
        "#]],
    );
    check(
        scaled(p95, at_once()),
        "
        t=0s replicas=10 call=0 p95=0.6
        t=60s replicas=10 call=60 p95=0.25
        ",
        expect![[r#"
            t=0s replicas=10 call=0 p95=0.6 => 12 AboveThreshold: p95 asks for 12
            t=60s replicas=10 call=60 p95=0.25 => 5 BelowThreshold: p95 asks for the most: 5
        "#]],
    );
    check(
        scaled(level, at_once()),
        "
        t=0s replicas=4 call=0 level=300
        t=60s replicas=4 call=60 level=100
        ",
        expect![[r#"
            t=0s replicas=4 call=0 level=300 => 6 AboveThreshold: level asks for 6
            t=60s replicas=4 call=60 level=100 => 2 BelowThreshold: level asks for the most: 2
        "#]],
    );
}

#[test]
fn zero_needs_both_sides() {
    check(
        scaled(rps(), at_once()),
        "
        t=1000s replicas=3 call=0 rps=120
        t=1060s replicas=3 call=0 rps=0
        t=1120s replicas=3 call=0 rps=err
        t=1180s replicas=3 call=0 rps=quiet
        t=1240s replicas=3 call=1240 rps=quiet
        t=1300s replicas=0 call=0 rps=500
        ",
        expect![[r#"
            t=1000s replicas=3 call=0 rps=120 => 3 MetricsVeto: idle, but the metrics do not agree to fewer than 3
            t=1060s replicas=3 call=0 rps=0 => 0 BothAgreeOnZero: idle, and the metrics agree on zero
            t=1120s replicas=3 call=0 rps=err => 3 MetricsVeto: idle, but the metrics do not agree to fewer than 3
            t=1180s replicas=3 call=0 rps=quiet => 0 BothAgreeOnZero: idle, and the metrics agree on zero
            t=1240s replicas=3 call=1240 rps=quiet => 3 NoDemand: the triggers see no demand, which alone shrinks nothing
            t=1300s replicas=0 call=0 rps=500 => 0 Idle: nothing for 1300 s, timeout 300 s; the last was a call
        "#]],
    );
    let mut floor = scaled(rps(), at_once());
    floor["replicasMin"] = json!(2);
    check(
        floor,
        "
        t=1000s replicas=5 call=0 rps=0
        t=1060s replicas=5 call=0 rps=quiet
        t=1120s replicas=5 call=0 rps=200
        ",
        expect![[r#"
            t=1000s replicas=5 call=0 rps=0 => 2 TooFewReplicas: 0 is below the minimum of 2
            t=1060s replicas=5 call=0 rps=quiet => 5 MetricsVeto: idle, but the metrics do not agree to fewer than 5
            t=1120s replicas=5 call=0 rps=200 => 4 BelowThreshold: rps asks for the most: 4
        "#]],
    );
}

#[test]
fn an_invalid_trigger_never_shrinks_but_a_valid_one_may_grow() {
    let two = json!([{ "MetricName": "rps", "Query": "a", "Threshold": 50 },
                     { "MetricName": "queue", "Query": "b", "Threshold": 10 }]);
    check(
        scaled(two, at_once()),
        "
        t=0s replicas=3 call=0 rps=50 queue=err
        t=60s replicas=3 call=60 rps=300 queue=NaN
        t=120s replicas=3 call=120 rps=inf queue=-1
        t=180s replicas=30 call=180 rps=err queue=err
        t=240s replicas=3 call=240 rps=50 queue=quiet
        t=300s replicas=3 call=300 rps=50 queue=19
        ",
        expect![[r#"
            t=0s replicas=3 call=0 rps=50 queue=err => 3 InvalidTriggerBlocksScaleDown: rps would allow 1, but not every trigger can be used (1 cannot), so nothing shrinks
            t=60s replicas=3 call=60 rps=300 queue=NaN => 6 AboveThreshold: rps asks for 6
            t=120s replicas=3 call=120 rps=inf queue=-1 => 3 NoValidTrigger: no trigger can be used, so nothing changes
            t=180s replicas=30 call=180 rps=err queue=err => 20 TooManyReplicas: 30 is above the maximum of 20
            t=240s replicas=3 call=240 rps=50 queue=quiet => 3 QuietTriggerBlocksScaleDown: rps would allow 1, but not every trigger has observations (1 without), so nothing shrinks
            t=300s replicas=3 call=300 rps=50 queue=19 => 2 BelowThreshold: queue asks for the most: 2
        "#]],
    );
}

#[test]
fn up_by_the_most_generous_policy_down_by_the_most_careful() {
    let behavior = json!({
        "ScaleUp": { "Policies": [{ "Type": "Percent", "Value": 100, "PeriodSeconds": 15 },
                                  { "Type": "Pods", "Value": 4, "PeriodSeconds": 15 }] },
        "ScaleDown": { "StabilizationWindowSeconds": 60,
                       "Policies": [{ "Type": "Percent", "Value": 50, "PeriodSeconds": 30 },
                                    { "Type": "Pods", "Value": 3, "PeriodSeconds": 30 }] } });
    check(
        scaled(rps(), behavior),
        "
        t=0s replicas=0 call=0 rps=900
        t=1s call=1 rps=900
        t=2s call=2 rps=900
        t=16s call=16 rps=900
        t=31s call=31 rps=900
        t=60s call=31 rps=0
        t=91s call=31 rps=0
        t=100s call=31 rps=0
        t=121s call=31 rps=0
        t=500s replicas=2 call=31 rps=0
        t=560s replicas=2 call=31 rps=0
        t=590s call=31 rps=0
        ",
        expect![[r#"
            t=0s replicas=0 call=0 rps=900 => 1 WakeUp: wakes up with 1
            t=1s call=1 rps=900 => 5 ScaleUpLimit: scaling up is limited to 4 pods in 15 s, so 5 and not 18
            t=2s call=2 rps=900 => 5 ScaleUpLimit: scaling up is limited to 4 pods in 15 s, so 5 and not 18 (+4 already in that period)
            t=16s call=16 rps=900 => 10 ScaleUpLimit: scaling up is limited to 100 % in 15 s, so 10 and not 18
            t=31s call=31 rps=900 => 18 AboveThreshold: rps asks for 18
            t=60s call=31 rps=0 => 18 ScaleDownStabilized: the scale-down window has seen a recommendation of 18, so not yet 0
            t=91s call=31 rps=0 => 15 ScaleDownLimit: scaling down is limited to 3 pods in 30 s, so 15 and not 0
            t=100s call=31 rps=0 => 15 ScaleDownLimit: scaling down is limited to 3 pods in 30 s, so 15 and not 0 (-3 already in that period)
            t=121s call=31 rps=0 => 12 ScaleDownLimit: scaling down is limited to 3 pods in 30 s, so 12 and not 0
            t=500s replicas=2 call=31 rps=0 => 1 ScaleDownLimit: scaling down is limited to 50 % in 30 s, so 1 and not 0
            t=560s replicas=2 call=31 rps=0 => 1 ScaleDownLimit: scaling down is limited to 50 % in 30 s, so 1 and not 0
            t=590s call=31 rps=0 => 0 BothAgreeOnZero: idle, and the metrics agree on zero
        "#]],
    );
}

#[test]
fn the_schedule_follows_the_wall_clock_through_daylight_saving() {
    // Europe/Paris skips 02:00–03:00 on 2026-03-29 and repeats it on 2026-10-25.
    let night = |wake: &str| {
        json!({ "name": "fib", "timeoutSecondBeforeSetReplicasMin": 60, "schedule": {
            "TimeZoneID": "Europe/Paris", "Default": { "WakeUp": [wake] } } })
    };
    check(
        night("02:30"),
        "
        2026-03-28T01:29:59Z replicas=0
        2026-03-28T01:30:00Z
        2026-03-29T01:29:59Z replicas=0
        2026-03-29T01:30:00Z
        2026-10-25T00:29:59Z replicas=0
        2026-10-25T00:30:00Z
        2026-10-25T01:30:00Z
        ",
        expect![[r#"
            2026-03-28T01:29:59Z replicas=0 => 0 Idle: nothing for 86399 s, timeout 60 s; the last was a scheduled wake-up
            2026-03-28T01:30:00Z => 1 WakeUp: wakes up with 1
            2026-03-29T01:29:59Z replicas=0 => 0 Idle: nothing for 86399 s, timeout 60 s; the last was a scheduled wake-up
            2026-03-29T01:30:00Z => 1 WakeUp: wakes up with 1
            2026-10-25T00:29:59Z replicas=0 => 0 Idle: nothing for 86399 s, timeout 60 s; the last was a scheduled wake-up
            2026-10-25T00:30:00Z => 1 WakeUp: wakes up with 1
            2026-10-25T01:30:00Z => 0 Idle: idle, so down to the minimum of 0
        "#]],
    );
    // Half past eight in Auckland is the day before in UTC.
    check(
        json!({ "name": "fib", "timeoutSecondBeforeSetReplicasMin": 5, "schedule": {
            "TimeZoneID": "Pacific/Auckland", "Default": { "WakeUp": ["8:30"], "ScaleDownTimeout": [
                { "Time": "08:30", "Value": 3600 }, { "Time": "18:30", "Value": 300 }] } } }),
        "
        2026-06-01T20:29:59Z replicas=0
        2026-06-01T20:30:00Z
        2026-06-01T21:30:00Z
        2026-06-01T21:30:01Z
        2026-06-02T06:30:00Z replicas=1 active=1
        2026-06-02T15:00:00Z replicas=1
        ",
        expect![[r#"
            2026-06-01T20:29:59Z replicas=0 => 0 Idle: nothing for 86399 s, timeout 300 s; the last was a scheduled wake-up
            2026-06-01T20:30:00Z => 1 WakeUp: wakes up with 1
            2026-06-01T21:30:00Z => 1 Active: a scheduled wake-up 3600 s ago, timeout 3600 s
            2026-06-01T21:30:01Z => 0 Idle: idle, so down to the minimum of 0
            2026-06-02T06:30:00Z replicas=1 active=1 => 1 Active: a call under way
            2026-06-02T15:00:00Z replicas=1 => 0 Idle: idle, so down to the minimum of 0
        "#]],
    );
}

#[test]
fn activity_reaches_dependencies_at_any_distance() {
    let chain = |seen: Value| {
        let mut others = json!([
            { "name": "web", "dependsOn": ["api"], "lastCall": "2026-03-01T12:00:00Z" },
            { "name": "api", "dependsOn": ["db"], "replicasAtStart": 2, "readyReplicas": 1 }]);
        others.as_array_mut().unwrap().push(seen);
        others
    };
    let (db, _) = timeline_with(json!({ "name": "db" }), chain(json!({ "name": "x" })), "t=20s replicas=0");
    let (front, _) = timeline_with(
        json!({ "name": "front", "dependsOn": ["api", "mysql"] }),
        chain(json!({ "name": "x" })),
        "t=20s replicas=0 call=20",
    );
    let (circle, _) = timeline_with(
        json!({ "name": "ping", "dependsOn": ["pong"] }),
        json!([{ "name": "pong", "dependsOn": ["ping"] }]),
        "t=20s replicas=0 call=20",
    );
    let (any, _) = timeline_with(
        json!({ "name": "warm", "replicasStartAsSoonAsOneFunctionRetrieveARequest": true }),
        chain(json!({ "name": "x" })),
        "t=20s replicas=0",
    );
    expect![[r#"
        t=20s replicas=0 => 1 WakeUp: wakes up with 1
        t=20s replicas=0 call=20 => 0 WaitingForDependencies: would wake up, but waits for api
        t=20s replicas=0 call=20 => 1 WakeUp: wakes up with 1
        t=20s replicas=0 => 1 WakeUp: wakes up with 1
    "#]]
    .assert_eq(&format!("{db}{front}{circle}{any}"));
    let (_, decisions) = timeline_with(
        json!({ "name": "ping", "dependsOn": ["pong", "mysql"] }),
        json!([{ "name": "pong", "dependsOn": ["ping"] }]),
        "t=20s replicas=0 call=20",
    );
    expect![[r#"
        0 -> 1  WakeUp: wakes up with 1
          activity      0 -> 0  a call 0 s ago, timeout 300 s
          dependencies  0 -> 0  depends on pong in a circle, so does not wait for it; mysql is not there, so not waited for
          wake          0 -> 1  wakes up with 1
          bounds        1 -> 1  at least 0
          look again at 2026-03-01T12:05:20.001Z"#]].assert_eq(&decisions[0].explain().to_string());
}

#[test]
fn a_decision_says_when_to_look_again() {
    let (_, decisions) = timeline_with(
        json!({ "name": "fib", "schedule": { "TimeZoneID": "UTC", "Default": { "WakeUp": ["12:04"] } } }),
        json!([]),
        "
        t=0s replicas=1 call=0
        t=60s replicas=1 call=60
        t=250s replicas=0
        ",
    );
    let next: Vec<_> = decisions.iter().map(|decision| decision.next_check.unwrap().to_string()).collect();
    expect![[r#"
        [
            "2026-03-01T12:09:00.001Z",
            "2026-03-01T12:09:00.001Z",
            "2026-03-01T12:09:00.001Z",
        ]
    "#]]
    .assert_debug_eq(&next);
}

#[test]
fn what_is_no_function_is_waited_for_until_it_is_all_there() {
    let table = [
        ("as many ready as wanted", 2, 2, ""),
        ("fewer", 1, 2, "mysql"),
        ("more, during a rollout", 3, 2, ""),
        ("none wanted: one is needed all the same", 0, 0, "mysql"),
        ("one of none", 1, 0, ""),
    ];
    for (what, ready, wanted, waiting_for) in table {
        let front =
            Node { depends_on: vec!["mysql".into(), "typo".into()], ..Node::plain("front".into(), 0, 1) };
        let graph = Graph::new(vec![front, Node::plain("mysql".into(), ready, wanted)]);
        let found = graph.dependencies("front");
        assert_eq!(found.waiting_for.join(" "), waiting_for, "{what}");
        assert_eq!(found.unknown.join(" "), "typo", "{what}");
    }
}

#[test]
fn a_schedule_without_a_zone_is_in_britain() {
    for text in ["{}", r#"{"TimeZoneID": null}"#, r#"{"TimeZoneID": "GB"}"#] {
        let schedule: Schedule = serde_json::from_str(text).unwrap();
        assert_eq!(schedule.zone.unwrap().to_string(), "GB", "{text}");
    }
}

#[test]
fn a_maximum_of_zero_says_so() {
    let shut = json!({ "name": "fib", "scale": { "ReplicaMax": 0 } });
    check(
        shut,
        "
        t=0s replicas=0 active=1
        t=1s replicas=2 active=1
        ",
        expect![[r#"
            t=0s replicas=0 active=1 => 0 MaximumIsZero: there is activity, but the maximum is 0, so nothing wakes up
            t=1s replicas=2 active=1 => 0 TooManyReplicas: 2 is above the maximum of 0
        "#]],
    );
}

#[test]
fn within_the_tolerance_the_count_stays() {
    let tolerant = json!([{ "MetricName": "rps", "Query": "sum(rps)", "Threshold": 50, "Tolerance": 0.1 }]);
    check(
        scaled(tolerant, at_once()),
        "
        t=0s replicas=4 call=0 rps=220
        t=60s replicas=4 call=60 rps=221
        t=120s replicas=4 call=120 rps=180
        t=180s replicas=4 call=180 rps=150
        ",
        expect![[r#"
            t=0s replicas=4 call=0 rps=220 => 4 Active: a call 0 s ago, timeout 300 s
            t=60s replicas=4 call=60 rps=221 => 5 AboveThreshold: rps asks for 5
            t=120s replicas=4 call=120 rps=180 => 4 Active: a call 0 s ago, timeout 300 s
            t=180s replicas=4 call=180 rps=150 => 3 BelowThreshold: rps asks for the most: 3
        "#]],
    );
}

/// A dependency that metrics made smaller than it started is there when all that is asked for is ready.
#[test]
fn a_dependency_is_waited_for_as_the_controller_does() {
    let of = |db: Value| {
        let front = json!({ "name": "front", "dependsOn": ["db"] });
        timeline_with(front, json!([db]), "t=20s replicas=0 call=20").0
    };
    let text = [
        json!({ "name": "db", "replicasAtStart": 3, "replicas": 2, "readyReplicas": 2 }),
        json!({ "name": "db", "replicasAtStart": 3, "replicas": 3, "readyReplicas": 2 }),
        json!({ "name": "db", "replicasMin": 3, "replicas": 3, "readyReplicas": 2 }),
        json!({ "name": "db", "replicasAtStart": 3, "replicaMax": 2, "readyReplicas": 2 }),
        json!({ "name": "db", "replicasAtStart": 0, "replicas": 0, "readyReplicas": 0 }),
    ]
    .map(of)
    .concat();
    expect![[r#"
        t=20s replicas=0 call=20 => 1 WakeUp: wakes up with 1
        t=20s replicas=0 call=20 => 0 WaitingForDependencies: would wake up, but waits for db
        t=20s replicas=0 call=20 => 0 WaitingForDependencies: would wake up, but waits for db
        t=20s replicas=0 call=20 => 1 WakeUp: wakes up with 1
        t=20s replicas=0 call=20 => 0 WaitingForDependencies: would wake up, but waits for db
    "#]]
    .assert_eq(&text);
}

/// Pods 4 in 15 s and 100 % in 60 s: the first of them to let go decides when to look again.
#[test]
fn the_first_policy_to_free_budget_decides_when_to_look_again() {
    let behavior = json!({ "ScaleUp": { "Policies": [{ "Type": "Percent", "Value": 100, "PeriodSeconds": 60 },
                                                     { "Type": "Pods", "Value": 4, "PeriodSeconds": 15 }] } });
    let (text, decisions) = timeline_with(
        scaled(rps(), behavior),
        json!([]),
        "
        t=0s replicas=8 active=1 rps=5000
        t=10s active=1 rps=5000
        ",
    );
    let next: Vec<_> = decisions.iter().map(|decision| decision.next_check.unwrap().to_string()).collect();
    expect![[r#"
        t=0s replicas=8 active=1 rps=5000 => 16 ScaleUpLimit: scaling up is limited to 100 % in 60 s, so 16 and not 20
        t=10s active=1 rps=5000 => 16 ScaleUpLimit: scaling up is limited to 100 % in 60 s, so 16 and not 20 (+8 already in that period)
        2026-03-01T12:00:15Z
        2026-03-01T12:00:15Z"#]].assert_eq(&format!("{text}{}", next.join("\n")));
}

/// Latency falls as soon as the pods are there. Every turn but the first doubles the wait before the next way down.
#[test]
fn who_turns_round_too_often_waits_longer_before_going_down() {
    let p95 = json!([{ "MetricName": "p95", "Query": "histogram_quantile(0.95, x)", "Threshold": 0.5, "Per": "Pod" }]);
    let behavior =
        |guard: Value| json!({ "ScaleDown": { "StabilizationWindowSeconds": 300, "FlapGuard": guard } });
    let rows = "
        t=0s replicas=4 active=1 p95=1
        t=60s active=1 p95=0.25
        t=361s active=1 p95=0.25
        t=400s active=1 p95=1
        t=460s active=1 p95=0.25
        t=701s active=1 p95=0.25
        t=1001s active=1 p95=0.25
        t=1030s active=1 p95=1
        t=1090s active=1 p95=0.25
        t=3000s active=1 p95=0.25
        t=3431s active=1 p95=0.25
        ";
    check(
        scaled(p95.clone(), behavior(json!(true))),
        rows,
        expect![[r#"
        t=0s replicas=4 active=1 p95=1 => 8 AboveThreshold: p95 asks for 8
        t=60s active=1 p95=0.25 => 8 ScaleDownStabilized: the scale-down window has seen a recommendation of 8, so not yet 4
        t=361s active=1 p95=0.25 => 4 BelowThreshold: p95 asks for the most: 4
        t=400s active=1 p95=1 => 8 AboveThreshold: p95 asks for 8
        t=460s active=1 p95=0.25 => 8 ScaleDownStabilized: the scale-down window has seen a recommendation of 8, so not yet 4
        t=701s active=1 p95=0.25 => 8 FlapGuard: 2 reversals in 6 min 40 s: the scale-down window is 10 min now and has seen a recommendation of 8, so not yet 4
        t=1001s active=1 p95=0.25 => 4 BelowThreshold: p95 asks for the most: 4
        t=1030s active=1 p95=1 => 8 AboveThreshold: p95 asks for 8
        t=1090s active=1 p95=0.25 => 8 ScaleDownStabilized: the scale-down window has seen a recommendation of 8, so not yet 4
        t=3000s active=1 p95=0.25 => 8 FlapGuard: 4 reversals in 17 min 10 s: the scale-down window is 40 min now and has seen a recommendation of 8, so not yet 4
        t=3431s active=1 p95=0.25 => 4 BelowThreshold: p95 asks for the most: 4
    "#]],
    );
    check(
        scaled(p95.clone(), behavior(json!(false))),
        rows,
        expect![[r#"
        t=0s replicas=4 active=1 p95=1 => 8 AboveThreshold: p95 asks for 8
        t=60s active=1 p95=0.25 => 8 ScaleDownStabilized: the scale-down window has seen a recommendation of 8, so not yet 4
        t=361s active=1 p95=0.25 => 4 BelowThreshold: p95 asks for the most: 4
        t=400s active=1 p95=1 => 8 AboveThreshold: p95 asks for 8
        t=460s active=1 p95=0.25 => 8 ScaleDownStabilized: the scale-down window has seen a recommendation of 8, so not yet 4
        t=701s active=1 p95=0.25 => 4 BelowThreshold: p95 asks for the most: 4
        t=1001s active=1 p95=0.25 => 2 BelowThreshold: p95 asks for the most: 2
        t=1030s active=1 p95=1 => 4 AboveThreshold: p95 asks for 4
        t=1090s active=1 p95=0.25 => 4 ScaleDownStabilized: the scale-down window has seen a recommendation of 4, so not yet 2
        t=3000s active=1 p95=0.25 => 2 BelowThreshold: p95 asks for the most: 2
        t=3431s active=1 p95=0.25 => 1 BelowThreshold: p95 asks for the most: 1
    "#]],
    );
    // A way down was taken back: it is remembered for an hour after the last time that something was held back.
    check(
        scaled(p95.clone(), behavior(json!({ "MaxWindowSeconds": 600 }))),
        "
        t=0s replicas=4 active=1 p95=1
        t=361s active=1 p95=0.25
        t=400s active=1 p95=1
        t=701s active=1 p95=0.25
        t=720s active=1 p95=0.5
        t=4200s active=1 p95=0.5
        t=4302s active=1 p95=0.5
        t=4603s active=1 p95=0.25
        ",
        expect![[r#"
            t=0s replicas=4 active=1 p95=1 => 8 AboveThreshold: p95 asks for 8
            t=361s active=1 p95=0.25 => 4 BelowThreshold: p95 asks for the most: 4
            t=400s active=1 p95=1 => 8 AboveThreshold: p95 asks for 8
            t=701s active=1 p95=0.25 => 8 FlapGuard: 2 reversals in 6 min 40 s: the scale-down window is 10 min now and has seen a recommendation of 8, so not yet 4
            t=720s active=1 p95=0.5 => 8 Active: a call under way
            t=4200s active=1 p95=0.5 => 8 Active: a call under way
            t=4302s active=1 p95=0.5 => 8 Active: a call under way
            t=4603s active=1 p95=0.25 => 4 BelowThreshold: p95 asks for the most: 4
        "#]],
    );
    // A batch every half an hour comes and goes; nothing is held for it.
    check(
        scaled(p95.clone(), behavior(json!(true))),
        "
        t=0s replicas=2 active=1 p95=2
        t=301s active=1 p95=0.125
        t=1800s active=1 p95=2
        t=2101s active=1 p95=0.125
        t=3600s active=1 p95=2
        t=3901s active=1 p95=0.125
        ",
        expect![[r#"
            t=0s replicas=2 active=1 p95=2 => 6 ScaleUpLimit: scaling up is limited to 4 pods in 15 s, so 6 and not 8
            t=301s active=1 p95=0.125 => 2 BelowThreshold: p95 asks for the most: 2
            t=1800s active=1 p95=2 => 6 ScaleUpLimit: scaling up is limited to 4 pods in 15 s, so 6 and not 8
            t=2101s active=1 p95=0.125 => 2 BelowThreshold: p95 asks for the most: 2
            t=3600s active=1 p95=2 => 6 ScaleUpLimit: scaling up is limited to 4 pods in 15 s, so 6 and not 8
            t=3901s active=1 p95=0.125 => 2 BelowThreshold: p95 asks for the most: 2
        "#]],
    );
    // Nothing delays the way to zero that both sides agree on.
    check(
        scaled(p95.clone(), behavior(json!(true))),
        "
        t=0s replicas=4 active=1 p95=1
        t=361s active=1 p95=0.25
        t=400s active=1 p95=1
        t=701s active=1 p95=0.25
        t=702s call=0 p95=0
        ",
        expect![[r#"
            t=0s replicas=4 active=1 p95=1 => 8 AboveThreshold: p95 asks for 8
            t=361s active=1 p95=0.25 => 4 BelowThreshold: p95 asks for the most: 4
            t=400s active=1 p95=1 => 8 AboveThreshold: p95 asks for 8
            t=701s active=1 p95=0.25 => 8 FlapGuard: 2 reversals in 6 min 40 s: the scale-down window is 10 min now and has seen a recommendation of 8, so not yet 4
            t=702s call=0 p95=0 => 4 ScaleDownStabilized: the scale-down window has seen a recommendation of 4, so not yet 0
        "#]],
    );
    // A window of 0 is meant; a guard for it has to be asked for.
    let at_once =
        |guard: Value| json!({ "ScaleDown": { "StabilizationWindowSeconds": 0, "FlapGuard": guard } });
    let rows = "
        t=0s replicas=4 active=1 p95=1
        t=30s active=1 p95=0.25
        t=60s active=1 p95=1
        t=90s active=1 p95=0.25
        ";
    check(
        scaled(p95.clone(), at_once(json!(null))),
        rows,
        expect![[r#"
        t=0s replicas=4 active=1 p95=1 => 8 AboveThreshold: p95 asks for 8
        t=30s active=1 p95=0.25 => 4 BelowThreshold: p95 asks for the most: 4
        t=60s active=1 p95=1 => 8 AboveThreshold: p95 asks for 8
        t=90s active=1 p95=0.25 => 4 BelowThreshold: p95 asks for the most: 4
    "#]],
    );
    check(
        scaled(p95, at_once(json!({ "MinWindowSeconds": 60 }))),
        rows,
        expect![[r#"
        t=0s replicas=4 active=1 p95=1 => 8 AboveThreshold: p95 asks for 8
        t=30s active=1 p95=0.25 => 4 BelowThreshold: p95 asks for the most: 4
        t=60s active=1 p95=1 => 8 AboveThreshold: p95 asks for 8
        t=90s active=1 p95=0.25 => 8 FlapGuard: 2 reversals in 1 min: the scale-down window is 2 min now and has seen a recommendation of 8, so not yet 4
    "#]],
    );
}
