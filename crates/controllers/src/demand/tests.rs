use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use api::slimfaas;
use decide::demand::{self, Answer, Decision, Memory};
use engine::{
    effect::{Effect, Target},
    kind,
};
use expect_test::{Expect, expect};
use jiff::{SignedDuration, Timestamp};
use metrics::Gauge;
use ondemand::{Calls, Function, Pod, Snapshot};

use super::{
    Decided, Decisions,
    neighbours::Neighbours,
    plan::{Situation, observe},
    policy::gist,
    reported::Reported,
};
use crate::catalog::{Unmanaged, UnmanagedWorkload};

/// One decision for each function, made as the policy makes it: from the function's neighbours alone.
fn decide(
    snapshot: &Snapshot,
    unmanaged: &Unmanaged,
    calls: &HashMap<Arc<str>, Calls>,
    readings: &HashMap<Arc<str>, Vec<Answer>>,
) -> BTreeMap<Arc<str>, Decision> {
    let neighbours = Neighbours::new(snapshot);
    let any_call = || {
        let last = calls.values().filter_map(Calls::latest).max();
        Calls { last, active: calls.values().map(|calls| calls.active).sum(), ..Calls::default() }
    };
    let situation = Situation {
        now: now(),
        snapshot,
        unmanaged,
        neighbours: &neighbours,
        calls: &|name| calls.get(name).copied().unwrap_or_default(),
        any_call: &any_call,
        readings: &|name| readings.get(name).cloned(),
    };
    let decision = |(name, function): (&Arc<str>, &Arc<Function>)| {
        let observed = observe(&situation, name, function);
        let spec = &function.settings.scaling;
        (name.clone(), demand::decide(now(), spec, &observed, Memory::default()))
    };
    snapshot.functions.iter().map(decision).collect()
}

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
        failure: None,
    };
    Function {
        target: ondemand::Target {
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
    unmanaged: Unmanaged,
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
    let readings = world.readings.into_iter().map(|(name, answer)| (name.into(), vec![answer])).collect();
    let calls = world.called.iter().map(call).collect();
    let mut out = String::new();
    for (name, decision) in decide(&snapshot, &world.unmanaged, &calls, &readings) {
        out += &format!("{name}: {} -> {} {}\n", decision.current, decision.desired, decision.reason.code);
        if decision.changes() {
            let object = Target {
                kind: kind::DEPLOYMENT,
                namespace: Some("shop".into()),
                name: name.to_string(),
                uid: "u".into(),
                resource_version: Some("7".into()),
            };
            if let Some(effect) = scaling::rescale(&object, &decision) {
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
        idle: 1 -> 0 Idle
          patch Deployment shop/idle/scale {"spec":{"replicas":0}}
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
        let unmanaged = Unmanaged::from([("mysql".into(), UnmanagedWorkload { wanted, ready })]);
        let calls = [("shop".into(), Calls { last: Some(now()), ..Calls::default() })].into();
        let decisions = decide(&snapshot, &unmanaged, &calls, &HashMap::new());
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
        let calls = [("fib".into(), Calls { last, ..Calls::default() })].into();
        let readings = [("fib".into(), vec![answer])].into();
        let decision = &decide(&snapshot, &Unmanaged::new(), &calls, &readings)["fib"];
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
        little to do on the pods that spoke: 2 -> 2 rps would allow 1, but not every trigger has observations (1 without), so nothing shrinks
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
    let calls = [("fib".into(), Calls { last: Some(now()), ..Calls::default() })].into();
    let readings =
        [("fib".into(), vec![value(40.0), Answer::Quiet, Answer::Failed("no data".into())])].into();
    let decision = &decide(&snapshot, &Unmanaged::new(), &calls, &readings)["fib"];
    let decisions = Decisions::default();
    decisions.decided(&"fib".into(), Decided::new(now(), &fib, decision));
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

/// A trigger that was not evaluated yet is no reason to shrink.
#[test]
fn an_unread_trigger_holds_the_count() {
    let fib = Arc::new(function("fib", &[("Scale", SCALE)], 3, 3));
    let snapshot = Snapshot { functions: [("fib".into(), fib)].into(), ..Snapshot::default() };
    let calls = [("fib".into(), Calls { last: Some(now()), ..Calls::default() })].into();
    let decision = &decide(&snapshot, &Unmanaged::new(), &calls, &HashMap::new())["fib"];
    assert_eq!((decision.current, decision.desired), (3, 3), "{}", decision.why());
}

/// A call of one wakes those that start with any, and what hangs together with them, although they are no neighbours.
#[test]
fn a_call_of_any_counts_for_those_that_ask_for_it() {
    let any = ("ReplicasStartAsSoonAsOneFunctionRetrieveARequest", "true");
    let functions = [
        function("called", &[], 1, 1),
        function("eager", &[any, ("DependsOn", "db")], 0, 0),
        function("db", &[], 0, 0),
        function("other", &[], 0, 0),
    ];
    let snapshot = Snapshot {
        functions: functions.into_iter().map(|f| (f.name().clone(), Arc::new(f))).collect(),
        ..Snapshot::default()
    };
    let calls = [("called".into(), Calls { last: Some(now()), ..Calls::default() })].into();
    let decisions = decide(&snapshot, &Unmanaged::new(), &calls, &HashMap::new());
    let desired: Vec<_> = decisions.iter().map(|(name, decision)| (&**name, decision.desired)).collect();
    assert_eq!(desired, [("called", 1), ("db", 1), ("eager", 0), ("other", 0)], "eager waits for db");
    let neighbours = Neighbours::new(&snapshot);
    assert_eq!(neighbours.of_any_call(), ["db".into(), "eager".into()]);
    assert_eq!(neighbours.of(&"other".into()), ["other".into()]);
}

#[test]
fn that_time_goes_by_is_not_worth_a_record() {
    let mut told = String::new();
    let mut last = String::new();
    for (what, seconds, current) in [
        ("called", 0, 0),
        ("awake", 1, 1),
        ("a second later", 2, 1),
        ("in the last second", 300, 1),
        ("idle", 301, 1),
        ("asleep", 302, 0),
        ("an hour later", 3902, 0),
    ] {
        let fib = Arc::new(function("fib", &[], current, 1));
        let snapshot = Snapshot { functions: [("fib".into(), fib)].into(), ..Snapshot::default() };
        let at = now().checked_sub(SignedDuration::from_secs(seconds)).ok();
        let calls = [("fib".into(), Calls { last: at, ..Calls::default() })].into();
        let decision = &decide(&snapshot, &Unmanaged::new(), &calls, &HashMap::new())["fib"];
        let gist = gist(decision);
        if gist != last {
            told += &format!("{what}: {} {}\n", decision.desired, decision.why());
            last = gist;
        }
    }
    expect![[r#"
        called: 1 wakes up with 1
        awake: 1 a call 1 s ago, timeout 300 s
        idle: 0 idle, so down to the minimum of 0
        asleep: 0 nothing for 302 s, timeout 300 s; the last was a call
    "#]]
    .assert_eq(&told);
}

#[test]
fn that_a_trigger_reads_another_figure_is_not_worth_a_record() {
    let mut last = String::new();
    let mut recorded = Vec::new();
    for value in [30.0, 30.5, 39.9, 40.1, 41.0, 19.0] {
        let fib = Arc::new(function("fib", &[("Scale", SCALE)], 2, 2));
        let snapshot = Snapshot { functions: [("fib".into(), fib)].into(), ..Snapshot::default() };
        let calls = [("fib".into(), Calls { last: Some(now()), ..Calls::default() })].into();
        let readings = [("fib".into(), vec![Answer::Value { value, per: None }])].into();
        let gist = gist(&decide(&snapshot, &Unmanaged::new(), &calls, &readings)["fib"]);
        if gist != last {
            recorded.push(value);
            last = gist;
        }
    }
    // 20 for each pod: two are enough up to 40.
    assert_eq!(recorded, [30.0, 40.1, 19.0]);
}

#[test]
fn that_calls_begin_and_end_is_not_worth_a_record() {
    let gists = [0, 1, 0, 2].map(|active| {
        let fib = Arc::new(function("fib", &[], 1, 1));
        let snapshot = Snapshot { functions: [("fib".into(), fib)].into(), ..Snapshot::default() };
        let calls = [("fib".into(), Calls { last: Some(now()), active, ..Calls::default() })].into();
        gist(&decide(&snapshot, &Unmanaged::new(), &calls, &HashMap::new())["fib"])
    });
    assert!(gists.iter().all(|gist| *gist == gists[0]), "{gists:?}");
}

/// Just after waking up no rate has its two scrapes: that is not worth a warning, and it must not be missed if it lasts.
#[test]
fn a_trigger_without_data_is_told_when_it_lasts() {
    let scale = r#"{"Triggers":[{"MetricName":"rps","Query":"rate(a[1m])","Threshold":1}]}"#;
    let fib = Arc::new(function("fib", &[("Scale", scale)], 1, 1));
    let object = Target { uid: "u".into(), ..Target::absent(&kind::DEPLOYMENT, Some("shop"), "fib") };
    let snapshot = Snapshot { functions: [("fib".into(), fib.clone())].into(), ..Snapshot::default() };
    let mut reported = Reported::new(std::time::Duration::from_secs(5));
    let mut due_after = |seconds: i64, answer: Answer| {
        let at = now() + SignedDuration::from_secs(seconds);
        let due = !reported.due(at).is_empty();
        let readings = HashMap::from([("fib".into(), vec![answer])]);
        let decisions = decide(&snapshot, &Unmanaged::new(), &HashMap::new(), &readings);
        reported.of(fib.name(), &fib, &object, &decisions["fib"], at);
        due
    };
    let none = || Answer::Failed("there is no recent data".into());
    let some = || Answer::Value { value: 3.0, per: None };
    // 14 s are not 15; data in between begins it anew; told once
    let steps =
        [(0, none()), (14, none()), (16, some()), (20, none()), (34, none()), (35, none()), (90, none())];
    let due: Vec<bool> = steps.map(|(seconds, answer)| due_after(seconds, answer)).to_vec();
    assert_eq!(due, [false, false, true, false, false, true, false]);
}
