//! Timelines of one vertex. `p=60000/10000` is a partition with 60000 pending at 10000/s (`?` is unknown, `3+4/0` has 4
//! unacknowledged); `scaled=10` is the last change, seconds after the start, and `since=20` when a pod became ready; `full=sink:36000` the next vertex's buffer of
//! 50000, `behind=…` one after that.

mod learned;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{
    input::{BufferForm, ObservedForm, PartitionForm, PipelineForm, SettingsForm, VertexForm},
    *,
};
use crate::{
    number::Number,
    testing::{self, Row, start},
};

fn partition(text: &str) -> PartitionForm {
    let (pending, rate) = text.split_once('/').unwrap();
    let (pending, ack_pending) = pending.split_once('+').unwrap_or((pending, "0"));
    PartitionForm {
        pending: pending.parse().ok(),
        ack_pending: ack_pending.parse().unwrap(),
        rate: rate.parse().ok().map(Number),
        ..PartitionForm::default()
    }
}

fn input(vertex: &VertexForm, row: &Row<'_>, memory: Memory) -> Input {
    let number = |key: &str| row.get(key).map(|text| text.parse::<i64>().unwrap());
    let count = |key: &str| number(key).map(|count| i32::try_from(count).unwrap());
    let mut pipeline = PipelineForm::default();
    for (key, on_full) in
        [("full", "retryUntilSuccess"), ("drops", "discardLatest"), ("behind", "retryUntilSuccess")]
    {
        let Some((name, pending)) = row.get(key).and_then(|text| text.split_once(':')) else { continue };
        let from = if key == "behind" { "between" } else { "here" };
        pipeline.edges = serde_json::from_value(json!([
            { "from": from, "to": name, "onFull": on_full }, { "from": "here", "to": "between" },
            { "from": "between", "to": "here" }]))
        .unwrap();
        pipeline.buffers.push(BufferForm {
            vertex: name.to_owned(),
            pending: pending.parse().ok(),
            ack_pending: 0,
            buffer_max_length: 50_000,
            buffer_usage_limit: 80,
            at: number("seen").map(|seconds| after(start(), seconds)),
        });
    }
    Input {
        now: row.now,
        vertex: vertex.clone(),
        settings: SettingsForm::default(),
        observed: ObservedForm {
            replicas: row.replicas,
            desired_replicas: count("want"),
            ready_replicas: count("ready"),
            phase: row.get("phase").unwrap_or("Running").to_owned(),
            rolling_update: row.get("rolling").is_some(),
            last_scaled_at: number("scaled").map(|seconds| after(start(), seconds)),
            ready_since: number("since").map(|seconds| after(start(), seconds)),
            partitions: row
                .words
                .iter()
                .filter(|(key, _)| *key == "p")
                .map(|(_, text)| partition(text))
                .collect(),
            ..ObservedForm::default()
        },
        pipeline,
        memory,
    }
}

fn check(kind: &str, scale: Value, rows: &str, expected: Expect) {
    check_limits(kind, scale, json!({}), rows, expected);
}

fn check_limits(kind: &str, scale: Value, limits: Value, rows: &str, expected: Expect) {
    let vertex: VertexForm =
        serde_json::from_value(json!({ "name": "here", "kind": kind, "scale": scale, "limits": limits }))
            .unwrap();
    let (text, _) = testing::timeline(rows, |row, memory| input(&vertex, row, memory).decide().unwrap());
    expected.assert_eq(&text);
}

#[test]
fn a_source_works_off_what_is_pending_in_time() {
    check(
        "Source",
        json!({ "targetProcessingSeconds": 3, "replicasPerScaleUp": 10, "replicasPerScaleDown": 10 }),
        "
        t=0s replicas=2 p=60000/10000
        t=1s replicas=2 p=82500/10000
        t=2s replicas=5 p=15000/10000
        t=3s replicas=5 ready=2 p=60000/10000
        t=4s replicas=5 p=3/1
        t=5s replicas=5 p=0/100
        t=6s replicas=5 p=100/0
        t=7s replicas=5 p=0/0
        t=8s replicas=5 p=9223372036854775807/0.001
        t=9s replicas=5 p=?/100
        t=10s replicas=5 p=100/?
        t=11s replicas=5 p=-1/100
        t=12s replicas=5 p=100/NaN
        t=13s replicas=5 ready=0 p=100/1
        t=14s replicas=5
        ",
        expect![[r#"
            t=0s replicas=2 p=60000/10000 => 4 TooSlow: partition 0 asks for 4
            t=1s replicas=2 p=82500/10000 => 6 TooSlow: partition 0 asks for 6
            t=2s replicas=5 p=15000/10000 => 3 MoreThanNeeded: partition 0 asks for 3
            t=3s replicas=5 ready=2 p=60000/10000 => 4 MoreThanNeeded: partition 0 asks for 4
            t=4s replicas=5 p=3/1 => 3 MoreThanNeeded: partition 0 asks for 3
            t=5s replicas=5 p=0/100 => 1 MoreThanNeeded: partition 0 asks for 1
            t=6s replicas=5 p=100/0 => 5 Stuck: 100 pending, 5 ready, and nothing processed for 120 s
            t=7s replicas=5 p=0/0 => 0 Quiet: nothing is pending and nothing is processed
            t=8s replicas=5 p=9223372036854775807/0.001 => 15 StepLimit: up by at most 10 at a time, so not yet 50
            t=9s replicas=5 p=?/100 => 5 UnknownPending: it is not known what is pending in partition 0
            t=10s replicas=5 p=100/? => 5 UnknownRate: it is not known how fast partition 0 is processed
            t=11s replicas=5 p=-1/100 => 5 UnknownPending: it is not known what is pending in partition 0
            t=12s replicas=5 p=100/NaN => 5 UnknownRate: it is not known how fast partition 0 is processed
            t=13s replicas=5 ready=0 p=100/1 => 5 NoneReady: no replica is ready
            t=14s replicas=5 => 5 NoPartitions: there are no figures at all
        "#]],
    );
}

#[test]
fn a_udf_keeps_its_buffer_free() {
    // 30000 places, 80 % usable, 50 % to be free.
    check(
        "UDF",
        json!({ "replicasPerScaleUp": 10, "replicasPerScaleDown": 10 }),
        "
        t=0s replicas=3 p=9000/300
        t=1s replicas=3 p=14000/300
        t=2s replicas=4 p=4000/300
        t=3s replicas=3 p=24000/300
        t=4s replicas=3 p=23999/300
        t=5s replicas=3 p=9000/300 p=14000/300
        t=6s replicas=3 p=1/300 p=0/300
        t=7s replicas=3 p=0/0 p=0/0
        t=8s replicas=3 p=9000/300 p=?/300
        ",
        expect![[r#"
            t=0s replicas=3 p=9000/300 => 3 OnTarget: partition 0 asks for 3
            t=1s replicas=3 p=14000/300 => 5 TooSlow: partition 0 asks for 5
            t=2s replicas=4 p=4000/300 => 3 MoreThanNeeded: partition 0 asks for 3
            t=3s replicas=3 p=24000/300 => 13 TooSlow: partition 0 asks for 13
            t=4s replicas=3 p=23999/300 => 13 StepLimit: up by at most 10 at a time, so not yet 50
            t=5s replicas=3 p=9000/300 p=14000/300 => 5 TooSlow: partition 1 asks for 5
            t=6s replicas=3 p=1/300 p=0/300 => 1 MoreThanNeeded: partition 0 asks for 1
            t=7s replicas=3 p=0/0 p=0/0 => 0 Quiet: nothing is pending and nothing is processed
            t=8s replicas=3 p=9000/300 p=?/300 => 3 UnknownPending: it is not known what is pending in partition 1
        "#]],
    );
}

#[test]
fn a_processing_time_on_a_udf_makes_it_hybrid() {
    check(
        "Sink",
        json!({ "targetProcessingSeconds": 20, "replicasPerScaleUp": 10 }),
        "
        t=0s replicas=3 p=15000/300
        t=1s replicas=3 p=15001/300
        t=2s replicas=3 p=24000/300
        ",
        expect![[r#"
            t=0s replicas=3 p=15000/300 => 8 TooSlow: partition 0 asks for 8
            t=1s replicas=3 p=15001/300 => 5 TooSlow: partition 0 asks for 5
            t=2s replicas=3 p=24000/300 => 13 TooSlow: partition 0 asks for 13
        "#]],
    );
}

#[test]
fn back_pressure_is_asked_before_growing_only() {
    check(
        "UDF",
        json!({ "min": 1 }),
        "
        t=0s replicas=3 p=20000/300 full=sink:36000
        t=1s replicas=3 p=20000/300 full=sink:35999
        t=2s replicas=3 p=20000/300 behind=sink:40000
        t=3s replicas=3 p=20000/300 drops=sink:40000
        t=4s replicas=1 p=20000/300 full=sink:40000
        t=5s replicas=3 p=100/300 full=sink:40000
        t=500s replicas=3 p=20000/300 full=sink:40000 seen=379
        t=501s replicas=3 p=20000/300 full=sink:40000 seen=381
        t=502s replicas=3 p=20000/300 full=sink:?
        ",
        expect![[r#"
            t=0s replicas=3 p=20000/300 full=sink:36000 => 2 DirectBackPressure: sink is full (36000 of 40000), so one fewer feeds it
            t=1s replicas=3 p=20000/300 full=sink:35999 => 5 StepLimit: up by at most 2 at a time, so not yet 11
            t=2s replicas=3 p=20000/300 behind=sink:40000 => 3 DownstreamBackPressure: sink is full (40000 of 40000), so more would only fill what lies between
            t=3s replicas=3 p=20000/300 drops=sink:40000 => 5 StepLimit: up by at most 2 at a time, so not yet 11
            t=4s replicas=1 p=20000/300 full=sink:40000 => 1 DirectBackPressure: sink is full (40000 of 40000), so no more feed it
            t=5s replicas=3 p=100/300 full=sink:40000 => 2 MoreThanNeeded: partition 0 asks for 2
            t=500s replicas=3 p=20000/300 full=sink:40000 seen=379 => 5 StepLimit: up by at most 2 at a time, so not yet 11
            t=501s replicas=3 p=20000/300 full=sink:40000 seen=381 => 2 DirectBackPressure: sink is full (40000 of 40000), so one fewer feeds it
            t=502s replicas=3 p=20000/300 full=sink:? => 5 StepLimit: up by at most 2 at a time, so not yet 11
        "#]],
    );
    check(
        "MonoVertex",
        json!({}),
        "t=0s replicas=3 p=20000/300 full=sink:40000",
        expect![[r#"
        t=0s replicas=3 p=20000/300 full=sink:40000 => 5 StepLimit: up by at most 2 at a time, so not yet 10
    "#]],
    );
}

#[test]
fn steps_and_cooldowns() {
    check(
        "Source",
        json!({ "replicasPerScale": 3, "scaleUpCooldownSeconds": 30, "scaleDownCooldownSeconds": 120 }),
        "
        t=0s replicas=1 p=100000/100
        t=29s replicas=4 p=100000/100 scaled=0
        t=30s replicas=4 p=100000/100 scaled=0
        t=100s replicas=7 p=10/100 scaled=30
        t=149s replicas=7 p=10/100 scaled=30
        t=150s replicas=7 p=10/100 scaled=30
        t=151s replicas=9 p=100000/100 scaled=500
        ",
        expect![[r#"
            t=0s replicas=1 p=100000/100 => 4 StepLimit: up by at most 3 at a time, so not yet 50
            t=29s replicas=4 p=100000/100 scaled=0 => 4 Cooldown: cooldown, 1 s left
            t=30s replicas=4 p=100000/100 scaled=0 => 7 StepLimit: up by at most 3 at a time, so not yet 50
            t=100s replicas=7 p=10/100 scaled=30 => 7 Cooldown: held at 7 instead of 4: cooldown, 50 s left
            t=149s replicas=7 p=10/100 scaled=30 => 7 Cooldown: held at 7 instead of 4: cooldown, 1 s left
            t=150s replicas=7 p=10/100 scaled=30 => 4 StepLimit: down by at most 3 at a time, so not yet 1
            t=151s replicas=9 p=100000/100 scaled=500 => 9 Cooldown: cooldown, 30 s left
        "#]],
    );
}

#[test]
fn holds() {
    check(
        "Source",
        json!({}),
        "
        t=0s replicas=3 p=0/0 phase=Paused
        t=1s replicas=3 p=0/0 rolling=yes
        t=2s replicas=3 p=0/0 want=5
        ",
        expect![[r#"
            t=0s replicas=3 p=0/0 phase=Paused => 3 NotRunning: the vertex is Paused, not Running
            t=1s replicas=3 p=0/0 rolling=yes => 3 RollingUpdate: a rolling update is under way
            t=2s replicas=3 p=0/0 want=5 => 3 ChangeUnderWay: still on the way from 3 to 5 replicas
        "#]],
    );
    check(
        "Source",
        json!({ "disabled": true }),
        "t=0s replicas=3 p=0/0",
        expect![[r#"
        t=0s replicas=3 p=0/0 => 3 Disabled: scaling is disabled
    "#]],
    );
    check(
        "Reduce",
        json!({}),
        "t=0s replicas=3 p=0/0",
        expect![[r#"
        t=0s replicas=3 p=0/0 => 3 NotScalable: a reduce vertex has as many replicas as partitions
    "#]],
    );
    check(
        "Source",
        json!({ "min": 3, "max": 3 }),
        "t=0s replicas=3 p=0/0",
        expect![[r#"
        t=0s replicas=3 p=0/0 => 3 FixedSize: minimum and maximum are both 3
    "#]],
    );
    check_limits(
        "Source",
        json!({}),
        json!({ "readBatchSize": 10, "rateLimit": { "max": 5 } }),
        "
        t=0s replicas=3 p=9000/49.5
        t=1s replicas=3 p=9000/48
        t=2s replicas=3 p=5/50
        ",
        expect![[r#"
            t=0s replicas=3 p=9000/49.5 => 3 RateLimited: 49.5/s is at the rate limit of 50/s, so more pods would not help
            t=1s replicas=3 p=9000/48 => 5 StepLimit: up by at most 2 at a time, so not yet 28
            t=2s replicas=3 p=5/50 => 1 MoreThanNeeded: partition 0 asks for 1
        "#]],
    );
}

#[test]
fn sleeping_and_waking() {
    check(
        "Source",
        json!({ "max": 5 }),
        "
        t=0s replicas=1 p=0/0
        t=100s replicas=0 scaled=0
        t=119s replicas=0 scaled=0
        t=120s replicas=0 scaled=0
        t=121s replicas=0
        ",
        expect![[r#"
            t=0s replicas=1 p=0/0 => 0 Quiet: nothing is pending and nothing is processed
            t=100s replicas=0 scaled=0 => 0 Asleep: asleep, looks for work in 20 s
            t=119s replicas=0 scaled=0 => 0 Asleep: asleep, looks for work in 1 s
            t=120s replicas=0 scaled=0 => 1 Peek: asleep for 120 s: look for work
            t=121s replicas=0 => 1 Peek: asleep for 120 s: look for work
        "#]],
    );
    check(
        "Sink",
        json!({ "max": 5 }),
        "
        t=0s replicas=0 p=0/0
        t=1s replicas=0 p=0+4/0 p=?/0
        t=2s replicas=0 p=7/0
        t=3s replicas=0 p=7/0 scaled=0
        t=4s replicas=0 p=?/?
        ",
        expect![[r#"
            t=0s replicas=0 p=0/0 => 0 NothingPending: asleep, and nothing waits
            t=1s replicas=0 p=0+4/0 p=?/0 => 1 WakeUp: 4 messages wait
            t=2s replicas=0 p=7/0 => 1 WakeUp: 7 messages wait
            t=3s replicas=0 p=7/0 scaled=0 => 0 Cooldown: cooldown, 87 s left
            t=4s replicas=0 p=?/? => 0 UnknownPending: it is not known what is pending in partition 0
        "#]],
    );
}

#[test]
fn bounds_and_cron_windows() {
    check(
        "Source",
        json!({ "min": 2, "max": 4, "cron": { "timezone": "Europe/Paris", "schedules": [
            { "start": "0 0 22 * * *", "end": "0 0 6 * * *", "min": 10, "max": 20 },
            { "start": "0 0 12 * * *", "end": "0 0 13 * * *", "min": 0, "max": 1 }] } }),
        "
        2026-03-01T09:00:00Z replicas=9 p=?/?
        2026-03-01T09:00:00Z replicas=1 p=?/?
        2026-03-01T09:00:00Z replicas=3 p=90000/100
        2026-03-01T20:59:59Z replicas=4 p=90000/100
        2026-03-01T21:00:00Z replicas=4 p=?/?
        2026-03-02T04:59:59Z replicas=10 p=90000/100
        2026-03-02T05:00:00Z replicas=20 p=90000/100
        2026-03-02T11:30:00Z replicas=4 p=90000/100
        2026-03-02T11:30:00Z replicas=1 p=0/0
        ",
        expect![[r#"
            2026-03-01T09:00:00Z replicas=9 p=?/? => 4 TooManyReplicas: 9 is above the maximum of 4
            2026-03-01T09:00:00Z replicas=1 p=?/? => 2 TooFewReplicas: 1 is below the minimum of 2
            2026-03-01T09:00:00Z replicas=3 p=90000/100 => 4 TooManyReplicas: 135 is above the maximum of 4
            2026-03-01T20:59:59Z replicas=4 p=90000/100 => 4 TooManyReplicas: 180 is above the maximum of 4
            2026-03-01T21:00:00Z replicas=4 p=?/? => 6 StepLimit: up by at most 2 at a time, so not yet 10
            2026-03-02T04:59:59Z replicas=10 p=90000/100 => 12 StepLimit: up by at most 2 at a time, so not yet 20
            2026-03-02T05:00:00Z replicas=20 p=90000/100 => 4 TooManyReplicas: 20 is above the maximum of 4
            2026-03-02T11:30:00Z replicas=4 p=90000/100 => 2 StepLimit: down by at most 2 at a time, so not yet 1
            2026-03-02T11:30:00Z replicas=1 p=0/0 => 0 Quiet: nothing is pending and nothing is processed
        "#]],
    );
}
