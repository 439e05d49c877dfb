use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use api::slimfaas;
use decide::demand::{Answer, Memory};
use engine::{
    effect::{Effect, Target},
    kind,
};
use expect_test::{Expect, expect};
use functions::{Calls, Function, Pod, Snapshot};
use jiff::{SignedDuration, Timestamp};
use metrics::Gauge;

use super::{
    Decided, Decisions,
    plan::{Situation, decide, effects},
};
use crate::catalog::{Plain, Plains};

fn now() -> Timestamp {
    "2026-03-02T12:00:00Z".parse().unwrap()
}

/// A function with annotations, as many replicas as are asked for and as many of them ready.
fn function(name: &str, annotations: &[(&str, &str)], requested: i32, ready: u8) -> Function {
    let annotations = annotations.iter().map(|(k, v)| (format!("SlimFaas/{k}"), (*v).to_owned()));
    let annotations = annotations.chain([("SlimFaas/Function".to_owned(), "true".to_owned())]).collect();
    let (settings, problems) = slimfaas::read("shop", name, Some(&annotations), None).unwrap();
    assert_eq!(problems, []);
    let pod = |n: u8| Pod {
        name: format!("{name}-{n}").into(),
        ip: Some([127, 1, 0, n].into()),
        port: Some(80),
        ready: true,
    };
    Function {
        target: functions::Target {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: "shop".into(),
            name: name.into(),
        },
        settings: settings.into(),
        problems,
        requested,
        pods: (0..ready).map(pod).collect(),
        is_scaled: true,
        unschedulable: None,
        autoscaler: None,
    }
}

#[derive(Default)]
struct World {
    functions: Vec<Function>,
    plain: Plains,
    /// Seconds since the last call.
    called: Vec<(&'static str, i64)>,
    readings: Vec<(&'static str, Answer)>,
}

fn check(world: World, expected: &Expect) {
    let snapshot = Snapshot {
        functions: world.functions.into_iter().map(|f| (f.name().clone(), Arc::new(f))).collect(),
        ..Snapshot::default()
    };
    let call = |(name, ago): &(&str, i64)| {
        let last = now().checked_sub(SignedDuration::from_secs(*ago)).ok();
        (Arc::from(*name), Calls { last, ..Calls::default() })
    };
    let memories: BTreeMap<Arc<str>, Memory> = BTreeMap::new();
    let situation = Situation {
        now: now(),
        snapshot: &snapshot,
        plain: &world.plain,
        calls: world.called.iter().map(call).collect(),
        readings: HashMap::from_iter(
            world.readings.into_iter().map(|(name, answer)| (name.into(), vec![answer])),
        ),
        memories: &memories,
    };
    let mut out = String::new();
    for (name, decision) in decide(&situation) {
        out += &format!("{name}: {} -> {} {}\n", decision.current, decision.desired, decision.reason.code);
        if decision.changes() {
            let object = Target {
                kind: kind::DEPLOYMENT,
                namespace: Some("shop".into()),
                name: name.to_string(),
                uid: "u".into(),
                resource_version: Some("7".into()),
            };
            for effect in effects(&decision, &object) {
                assert!(
                    !matches!(&effect, Effect::Patch { target, .. } if target.resource_version.is_none())
                );
                out += &format!("  {effect}\n");
            }
        }
    }
    expected.assert_eq(&out);
}

#[test]
fn a_call_wakes_dependencies_first() {
    let asleep = World {
        functions: vec![
            function("shop", &[("DependsOn", "cart")], 0, 0),
            function("cart", &[("DependsOn", "db")], 0, 0),
            function("db", &[("ReplicasAtStart", "2")], 0, 0),
            function("idle", &[], 1, 1),
        ],
        called: vec![("shop", 0)],
        ..World::default()
    };
    check(
        asleep,
        &expect![[r#"
        cart: 0 -> 0 WaitingForDependencies
        db: 0 -> 2 WakeUp
          patch Deployment shop/db/scale {"spec":{"replicas":2}}
          event WakeUp "Scale up db from 0 to 2: wakes up with 2" on Deployment shop/db
        idle: 1 -> 0 Idle
          patch Deployment shop/idle/scale {"spec":{"replicas":0}}
          event Idle "Scale down idle from 1 to 0: idle, so down to the minimum of 0" on Deployment shop/idle
        shop: 0 -> 0 WaitingForDependencies
    "#]],
    );
    let half_awake = World {
        functions: vec![
            function("shop", &[("DependsOn", "cart")], 0, 0),
            function("cart", &[("DependsOn", "db")], 0, 0),
            function("db", &[("ReplicasAtStart", "2")], 2, 2),
        ],
        called: vec![("shop", 1)],
        ..World::default()
    };
    check(
        half_awake,
        &expect![[r#"
        cart: 0 -> 1 WakeUp
          patch Deployment shop/cart/scale {"spec":{"replicas":1}}
          event WakeUp "Scale up cart from 0 to 1: wakes up with 1" on Deployment shop/cart
        db: 2 -> 2 Active
        shop: 0 -> 0 WaitingForDependencies
    "#]],
    );
}

/// Metrics made the dependency smaller than it started: what it has must be enough.
#[test]
fn a_dependency_below_its_start_is_ready_with_what_it_has() {
    let world = World {
        functions: vec![
            function("shop", &[("DependsOn", "db")], 0, 0),
            function("db", &[("ReplicasAtStart", "3")], 1, 1),
        ],
        called: vec![("shop", 0)],
        ..World::default()
    };
    check(
        world,
        &expect![[r#"
        db: 1 -> 1 Active
        shop: 0 -> 1 WakeUp
          patch Deployment shop/shop/scale {"spec":{"replicas":1}}
          event WakeUp "Scale up shop from 0 to 1: wakes up with 1" on Deployment shop/shop
    "#]],
    );
}

/// Nobody here scales it, but a function that needs it starts after it.
#[test]
fn a_dependency_that_is_no_function_is_waited_for() {
    let mut all = String::new();
    for (wanted, ready) in [(0, 0), (1, 0), (1, 1), (3, 2), (3, 3)] {
        let shop = Arc::new(function("shop", &[("DependsOn", "mysql, mispelt")], 0, 0));
        let snapshot = Snapshot { functions: [("shop".into(), shop)].into(), ..Snapshot::default() };
        let situation = Situation {
            now: now(),
            snapshot: &snapshot,
            plain: &Plains::from([("mysql".into(), Plain { wanted, ready })]),
            calls: [("shop".into(), Calls { last: Some(now()), ..Calls::default() })].into(),
            readings: HashMap::new(),
            memories: &BTreeMap::new(),
        };
        let decisions = decide(&situation);
        assert_eq!(decisions.len(), 1, "only functions are decided about");
        all += &format!("{ready} of {wanted}: {}\n", decisions["shop"].why());
    }
    expect![[r#"
        0 of 0: would wake up, but waits for mysql
        0 of 1: would wake up, but waits for mysql
        1 of 1: wakes up with 1
        2 of 3: would wake up, but waits for mysql
        3 of 3: wakes up with 1
    "#]]
    .assert_eq(&all);
}

const SCALE: &str = r#"{"ReplicaMax":10,"Triggers":[{"MetricName":"rps","Query":"sum(x)","Threshold":20}],
    "Behavior":{"ScaleDown":{"StabilizationWindowSeconds":0}}}"#;

#[test]
fn metrics_raise_veto_and_agree() {
    let value = |value| Answer::Value { value, per: None };
    let cases = [
        ("busy", 0, value(110.0)),
        ("busy, but not all pods have spoken", 0, Answer::AtLeast { value: 110.0, per: None }),
        ("idle, metrics do not agree", 400, value(30.0)),
        ("idle, metrics agree", 400, value(0.0)),
        ("idle, and the pods saw nothing", 400, Answer::Quiet),
        ("idle, and nothing is known", 400, Answer::Failed("there is no recent data".into())),
        ("little to do", 0, value(1.0)),
        ("little to do on the pods that spoke", 0, Answer::AtLeast { value: 1.0, per: None }),
    ];
    let mut all = String::new();
    for (what, ago, answer) in cases {
        let snapshot = Snapshot {
            functions: [("fib".into(), Arc::new(function("fib", &[("Scale", SCALE)], 2, 2)))].into(),
            ..Snapshot::default()
        };
        let last = now().checked_sub(SignedDuration::from_secs(ago)).ok();
        let situation = Situation {
            now: now(),
            snapshot: &snapshot,
            plain: &Plains::new(),
            calls: [("fib".into(), Calls { last, ..Calls::default() })].into(),
            readings: [("fib".into(), vec![answer])].into(),
            memories: &BTreeMap::from([("fib".into(), Memory::default())]),
        };
        let decision = &decide(&situation)["fib"];
        all += &format!("{what}: {} -> {} {}\n", decision.current, decision.desired, decision.why());
    }
    expect![[r#"
        busy: 2 -> 6 rps asks for 6
        busy, but not all pods have spoken: 2 -> 6 rps asks for 6
        idle, metrics do not agree: 2 -> 2 idle, but the metrics do not agree to fewer than 2
        idle, metrics agree: 2 -> 0 idle, and the metrics agree on zero
        idle, and the pods saw nothing: 2 -> 0 idle, and the metrics agree on zero
        idle, and nothing is known: 2 -> 2 idle, but the metrics do not agree to fewer than 2
        little to do: 2 -> 1 rps asks for the most: 1
        little to do on the pods that spoke: 2 -> 2 1 would do, but not every trigger has spoken, so nothing shrinks
    "#]].assert_eq(&all);
}

/// Two lines with the same labels would make the whole page unreadable.
#[test]
fn triggers_of_one_name_are_told_apart() {
    let scale = r#"{"Triggers":[{"MetricName":"rps","Query":"sum(x)","Threshold":20},
        {"MetricName":"rps","Query":"sum(y)","Threshold":20},{"MetricName":"rps","Query":"sum(z)","Threshold":20}]}"#;
    let fib = Arc::new(function("fib", &[("Scale", scale)], 2, 2));
    let snapshot = Snapshot { functions: [("fib".into(), fib.clone())].into(), ..Snapshot::default() };
    let value = |value| Answer::Value { value, per: None };
    let situation = Situation {
        now: now(),
        snapshot: &snapshot,
        plain: &Plains::new(),
        calls: [("fib".into(), Calls { last: Some(now()), ..Calls::default() })].into(),
        readings: [("fib".into(), vec![value(40.0), Answer::Quiet, Answer::Failed("no data".into())])].into(),
        memories: &BTreeMap::new(),
    };
    let decided = Decided::new(now(), &fib, &decide(&situation)["fib"]);
    let decisions = Decisions::default();
    decisions.decided([("fib".into(), Arc::new(decided))].into());
    let mut lines: Vec<String> = Vec::new();
    for Gauge { name, labels, value } in decisions.gauges() {
        if let Some(name) = name.strip_prefix("slimfaas_autoscaler_trigger_") {
            let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            lines.push(format!("{name} {} {value}", labels.join(" ")));
        }
    }
    expect![[r#"
        [
            "valid function=fib metric=rps trigger=0 1",
            "valid function=fib metric=rps trigger=1 1",
            "valid function=fib metric=rps trigger=2 0",
            "value function=fib metric=rps trigger=0 40",
        ]
    "#]]
    .assert_debug_eq(&lines);
}
