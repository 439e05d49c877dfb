//! Limits beside requests, windows of maintenance, and what is refused.

use super::*;

#[test]
fn limits_follow_requests() {
    let biased = json!({"type": "VpaBiased"});
    table(
        &spec(biased.clone(), json!({})),
        &[
            "R=3 H=3 q=500 t=800",
            "R=3 H=3 q=500 t=800 L=1000",
            "R=3 H=3 q=500 t=800 L=500",
            "R=3 H=3 t=800 L=500",
            "R=3 H=3 t=800",
            "R=3 H=3 q=0 t=800 L=900",
        ],
        &expect![[r#"
            R=3 H=3 q=500 t=800                => 3 x app(cpu 800m) VerticalRecommended
            R=3 H=3 q=500 t=800 L=1000         => 3 x app(cpu 800m up to cpu 1600m) VerticalRecommended
            R=3 H=3 q=500 t=800 L=500          => 3 x app(cpu 800m up to cpu 800m) VerticalRecommended
            R=3 H=3 t=800 L=500                => 3 x app(cpu 800m up to cpu 800m) VerticalRecommended
            R=3 H=3 t=800                      => 3 x app(cpu 800m) VerticalRecommended
            R=3 H=3 q=0 t=800 L=900            => 3 x app(cpu 800m up to cpu 800m) VerticalRecommended
        "#]],
    );
    let gap = json!({"vertical": {"limitsRequestsGap": {"cpu": {"value": "300m", "percentage": 50}}}});
    table(
        &spec(biased.clone(), gap),
        &["R=3 H=3 q=500 t=800 L=1000", "R=3 H=3 q=500 t=400 L=1000"],
        &expect![[r#"
            R=3 H=3 q=500 t=800 L=1000         => 3 x app(cpu 800m up to cpu 1200m) VerticalRecommended
            R=3 H=3 q=500 t=400 L=1000         => 3 x app(cpu 400m up to cpu 700m) VerticalRecommended
        "#]],
    );
    let requests_only = json!({"vertical": {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]}});
    table(
        &spec(biased.clone(), requests_only),
        &["R=3 H=3 q=500 t=800 L=600"],
        &expect![[r#"
        R=3 H=3 q=500 t=800 L=600          => 3 x app(cpu 600m up to cpu 600m) VerticalRecommended
    "#]],
    );
    let range = json!({"vertical": {"limitRange": {"min": {"cpu": "200m"}, "max": {"cpu": "900m"}}}});
    table(
        &spec(biased, range),
        &["R=3 H=3 q=500 t=800 L=1000", "R=3 H=3 q=500 t=100"],
        &expect![[r#"
        R=3 H=3 q=500 t=800 L=1000         => 3 x app(cpu 800m up to cpu 900m) VerticalRecommended
        R=3 H=3 q=500 t=100                => 3 x app(cpu 200m) VerticalRecommended
    "#]],
    );
}

#[test]
fn maintenance_windows() {
    let inside = |begin: &str, end: &str, time: &str| {
        let window = MaintenanceWindow {
            begin: TimeOfDay::parse(begin).unwrap(),
            end: TimeOfDay::parse(end).unwrap(),
        };
        window.contains(format!("2026-03-29T{time}Z").parse().unwrap())
    };
    for (time, expected) in [
        ("20:59:59", false),
        ("21:00:00", true),
        ("00:00:00", true),
        ("01:30:00.9", true),
        ("01:30:01", false),
    ] {
        assert_eq!(inside("220000+0100", "023000+0100", time), expected, "{time}");
    }
    assert!(
        inside("010000+0000", "020000+0000", "01:30:00") && !inside("010000+0000", "020000+0000", "00:30:00")
    );
    for wrong in
        ["220000", "22:00:00+01", "250000+0100", "220000+1500", "2200é0+010", "-10000+0100", "22+000+0100"]
    {
        assert_eq!(TimeOfDay::parse(wrong), None, "{wrong}");
    }
    assert_eq!(TimeOfDay::parse("003000-0330").unwrap().to_string(), "003000-0330");
}

#[test]
fn bad_specs_name_the_field() {
    let error = |mode: Value, over: Value| spec(mode, over).validate().unwrap_err().to_string();
    let biased = json!({"type": "HpaBiased"});
    let ratio = |more: Value| {
        let mut ratio = json!({"type": "Ratio"});
        ratio.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ratio
    };
    let all = [
        error(biased.clone(), json!({"minReplicas": 0})),
        error(biased.clone(), json!({"minReplicas": 6})),
        error(biased.clone(), json!({"vertical": {"scaleUp": {"minChange": {"cpu": {"percentage": -1}}}}})),
        error(biased, json!({"horizontal": {"scaleDown": {"updateMode": "MaintenanceWindow"}}})),
        error(ratio(json!({})), json!({})),
        error(ratio(json!({"vToHScalingRatio": -1})), json!({})),
        error(ratio(json!({"vpaWeight": 101})), json!({})),
        error(ratio(json!({"vpaWeight": 50, "startReplicaCount": 4, "finishReplicaCount": 3})), json!({})),
        error(ratio(json!({"vpaWeight": 50, "startReplicaCount": 3})), json!({})),
        error(ratio(json!({"vpaWeight": 50, "finishReplicaCount": 3})), json!({})),
        error(
            ratio(json!({"intervals": [{"vpaWeight": 50, "startReplicaCount": 3, "lastReplicaCount": 2}]})),
            json!({}),
        ),
        error(ratio(json!({"vToHScalingRatio": 1, "intervals": [{"vpaWeight": 50}]})), json!({})),
    ];
    expect![[r#"
        minReplicas: expected 1 or more
        maxReplicas: expected no fewer than minReplicas
        vertical.scaleUp.minChange.cpu.percentage: expected 0 or more
        horizontal.scaleDown.updateMode: expected a maintenanceTimeWindow beside it
        mode.vToHScalingRatio: expected a ratio, or vpaWeight, or intervals
        mode.vToHScalingRatio: expected a number of 0 or more
        mode.vpaWeight: expected a number from 0 to 100
        mode.finishReplicaCount: expected 0 or no fewer than startReplicaCount
        mode.initialScaling: expected vertical or horizontal, because startReplicaCount is set
        mode.finalScaling: expected vertical or horizontal, because finishReplicaCount is set
        mode.intervals[0].lastReplicaCount: expected no fewer than startReplicaCount
        mode.intervals: expected not beside vToHScalingRatio"#]]
    .assert_eq(&all.join("\n"));
}

#[test]
fn by_name() {
    let input = json!({
        "now": "2027-01-15T08:00:00Z",
        "spec": {"mode": {"type": "VpaBiased", "maxSuppressionSeconds": 60}, "maxReplicas": 5},
        "observed": {
            "replicas": 2,
            "containers": [{"name": "app", "requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"cpu": "1"}}],
            "horizontal": {"desired": 4, "sampledAt": "2027-01-15T07:59:50Z"},
            "vertical": {"containers": [{"containerName": "app", "target": {"cpu": "800m", "memory": "100Mi"}}]},
            "rolloutInProgress": true,
        },
    });
    let decide = |input: &Value| crate::policy::decide("hvpa", &input.to_string());
    let outcome = decide(&input).unwrap();
    expect![[r#"
        2 x app(cpu 500m, memory 256Mi up to cpu 1) stays  RollingUpdate: the sizes wait: a rollout is in progress
          horizontal  2 x app(cpu 500m, memory 256Mi up to cpu 1) -> 4 x app(cpu 500m, memory 256Mi up to cpu 1)  the horizontal side wants 4
          vertical    2 x app(cpu 500m, memory 256Mi up to cpu 1) -> 2 x app(cpu 800m, memory 100Mi up to cpu 1)  the vertical side wants other sizes
          hold        2 x app(cpu 500m, memory 256Mi up to cpu 1) -> 2 x app(cpu 500m, memory 256Mi up to cpu 1)  the sizes wait: a rollout is in progress
          hold        2 x app(cpu 500m, memory 256Mi up to cpu 1) -> 2 x app(cpu 500m, memory 256Mi up to cpu 1)  the replicas wait: the mode prefers sizes, and they have to wait, until 2027-01-15T08:01:00Z
          choice      2 x app(cpu 500m, memory 256Mi up to cpu 1) -> 2 x app(cpu 500m, memory 256Mi up to cpu 1)  both sides want a change, the mode prefers the sizes
          look again at 2027-01-15T08:01:00Z"#]].assert_eq(&outcome.explanation);
    assert_eq!(outcome.json["desired"]["replicas"], 2);
    assert_eq!(outcome.json["desired"]["containers"][0]["requests"]["cpu"], "500m");

    let wrong = |pointer: &str, value: Value| {
        let mut input = input.clone();
        *input.pointer_mut(pointer).unwrap() = value;
        decide(&input).unwrap_err().to_string()
    };
    let errors = [
        wrong("/spec/mode/type", json!("Biased")),
        wrong("/spec/maxReplicas", json!(0)),
        wrong("/observed/replicas", json!("two")),
        wrong("/observed/containers/0/requests/cpu", json!("-1")),
        wrong("/observed/horizontal/desired", json!(1.5)),
    ];
    expect![[r#"
        spec.mode.type: unknown value "Biased", expected one of HpaPreferred, HpaBiased, VpaBiased, Mixed, Ratio at line 1 column 404
        spec.maxReplicas: expected no fewer than minReplicas
        observed.replicas: expected a whole number of at most 2147483647, found "two" at line 1 column 214
        observed.containers[0].requests.cpu: expected a quantity of 0 or more, found -1 at line 1 column 113
        observed.horizontal.desired: expected a whole number of at most 2147483647, found 1.5 at line 1 column 163"#]].assert_eq(&errors.join("\n"));
}
