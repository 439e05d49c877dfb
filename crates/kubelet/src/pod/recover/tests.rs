use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::pod::machine::Event;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn end(instance: u32, exit_code: i32) -> Trace {
    Trace::Ended(Terminated {
        instance,
        exit_code,
        reason: reasons::ERROR.to_owned(),
        message: None,
        started_at: None,
        finished_at: at(-5),
    })
}

/// State by container, what is adopted, and what the planner does first.
fn check(status: Value, traces: &[(&str, u32, Trace)], expected: Expect) {
    let pod: k8s::Pod = serde_json::from_value(json!({
        "metadata": { "name": "p", "namespace": "ns", "uid": "u" },
        "spec": {
            "initContainers": [{ "name": "i", "command": ["x"] }],
            "containers": [{ "name": "a", "command": ["x"] }],
        },
        "status": status,
    }))
    .unwrap();
    let traces = traces
        .iter()
        .map(|(name, instance, trace)| (((*name).to_owned(), *instance), trace.clone()))
        .collect();
    let pod = Arc::new(pod);
    let (mut machine, alive) =
        recover(Arc::clone(&pod), Ipv4Addr::new(127, 64, 0, 1), Delays::default(), &traces, at(0));
    let mut lines: Vec<String> = specs(&pod)
        .zip(&machine.containers)
        .map(|(spec, container)| {
            let state = match &container.state {
                State::Waiting { reason, .. } => (*reason).to_owned(),
                State::Starting => "starting".to_owned(),
                State::Running { since } => {
                    format!("running since {}s", since.duration_since(at(0)).as_secs())
                }
                State::Terminated(end) => {
                    format!("{}({}) of run {}", end.reason, end.exit_code, end.instance)
                }
            };
            let last =
                container.last.as_ref().map(|end| format!(", before that {}({})", end.reason, end.exit_code));
            format!("{}: {state}{}", spec.name, last.unwrap_or_default())
        })
        .collect();
    lines.push(format!("adopts {alive:?}"));
    lines.extend(machine.apply(at(0), Event::Pod(pod)).iter().map(|effect| format!("{effect:?}")));
    lines.extend(machine.apply(at(0), Event::Volumes(Ok(()))).iter().map(|effect| format!("{effect:?}")));
    expected.assert_eq(&lines.join("\n"));
}

fn container(name: &str, state: Value, restarts: u32) -> Value {
    json!({ "name": name, "image": "", "imageID": "", "ready": false, "restartCount": restarts,
            "containerID": format!("process://u_{name}_{restarts}"), "state": state })
}

fn completed(name: &str) -> Value {
    container(
        name,
        json!({ "terminated": { "exitCode": 0, "reason": "Completed", "containerID": format!("process://u_{name}_0") } }),
        0,
    )
}

fn running(name: &str, restarts: u32) -> Value {
    container(name, json!({ "running": { "startedAt": "2023-11-14T22:13:10Z" } }), restarts)
}

#[test]
fn a_living_process_is_adopted() {
    check(
        json!({ "phase": "Running", "initContainerStatuses": [completed("i")], "containerStatuses": [running("a", 2)] }),
        &[("i", 0, end(0, 0)), ("a", 1, end(1, 1)), ("a", 2, Trace::Alive { since: at(-10) })],
        expect![[r#"
            i: Error(0) of run 0
            a: running since -10s, before that Error(1)
            adopts [(1, 2)]
            PrepareVolumes"#]],
    );
}

#[test]
fn a_vanished_process_is_restarted() {
    check(
        json!({ "phase": "Running", "initContainerStatuses": [completed("i")], "containerStatuses": [running("a", 0)] }),
        &[("a", 0, Trace::Vanished { since: Some(at(-10)) })],
        expect![[r#"
            i: Completed(0) of run 0
            a: ContainerStatusUnknown(137) of run 0
            adopts []
            PrepareVolumes
            Start { container: 1, instance: 1 }"#]],
    );
}

#[test]
fn the_disk_knows_more_than_the_api() {
    check(
        json!({ "phase": "Pending" }),
        &[("i", 0, end(0, 0)), ("a", 0, Trace::Alive { since: at(-1) })],
        expect![[r#"
            i: Error(0) of run 0
            a: running since -1s
            adopts [(1, 0)]
            PrepareVolumes"#]],
    );
}

#[test]
fn the_api_knows_more_than_the_disk() {
    check(
        json!({ "phase": "Running", "initContainerStatuses": [completed("i")], "containerStatuses": [running("a", 3)] }),
        &[],
        expect![[r#"
            i: Completed(0) of run 0
            a: ContainerStatusUnknown(137) of run 3
            adopts []
            PrepareVolumes
            Start { container: 1, instance: 4 }"#]],
    );
}

#[test]
fn what_is_over_stays_over() {
    check(
        json!({ "phase": "Succeeded", "initContainerStatuses": [completed("i")], "containerStatuses": [completed("a")] }),
        &[],
        expect![[r#"
            i: Completed(0) of run 0
            a: Completed(0) of run 0
            adopts []"#]],
    );
}

#[test]
fn a_new_pod_begins_at_the_beginning() {
    check(
        json!({ "phase": "Pending" }),
        &[],
        expect![[r#"
            i: PodInitializing
            a: PodInitializing
            adopts []
            PrepareVolumes
            Start { container: 0, instance: 0 }"#]],
    );
}
