use engine::testing::{at, from_json, lines, merge, seconds};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

/// Created at 00:00:00; `* * * * *` is due each minute.
fn cron_job(spec: Value, status: Value) -> Arc<CronJob> {
    let mut object = json!({
        "metadata": {
            "namespace": "default", "name": "tick", "uid": "c", "resourceVersion": "1", "creationTimestamp": seconds(0),
        },
        "spec": {
            "schedule": "* * * * *", "concurrencyPolicy": "Allow", "suspend": false,
            "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
            "jobTemplate": {
                "metadata": { "labels": { "app": "tick" } },
                "spec": { "template": { "spec": { "containers": [{ "name": "c" }] } } },
            },
        },
        "status": status,
    });
    merge(&mut object["spec"], spec);
    Arc::new(from_json(object))
}

/// `tick-1 active`, `tick-2 complete`, `tick-3 failed`: the number is when it was made, in minutes.
fn job(line: &str) -> Arc<Job> {
    let (name, state) = line.split_once(' ').unwrap();
    let minute: i64 = name.rsplit('-').next().unwrap().parse().unwrap();
    let name = format!("tick-{}", at(0).as_second() / 60 + minute);
    let mut object = json!({
        "metadata": {
            "namespace": "default", "name": name, "uid": name, "resourceVersion": "1",
            "creationTimestamp": seconds(minute * 60),
            "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": "c", "controller": true }],
        },
        "status": {},
    });
    let condition = |kind: &str| json!([{ "type": kind, "status": "True" }]);
    match state {
        "complete" => {
            object["status"] =
                json!({ "conditions": condition("Complete"), "completionTime": seconds(minute * 60 + 5) });
        }
        "failed" => object["status"] = json!({ "conditions": condition("Failed") }),
        _ => {}
    }
    Arc::new(from_json(object))
}

/// Names of Jobs are shown by the minute of their time.
fn check(cron_job: Arc<CronJob>, jobs: &[&str], now: i64, expected: Expect) {
    let observed = Observed { cron_job, jobs: jobs.iter().map(|line| job(line)).collect() };
    let plan = plan(&observed, at(now));
    let mut text = lines(&plan);
    for minute in (0..=200).rev() {
        text = text.replace(&(at(0).as_second() / 60 + minute).to_string(), &format!("@{minute}"));
    }
    expected.assert_eq(&text);
}

fn last(minute: i64) -> Value {
    json!({ "lastScheduleTime": seconds(minute * 60) })
}

#[test]
fn waits_for_its_time_and_starts_a_job_then() {
    check(
        cron_job(json!({}), json!({})),
        &[],
        30,
        expect![[r#"
            look again after 60s
        "#]],
    );
    check(
        cron_job(json!({}), json!({})),
        &[],
        61,
        expect![[r#"
            create Job default/tick-@1
            status CronJob default/tick {"lastScheduleTime":"2026-01-01T00:01:00Z"}
            look again after 120s
        "#]],
    );
}

#[test]
fn a_job_that_is_there_is_not_made_again() {
    check(
        cron_job(json!({}), json!({})),
        &["tick-1 active"],
        61,
        expect![[r#"
            status CronJob default/tick {"active":[{"apiVersion":"batch/v1","kind":"Job","name":"tick-@1","namespace":"default","uid":"tick-@1"}],"lastScheduleTime":"2026-01-01T00:01:00Z"}
            look again after 120s
        "#]],
    );
}

#[test]
fn what_was_missed_is_made_up_for_once() {
    check(
        cron_job(json!({}), last(1)),
        &[],
        300,
        expect![[r#"
            create Job default/tick-@5
            status CronJob default/tick {"lastScheduleTime":"2026-01-01T00:05:00Z"}
            look again after 360s
        "#]],
    );
    // later than its deadline it is not started
    check(
        cron_job(json!({ "schedule": "0 * * * *", "startingDeadlineSeconds": 30 }), json!({})),
        &[],
        3640,
        expect![[r#"
            look again after 7200s
        "#]],
    );
}

#[test]
fn one_at_a_time_or_the_new_one_instead() {
    let active = json!({
        "active": [{ "apiVersion": "batch/v1", "kind": "Job", "name": job("tick-1 active").metadata.name,
            "namespace": "default", "uid": job("tick-1 active").metadata.uid }],
        "lastScheduleTime": seconds(60),
    });
    check(
        cron_job(json!({ "concurrencyPolicy": "Forbid" }), active.clone()),
        &["tick-1 active"],
        125,
        expect![[r#"
            event JobAlreadyActive "Not starting job because prior execution is running and concurrency policy is Forbid" on CronJob default/tick
            look again after 180s
        "#]],
    );
    check(
        cron_job(json!({ "concurrencyPolicy": "Replace" }), active),
        &["tick-1 active"],
        125,
        expect![[r#"
            delete Job default/tick-@1 (Background)
            create Job default/tick-@2
            status CronJob default/tick {"lastScheduleTime":"2026-01-01T00:02:00Z"}
            look again after 180s
        "#]],
    );
}

#[test]
fn keeps_only_the_last_of_the_finished() {
    let jobs = [
        "tick-1 complete",
        "tick-2 failed",
        "tick-3 complete",
        "tick-4 complete",
        "tick-5 failed",
        "tick-6 complete",
    ];
    check(
        cron_job(json!({}), json!({ "lastScheduleTime": seconds(360), "lastSuccessfulTime": seconds(365) })),
        &jobs,
        370,
        expect![[r#"
            delete Job default/tick-@1 (Background)
            delete Job default/tick-@2 (Background)
            look again after 420s
        "#]],
    );
}

#[test]
fn suspended_it_starts_nothing_and_still_tidies_up() {
    check(
        cron_job(json!({ "suspend": true, "successfulJobsHistoryLimit": 0 }), last(1)),
        &["tick-1 complete"],
        600,
        expect![[r#"
            delete Job default/tick-@1 (Background)
            status CronJob default/tick {"lastSuccessfulTime":"2026-01-01T00:01:05Z"}
        "#]],
    );
}
