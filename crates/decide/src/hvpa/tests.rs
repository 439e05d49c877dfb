mod bounds;
mod coupled;
mod laws;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

const MI: u64 = 1 << 20;

fn at(seconds: i64) -> Timestamp {
    // 2027-01-15T08:00:00Z
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// Replicas 2 to 5, container `app`; `over` is merged on top.
fn spec(mode: Value, over: Value) -> Spec {
    let mut spec = json!({"mode": mode, "minReplicas": 2, "maxReplicas": 5});
    spec.as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
    serde_json::from_value(spec).unwrap()
}

/// Words: `R` replicas, `H` wanted replicas, `q` and `t` CPU request and target in thousandths, `L` CPU limit, `lo` `hi` bounds of
/// the target, `mq` `mt` `mL` the same for memory in Mi, `hs` `vs` seconds since the samples; flags `hfail`, `hlimited`, `vlow`,
/// `rollout`, `oom`.
fn world(now: Timestamp, text: &str) -> Observed {
    let get = |key: &str| {
        text.split_whitespace()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse::<i64>().ok())
    };
    let has = |flag: &str| text.split_whitespace().any(|word| word == flag);
    let amounts = |cpu: &str, memory: &str| Resources {
        cpu: get(cpu).map(|milli| milli as u64),
        memory: get(memory).map(|mi| mi as u64 * MI),
    };
    let ago = |key: &str| get(key).map(|seconds| crate::window::before(now, seconds));
    let target = amounts("t", "mt");
    Observed {
        replicas: get("R").unwrap() as i32,
        containers: vec![ContainerSize {
            name: "app".to_owned(),
            requests: amounts("q", "mq"),
            limits: amounts("L", "mL"),
        }],
        horizontal: get("H").map(|desired| HorizontalRecommendation {
            desired: desired as i32,
            by: None,
            active: !has("hfail"),
            limited: has("hlimited"),
            sampled_at: ago("hs"),
            metric: None,
        }),
        vertical: (!target.is_empty()).then(|| VerticalRecommendation {
            provided: true,
            low_confidence: has("vlow"),
            config_unsupported: false,
            sampled_at: ago("vs"),
            containers: vec![ContainerRecommendation {
                container_name: "app".to_owned(),
                target,
                lower_bound: amounts("lo", "-"),
                upper_bound: amounts("hi", "-"),
                ..ContainerRecommendation::default()
            }],
        }),
        rollout_in_progress: has("rollout"),
        settled_at: None,
        out_of_memory: has("oom")
            .then(|| OutOfMemory { at: now, container: Some("app".to_owned()) })
            .into_iter()
            .collect(),
    }
}

fn result(decision: &Decision<Memory, Rule>) -> String {
    format!("{} {}", decision.desired, decision.reason.code)
}

/// One line a world: what was seen, what was decided.
fn table(spec: &Spec, worlds: &[&str], expected: &Expect) {
    spec.validate().unwrap();
    let mut text = String::new();
    for words in worlds {
        let decision = decide(at(0), spec, &world(at(0), words), &Memory::default());
        text.push_str(&format!("{words:34} => {}\n", result(&decision)));
    }
    expected.assert_eq(&text);
}

/// Like [`table`], but time goes on (`+30 words` is 30 seconds later), memory is stored and restored, and decisions are applied: `R`, `q`
/// and `mq` come from the last decision unless the words give them.
fn timeline(spec: &Spec, rows: &[&str], expected: &Expect) {
    spec.validate().unwrap();
    let (mut text, mut memory, mut now) = (String::new(), Memory::default(), at(0));
    let mut plan: Option<Plan> = None;
    for row in rows {
        let (later, words) = row.strip_prefix('+').unwrap().split_once(' ').unwrap();
        now = crate::window::after(now, later.parse().unwrap());
        let mut full = (*words).to_owned();
        if let Some(Plan { replicas, containers }) = &plan {
            let requests = containers[0].requests;
            let known =
                [("R", Some(*replicas as u64)), ("q", requests.cpu), ("mq", requests.memory.map(|m| m / MI))];
            for (key, value) in known {
                let given = full.split_whitespace().any(|word| word.starts_with(&format!("{key}=")));
                if let Some(value) = value.filter(|_| !given) {
                    full.push_str(&format!(" {key}={value}"));
                }
            }
        }
        let decision = decide(now, spec, &world(now, &full), &memory);
        memory = serde_json::from_str(&serde_json::to_string(&decision.memory).unwrap()).unwrap();
        text.push_str(&format!("{row:34} => {}: {}\n", result(&decision), decision.why()));
        plan = Some(decision.desired);
    }
    expected.assert_eq(&text);
}

#[test]
fn hpa_preferred() {
    let preferred = json!({"type": "HpaPreferred"});
    table(
        &spec(preferred.clone(), json!({})),
        &[
            "R=3 H=5 q=500 t=800",
            "R=3 H=3 q=500 t=800",
            "R=3 H=3 q=500 t=200",
            "R=3 H=3 q=500 t=500",
            "R=5 H=5 q=500 t=800",
            "R=5 H=9 q=500 t=800",
            "R=5 H=5 q=500 t=200",
            "R=5 H=4 q=500 t=800",
            "R=2 H=2 q=500 t=200",
            "R=2 H=1 q=500 t=200",
            "R=2 H=2 q=500 t=800",
            "R=5 H=5 hfail q=500 t=800",
            "R=5 q=500 t=800",
            "R=5 H=0 q=500 t=800",
            "R=9 H=9 q=500 t=800",
            "R=1 H=1 q=500 t=800",
            "R=0 H=3 q=500 t=800",
            // Up and down in one recommendation: at the most replicas only the growing part counts.
            "R=5 H=5 q=500 t=800 mq=500 mt=100",
            "R=2 H=2 q=500 t=800 mq=500 mt=100",
        ],
        &expect![[r#"
            R=3 H=5 q=500 t=800                => 5 x app(cpu 500m) HorizontalRecommended
            R=3 H=3 q=500 t=800                => 3 x app(cpu 500m) HorizontalNotExhausted
            R=3 H=3 q=500 t=200                => 3 x app(cpu 500m) HorizontalNotExhausted
            R=3 H=3 q=500 t=500                => 3 x app(cpu 500m) NothingRecommended
            R=5 H=5 q=500 t=800                => 5 x app(cpu 800m) HorizontalExhausted
            R=5 H=9 q=500 t=800                => 5 x app(cpu 800m) HorizontalExhausted
            R=5 H=5 q=500 t=200                => 5 x app(cpu 500m) HorizontalNotExhausted
            R=5 H=4 q=500 t=800                => 4 x app(cpu 500m) HorizontalRecommended
            R=2 H=2 q=500 t=200                => 2 x app(cpu 200m) HorizontalExhausted
            R=2 H=1 q=500 t=200                => 2 x app(cpu 200m) HorizontalExhausted
            R=2 H=2 q=500 t=800                => 2 x app(cpu 500m) HorizontalNotExhausted
            R=5 H=5 hfail q=500 t=800          => 5 x app(cpu 500m) HorizontalUnknown
            R=5 q=500 t=800                    => 5 x app(cpu 500m) HorizontalUnknown
            R=5 H=0 q=500 t=800                => 5 x app(cpu 500m) HorizontalUnknown
            R=9 H=9 q=500 t=800                => 5 x app(cpu 500m) OutsideBounds
            R=1 H=1 q=500 t=800                => 2 x app(cpu 500m) OutsideBounds
            R=0 H=3 q=500 t=800                => 0 x app(cpu 500m) Paused
            R=5 H=5 q=500 t=800 mq=500 mt=100  => 5 x app(cpu 800m, memory 500Mi) HorizontalExhausted
            R=2 H=2 q=500 t=800 mq=500 mt=100  => 2 x app(cpu 500m, memory 100Mi) HorizontalExhausted
        "#]],
    );
    let fixed = spec(preferred.clone(), json!({"minReplicas": 3, "maxReplicas": 3}));
    table(
        &fixed,
        &["R=3 H=3 q=500 t=800", "R=3 H=3 q=500 t=200"],
        &expect![[r#"
        R=3 H=3 q=500 t=800                => 3 x app(cpu 800m) HorizontalExhausted
        R=3 H=3 q=500 t=200                => 3 x app(cpu 200m) HorizontalExhausted
    "#]],
    );
    let absent = spec(preferred.clone(), json!({"horizontal": {"deployed": false}}));
    table(
        &absent,
        &["R=3 q=500 t=800", "R=9 q=500 t=200"],
        &expect![[r#"
        R=3 q=500 t=800                    => 3 x app(cpu 800m) HorizontalExhausted
        R=9 q=500 t=200                    => 9 x app(cpu 200m) HorizontalExhausted
    "#]],
    );
    let up_off = spec(preferred, json!({"horizontal": {"scaleUp": {"updateMode": "Off"}}}));
    table(
        &up_off,
        &["R=3 H=5 q=500 t=800", "R=3 H=2 q=500 t=800"],
        &expect![[r#"
        R=3 H=5 q=500 t=800                => 3 x app(cpu 800m) HorizontalExhausted
        R=3 H=2 q=500 t=800                => 2 x app(cpu 500m) HorizontalRecommended
    "#]],
    );
    let limited = spec(json!({"type": "HpaPreferred", "requireScalingLimited": true}), json!({}));
    table(
        &limited,
        &["R=5 H=5 q=500 t=800", "R=5 H=5 hlimited q=500 t=800", "R=5 H=9 q=500 t=800"],
        &expect![[r#"
            R=5 H=5 q=500 t=800                => 5 x app(cpu 500m) HorizontalNotExhausted
            R=5 H=5 hlimited q=500 t=800       => 5 x app(cpu 800m) HorizontalExhausted
            R=5 H=9 q=500 t=800                => 5 x app(cpu 800m) HorizontalExhausted
        "#]],
    );
}

#[test]
fn biased_modes() {
    let worlds = [
        "R=3 H=5 q=500 t=800",
        "R=3 H=5 q=500 t=540",
        "R=3 H=3 q=500 t=800",
        "R=3 H=3 q=500 t=540",
        "R=3 H=2 q=500 t=800",
        "R=5 H=9 q=500 t=800",
        // Unknown replicas: growing is safe, shrinking is not.
        "R=3 H=5 hfail q=500 t=800",
        "R=3 H=5 hfail q=500 t=200",
        "R=3 H=5 hs=301 q=500 t=200",
        "R=3 H=5 q=500 t=800 vlow",
        "R=3 H=5 q=500 t=800 vs=301",
        // Below the minimum change, but out of its range.
        "R=3 H=3 q=500 t=540 lo=520 hi=600",
        "R=3 H=3 q=500 t=460 lo=400 hi=480",
    ];
    table(
        &spec(json!({"type": "HpaBiased"}), json!({})),
        &worlds,
        &expect![[r#"
        R=3 H=5 q=500 t=800                => 5 x app(cpu 500m) HorizontalPreferred
        R=3 H=5 q=500 t=540                => 5 x app(cpu 500m) HorizontalRecommended
        R=3 H=3 q=500 t=800                => 3 x app(cpu 800m) VerticalRecommended
        R=3 H=3 q=500 t=540                => 3 x app(cpu 500m) NothingRecommended
        R=3 H=2 q=500 t=800                => 2 x app(cpu 500m) HorizontalPreferred
        R=5 H=9 q=500 t=800                => 5 x app(cpu 800m) VerticalRecommended
        R=3 H=5 hfail q=500 t=800          => 3 x app(cpu 800m) VerticalRecommended
        R=3 H=5 hfail q=500 t=200          => 3 x app(cpu 500m) NothingRecommended
        R=3 H=5 hs=301 q=500 t=200         => 3 x app(cpu 500m) NothingRecommended
        R=3 H=5 q=500 t=800 vlow           => 5 x app(cpu 500m) HorizontalRecommended
        R=3 H=5 q=500 t=800 vs=301         => 5 x app(cpu 500m) HorizontalRecommended
        R=3 H=3 q=500 t=540 lo=520 hi=600  => 3 x app(cpu 540m) VerticalRecommended
        R=3 H=3 q=500 t=460 lo=400 hi=480  => 3 x app(cpu 460m) VerticalRecommended
    "#]],
    );
    table(
        &spec(json!({"type": "VpaBiased"}), json!({})),
        &worlds,
        &expect![[r#"
        R=3 H=5 q=500 t=800                => 3 x app(cpu 800m) VerticalPreferred
        R=3 H=5 q=500 t=540                => 5 x app(cpu 500m) HorizontalRecommended
        R=3 H=3 q=500 t=800                => 3 x app(cpu 800m) VerticalRecommended
        R=3 H=3 q=500 t=540                => 3 x app(cpu 500m) NothingRecommended
        R=3 H=2 q=500 t=800                => 3 x app(cpu 800m) VerticalPreferred
        R=5 H=9 q=500 t=800                => 5 x app(cpu 800m) VerticalRecommended
        R=3 H=5 hfail q=500 t=800          => 3 x app(cpu 800m) VerticalRecommended
        R=3 H=5 hfail q=500 t=200          => 3 x app(cpu 500m) NothingRecommended
        R=3 H=5 hs=301 q=500 t=200         => 3 x app(cpu 500m) NothingRecommended
        R=3 H=5 q=500 t=800 vlow           => 5 x app(cpu 500m) HorizontalRecommended
        R=3 H=5 q=500 t=800 vs=301         => 5 x app(cpu 500m) HorizontalRecommended
        R=3 H=3 q=500 t=540 lo=520 hi=600  => 3 x app(cpu 540m) VerticalRecommended
        R=3 H=3 q=500 t=460 lo=400 hi=480  => 3 x app(cpu 460m) VerticalRecommended
    "#]],
    );
}

#[test]
fn mixed() {
    let mode = |preference: &str| {
        json!({
            "type": "Mixed",
            "preference": preference,
            "replicas": 1,
            "thresholds": {"cpu": {"value": "200m", "percentage": 50}, "memory": {"percentage": 50}},
        })
    };
    let worlds = [
        // 50 % of 300m is 150m, less than 200m: the smaller counts, and only what exceeds it.
        "R=2 H=4 q=300 t=450",
        "R=2 H=3 q=300 t=451",
        "R=2 H=4 q=300 t=451",
        "R=2 H=3 q=300 t=450",
        // Above its limit a target counts however small the step is.
        "R=2 H=3 q=300 t=310 L=305",
        // One side alone needs no threshold, only more than noise.
        "R=2 H=2 q=300 t=310",
        "R=2 H=2 q=300 t=302",
        "R=2 H=3 q=300 t=302",
    ];
    table(
        &spec(mode("horizontal"), json!({})),
        &worlds,
        &expect![[r#"
        R=2 H=4 q=300 t=450                => 4 x app(cpu 300m) HorizontalAboveThreshold
        R=2 H=3 q=300 t=451                => 2 x app(cpu 451m) VerticalAboveThreshold
        R=2 H=4 q=300 t=451                => 4 x app(cpu 300m) HorizontalPreferred
        R=2 H=3 q=300 t=450                => 2 x app(cpu 300m) MinChange
        R=2 H=3 q=300 t=310 L=305          => 2 x app(cpu 310m up to cpu 315m) VerticalAboveThreshold
        R=2 H=2 q=300 t=310                => 2 x app(cpu 310m) VerticalRecommended
        R=2 H=2 q=300 t=302                => 2 x app(cpu 300m) NothingRecommended
        R=2 H=3 q=300 t=302                => 3 x app(cpu 300m) HorizontalRecommended
    "#]],
    );
    table(
        &spec(mode("vertical"), json!({})),
        &worlds[2..3],
        &expect![[r#"
        R=2 H=4 q=300 t=451                => 2 x app(cpu 451m) VerticalPreferred
    "#]],
    );
    let requests_only = json!({"vertical": {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]}});
    table(
        &spec(mode("vertical"), requests_only),
        &["R=2 H=3 q=300 t=310 L=305"],
        &expect![[r#"
        R=2 H=3 q=300 t=310 L=305          => 2 x app(cpu 300m up to cpu 305m) MinChange
    "#]],
    );
}

#[test]
fn ratio_weights() {
    let weights = |ratio: Value, moves: &[(i32, i32)]| {
        let ratio: Ratio = serde_json::from_value(ratio).unwrap();
        let regions = ratio.regions(1, 10).unwrap();
        moves.iter().map(|&(replicas, delta)| ratio::weight_at(&regions, replicas, delta)).collect::<Vec<_>>()
    };
    assert_eq!(weights(json!({"vToHScalingRatio": 0}), &[(3, 1)]), [0.0]);
    assert_eq!(weights(json!({"vToHScalingRatio": 1}), &[(3, 1)]), [50.0]);
    assert_eq!(weights(json!({"vToHScalingRatio": 3}), &[(3, 1)]), [75.0]);
    let regions = json!({"vpaWeight": 40, "startReplicaCount": 3, "finishReplicaCount": 6,
        "initialScaling": "vertical", "finalScaling": "horizontal"});
    // Both ends belong to the middle; leaving the vertical region upward borrows the middle's weight.
    assert_eq!(
        weights(regions, &[(2, 0), (2, 1), (2, -1), (3, 1), (6, 1), (7, 1)]),
        [100.0, 40.0, 100.0, 40.0, 40.0, 0.0]
    );
    let intervals = json!({"intervals": [
        {"vpaWeight": 30, "lastReplicaCount": 3}, {"vpaWeight": 100, "startReplicaCount": 4, "lastReplicaCount": 6},
        {"vpaWeight": 0, "startReplicaCount": 8},
    ]});
    assert_eq!(
        weights(intervals, &[(1, 1), (5, 0), (5, -1), (5, 1), (7, 1), (9, 1)]),
        [30.0, 100.0, 30.0, 0.0, 0.0, 0.0]
    );
}

#[test]
fn ratio() {
    let half = json!({"type": "Ratio", "vToHScalingRatio": 1});
    let wide = |mode: &Value, over: Value| {
        let mut all = json!({"minReplicas": 1, "maxReplicas": 10});
        all.as_object_mut().unwrap().extend(over.as_object().unwrap().clone());
        spec(mode.clone(), all)
    };
    table(
        &wide(&half, json!({})),
        &[
            "R=2 H=6 q=500 t=1000",
            "R=6 H=2 q=1000 t=500",
            "R=2 H=3 q=500 t=500",
            "R=4 H=3 q=500 t=500",
            "R=2 H=2 q=500 t=1000",
            // No replicas left to add or to remove: the sizes get it all.
            "R=10 H=10 q=500 t=1000",
            "R=1 H=1 q=1000 t=500",
            "R=2 H=6 hfail q=500 t=1000",
            "R=2 H=6 hfail q=1000 t=500",
            // Half and half of 5 cores from 1 x 1: the additive way overshoots to 9.
            "R=1 H=5 q=1000 t=5000",
        ],
        &expect![[r#"
            R=2 H=6 q=500 t=1000               => 4 x app(cpu 750m) Weighted
            R=6 H=2 q=1000 t=500               => 4 x app(cpu 750m) Weighted
            R=2 H=3 q=500 t=500                => 3 x app(cpu 500m) Weighted
            R=4 H=3 q=500 t=500                => 3 x app(cpu 500m) Weighted
            R=2 H=2 q=500 t=1000               => 2 x app(cpu 750m) Weighted
            R=10 H=10 q=500 t=1000             => 10 x app(cpu 1) Weighted
            R=1 H=1 q=1000 t=500               => 1 x app(cpu 500m) Weighted
            R=2 H=6 hfail q=500 t=1000         => 2 x app(cpu 750m) Weighted
            R=2 H=6 hfail q=1000 t=500         => 2 x app(cpu 1) NothingRecommended
            R=1 H=5 q=1000 t=5000              => 3 x app(cpu 3) Weighted
        "#]],
    );
    let multiplicative = json!({"type": "Ratio", "vToHScalingRatio": 1, "combination": "Multiplicative"});
    table(
        &wide(&multiplicative, json!({})),
        &["R=1 H=5 q=1000 t=5000", "R=9 H=1 q=5000 t=5000", "R=2 H=2 q=1000 t=4000", "R=4 H=1 q=4000 t=1000"],
        &expect![[r#"
            R=1 H=5 q=1000 t=5000              => 3 x app(cpu 1667m) Weighted
            R=9 H=1 q=5000 t=5000              => 3 x app(cpu 5) Weighted
            R=2 H=2 q=1000 t=4000              => 2 x app(cpu 2) Weighted
            R=4 H=1 q=4000 t=1000              => 2 x app(cpu 2) Weighted
        "#]],
    );
    let capped = json!({"vertical": {"containerPolicies": [
        {"containerName": "app", "minAllowed": {"cpu": "100m"}, "maxAllowed": {"cpu": "1"}}]}});
    table(
        &wide(&half, capped),
        &["R=2 H=6 q=1000 t=2000", "R=6 H=2 q=100 t=50", "R=2 H=6 q=900 t=2000"],
        &expect![[r#"
            R=2 H=6 q=1000 t=2000              => 6 x app(cpu 1) Weighted
            R=6 H=2 q=100 t=50                 => 2 x app(cpu 100m) Weighted
            R=2 H=6 q=900 t=2000               => 4 x app(cpu 950m) Weighted
        "#]],
    );
    let min_change = json!({"vertical": {"scaleUp": {"minChange": {"cpu": {"value": "300m"}}}}});
    table(
        &wide(&half, min_change),
        &["R=2 H=2 q=500 t=1000", "R=2 H=2 q=500 t=1100", "R=2 H=2 q=500 t=1000 lo=600 hi=1500"],
        &expect![[r#"
            R=2 H=2 q=500 t=1000               => 2 x app(cpu 500m) MinChange
            R=2 H=2 q=500 t=1100               => 2 x app(cpu 800m) Weighted
            R=2 H=2 q=500 t=1000 lo=600 hi=1500 => 2 x app(cpu 750m) Weighted
        "#]],
    );
    let vertical_only = json!({"type": "Ratio", "vpaWeight": 100});
    table(
        &wide(&vertical_only, json!({})),
        &["R=2 H=6 q=500 t=1000"],
        &expect![[r#"
        R=2 H=6 q=500 t=1000               => 2 x app(cpu 1) Weighted
    "#]],
    );
    let horizontal_only = json!({"type": "Ratio", "vpaWeight": 0});
    table(
        &wide(&horizontal_only, json!({})),
        &["R=2 H=6 q=500 t=1000", "R=2 H=2 mq=100 mt=200 oom"],
        &expect![[r#"
            R=2 H=6 q=500 t=1000               => 6 x app(cpu 500m) Weighted
            R=2 H=2 mq=100 mt=200 oom          => 2 x app(memory 200Mi) OutOfMemory
        "#]],
    );
}

#[test]
fn a_share_is_applied_once() {
    let half =
        spec(json!({"type": "Ratio", "vToHScalingRatio": 1}), json!({"minReplicas": 1, "maxReplicas": 10}));
    timeline(
        &half,
        &[
            "+0 R=2 H=6 q=500 t=1000 hs=1 vs=1",
            "+1 H=6 t=1000 hs=2 vs=2",
            // One of the two looked again: the pair is still the one that was acted on.
            "+30 H=6 t=1000 hs=1 vs=32",
            "+30 H=6 t=1000 hs=1 vs=1",
            "+30 H=8 t=1000 hs=1 vs=1",
            // No sample times: only another figure is news, and a tenth is not enough.
            "+30 H=8 t=1000",
            "+30 H=8 t=1090",
            "+30 H=8 t=1110",
        ],
        &expect![[r#"
            +0 R=2 H=6 q=500 t=1000 hs=1 vs=1  => 4 x app(cpu 750m) Weighted: 50 % horizontal, 50 % vertical
            +1 H=6 t=1000 hs=2 vs=2            => 4 x app(cpu 750m) RecommendationConsumed: the sizes wait: this recommendation was acted on already
            +30 H=6 t=1000 hs=1 vs=32          => 4 x app(cpu 750m) RecommendationConsumed: the sizes wait: this recommendation was acted on already
            +30 H=6 t=1000 hs=1 vs=1           => 5 x app(cpu 875m) Weighted: 50 % horizontal, 50 % vertical
            +30 H=8 t=1000 hs=1 vs=1           => 7 x app(cpu 937m) Weighted: 50 % horizontal, 50 % vertical
            +30 H=8 t=1000                     => 7 x app(cpu 937m) RecommendationConsumed: the replicas wait: this recommendation was acted on already
            +30 H=8 t=1090                     => 7 x app(cpu 937m) RecommendationConsumed: the sizes wait: this recommendation was acted on already
            +30 H=8 t=1110                     => 8 x app(cpu 1023m) Weighted: 50 % horizontal, 50 % vertical
        "#]],
    );
}

/// Without a time, only another value is news: a count that was made for the old sizes must not follow them.
#[test]
fn a_recommendation_without_a_time_is_news_if_it_changed() {
    timeline(
        &spec(json!({"type": "VpaBiased"}), json!({})),
        &["+0 R=2 H=5 q=500 t=800", "+60 H=5 t=800", "+60 H=4 t=800", "+60 H=4 t=1000"],
        &expect![[r#"
            +0 R=2 H=5 q=500 t=800             => 2 x app(cpu 800m) VerticalPreferred: both sides want a change, the mode prefers the sizes
            +60 H=5 t=800                      => 2 x app(cpu 800m) RecommendationConsumed: the replicas wait: this recommendation was acted on already
            +60 H=4 t=800                      => 4 x app(cpu 800m) HorizontalRecommended: the replicas change
            +60 H=4 t=1000                     => 4 x app(cpu 1) VerticalRecommended: only the vertical side wants a change
        "#]],
    );
}

/// Replicas that went ahead of a waiting size do not make it wait for another whole window.
#[test]
fn a_suppressed_size_keeps_its_clock() {
    timeline(
        &spec(
            json!({"type": "VpaBiased", "maxSuppressionSeconds": 90}),
            json!({"vertical": {"scaleUp": {"stabilizationSeconds": 600}}}),
        ),
        &[
            "+0 R=2 H=2 q=500 t=800 hs=1 vs=1",
            "+60 H=3 t=1200 hs=1 vs=1",
            "+90 H=3 t=1200 hs=1 vs=1",
            "+300 H=4 t=1200 hs=1 vs=1",
            "+149 H=4 t=1200 hs=1 vs=1",
            "+1 H=4 t=1200 hs=1 vs=1",
        ],
        &expect![[r#"
            +0 R=2 H=2 q=500 t=800 hs=1 vs=1   => 2 x app(cpu 800m) VerticalRecommended: only the vertical side wants a change
            +60 H=3 t=1200 hs=1 vs=1           => 2 x app(cpu 800m) StabilizationWindow: the sizes wait: too soon after the last change, until 2027-01-15T08:10:00Z
            +90 H=3 t=1200 hs=1 vs=1           => 3 x app(cpu 800m) SuppressionEnded: a waiting size change has held the replicas back for long enough
            +300 H=4 t=1200 hs=1 vs=1          => 4 x app(cpu 800m) SuppressionEnded: a waiting size change has held the replicas back for long enough
            +149 H=4 t=1200 hs=1 vs=1          => 4 x app(cpu 800m) StabilizationWindow: the sizes wait: too soon after the last change, until 2027-01-15T08:10:00Z
            +1 H=4 t=1200 hs=1 vs=1            => 4 x app(cpu 1200m) VerticalRecommended: only the vertical side wants a change
        "#]],
    );
}

#[test]
fn the_final_clamp_binds_in_every_mode() {
    let bounds = json!({"vertical": {"containerPolicies": [
        {"containerName": "*", "minAllowed": {"cpu": "400m"}, "maxAllowed": {"cpu": "1"}}]}});
    let mut text = String::new();
    for mode in [
        json!({"type": "HpaPreferred"}),
        json!({"type": "HpaBiased"}),
        json!({"type": "VpaBiased"}),
        json!({"type": "Mixed", "preference": "horizontal", "replicas": 0}),
        json!({"type": "Ratio", "vpaWeight": 10}),
        json!({"type": "Ratio", "vpaWeight": 10, "combination": "Multiplicative"}),
    ] {
        for words in
            ["R=3 H=4 q=3000 t=900", "R=3 H=4 q=100 t=450", "R=3 H=4 q=3000 t=900 rollout", "R=3 H=4 q=3000"]
        {
            let decision =
                decide(at(0), &spec(mode.clone(), bounds.clone()), &world(at(0), words), &Memory::default());
            text.push_str(&format!(
                "{:12} {words:28} => {}\n",
                mode["type"].as_str().unwrap(),
                decision.desired
            ));
        }
    }
    expect![[r#"
        HpaPreferred R=3 H=4 q=3000 t=900         => 4 x app(cpu 1)
        HpaPreferred R=3 H=4 q=100 t=450          => 4 x app(cpu 400m)
        HpaPreferred R=3 H=4 q=3000 t=900 rollout => 4 x app(cpu 3)
        HpaPreferred R=3 H=4 q=3000               => 4 x app(cpu 3)
        HpaBiased    R=3 H=4 q=3000 t=900         => 4 x app(cpu 1)
        HpaBiased    R=3 H=4 q=100 t=450          => 4 x app(cpu 400m)
        HpaBiased    R=3 H=4 q=3000 t=900 rollout => 4 x app(cpu 3)
        HpaBiased    R=3 H=4 q=3000               => 4 x app(cpu 3)
        VpaBiased    R=3 H=4 q=3000 t=900         => 3 x app(cpu 900m)
        VpaBiased    R=3 H=4 q=100 t=450          => 3 x app(cpu 450m)
        VpaBiased    R=3 H=4 q=3000 t=900 rollout => 4 x app(cpu 3)
        VpaBiased    R=3 H=4 q=3000               => 4 x app(cpu 3)
        Mixed        R=3 H=4 q=3000 t=900         => 4 x app(cpu 1)
        Mixed        R=3 H=4 q=100 t=450          => 4 x app(cpu 400m)
        Mixed        R=3 H=4 q=3000 t=900 rollout => 4 x app(cpu 3)
        Mixed        R=3 H=4 q=3000               => 4 x app(cpu 3)
        Ratio        R=3 H=4 q=3000 t=900         => 4 x app(cpu 1)
        Ratio        R=3 H=4 q=100 t=450          => 4 x app(cpu 400m)
        Ratio        R=3 H=4 q=3000 t=900 rollout => 4 x app(cpu 3)
        Ratio        R=3 H=4 q=3000               => 4 x app(cpu 3)
        Ratio        R=3 H=4 q=3000 t=900         => 4 x app(cpu 1)
        Ratio        R=3 H=4 q=100 t=450          => 4 x app(cpu 400m)
        Ratio        R=3 H=4 q=3000 t=900 rollout => 4 x app(cpu 3)
        Ratio        R=3 H=4 q=3000               => 4 x app(cpu 3)
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_kill_is_answered_in_full_and_a_user_minimum_holds_in_mixed() {
    table(
        &spec(json!({"type": "Ratio", "vpaWeight": 10}), json!({})),
        &["R=3 H=3 mq=100 mt=200 oom", "R=3 H=3 mq=100 mt=200"],
        &expect![[r#"
            R=3 H=3 mq=100 mt=200 oom          => 3 x app(memory 200Mi) OutOfMemory
            R=3 H=3 mq=100 mt=200              => 3 x app(memory 110Mi) Weighted
        "#]],
    );
    let minimum = json!({"vertical": {"scaleUp": {"minChange": {"cpu": {"value": "50m"}}}}});
    table(
        &spec(json!({"type": "Mixed", "preference": "vertical", "replicas": 0}), minimum),
        &[
            "R=3 H=3 q=300 t=340",
            "R=3 H=3 q=300 t=350",
            "R=3 H=3 q=300 t=340 lo=320 hi=400",
            // Beside a wish for replicas the mode's own thresholds count.
            "R=3 H=4 q=300 t=340",
        ],
        &expect![[r#"
            R=3 H=3 q=300 t=340                => 3 x app(cpu 300m) MinChange
            R=3 H=3 q=300 t=350                => 3 x app(cpu 350m) VerticalRecommended
            R=3 H=3 q=300 t=340 lo=320 hi=400  => 3 x app(cpu 340m) VerticalRecommended
            R=3 H=4 q=300 t=340                => 3 x app(cpu 340m) VerticalPreferred
        "#]],
    );
}

/// Whatever a gate or the mode leaves out stands in the explanation.
#[test]
fn every_part_held_back_is_a_step() {
    let steps = |mode: Value, over: Value, words: &str| {
        let decision = decide(at(0), &spec(mode, over), &world(at(0), words), &Memory::default());
        let holds = decision.steps.iter().filter(|step| matches!(step.rule, Rule::Hold { .. }));
        holds.map(|step| step.words().to_string()).collect::<Vec<_>>().join("; ")
    };
    let ratio = json!({"type": "Ratio", "vpaWeight": 50});
    let minimum = json!({"vertical": {"scaleUp": {"minChange": {"memory": {"value": "200Mi"}}}}});
    let window = json!({
        "vertical": {"scaleDown": {"updateMode": "MaintenanceWindow"}},
        "maintenanceTimeWindow": {"begin": "100000+0000", "end": "103000+0000"},
    });
    let all = [
        steps(json!({"type": "HpaBiased"}), json!({}), "R=3 q=500 t=200"),
        steps(json!({"type": "HpaPreferred"}), json!({}), "R=5 H=5 q=500 t=800 mq=500 mt=100"),
        steps(json!({"type": "HpaPreferred"}), json!({}), "R=2 H=2 q=500 t=800 mq=500 mt=100"),
        steps(
            json!({"type": "VpaBiased", "maxSuppressionSeconds": 60}),
            json!({}),
            "R=3 H=4 q=500 t=800 rollout",
        ),
        steps(ratio.clone(), minimum, "R=3 H=3 q=500 t=1000 mq=100 mt=200"),
        steps(json!({"type": "VpaBiased"}), window, "R=3 H=3 q=500 t=800 mq=500 mt=100"),
    ];
    expect![[r#"
        smaller sizes wait: how many pods there should be is not known
        smaller sizes wait: the replicas can still go that way
        larger sizes wait: the replicas can still go that way
        the sizes wait: a rollout is in progress; the replicas wait: the mode prefers sizes, and they have to wait, until 2027-01-15T08:01:00Z
        memory of app waits: the share to be applied is less than the minimum change
        smaller sizes wait: outside the maintenance window, until 2027-01-15T10:00:00Z"#]].assert_eq(&all.join("\n"));
}

#[test]
fn axes_take_turns() {
    // At the most replicas the sizes follow, but not on figures from before.
    timeline(
        &spec(json!({"type": "HpaPreferred"}), json!({})),
        &[
            "+0 R=3 H=5 q=500 t=800 hs=5 vs=5",
            "+5 H=5 t=800 hs=1 vs=10",
            "+60 H=5 t=800 hs=1 vs=1",
            "+60 H=5 t=800 hs=1 vs=1",
        ],
        &expect![[r#"
            +0 R=3 H=5 q=500 t=800 hs=5 vs=5   => 5 x app(cpu 500m) HorizontalRecommended: the replicas change
            +5 H=5 t=800 hs=1 vs=10            => 5 x app(cpu 500m) RecommendationConsumed: the sizes wait: this recommendation was acted on already
            +60 H=5 t=800 hs=1 vs=1            => 5 x app(cpu 800m) HorizontalExhausted: the replicas can go no further, so the sizes change
            +60 H=5 t=800 hs=1 vs=1            => 5 x app(cpu 800m) NothingRecommended: neither side wants a change that is large enough
        "#]],
    );
}

#[test]
fn stabilization_and_maintenance() {
    let slow = json!({
        "horizontal": {"scaleDown": {"stabilizationSeconds": 300}},
        "vertical": {"scaleUp": {"stabilizationSeconds": 120}, "scaleDown": {"updateMode": "MaintenanceWindow"}},
        "maintenanceTimeWindow": {"begin": "100000+0100", "end": "103000+0100"},
    });
    timeline(
        &spec(json!({"type": "HpaBiased"}), slow.clone()),
        &[
            "+0 R=3 H=4 q=500 t=800 hs=1 vs=1",
            "+60 H=2 t=800 hs=1 vs=1",
            // The replicas have to wait, but the sizes do not take their turn.
            "+239 H=2 t=800 hs=1 vs=1",
            "+1 H=2 t=800 hs=1 vs=1",
            "+60 H=2 t=800 hs=1 vs=1",
            "+60 H=2 t=800 hs=1 vs=1",
            "+60 H=2 t=300 hs=1 vs=1",
            // 09:00 UTC is 10:00 there.
            "+3120 H=2 t=300 hs=1 vs=1",
        ],
        &expect![[r#"
            +0 R=3 H=4 q=500 t=800 hs=1 vs=1   => 4 x app(cpu 500m) HorizontalPreferred: both sides want a change, the mode prefers the replicas
            +60 H=2 t=800 hs=1 vs=1            => 4 x app(cpu 500m) StabilizationWindow: the replicas wait: too soon after the last change, until 2027-01-15T08:05:00Z
            +239 H=2 t=800 hs=1 vs=1           => 4 x app(cpu 500m) StabilizationWindow: the replicas wait: too soon after the last change, until 2027-01-15T08:05:00Z
            +1 H=2 t=800 hs=1 vs=1             => 2 x app(cpu 500m) HorizontalPreferred: both sides want a change, the mode prefers the replicas
            +60 H=2 t=800 hs=1 vs=1            => 2 x app(cpu 500m) StabilizationWindow: the sizes wait: too soon after the last change, until 2027-01-15T08:07:00Z
            +60 H=2 t=800 hs=1 vs=1            => 2 x app(cpu 800m) VerticalRecommended: only the vertical side wants a change
            +60 H=2 t=300 hs=1 vs=1            => 2 x app(cpu 800m) MaintenanceWindow: the sizes wait: outside the maintenance window, until 2027-01-15T09:00:00Z
            +3120 H=2 t=300 hs=1 vs=1          => 2 x app(cpu 300m) VerticalRecommended: only the vertical side wants a change
        "#]],
    );
    timeline(
        &spec(json!({"type": "VpaBiased"}), slow),
        &[
            "+0 R=3 H=3 q=500 t=800 hs=1 vs=1",
            // A size that has to wait holds back the replicas, for as long as its own stabilization lasts.
            "+60 H=5 t=1200 hs=1 vs=1",
            "+59 H=5 t=1200 hs=1 vs=1",
            "+1 H=5 t=1200 hs=1 vs=1",
        ],
        &expect![[r#"
            +0 R=3 H=3 q=500 t=800 hs=1 vs=1   => 3 x app(cpu 800m) VerticalRecommended: only the vertical side wants a change
            +60 H=5 t=1200 hs=1 vs=1           => 3 x app(cpu 800m) StabilizationWindow: the sizes wait: too soon after the last change, until 2027-01-15T08:02:00Z
            +59 H=5 t=1200 hs=1 vs=1           => 3 x app(cpu 800m) StabilizationWindow: the sizes wait: too soon after the last change, until 2027-01-15T08:02:00Z
            +1 H=5 t=1200 hs=1 vs=1            => 3 x app(cpu 1200m) VerticalPreferred: both sides want a change, the mode prefers the sizes
        "#]],
    );
    timeline(
        &spec(
            json!({"type": "VpaBiased", "maxSuppressionSeconds": 90}),
            json!({"vertical": {"scaleUp": {"stabilizationSeconds": 600}}}),
        ),
        &[
            "+0 R=3 H=3 q=500 t=800 hs=1 vs=1",
            "+60 H=5 t=1200 hs=1 vs=1",
            "+89 H=5 t=1200 hs=1 vs=1",
            "+1 H=5 t=1200 hs=1 vs=1",
        ],
        &expect![[r#"
            +0 R=3 H=3 q=500 t=800 hs=1 vs=1   => 3 x app(cpu 800m) VerticalRecommended: only the vertical side wants a change
            +60 H=5 t=1200 hs=1 vs=1           => 3 x app(cpu 800m) StabilizationWindow: the sizes wait: too soon after the last change, until 2027-01-15T08:10:00Z
            +89 H=5 t=1200 hs=1 vs=1           => 3 x app(cpu 800m) StabilizationWindow: the sizes wait: too soon after the last change, until 2027-01-15T08:10:00Z
            +1 H=5 t=1200 hs=1 vs=1            => 5 x app(cpu 800m) SuppressionEnded: a waiting size change has held the replicas back for long enough
        "#]],
    );
}

#[test]
fn rollouts_and_kills() {
    let modes = ["HpaPreferred", "HpaBiased", "VpaBiased"].map(|mode| json!({"type": mode}));
    for mode in &modes {
        // Mode preference, stabilization and minimum change do not hold memory back after a kill.
        timeline(
            &spec(mode.clone(), json!({"vertical": {"scaleUp": {"stabilizationSeconds": 3600}}})),
            &[
                "+0 R=3 H=4 q=500 t=500 mq=100 mt=100",
                "+10 H=4 mt=105 oom",
                "+1 H=4 mt=105 oom",
                "+10 H=4 mt=105",
            ],
            &expect![[r#"
                +0 R=3 H=4 q=500 t=500 mq=100 mt=100 => 4 x app(cpu 500m, memory 100Mi) HorizontalRecommended: the replicas change
                +10 H=4 mt=105 oom                 => 4 x app(cpu 500m, memory 105Mi) OutOfMemory: a container was killed for memory: it gets more now, whatever else has to wait
                +1 H=4 mt=105 oom                  => 4 x app(cpu 500m, memory 105Mi) NothingRecommended: neither side wants a change that is large enough
                +10 H=4 mt=105                     => 4 x app(cpu 500m, memory 105Mi) NothingRecommended: neither side wants a change that is large enough
            "#]],
        );
    }
    let limited = json!({
        "oomOverride": true,
        "vertical": {"containerPolicies": [{"containerName": "*", "maxAllowed": {"memory": "150Mi"}}]},
    });
    table(
        &spec(modes[0].clone(), limited),
        &["R=3 H=3 mq=100 mt=400 oom", "R=3 H=3 mq=150 mt=400 oom", "R=3 H=3 mq=100 mt=400 rollout oom"],
        &expect![[r#"
            R=3 H=3 mq=100 mt=400 oom          => 3 x app(memory 150Mi) OutOfMemory
            R=3 H=3 mq=150 mt=400 oom          => 3 x app(memory 150Mi) NothingRecommended
            R=3 H=3 mq=100 mt=400 rollout oom  => 3 x app(memory 150Mi) OutOfMemory
        "#]],
    );
    let off = json!({"vertical": {"scaleUp": {"updateMode": "Off"}}});
    table(
        &spec(modes[1].clone(), off),
        &["R=3 H=3 mq=100 mt=400 oom", "R=3 H=3 q=500 t=200"],
        &expect![[r#"
        R=3 H=3 mq=100 mt=400 oom          => 3 x app(memory 100Mi) NothingRecommended
        R=3 H=3 q=500 t=200                => 3 x app(cpu 200m) VerticalRecommended
    "#]],
    );
    table(
        &spec(modes[1].clone(), json!({})),
        &["R=3 H=3 q=500 t=800 rollout", "R=3 H=4 q=500 t=800 rollout"],
        &expect![[r#"
            R=3 H=3 q=500 t=800 rollout        => 3 x app(cpu 500m) RollingUpdate
            R=3 H=4 q=500 t=800 rollout        => 4 x app(cpu 500m) HorizontalPreferred
        "#]],
    );
}
