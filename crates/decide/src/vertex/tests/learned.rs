//! What is learned and what it does. `looks=500..900@1000x10` are looks every 10 s over the last 120 s: pending from 500 to
//! 900, 1000/s processed by 10 ready pods; `/0.95` after it is the usage of the buffer downstream.

use super::*;
use crate::vertex::input::SampleForm;

fn looks(now: Timestamp, text: &str) -> Vec<SampleForm> {
    let (text, usage) = text.split_once('/').unwrap_or((text, "0"));
    let (pending, rest) = text.split_once('@').unwrap();
    let (from, to) = pending.split_once("..").unwrap();
    let (rate, ready) = rest.split_once('x').unwrap();
    let (from, to, rate): (f64, f64, f64) =
        (from.parse().unwrap(), to.parse().unwrap(), rate.parse().unwrap());
    let look = |idx: i64| SampleForm {
        at: after(now, idx * 10 - 120),
        pending: (from + (to - from) * idx as f64 / 12.0).round() as i64,
        ack_pending: 0,
        processed: rate * 10.0 * idx as f64,
        ready: ready.parse().unwrap(),
        downstream_usage: usage.parse().unwrap(),
    };
    (0..=12).map(look).collect()
}

fn timeline(kind: &str, settings: Value, rows: &str) -> (String, Vec<Decision>) {
    let vertex: VertexForm = serde_json::from_value(json!({ "name": "here", "kind": kind })).unwrap();
    let settings: SettingsForm = serde_json::from_value(settings).unwrap();
    testing::timeline(rows, |row, memory| {
        let mut input = input(&vertex, row, memory);
        input.settings = settings;
        input.observed.template = row.get("template").map(ToOwned::to_owned);
        if let Some(text) = row.get("looks") {
            input.observed.samples = looks(row.now, text);
        }
        input.decide().unwrap()
    })
}

fn check(kind: &str, settings: Value, rows: &str, expected: Expect) {
    expected.assert_eq(&timeline(kind, settings, rows).0);
}

#[test]
fn a_vertex_that_has_caught_up_keeps_what_arrivals_need() {
    check(
        "Source",
        json!({}),
        "
        t=0s replicas=10 p=40000/1000 looks=20000..60000@1000x10
        t=600s replicas=20 p=100/1000 looks=100..100@1000x20
        t=630s replicas=12 p=100/1000 looks=100..100@1000x12
        t=660s replicas=12 p=100/1040 looks=100..100@1040x12
        t=690s replicas=12 p=100/1000
        t=720s replicas=12 p=0/0 looks=0..0@0x12
        t=840s replicas=12 p=0/0 looks=0..0@0x12
        ",
        expect![[r#"
            t=0s replicas=10 p=40000/1000 looks=20000..60000@1000x10 => 12 StepLimit: up by at most 2 at a time, so not yet 20
            t=600s replicas=20 p=100/1000 looks=100..100@1000x20 => 18 StepLimit: down by at most 2 at a time, so not yet 12
            t=630s replicas=12 p=100/1000 looks=100..100@1000x12 => 12 CapacityFloor: 1000/s arrive and a busy pod does 100/s: at 0.85 of that, 12 are needed
            t=660s replicas=12 p=100/1040 looks=100..100@1040x12 => 12 CapacityFloor: 1000/s arrive and a busy pod does 100/s: at 0.85 of that, 12 are needed
            t=690s replicas=12 p=100/1000 => 12 CapacityFloor: 1000/s arrive and a busy pod does 100/s: at 0.85 of that, 12 are needed
            t=720s replicas=12 p=0/0 looks=0..0@0x12 => 12 NeededLately: 12 were asked for within the last 120 s, so not yet 0
            t=840s replicas=12 p=0/0 looks=0..0@0x12 => 10 StepLimit: down by at most 2 at a time, so not yet 0
        "#]],
    );
    check(
        "Source",
        json!({ "model": "Formula" }),
        "
        t=0s replicas=10 p=40000/1000 looks=20000..60000@1000x10
        t=600s replicas=20 p=100/1000 looks=100..100@1000x20
        ",
        expect![[r#"
            t=0s replicas=10 p=40000/1000 looks=20000..60000@1000x10 => 12 StepLimit: up by at most 2 at a time, so not yet 20
            t=600s replicas=20 p=100/1000 looks=100..100@1000x20 => 18 StepLimit: down by at most 2 at a time, so not yet 1
        "#]],
    );
    check(
        "Sink",
        json!({ "targetSaturation": 0.5 }),
        "
        t=0s replicas=10 p=14000/1000 looks=14000..14000@1000x10
        t=30s replicas=25 p=100/1000 looks=100..100@1000x25
        t=60s replicas=20 p=100/1000 looks=100..100@1000x20
        ",
        expect![[r#"
            t=0s replicas=10 p=14000/1000 looks=14000..14000@1000x10 => 12 StepLimit: up by at most 2 at a time, so not yet 20
            t=30s replicas=25 p=100/1000 looks=100..100@1000x25 => 23 StepLimit: down by at most 2 at a time, so not yet 20
            t=60s replicas=20 p=100/1000 looks=100..100@1000x20 => 20 CapacityFloor: 1000/s arrive and a busy pod does 100/s: at 0.5 of that, 20 are needed
        "#]],
    );
}

#[test]
fn it_says_how_many_and_why_and_when_to_look_again() {
    let rows = "
        t=0s replicas=10 p=40000/1000 looks=20000..60000@1000x10
        t=600s replicas=20 p=100/1000 looks=100..100@1000x20
        t=660s replicas=20 p=100/500 looks=100..100@500x20
        ";
    let (_, decisions) = timeline("Source", json!({}), rows);
    expect![[r#"
        20 -> 18  StepLimit: down by at most 2 at a time, so not yet 12
          partition  20 -> 0   partition 0: 100 pending, 1000/s with 20 ready, to be done in 20 s: wants 0
          cap        20 -> 1   partition 0: one at least while there is traffic
          highest    20 -> 1   partition 0 asks for 1
          floor      1 -> 12   1000/s arrive and a busy pod does 100/s: at 0.85 of that, 12 are needed
          bounds     12 -> 12  between 0 and 50
          step       12 -> 18  down by at most 2 at a time, so not yet 12
          look again at 2026-03-01T12:11:30Z
        20 -> 18  StepLimit: down by at most 2 at a time, so not yet 12
          partition  20 -> 0   partition 0: 100 pending, 500/s with 20 ready, to be done in 20 s: wants 0
          cap        20 -> 1   partition 0: one at least while there is traffic
          highest    20 -> 1   partition 0 asks for 1
          floor      1 -> 6    500/s arrive and a busy pod does 100/s: at 0.85 of that, 6 are needed
          recent     6 -> 12   12 were asked for within the last 120 s, so not yet 6
          bounds     12 -> 12  between 0 and 50
          step       12 -> 18  down by at most 2 at a time, so not yet 12
          look again at 2026-03-01T12:12:00Z"#]]
    .assert_eq(&format!("{}\n{}", decisions[1].explain(), decisions[2].explain()));
    expect![[r#"
        {
          "capacity": {
            "perPod": 100.0,
            "at": "2026-03-01T12:00:00Z"
          },
          "arrival": 500.0,
          "recent": [
            {
              "at": "2026-03-01T12:10:00Z",
              "replicas": 12
            },
            {
              "at": "2026-03-01T12:11:00Z",
              "replicas": 6
            }
          ],
          "partitions": 1
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&decisions[2].memory).unwrap());
}

#[test]
fn until_a_capacity_is_known_it_shrinks_with_care() {
    check(
        "Source",
        json!({}),
        "
        t=0s replicas=9 p=10/500 looks=10..10@500x9
        t=60s replicas=8 p=10/500 looks=10..10@500x8 scaled=0
        t=119s replicas=8 p=10/500 looks=10..10@500x8 scaled=0
        t=120s replicas=8 p=10/500 looks=10..10@500x8 scaled=0
        t=300s replicas=8 p=1500/500 looks=1500..1500@500x8
        t=360s replicas=8 p=0/0 looks=0..0@0x8
        ",
        expect![[r#"
            t=0s replicas=9 p=10/500 looks=10..10@500x9 => 8 CapacityUnknown: it is not known yet what a busy pod does, so down by 1 at a time and not yet to 1
            t=60s replicas=8 p=10/500 looks=10..10@500x8 scaled=0 => 8 Cooldown: cooldown, 30 s left
            t=119s replicas=8 p=10/500 looks=10..10@500x8 scaled=0 => 8 CapacityUnknown: it is not known yet what a busy pod does, so the last change is looked at until 2026-03-01T12:02:00Z
            t=120s replicas=8 p=10/500 looks=10..10@500x8 scaled=0 => 7 CapacityUnknown: it is not known yet what a busy pod does, so down by 1 at a time and not yet to 1
            t=300s replicas=8 p=1500/500 looks=1500..1500@500x8 => 8 CapacityUnknown: it is not known yet what a busy pod does, so not down to 1 before nothing was pending for 120 s
            t=360s replicas=8 p=0/0 looks=0..0@0x8 => 6 StepLimit: down by at most 2 at a time, so not yet 0
        "#]],
    );
}

#[test]
fn what_does_not_show_a_pods_capacity_teaches_nothing() {
    check(
        "UDF",
        json!({}),
        "
        t=0s replicas=10 p=12000/500 looks=12000..12000@500x10/0.95
        t=30s replicas=10 p=12000/500 looks=12000..12000@500x10 full=sink:39000
        t=60s replicas=10 p=400/500 looks=400..400@500x10
        t=90s replicas=10 p=12000/1000 looks=12000..12000@1000x10 template=old
        t=420s replicas=20 p=2000/1000 looks=2000..2000@1000x20
        t=450s replicas=14 p=4000/1000 looks=1000..8000@1000x14
        t=780s replicas=20 p=100/1000 looks=100..100@1000x20 template=new
        ",
        expect![[r#"
            t=0s replicas=10 p=12000/500 looks=12000..12000@500x10/0.95 => 12 StepLimit: up by at most 2 at a time, so not yet 13
            t=30s replicas=10 p=12000/500 looks=12000..12000@500x10 full=sink:39000 => 9 DirectBackPressure: sink is full (39000 of 40000), so one fewer feeds it
            t=60s replicas=10 p=400/500 looks=400..400@500x10 => 9 CapacityUnknown: it is not known yet what a busy pod does, so down by 1 at a time and not yet to 6
            t=90s replicas=10 p=12000/1000 looks=12000..12000@1000x10 template=old => 12 StepLimit: up by at most 2 at a time, so not yet 13
            t=420s replicas=20 p=2000/1000 looks=2000..2000@1000x20 => 18 StepLimit: down by at most 2 at a time, so not yet 14
            t=450s replicas=14 p=4000/1000 looks=1000..8000@1000x14 => 15 CapacityFloor: 1058/s arrive and a busy pod does 85.71/s: at 0.85 of that, 15 are needed
            t=780s replicas=20 p=100/1000 looks=100..100@1000x20 template=new => 18 CapacityUnknown: it is not known yet what a busy pod does, so down by 2 at a time and not yet to 13
        "#]],
    );
}

#[test]
fn the_floor_does_not_grow_against_back_pressure() {
    let rows = "
        t=0s replicas=10 p=12000/1000 looks=12000..12000@1000x10
        t=30s replicas=11 p=9000/1000 looks=9000..9000@1000x11 full=sink:39000
        t=60s replicas=13 p=100/1000 looks=100..100@1000x13 full=sink:39000
        ";
    let (text, decisions) = timeline("UDF", json!({}), rows);
    expect![[r#"
        t=0s replicas=10 p=12000/1000 looks=12000..12000@1000x10 => 12 StepLimit: up by at most 2 at a time, so not yet 13
        t=30s replicas=11 p=9000/1000 looks=9000..9000@1000x11 full=sink:39000 => 11 OnTarget: partition 0 asks for 11
        t=60s replicas=13 p=100/1000 looks=100..100@1000x13 full=sink:39000 => 13 NeededLately: 13 were asked for within the last 120 s, so not yet 12
    "#]].assert_eq(&text);
    expect![[r#"
        11 stays  OnTarget: partition 0 asks for 11
          partition  11 -> 11  partition 0: 9000 pending, 15000 of 24000 places free with 11 ready, 15000 wanted: wants 11
          highest    11 -> 11  partition 0 asks for 11
          floor      11 -> 11  1000/s arrive and a busy pod does 100/s: at 0.85 of that, 12 are needed, but no more than 11 while a buffer downstream is full
          bounds     11 -> 11  between 0 and 50"#]].assert_eq(&decisions[1].explain().to_string());
}

#[test]
fn what_is_pending_and_not_processed_is_stuck() {
    check(
        "UDF",
        json!({}),
        "
        t=0s replicas=3 p=20000/0
        t=10s replicas=3 p=20000/0 scaled=-100
        t=20s replicas=3 p=20000/0 scaled=-100
        t=30s replicas=3 p=20000/0 full=sink:40000
        t=40s replicas=3 p=0/0
        ",
        expect![[r#"
            t=0s replicas=3 p=20000/0 => 3 Stuck: 20000 pending, 3 ready, and nothing processed for 120 s
            t=10s replicas=3 p=20000/0 scaled=-100 => 5 StepLimit: up by at most 2 at a time, so not yet 11
            t=20s replicas=3 p=20000/0 scaled=-100 => 3 Stuck: 20000 pending, 3 ready, and nothing processed for 120 s
            t=30s replicas=3 p=20000/0 full=sink:40000 => 2 DirectBackPressure: sink is full (40000 of 40000), so one fewer feeds it
            t=40s replicas=3 p=0/0 => 1 StepLimit: down by at most 2 at a time, so not yet 0
        "#]],
    );
}

/// It was scaled long ago, and its pods were ready only now: they get a lookback to begin.
#[test]
fn pods_that_start_slowly_are_not_stuck() {
    check(
        "UDF",
        json!({}),
        "
        t=0s replicas=3 p=20000/0 scaled=-300 since=-10
        t=109s replicas=3 p=20000/0 scaled=-300 since=-10
        t=110s replicas=3 p=20000/0 scaled=-300 since=-10
        t=120s replicas=3 p=20000/0 scaled=0 since=-300
        t=130s replicas=3 ready=0 p=20000/0 scaled=-300
        ",
        expect![[r#"
            t=0s replicas=3 p=20000/0 scaled=-300 since=-10 => 5 StepLimit: up by at most 2 at a time, so not yet 11
            t=109s replicas=3 p=20000/0 scaled=-300 since=-10 => 5 StepLimit: up by at most 2 at a time, so not yet 11
            t=110s replicas=3 p=20000/0 scaled=-300 since=-10 => 3 Stuck: 20000 pending, 3 ready, and nothing processed for 120 s
            t=120s replicas=3 p=20000/0 scaled=0 since=-300 => 3 Stuck: 20000 pending, 3 ready, and nothing processed for 120 s
            t=130s replicas=3 ready=0 p=20000/0 scaled=-300 => 3 NoneReady: no replica is ready
        "#]],
    );
}

#[test]
fn every_cap_is_a_step() {
    let rows = "
        t=0s replicas=9 p=3/0.1
        t=1s replicas=9 p=0/100
        t=2s replicas=9 p=9000000/100
        ";
    let (_, decisions) = timeline("Source", json!({}), rows);
    let explained: Vec<String> = decisions.iter().map(|decision| decision.explain().to_string()).collect();
    expect![[r#"
        9 -> 7  StepLimit: down by at most 2 at a time, so not yet 3
          partition  9 -> 14  partition 0: 3 pending, 0.1/s with 9 ready, to be done in 20 s: wants 14
          cap        9 -> 3   partition 0: no more pods than the 3 messages, not 14
          highest    9 -> 3   partition 0 asks for 3
          bounds     3 -> 3   between 0 and 50
          step       3 -> 7   down by at most 2 at a time, so not yet 3
          look again at 2026-03-01T12:01:30Z
        9 -> 7  StepLimit: down by at most 2 at a time, so not yet 1
          partition  9 -> 0  partition 0: 0 pending, 100/s with 9 ready, to be done in 20 s: wants 0
          cap        9 -> 1  partition 0: one at least while there is traffic
          highest    9 -> 1  partition 0 asks for 1
          bounds     1 -> 1  between 0 and 50
          step       1 -> 7  down by at most 2 at a time, so not yet 1
          look again at 2026-03-01T12:01:31Z
        9 -> 11  StepLimit: up by at most 2 at a time, so not yet 50
          partition  9 -> 40500   partition 0: 9000000 pending, 100/s with 9 ready, to be done in 20 s: wants 40500
          highest    9 -> 40500   partition 0 asks for 40500
          bounds     40500 -> 50  40500 is above the maximum of 50
          step       50 -> 11     up by at most 2 at a time, so not yet 50
          look again at 2026-03-01T12:01:32Z"#]].assert_eq(&explained.join("\n"));
    let (_, decisions) = timeline("Sink", json!({}), "t=0s replicas=9 p=24000/100");
    expect![[r#"
        9 -> 11  TooSlow: partition 0 asks for 11
          partition  9 -> 11   partition 0: 24000 pending, the 24000 usable places are full: wants 2 more than 9, 11
          highest    9 -> 11   partition 0 asks for 11
          bounds     11 -> 11  between 0 and 50
          step       11 -> 11  in one step"#]].assert_eq(&decisions[0].explain().to_string());
}

/// The first moment at which time alone gives another answer, and not the last at which it gives the same.
#[test]
fn back_pressure_is_asked_again_when_its_readings_are_too_old() {
    for (row, answers) in [
        // Direct pressure seen at 381 s counts up to 501 s.
        ("t=400s replicas=3 p=20000/300 full=sink:40000 seen=381", [2, 2, 5]),
        ("t=400s replicas=3 p=20000/300 behind=sink:40000 seen=381", [3, 3, 5]),
        // The cooldown ends later than the pressure.
        ("t=400s replicas=1 p=20000/300 full=sink:40000 seen=300 scaled=331", [1, 1, 3]),
    ] {
        let (_, decisions) = timeline("UDF", json!({}), row);
        let next = decisions[0].next_check.unwrap();
        let vertex: VertexForm = serde_json::from_value(json!({ "name": "here", "kind": "UDF" })).unwrap();
        let at = |now: Timestamp| {
            let mut desired = 0;
            testing::timeline(row, |row, memory| {
                let decision = Input { now, ..input(&vertex, row, memory) }.decide().unwrap();
                desired = decision.desired;
                decision
            });
            desired
        };
        let just_before = next.checked_sub(SignedDuration::from_nanos(1)).unwrap();
        assert_eq!([decisions[0].desired, at(just_before), at(next)], answers, "{row}: {next}");
    }
}

#[test]
fn a_cycle_is_not_its_own_downstream() {
    let full = vec![Buffer { pending: Some(40_000), usable: 40_000, at: None }];
    let edge = |from: &str, to: &str| Edge {
        from: from.to_owned(),
        to: to.to_owned(),
        on_full: OnFull::RetryUntilSuccess,
    };
    let edges = [edge("here", "next"), edge("next", "here"), edge("here", "here")];
    let buffers = std::collections::HashMap::from([("here", full)]);
    let names: Vec<String> =
        downstream("here", &edges, &buffers).iter().map(|vertex| vertex.vertex.to_string()).collect();
    assert_eq!(names, ["next"]);
}

#[test]
fn looks_that_cannot_be_are_refused() {
    let with = |samples: Value| {
        let input = json!({
            "now": "2026-03-01T12:00:00Z", "vertex": { "kind": "Source" },
            "observed": { "replicas": 1, "samples": samples },
        });
        crate::policy::decide("vertex", &input.to_string()).unwrap_err().to_string()
    };
    let look = |at: &str, pending: i64| json!({ "at": at, "pending": pending, "processed": 0, "ready": 1 });
    let (noon, later) = ("2026-03-01T12:00:00Z", "2026-03-01T12:00:05Z");
    let many: Vec<Value> = vec![look(noon, 0); 1201];
    let errors = [
        with(json!([look(later, 0), look(noon, 0)])),
        with(json!([look(noon, -1)])),
        with(json!(many)),
        with(json!([{ "at": noon, "pending": 0, "processed": 0, "ready": -1 }])),
    ];
    expect![[r#"
        observed.samples[1].at: expected a later time than that of the look before
        observed.samples[0].pending: expected a number from 0 to 9223372036854775807, found -1
        observed.samples: expected at most 1200 looks, found 1201
        observed.samples[0].ready: expected a number from 0 to 2147483647, found -1"#]]
    .assert_eq(&errors.join("\n"));
}
