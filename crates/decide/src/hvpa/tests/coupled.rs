//! One need, two axes.

use super::*;
use crate::quantity::Quantity;

/// The world of the words, with a horizontal side that follows CPU. `u` is what all pods used, in thousandths; `T` the total that
/// the vertical side learnt; `av` an average value instead of 80 % of requests; `settled` seconds since the pods run so.
fn coupled(now: Timestamp, text: &str) -> Observed {
    let get = |key: &str| {
        text.split_whitespace()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse::<i64>().ok())
    };
    let mut observed = world(now, text);
    if let Some(horizontal) = &mut observed.horizontal {
        horizontal.metric = Some(ResourceMetric {
            resource: Resource::Cpu,
            container: None,
            target: match get("av") {
                Some(milli) => MetricTarget::AverageValue(Quantity(milli)),
                None => MetricTarget::AverageUtilization(80),
            },
            usage: get("u").map(Quantity),
        });
    }
    if let (Some(total), Some(vertical)) = (get("T"), &mut observed.vertical) {
        vertical.containers[0].total.target.cpu = Some(total as u64);
    }
    observed.settled_at = get("settled").map(|seconds| crate::window::before(now, seconds));
    observed
}

fn coupled_table(spec: &Spec, worlds: &[&str], expected: &Expect) {
    spec.validate().unwrap();
    let mut text = String::new();
    for words in worlds {
        let decision = decide(at(0), spec, &coupled(at(0), words), &Memory::default());
        text.push_str(&format!("{words:34} => {}\n", result(&decision)));
    }
    expected.assert_eq(&text);
}

const SIZES: &str = r#"{"vertical": {"containerPolicies": [
    {"containerName": "*", "minAllowed": {"cpu": "250m"}, "maxAllowed": {"cpu": "4"}}]},
    "minReplicas": 1, "maxReplicas": 20}"#;

fn sizes() -> Value {
    serde_json::from_str(SIZES).unwrap()
}

#[test]
fn one_need_for_both() {
    let worlds = [
        // H asks for 5 x 500m, V for 3 x 800m: 2.5 cores are needed.
        "R=3 H=5 q=500 t=800",
        "R=3 H=3 q=500 t=800",
        "R=3 H=3 q=500 t=540",
        // Going down both have to agree, on the larger.
        "R=6 H=2 q=500 t=500",
        "R=6 H=2 q=500 t=250",
        "R=6 H=6 q=500 t=250",
        "R=6 H=2 q=500",
        // A total does not depend on the count.
        "R=6 H=2 q=500 t=500 T=1600",
        // What all pods used says it to the thousandth: 470m at 80 % are 588m, not two pods of 500m.
        "R=1 H=2 q=500 t=500 u=470",
        "R=4 H=4 q=500 t=500 T=1200 u=1000",
        // 15 x 350m x 1.15 is what the pods hold already.
        "R=4 H=15 q=1510 t=1400 av=350",
        "R=4 H=15 q=1000 t=1000 av=350",
    ];
    for mode in ["HpaBiased", "VpaBiased"] {
        let expected = match mode {
            "HpaBiased" => expect![[r#"
                R=3 H=5 q=500 t=800                => 5 x app(cpu 500m) HorizontalPreferred
                R=3 H=3 q=500 t=800                => 5 x app(cpu 500m) HorizontalPreferred
                R=3 H=3 q=500 t=540                => 3 x app(cpu 500m) NothingRecommended
                R=6 H=2 q=500 t=500                => 6 x app(cpu 500m) NothingRecommended
                R=6 H=2 q=500 t=250                => 3 x app(cpu 500m) HorizontalPreferred
                R=6 H=6 q=500 t=250                => 5 x app(cpu 500m) HorizontalPreferred
                R=6 H=2 q=500                      => 6 x app(cpu 500m) NothingRecommended
                R=6 H=2 q=500 t=500 T=1600         => 4 x app(cpu 500m) HorizontalPreferred
                R=1 H=2 q=500 t=500 u=470          => 2 x app(cpu 500m) HorizontalPreferred
                R=4 H=4 q=500 t=500 T=1200 u=1000  => 3 x app(cpu 500m) HorizontalPreferred
                R=4 H=15 q=1510 t=1400 av=350      => 4 x app(cpu 1510m) NothingRecommended
                R=4 H=15 q=1000 t=1000 av=350      => 7 x app(cpu 1) HorizontalPreferred
            "#]],
            _ => expect![[r#"
                R=3 H=5 q=500 t=800                => 3 x app(cpu 834m) VerticalPreferred
                R=3 H=3 q=500 t=800                => 3 x app(cpu 800m) VerticalPreferred
                R=3 H=3 q=500 t=540                => 3 x app(cpu 500m) NothingRecommended
                R=6 H=2 q=500 t=500                => 6 x app(cpu 500m) NothingRecommended
                R=6 H=2 q=500 t=250                => 6 x app(cpu 250m) VerticalPreferred
                R=6 H=6 q=500 t=250                => 6 x app(cpu 417m) VerticalPreferred
                R=6 H=2 q=500                      => 6 x app(cpu 500m) NothingRecommended
                R=6 H=2 q=500 t=500 T=1600         => 6 x app(cpu 267m) VerticalPreferred
                R=1 H=2 q=500 t=500 u=470          => 1 x app(cpu 588m) VerticalPreferred
                R=4 H=4 q=500 t=500 T=1200 u=1000  => 4 x app(cpu 375m) VerticalPreferred
                R=4 H=15 q=1510 t=1400 av=350      => 4 x app(cpu 1510m) NothingRecommended
                R=4 H=15 q=1000 t=1000 av=350      => 4 x app(cpu 1510m) VerticalPreferred
            "#]],
        };
        coupled_table(&spec(json!({"type": mode}), sizes()), &worlds, &expected);
    }
    let mut off = sizes();
    off["coupling"] = json!("Off");
    coupled_table(
        &spec(json!({"type": "VpaBiased"}), off),
        &worlds[..2],
        &expect![[r#"
        R=3 H=5 q=500 t=800                => 3 x app(cpu 800m) VerticalPreferred
        R=3 H=3 q=500 t=800                => 3 x app(cpu 800m) VerticalRecommended
    "#]],
    );
}

/// Pods of 500m at 80 %: 1,000m ask for 1,250m, and 2,000m for 2,500m.
#[test]
fn more_is_assumed_only_of_a_load_that_cannot_be_seen() {
    let worlds = [
        // At what they request, on a node that may be full.
        "R=2 H=3 q=500 t=500 u=1000",
        // Nothing holds them back.
        "R=2 H=5 q=500 t=500 u=2000",
        // Below their limit, and at it.
        "R=2 H=3 q=500 t=500 u=1000 L=1000",
        "R=2 H=5 q=500 t=500 u=2000 L=1000",
        "R=2 H=3 q=500 t=500 u=1000 L=500",
    ];
    coupled_table(
        &spec(json!({"type": "VpaBiased"}), sizes()),
        &worlds,
        &expect![[r#"
        R=2 H=3 q=500 t=500 u=1000         => 2 x app(cpu 875m) VerticalPreferred
        R=2 H=5 q=500 t=500 u=2000         => 2 x app(cpu 1250m) VerticalPreferred
        R=2 H=3 q=500 t=500 u=1000 L=1000  => 2 x app(cpu 625m up to cpu 1250m) VerticalPreferred
        R=2 H=5 q=500 t=500 u=2000 L=1000  => 2 x app(cpu 1750m up to cpu 3500m) VerticalPreferred
        R=2 H=3 q=500 t=500 u=1000 L=500   => 2 x app(cpu 875m up to cpu 875m) VerticalPreferred
    "#]],
    );
}

/// The jump from 1 to 5 cores that made VPA biased and Mixed hold 23: the sizes grew, then the count that was made for the old size.
#[test]
fn the_other_axis_has_nothing_left_to_want() {
    for mode in [
        json!({"type": "HpaPreferred"}),
        json!({"type": "HpaBiased"}),
        json!({"type": "VpaBiased"}),
        json!({"type": "Mixed", "preference": "vertical", "replicas": 0}),
        json!({"type": "Ratio", "vToHScalingRatio": 1}),
    ] {
        let mut bounds = sizes();
        bounds["vertical"]["containerPolicies"][0]["maxAllowed"]["cpu"] = json!("8");
        let spec = spec(mode, bounds);
        let mut observed = coupled(at(0), "R=1 H=5 q=1000 t=5000");
        let (mut memory, mut most) = (Memory::default(), 0);
        for pass in 0..10 {
            let decision = decide(at(pass), &spec, &observed, &memory);
            observed.replicas = decision.desired.replicas;
            observed.containers = decision.desired.containers.clone();
            memory = decision.memory;
            let cpu = observed.containers[0].requests.cpu.unwrap();
            most = most.max(observed.replicas as u64 * cpu);
        }
        assert!((5000..=5001).contains(&most), "{:?} held {most}", spec.mode);
    }
}

/// Two signals instead: a count that is still right for the old size is taken as one for the new.
#[test]
fn uncoupled_both_axes_answer_the_same_jump() {
    let mut bounds = sizes();
    bounds["vertical"]["containerPolicies"][0]["maxAllowed"]["cpu"] = json!("8");
    bounds["coupling"] = json!("Off");
    let spec = spec(json!({"type": "VpaBiased"}), bounds);
    let mut observed = coupled(at(0), "R=1 H=5 q=1000 t=5000 hs=0 vs=0");
    let mut memory = Memory::default();
    for pass in 1..3 {
        observed.horizontal.as_mut().unwrap().sampled_at = Some(at(pass * 60));
        observed.vertical.as_mut().unwrap().sampled_at = Some(at(pass * 60));
        let decision = decide(at(pass * 60), &spec, &observed, &memory);
        observed.replicas = decision.desired.replicas;
        observed.containers = decision.desired.containers.clone();
        memory = decision.memory;
    }
    assert_eq!((observed.replicas, observed.containers[0].requests.cpu), (5, Some(5000)));
}

#[test]
fn the_ratio_is_a_path() {
    let pair = |ratio: Value, need: u64| {
        let mut mode = json!({"type": "Ratio"});
        mode.as_object_mut().unwrap().extend(ratio.as_object().unwrap().clone());
        let spec = spec(mode, sizes());
        spec.validate().unwrap();
        let words = format!("R=2 H=2 q=500 t=500 T={need}");
        let decision = decide(at(0), &spec, &coupled(at(0), &words), &Memory::default());
        decision.desired.to_string().replace(" app", "")
    };
    let mut text = String::new();
    for ratio in [
        json!({"vToHScalingRatio": 0.1}),
        json!({"vToHScalingRatio": 1}),
        json!({"vToHScalingRatio": 9}),
        json!({"vpaWeight": 100}),
        json!({"vToHScalingRatio": 1, "startReplicaCount": 3, "finishReplicaCount": 8,
            "initialScaling": "horizontal", "finalScaling": "horizontal"}),
        json!({"vToHScalingRatio": 1, "startReplicaCount": 3, "initialScaling": "vertical"}),
    ] {
        let pairs: Vec<String> =
            [1200, 3000, 6000, 20_000, 90_000].map(|need| pair(ratio.clone(), need)).into();
        text.push_str(&format!("{ratio}\n    {}\n", pairs.join(", ")));
    }
    expect![[r#"
        {"vToHScalingRatio":0.1}
            4 x(cpu 500m), 10 x(cpu 500m), 18 x(cpu 500m), 20 x(cpu 1), 20 x(cpu 4)
        {"vToHScalingRatio":1}
            2 x(cpu 600m), 3 x(cpu 1), 5 x(cpu 1200m), 9 x(cpu 2223m), 20 x(cpu 4)
        {"vToHScalingRatio":9}
            1 x(cpu 1200m), 1 x(cpu 3), 2 x(cpu 3), 5 x(cpu 4), 20 x(cpu 4)
        {"vpaWeight":100}
            1 x(cpu 1200m), 1 x(cpu 3), 2 x(cpu 3), 5 x(cpu 4), 20 x(cpu 4)
        {"finalScaling":"horizontal","finishReplicaCount":8,"initialScaling":"horizontal","startReplicaCount":3,"vToHScalingRatio":1}
            4 x(cpu 500m), 6 x(cpu 500m), 8 x(cpu 750m), 20 x(cpu 1), 20 x(cpu 4)
        {"initialScaling":"vertical","startReplicaCount":3,"vToHScalingRatio":1}
            2 x(cpu 600m), 4 x(cpu 750m), 5 x(cpu 1200m), 10 x(cpu 2), 20 x(cpu 4)
    "#]].assert_eq(&text);
}

/// A side that has seen nothing of the last change keeps its need, and does not add.
#[test]
fn stale_sides_keep_their_need() {
    let spec = spec(json!({"type": "HpaPreferred"}), json!({}));
    let mut memory = Memory::default();
    let mut text = String::new();
    let mut plan: Option<Plan> = None;
    for (seconds, words) in [
        (0, "R=3 H=9 q=500 t=500 hs=1 vs=1"),
        // The five pods are starting: the rest of the need goes to the sizes, which H has not seen either.
        (10, "H=9 t=500 hs=11 vs=11"),
        (20, "H=9 t=500 hs=1 vs=1 settled=5"),
        (60, "H=9 t=900 hs=1 vs=1 settled=10"),
        (120, "H=5 t=900 hs=1 vs=1 settled=70"),
    ] {
        let mut observed = coupled(at(seconds), &format!("{words} R=3 q=500"));
        if let Some(plan) = &plan {
            observed.replicas = plan.replicas;
            observed.containers = plan.containers.clone();
        }
        let decision = decide(at(seconds), &spec, &observed, &memory);
        memory = decision.memory.clone();
        let need = decision.steps.iter().find(|step| matches!(step.rule, Rule::Need { .. })).unwrap();
        text.push_str(&format!("{words:34} => {}\n    {}\n", result(&decision), need.words()));
        plan = Some(decision.desired);
    }
    expect![[r#"
        R=3 H=9 q=500 t=500 hs=1 vs=1      => 5 x app(cpu 500m) HorizontalRecommended
            cpu of app: 4500m needed, 1500m held, horizontal says 4500m, vertical says 1500m
        H=9 t=500 hs=11 vs=11              => 5 x app(cpu 900m) HorizontalExhausted
            cpu of app: 4500m needed, 2500m held, horizontal says 4500m as before the last change, vertical says 1500m as before the last change
        H=9 t=500 hs=1 vs=1 settled=5      => 5 x app(cpu 1620m) HorizontalExhausted
            cpu of app: 8100m needed, 4500m held, horizontal says 8100m, vertical says 2500m
        H=9 t=900 hs=1 vs=1 settled=10     => 5 x app(cpu 2916m) HorizontalExhausted
            cpu of app: 14580m needed, 8100m held, horizontal says 14580m, vertical says 4500m
        H=5 t=900 hs=1 vs=1 settled=70     => 5 x app(cpu 2916m) NothingRecommended
            cpu of app: 14580m needed, 14580m held, horizontal says 11664m, vertical says 4500m
    "#]].assert_eq(&text);
}

#[test]
fn a_metric_that_makes_no_sense_is_refused() {
    let refused = |metric: Value| {
        let input = json!({
            "now": "2027-01-15T08:00:00Z",
            "spec": {"mode": {"type": "HpaBiased"}, "maxReplicas": 5},
            "observed": {"replicas": 2, "horizontal": {"desired": 4, "metric": metric}},
        });
        crate::policy::decide("hvpa", &input.to_string()).unwrap_err().to_string()
    };
    let errors = [
        refused(json!({"resource": "cpu", "target": {"averageUtilization": 0}})),
        refused(json!({"resource": "cpu", "target": {"averageValue": "0"}})),
        refused(json!({"resource": "cpu", "target": {"averageUtilization": 80}, "usage": "-1"})),
        refused(json!({"resource": "disk", "target": {"averageUtilization": 80}})),
    ];
    expect![[r#"
        observed.horizontal.metric.target.averageUtilization: expected 1 or more
        observed.horizontal.metric.target.averageValue: expected a quantity above 0
        observed.horizontal.metric.usage: expected a quantity of 0 or more
        observed.horizontal.metric.resource: unknown value "disk", expected cpu or memory at line 1 column 95"#]].assert_eq(&errors.join("\n"));
}
