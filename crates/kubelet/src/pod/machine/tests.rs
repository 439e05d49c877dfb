use std::fmt::Write as _;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::{pod::status, probes::Kind};

/// A pod's story: what happens, and after each event what the planner wants and what the status shows.
struct Story {
    machine: Machine,
    rendered: Option<k8s::PodStatus>,
    text: String,
    now: i64,
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn pod(spec: Value) -> k8s::Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "p", "namespace": "ns", "uid": "u", "generation": 1 },
        "spec": spec,
    }))
    .unwrap()
}

fn named(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "name": name, "command": ["x"] })).collect()
}

impl Story {
    fn new(spec: Value) -> Self {
        let machine =
            Machine::new(Arc::new(pod(spec)), Ipv4Addr::new(127, 64, 0, 1), Delays::default(), at(0));
        Self { machine, rendered: None, text: String::new(), now: 0 }
    }

    fn at(mut self, second: i64) -> Self {
        self.now = second;
        self
    }

    fn index(&self, name: &str) -> usize {
        specs(&self.machine.pod).position(|spec| spec.name == name).unwrap()
    }

    fn event(mut self, title: &str, event: Event) -> Self {
        let effects = self.machine.apply(at(self.now), event);
        let _ = writeln!(self.text, "{}s {title}", self.now);
        let name = |index: usize| specs(&self.machine.pod).nth(index).unwrap().name.clone();
        for effect in effects {
            let _ = match effect {
                Effect::PrepareVolumes => writeln!(self.text, "    volumes"),
                Effect::Start { container, instance } => {
                    writeln!(self.text, "    start {}#{instance}", name(container))
                }
                Effect::Stop { container, instance, by } => {
                    let by = by.duration_since(at(0)).as_secs();
                    writeln!(self.text, "    stop {}#{instance} by {by}s", name(container))
                }
                Effect::Tell { warning, reason, message, .. } => {
                    writeln!(self.text, "    {}{reason}: {message}", if warning { "! " } else { "" })
                }
                Effect::Resize { container } => writeln!(self.text, "    resize {}", name(container)),
            };
        }
        let status = status::render(&self.machine, Ipv4Addr::LOCALHOST, self.rendered.as_ref(), at(self.now));
        let line = summary(&status);
        if self.rendered.as_ref().map(summary) != Some(line.clone()) {
            let _ = writeln!(self.text, "  = {line}");
        }
        self.rendered = Some(status);
        self
    }

    fn begin(self) -> Self {
        let pod = Arc::clone(&self.machine.pod);
        self.event("begin", Event::Pod(pod)).event("volumes ready", Event::Volumes(Ok(())))
    }

    fn started(self, name: &str) -> Self {
        let container = self.index(name);
        let instance = self.machine.containers[container].instance;
        self.event(&format!("{name} started"), Event::Started { container, instance })
    }

    fn ended(self, name: &str, exit_code: i32) -> Self {
        let container = self.index(name);
        let instance = self.machine.containers[container].instance;
        let end = Terminated {
            instance,
            exit_code,
            reason: if exit_code == 0 { reasons::COMPLETED } else { reasons::ERROR }.to_owned(),
            message: None,
            started_at: None,
            finished_at: at(self.now),
        };
        self.event(&format!("{name} ended {exit_code}"), Event::Ended { container, instance, end })
    }

    fn probe(self, name: &str, kind: Kind, healthy: bool) -> Self {
        let container = self.index(name);
        let instance = self.machine.containers[container].instance;
        let report = Report::Became { kind, healthy };
        let title = format!("{name} {} {healthy}", kind.title());
        self.event(&title, Event::Probe { container, instance, report })
    }

    fn tick(self) -> Self {
        self.event("tick", Event::Tick)
    }

    fn delete(self, grace: i64) -> Self {
        let mut pod = (*self.machine.pod).clone();
        pod.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(self.now + grace)));
        pod.metadata.deletion_grace_period_seconds = Some(grace);
        self.event(&format!("deleted, grace {grace}"), Event::Pod(Arc::new(pod)))
    }

    fn check(self, expected: Expect) -> Self {
        expected.assert_eq(&self.text);
        Self { text: String::new(), ..self }
    }
}

/// `Running | a:running#1 b:CrashLoopBackOff#0 | +Initialized -Ready(...)`: names of conditions that hold, reasons of others.
fn summary(status: &k8s::PodStatus) -> String {
    let containers =
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    let containers: Vec<String> = containers
        .map(|c| {
            let state = c.state.clone().unwrap();
            let what = match (state.waiting, state.running, state.terminated) {
                (Some(waiting), _, _) => waiting.reason.unwrap(),
                (_, Some(_), _) if c.ready => "ready".to_owned(),
                (_, Some(_), _) => "running".to_owned(),
                (_, _, Some(end)) => format!("{}({})", end.reason.unwrap(), end.exit_code),
                _ => "?".to_owned(),
            };
            format!("{}:{what}#{}", c.name, c.restart_count)
        })
        .collect();
    let conditions: Vec<String> = status
        .conditions
        .iter()
        .flatten()
        .filter(|c| c.type_ != "PodScheduled" && c.type_ != "ContainersReady")
        .map(|c| match (c.status.as_str(), &c.reason, &c.message) {
            ("True", _, _) => format!("+{}", c.type_),
            (_, None, _) => format!("-{}", c.type_),
            (_, Some(reason), None) => format!("-{}({reason})", c.type_),
            (_, Some(reason), Some(message)) => format!("-{}({reason}: {message})", c.type_),
        })
        .collect();
    let reason = status.reason.as_ref().map(|r| format!(" {r}")).unwrap_or_default();
    format!("{}{reason} | {} | {}", status.phase.clone().unwrap(), containers.join(" "), conditions.join(" "))
}

#[test]
fn a_plain_life_and_death() {
    Story::new(json!({ "containers": named(&["a"]), "terminationGracePeriodSeconds": 20 }))
        .begin()
        .at(1)
        .started("a")
        .at(5)
        .delete(20)
        .at(6)
        .delete(3)
        .at(7)
        .ended("a", 143)
        .check(expect![[r#"
            0s begin
                volumes
              = Pending | a:ContainerCreating#0 | -PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            0s volumes ready
                start a#0
              = Pending | a:ContainerCreating#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            1s a started
                Started: Started container a
              = Running | a:ready#0 | +PodReadyToStartContainers +Initialized +Ready
            5s deleted, grace 20
                Killing: Stopping container a
                stop a#0 by 25s
            6s deleted, grace 3
                stop a#0 by 9s
            7s a ended 143
              = Failed | a:Error(143)#0 | -PodReadyToStartContainers +Initialized -Ready(PodFailed)
        "#]]);
}

#[test]
fn init_containers_in_order_with_a_sidecar() {
    Story::new(json!({
        "initContainers": [
            { "name": "i1", "command": ["x"] },
            { "name": "side", "command": ["x"], "restartPolicy": "Always",
              "startupProbe": { "tcpSocket": { "port": 1 } } },
            { "name": "i2", "command": ["x"] },
        ],
        "containers": named(&["a"]),
        "restartPolicy": "OnFailure",
    }))
    .begin()
    .started("i1")
    .at(1)
    .ended("i1", 0)
    .started("side")
    .probe("side", Kind::Startup, true)
    .started("i2")
    .at(2)
    .ended("i2", 0)
    .started("a")
    .at(3)
    .ended("side", 1)
    .started("side")
    .at(4)
    .ended("a", 0)
    .ended("side", 137)
    .check(expect![[r#"
        0s begin
            volumes
          = Pending | i1:PodInitializing#0 side:PodInitializing#0 i2:PodInitializing#0 a:PodInitializing#0 | -PodReadyToStartContainers -Initialized(ContainersNotInitialized: containers with incomplete status: [i1 side i2]) -Ready(ContainersNotReady: containers with unready status: [side a])
        0s volumes ready
            start i1#0
          = Pending | i1:PodInitializing#0 side:PodInitializing#0 i2:PodInitializing#0 a:PodInitializing#0 | +PodReadyToStartContainers -Initialized(ContainersNotInitialized: containers with incomplete status: [i1 side i2]) -Ready(ContainersNotReady: containers with unready status: [side a])
        0s i1 started
            Started: Started container i1
          = Pending | i1:running#0 side:PodInitializing#0 i2:PodInitializing#0 a:PodInitializing#0 | +PodReadyToStartContainers -Initialized(ContainersNotInitialized: containers with incomplete status: [i1 side i2]) -Ready(ContainersNotReady: containers with unready status: [side a])
        1s i1 ended 0
            start side#0
          = Pending | i1:Completed(0)#0 side:PodInitializing#0 i2:PodInitializing#0 a:PodInitializing#0 | +PodReadyToStartContainers -Initialized(ContainersNotInitialized: containers with incomplete status: [side i2]) -Ready(ContainersNotReady: containers with unready status: [side a])
        1s side started
            Started: Started container side
          = Pending | i1:Completed(0)#0 side:running#0 i2:PodInitializing#0 a:PodInitializing#0 | +PodReadyToStartContainers -Initialized(ContainersNotInitialized: containers with incomplete status: [side i2]) -Ready(ContainersNotReady: containers with unready status: [side a])
        1s side Startup true
            start i2#0
          = Pending | i1:Completed(0)#0 side:ready#0 i2:PodInitializing#0 a:PodInitializing#0 | +PodReadyToStartContainers -Initialized(ContainersNotInitialized: containers with incomplete status: [i2]) -Ready(ContainersNotReady: containers with unready status: [a])
        1s i2 started
            Started: Started container i2
          = Pending | i1:Completed(0)#0 side:ready#0 i2:running#0 a:PodInitializing#0 | +PodReadyToStartContainers -Initialized(ContainersNotInitialized: containers with incomplete status: [i2]) -Ready(ContainersNotReady: containers with unready status: [a])
        2s i2 ended 0
            start a#0
          = Pending | i1:Completed(0)#0 side:ready#0 i2:Completed(0)#0 a:PodInitializing#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
        2s a started
            Started: Started container a
          = Running | i1:Completed(0)#0 side:ready#0 i2:Completed(0)#0 a:ready#0 | +PodReadyToStartContainers +Initialized +Ready
        3s side ended 1
            start side#1
          = Running | i1:Completed(0)#0 side:Error(1)#0 i2:Completed(0)#0 a:ready#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [side])
        3s side started
            Started: Started container side
          = Running | i1:Completed(0)#0 side:running#1 i2:Completed(0)#0 a:ready#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [side])
        4s a ended 0
            Killing: Stopping container side
            stop side#1 by 34s
          = Running | i1:Completed(0)#0 side:running#1 i2:Completed(0)#0 a:Completed(0)#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [side a])
        4s side ended 137
          = Succeeded | i1:Completed(0)#0 side:Error(137)#1 i2:Completed(0)#0 a:Completed(0)#0 | -PodReadyToStartContainers +Initialized -Ready(PodCompleted)
    "#]]);
}

#[test]
fn a_crash_loop_backs_off_and_is_forgiven() {
    Story::new(json!({ "containers": named(&["a", "b"]) }))
        .begin()
        .started("a")
        .started("b")
        .at(1)
        .ended("a", 1)
        .started("a")
        .at(2)
        .ended("a", 1)
        .at(5)
        .tick()
        .at(12)
        .tick()
        .started("a")
        .at(700)
        .ended("a", 1)
        .check(expect![[r#"
            0s begin
                volumes
              = Pending | a:ContainerCreating#0 b:ContainerCreating#0 | -PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a b])
            0s volumes ready
                start a#0
                start b#0
              = Pending | a:ContainerCreating#0 b:ContainerCreating#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a b])
            0s a started
                Started: Started container a
              = Pending | a:ready#0 b:ContainerCreating#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [b])
            0s b started
                Started: Started container b
              = Running | a:ready#0 b:ready#0 | +PodReadyToStartContainers +Initialized +Ready
            1s a ended 1
                start a#1
              = Running | a:Error(1)#0 b:ready#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            1s a started
                Started: Started container a
              = Running | a:ready#1 b:ready#0 | +PodReadyToStartContainers +Initialized +Ready
            2s a ended 1
                ! BackOff: Back-off restarting failed container a in pod p_ns(u)
              = Running | a:CrashLoopBackOff#1 b:ready#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            5s tick
            12s tick
                start a#2
              = Running | a:Error(1)#1 b:ready#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            12s a started
                Started: Started container a
              = Running | a:ready#2 b:ready#0 | +PodReadyToStartContainers +Initialized +Ready
            700s a ended 1
                start a#3
              = Running | a:Error(1)#2 b:ready#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
        "#]]);
}

#[test]
fn failures_that_are_final() {
    Story::new(json!({ "containers": named(&["a", "b"]), "restartPolicy": "Never" }))
        .begin()
        .started("a")
        .started("b")
        .ended("a", 0)
        .ended("b", 3)
        .delete(30)
        .check(expect![[r#"
            0s begin
                volumes
              = Pending | a:ContainerCreating#0 b:ContainerCreating#0 | -PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a b])
            0s volumes ready
                start a#0
                start b#0
              = Pending | a:ContainerCreating#0 b:ContainerCreating#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a b])
            0s a started
                Started: Started container a
              = Pending | a:ready#0 b:ContainerCreating#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [b])
            0s b started
                Started: Started container b
              = Running | a:ready#0 b:ready#0 | +PodReadyToStartContainers +Initialized +Ready
            0s a ended 0
              = Running | a:Completed(0)#0 b:ready#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            0s b ended 3
              = Failed | a:Completed(0)#0 b:Error(3)#0 | -PodReadyToStartContainers +Initialized -Ready(PodFailed)
            0s deleted, grace 30
        "#]]);
    Story::new(json!({
        "initContainers": named(&["i"]), "containers": named(&["a"]), "restartPolicy": "Never",
    }))
    .begin()
    .started("i")
    .ended("i", 1)
    .check(expect![[r#"
        0s begin
            volumes
          = Pending | i:PodInitializing#0 a:PodInitializing#0 | -PodReadyToStartContainers -Initialized(ContainersNotInitialized: containers with incomplete status: [i]) -Ready(ContainersNotReady: containers with unready status: [a])
        0s volumes ready
            start i#0
          = Pending | i:PodInitializing#0 a:PodInitializing#0 | +PodReadyToStartContainers -Initialized(ContainersNotInitialized: containers with incomplete status: [i]) -Ready(ContainersNotReady: containers with unready status: [a])
        0s i started
            Started: Started container i
          = Pending | i:running#0 a:PodInitializing#0 | +PodReadyToStartContainers -Initialized(ContainersNotInitialized: containers with incomplete status: [i]) -Ready(ContainersNotReady: containers with unready status: [a])
        0s i ended 1
          = Failed | i:Error(1)#0 a:PodInitializing#0 | -PodReadyToStartContainers -Initialized(ContainersNotInitialized: containers with incomplete status: [i]) -Ready(PodFailed)
    "#]]);
    Story::new(json!({ "containers": named(&["a"]), "activeDeadlineSeconds": 60, "terminationGracePeriodSeconds": 5 }))
        .begin()
        .started("a")
        .at(60)
        .tick()
        .at(61)
        .ended("a", 0)
        .check(expect![[r#"
            0s begin
                volumes
              = Pending | a:ContainerCreating#0 | -PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            0s volumes ready
                start a#0
              = Pending | a:ContainerCreating#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            0s a started
                Started: Started container a
              = Running | a:ready#0 | +PodReadyToStartContainers +Initialized +Ready
            60s tick
                DeadlineExceeded: Pod was active on the node longer than the specified deadline
                Killing: Stopping container a
                stop a#0 by 65s
              = Running DeadlineExceeded | a:ready#0 | +PodReadyToStartContainers +Initialized +Ready
            61s a ended 0
              = Failed DeadlineExceeded | a:Completed(0)#0 | -PodReadyToStartContainers +Initialized -Ready(PodFailed)
        "#]]);
}

#[test]
fn probes_decide_readiness_and_restarts() {
    let probe = json!({ "tcpSocket": { "port": 1 } });
    let liveness = json!({ "tcpSocket": { "port": 1 }, "terminationGracePeriodSeconds": 4 });
    Story::new(json!({ "containers": [{
        "name": "a", "command": ["x"], "startupProbe": probe, "readinessProbe": probe, "livenessProbe": liveness,
    }] }))
    .begin()
    .started("a")
    .probe("a", Kind::Startup, true)
    .probe("a", Kind::Readiness, true)
    .probe("a", Kind::Readiness, false)
    .at(10)
    .probe("a", Kind::Liveness, false)
    .probe("a", Kind::Liveness, false)
    .at(12)
    .ended("a", 143)
    .check(expect![[r#"
        0s begin
            volumes
          = Pending | a:ContainerCreating#0 | -PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
        0s volumes ready
            start a#0
          = Pending | a:ContainerCreating#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
        0s a started
            Started: Started container a
          = Running | a:running#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
        0s a Startup true
        0s a Readiness true
          = Running | a:ready#0 | +PodReadyToStartContainers +Initialized +Ready
        0s a Readiness false
          = Running | a:running#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
        10s a Liveness false
            Killing: Container a failed liveness probe, will be restarted
            stop a#0 by 14s
        10s a Liveness false
        12s a ended 143
            start a#1
          = Running | a:Error(143)#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
    "#]]);
}

#[test]
fn what_cannot_run_here_stays_pending_and_says_why() {
    let story = Story::new(json!({ "containers": [
        { "name": "image", "image": "nginx" },
        { "name": "grpc", "command": ["x"], "readinessProbe": { "grpc": { "port": 1 } } },
        { "name": "fine", "command": ["x"] },
    ] }))
    .begin();
    let messages: Vec<String> = story
        .rendered
        .iter()
        .flat_map(|s| s.container_statuses.iter().flatten())
        .filter_map(|c| c.state.clone()?.waiting?.message)
        .collect();
    expect![[r#"
        container "image" has no command, and the process node does not run images ("nginx"): give the container a command that exists on this machine
        the readiness probe of container "grpc" is a grpc probe, which the process node does not run; use httpGet, tcpSocket or exec"#]].assert_eq(&messages.join("\n"));
    story.started("fine").delete(0).ended("fine", 137).check(expect![[r#"
        0s begin
            volumes
          = Pending | image:ContainerCreating#0 grpc:ContainerCreating#0 fine:ContainerCreating#0 | -PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [image grpc fine])
        0s volumes ready
            ! Failed: Error: container "image" has no command, and the process node does not run images ("nginx"): give the container a command that exists on this machine
            ! Failed: Error: the readiness probe of container "grpc" is a grpc probe, which the process node does not run; use httpGet, tcpSocket or exec
            start fine#0
          = Pending | image:ImageNotRunnable#0 grpc:ProbeNotSupported#0 fine:ContainerCreating#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [image grpc fine])
        0s fine started
            Started: Started container fine
          = Pending | image:ImageNotRunnable#0 grpc:ProbeNotSupported#0 fine:ready#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [image grpc])
        0s deleted, grace 0
            Killing: Stopping container fine
            stop fine#0 by 0s
        0s fine ended 137
          = Failed | image:ImageNotRunnable#0 grpc:ProbeNotSupported#0 fine:Error(137)#0 | -PodReadyToStartContainers +Initialized -Ready(PodFailed)
    "#]]);
}

#[test]
fn missing_configuration_is_waited_for() {
    let mut story = Story::new(json!({ "containers": named(&["a"]) }));
    let pod = Arc::clone(&story.machine.pod);
    story = story
        .event("begin", Event::Pod(pod))
        .event("no volume", Event::Volumes(Err("configmap \"x\" not found".to_owned())))
        .at(3)
        .event("object appears", Event::ObjectsChanged)
        .event("volumes ready", Event::Volumes(Ok(())))
        .event(
            "no key",
            Event::NotConfigured { container: 0, instance: 0, message: "couldn't find key".to_owned() },
        );
    assert_eq!(story.machine.next_wake(), Some(at(13)));
    story
        .at(13)
        .tick()
        .started("a")
        .event("object changes", Event::ObjectsChanged)
        .event("volume fails now", Event::Volumes(Err("gone".to_owned())))
        .check(expect![[r#"
            0s begin
                volumes
              = Pending | a:ContainerCreating#0 | -PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            0s no volume
                ! FailedMount: configmap "x" not found
            3s object appears
                volumes
            3s volumes ready
                start a#0
              = Pending | a:ContainerCreating#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            3s no key
                ! Failed: Error: couldn't find key
              = Pending | a:CreateContainerConfigError#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            13s tick
                start a#0
              = Pending | a:ContainerCreating#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            13s a started
                Started: Started container a
              = Running | a:ready#0 | +PodReadyToStartContainers +Initialized +Ready
            13s object changes
                volumes
            13s volume fails now
                ! FailedMount: gone
        "#]]);
}

#[test]
fn readiness_gates_and_transition_times() {
    let story = Story::new(json!({
        "containers": named(&["a"]), "readinessGates": [{ "conditionType": "x/gate" }],
    }))
    .begin()
    .at(5)
    .started("a");
    let mut open = (*story.machine.pod).clone();
    open.status =
        serde_json::from_value(json!({ "conditions": [{ "type": "x/gate", "status": "True" }] })).unwrap();
    let story = story.at(9).event("gate opens", Event::Pod(Arc::new(open)));
    let times: Vec<String> = story
        .rendered
        .iter()
        .flat_map(|s| s.conditions.iter().flatten())
        .map(|c| {
            let since = c.last_transition_time.as_ref().unwrap().0.duration_since(at(0)).as_secs();
            format!("{}={} since {since}s generation {}", c.type_, c.status, c.observed_generation.unwrap())
        })
        .collect();
    expect![[r#"
        PodReadyToStartContainers=True since 0s generation 1
        Initialized=True since 0s generation 1
        Ready=True since 9s generation 1
        ContainersReady=True since 5s generation 1
        PodScheduled=True since 0s generation 1"#]]
    .assert_eq(&times.join("\n"));
    story.check(expect![[r#"
        0s begin
            volumes
          = Pending | a:ContainerCreating#0 | -PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
        0s volumes ready
            start a#0
          = Pending | a:ContainerCreating#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
        5s a started
            Started: Started container a
          = Running | a:ready#0 | +PodReadyToStartContainers +Initialized -Ready(ReadinessGatesNotReady: corresponding condition of pod readiness gate "x/gate" does not exist.)
        9s gate opens
          = Running | a:ready#0 | +PodReadyToStartContainers +Initialized +Ready
    "#]]);
}

#[test]
fn changes_of_the_manifest() {
    let spec = |image: &str, cpu: &str, memory: &str| {
        json!({ "containers": [{ "name": "a", "command": ["x"], "image": image,
            "resources": { "requests": { "cpu": cpu, "memory": memory } },
            "resizePolicy": [{ "resourceName": "memory", "restartPolicy": "RestartContainer" }] }] })
    };
    let changed = |spec: Value| Event::Pod(Arc::new(pod(spec)));
    Story::new(spec("v1", "1", "1Mi"))
        .begin()
        .started("a")
        .event("more cpu", changed(spec("v1", "2", "1Mi")))
        .event("more memory", changed(spec("v1", "2", "2Mi")))
        .ended("a", 143)
        .started("a")
        .event("new image", changed(spec("v2", "2", "2Mi")))
        .check(expect![[r#"
            0s begin
                volumes
              = Pending | a:ContainerCreating#0 | -PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            0s volumes ready
                start a#0
              = Pending | a:ContainerCreating#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            0s a started
                Started: Started container a
              = Running | a:ready#0 | +PodReadyToStartContainers +Initialized +Ready
            0s more cpu
                resize a
            0s more memory
                Killing: Container a resize requires restart
                stop a#0 by 30s
            0s a ended 143
                start a#1
              = Running | a:Error(143)#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            0s a started
                Started: Started container a
              = Running | a:ready#1 | +PodReadyToStartContainers +Initialized +Ready
            0s new image
                Killing: Container a definition changed, will be restarted
                stop a#1 by 30s
        "#]]);
}

#[test]
fn shutdown_shortens_the_grace_and_late_news_changes_nothing() {
    let story = Story::new(json!({ "containers": named(&["a"]) }))
        .begin()
        .started("a")
        .at(10)
        .event("shutdown", Event::Shutdown { grace: SignedDuration::from_secs(5) })
        .event(
            "late",
            Event::Probe {
                container: 0,
                instance: 7,
                report: Report::Became { kind: Kind::Liveness, healthy: false },
            },
        )
        .event("unknown container", Event::Started { container: 9, instance: 0 })
        .ended("a", 143)
        .check(expect![[r#"
            0s begin
                volumes
              = Pending | a:ContainerCreating#0 | -PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            0s volumes ready
                start a#0
              = Pending | a:ContainerCreating#0 | +PodReadyToStartContainers +Initialized -Ready(ContainersNotReady: containers with unready status: [a])
            0s a started
                Started: Started container a
              = Running | a:ready#0 | +PodReadyToStartContainers +Initialized +Ready
            10s shutdown
                Killing: Stopping container a
                stop a#0 by 15s
            10s late
            10s unknown container
            10s a ended 143
              = Failed | a:Error(143)#0 | -PodReadyToStartContainers +Initialized -Ready(PodFailed)
        "#]]);
    assert_eq!(story.machine.stopped(), Some(Cause::Shutdown));
}
