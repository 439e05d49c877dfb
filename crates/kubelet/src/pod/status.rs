//! A pod's status as a kubelet would write it: phase, conditions, container states.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::{api::core::v1 as k8s, apimachinery::pkg::apis::meta::v1::Time};

use super::{
    container::{Container, Role, State, Terminated},
    machine::{Cause, Machine, specs},
    reasons,
};

/// Only what a node owns: everything else (QoS class, others' conditions) is left as it is in the API.
///
/// `previous` is the status written before: a condition keeps its transition time while its status stays.
pub fn render(
    machine: &Machine,
    host_ip: Ipv4Addr,
    previous: Option<&k8s::PodStatus>,
    now: Timestamp,
) -> k8s::PodStatus {
    let (init, main): (Vec<_>, Vec<_>) = specs(&machine.pod)
        .zip(&machine.containers)
        .map(|(spec, container)| (container.role, container_status(machine, spec, container)))
        .partition(|(role, _)| *role != Role::Main);
    let init: Vec<k8s::ContainerStatus> = init.into_iter().map(|(_, status)| status).collect();
    let main: Vec<k8s::ContainerStatus> = main.into_iter().map(|(_, status)| status).collect();
    let phase = phase(machine);
    let exceeded = machine.stop.is_some_and(|stop| stop.cause == Cause::DeadlineExceeded)
        || previous.is_some_and(|p| p.reason.as_deref() == Some(reasons::DEADLINE_EXCEEDED));
    let address = machine.address.to_string();
    k8s::PodStatus {
        observed_generation: machine.pod.metadata.generation,
        conditions: Some(conditions(machine, phase, previous, now)),
        phase: Some(phase.to_owned()),
        reason: exceeded.then(|| reasons::DEADLINE_EXCEEDED.to_owned()),
        message: exceeded.then(|| "Pod was active on the node longer than the specified deadline".to_owned()),
        host_ip: Some(host_ip.to_string()),
        host_ips: Some(vec![k8s::HostIP { ip: host_ip.to_string() }]),
        pod_ip: Some(address.clone()),
        pod_ips: Some(vec![k8s::PodIP { ip: address }]),
        start_time: Some(Time(machine.start_time)),
        init_container_statuses: (!init.is_empty()).then_some(init),
        container_statuses: Some(main),
        ..k8s::PodStatus::default()
    }
}

/// A container's id as the API shows it, and as its processes carry it.
pub fn container_id(uid: &str, name: &str, instance: u32) -> String {
    format!("{uid}_{name}_{instance}")
}

fn container_status(machine: &Machine, spec: &k8s::Container, container: &Container) -> k8s::ContainerStatus {
    let uid = machine.pod.metadata.uid.as_deref().unwrap_or_default();
    let id = |instance| format!("process://{}", container_id(uid, &spec.name, instance));
    let terminated = |end: &Terminated| k8s::ContainerStateTerminated {
        container_id: Some(id(end.instance)),
        exit_code: end.exit_code,
        reason: Some(end.reason.clone()),
        message: end.message.clone(),
        started_at: end.started_at.map(Time),
        finished_at: Some(Time(end.finished_at)),
        signal: None,
    };
    let mut state = k8s::ContainerState::default();
    match &container.state {
        State::Waiting { reason, message, .. } => {
            state.waiting = Some(k8s::ContainerStateWaiting {
                reason: Some((*reason).to_owned()),
                message: message.clone(),
            });
        }
        // Until the new run is there, a kubelet shows the end of the old one.
        State::Starting if container.last.is_some() => {
            state.terminated = container.last.as_ref().map(terminated)
        }
        State::Starting => {
            state.waiting = Some(k8s::ContainerStateWaiting {
                reason: Some(machine.waiting_reason().to_owned()),
                message: None,
            });
        }
        State::Running { since } => {
            state.running = Some(k8s::ContainerStateRunning { started_at: Some(Time(*since)) });
        }
        State::Terminated(end) => state.terminated = Some(terminated(end)),
    }
    let before = container.last.as_ref().filter(|_| container.state != State::Starting);
    let has_run = container.is_running() || container.latest_end().is_some() || container.last.is_some();
    let resources = spec.resources.clone().filter(|r| *r != k8s::ResourceRequirements::default());
    k8s::ContainerStatus {
        name: spec.name.clone(),
        state: Some(state),
        last_state: Some(k8s::ContainerState {
            terminated: before.map(terminated),
            ..k8s::ContainerState::default()
        }),
        ready: container.is_ready(spec),
        started: Some(container.is_started()),
        restart_count: i32::try_from(container.restart_count()).unwrap_or(i32::MAX),
        image: spec.image.clone().unwrap_or_default(),
        image_id: String::new(),
        container_id: has_run.then(|| id(container.restart_count())),
        allocated_resources: resources.as_ref().and_then(|r| r.requests.clone()),
        resources,
        ..k8s::ContainerStatus::default()
    }
}

pub const PENDING: &str = "Pending";
pub const RUNNING: &str = "Running";
pub const SUCCEEDED: &str = "Succeeded";
pub const FAILED: &str = "Failed";

fn phase(machine: &Machine) -> &'static str {
    let phase = phase_of_containers(machine);
    match machine.stopped() {
        Some(Cause::DeadlineExceeded) => FAILED,
        // A pod that ends before its containers ever ran has not succeeded.
        Some(Cause::Deleted | Cause::Finished) if matches!(phase, PENDING | RUNNING) => FAILED,
        _ => phase,
    }
}

fn phase_of_containers(machine: &Machine) -> &'static str {
    let containers = || machine.containers.iter().enumerate();
    let never_ran = |c: &Container| !c.is_running() && c.latest_end().is_none() && c.last.is_none();
    let init_failed = containers().any(|(index, c)| {
        c.role == Role::Init
            && c.latest_end().is_some_and(|end| end.exit_code != 0 && !machine.restarts(index, end.exit_code))
    });
    if init_failed {
        return FAILED;
    }
    let initializing = containers().any(|(_, c)| match c.role {
        Role::Init => !c.has_succeeded() && !machine.is_initialized(),
        Role::Sidecar => !c.is_started() && !machine.is_initialized(),
        Role::Main => never_ran(c),
    });
    if initializing {
        return PENDING;
    }
    if machine.containers.iter().any(|c| c.role != Role::Init && c.is_running()) {
        return RUNNING;
    }
    let mains = || containers().filter(|(_, c)| c.role == Role::Main);
    let will_restart = mains().any(|(index, c)| {
        machine.stop.is_none()
            && (c.is_active() || c.latest_end().is_some_and(|end| machine.restarts(index, end.exit_code)))
    });
    if will_restart {
        RUNNING
    } else if mains().all(|(_, c)| c.latest_end().is_some_and(|end| end.exit_code == 0)) {
        SUCCEEDED
    } else {
        FAILED
    }
}

/// What is said of a condition, before it gets its times.
struct Finding {
    kind: &'static str,
    holds: bool,
    reason: Option<&'static str>,
    message: Option<String>,
}

fn conditions(
    machine: &Machine,
    phase: &str,
    previous: Option<&k8s::PodStatus>,
    now: Timestamp,
) -> Vec<k8s::PodCondition> {
    let containers_ready = containers_ready(machine, phase);
    let ready = ready(machine, &containers_ready);
    let plain = |kind, holds| Finding { kind, holds, reason: None, message: None };
    let findings = [
        plain("PodReadyToStartContainers", machine.has_begun() && machine.stopped().is_none()),
        initialized(machine, phase),
        ready,
        containers_ready,
        plain("PodScheduled", true),
    ];
    findings
        .into_iter()
        .map(|finding| {
            let status = if finding.holds { "True" } else { "False" };
            let before = [previous, machine.pod.status.as_ref()]
                .into_iter()
                .flatten()
                .find_map(|s| s.conditions.iter().flatten().find(|c| c.type_ == finding.kind));
            let since = before
                .filter(|before| before.status == status)
                .and_then(|before| before.last_transition_time.clone());
            k8s::PodCondition {
                type_: finding.kind.to_owned(),
                status: status.to_owned(),
                observed_generation: machine.pod.metadata.generation,
                last_transition_time: Some(since.unwrap_or(Time(now))),
                last_probe_time: None,
                reason: finding.reason.map(str::to_owned),
                message: finding.message,
            }
        })
        .collect()
}

fn initialized(machine: &Machine, phase: &str) -> Finding {
    let kind = "Initialized";
    if phase == SUCCEEDED {
        return Finding { kind, holds: true, reason: Some("PodCompleted"), message: None };
    }
    if machine.is_initialized() {
        return Finding { kind, holds: true, reason: None, message: None };
    }
    let incomplete: Vec<&str> = specs(&machine.pod)
        .zip(&machine.containers)
        .filter(|(_, container)| match container.role {
            Role::Init => !container.has_succeeded(),
            Role::Sidecar => !container.is_started(),
            Role::Main => false,
        })
        .map(|(spec, _)| spec.name.as_str())
        .collect();
    let message = format!("containers with incomplete status: [{}]", incomplete.join(" "));
    Finding { kind, holds: false, reason: Some("ContainersNotInitialized"), message: Some(message) }
}

fn containers_ready(machine: &Machine, phase: &str) -> Finding {
    let kind = "ContainersReady";
    let terminal = match phase {
        SUCCEEDED => Some("PodCompleted"),
        FAILED => Some("PodFailed"),
        _ => None,
    };
    if terminal.is_some() {
        return Finding { kind, holds: false, reason: terminal, message: None };
    }
    let unready: Vec<&str> = specs(&machine.pod)
        .zip(&machine.containers)
        .filter(|(spec, container)| container.role != Role::Init && !container.is_ready(spec))
        .map(|(spec, _)| spec.name.as_str())
        .collect();
    if unready.is_empty() {
        return Finding { kind, holds: true, reason: None, message: None };
    }
    let message = format!("containers with unready status: [{}]", unready.join(" "));
    Finding { kind, holds: false, reason: Some("ContainersNotReady"), message: Some(message) }
}

fn ready(machine: &Machine, containers: &Finding) -> Finding {
    let kind = "Ready";
    if !containers.holds {
        return Finding {
            kind,
            holds: false,
            reason: containers.reason,
            message: containers.message.clone(),
        };
    }
    let status = machine.pod.status.as_ref();
    let gates = machine.pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    let closed: Vec<String> = gates
        .filter_map(|gate| {
            let name = &gate.condition_type;
            let condition = status.and_then(|s| s.conditions.iter().flatten().find(|c| c.type_ == *name));
            match condition {
                None => {
                    Some(format!("corresponding condition of pod readiness gate \"{name}\" does not exist."))
                }
                Some(c) if c.status != "True" => Some(format!(
                    "the status of pod readiness gate \"{name}\" is not \"True\", but {}",
                    c.status
                )),
                Some(_) => None,
            }
        })
        .collect();
    if closed.is_empty() {
        Finding { kind, holds: true, reason: None, message: None }
    } else {
        let message = Some(closed.join(", "));
        Finding { kind, holds: false, reason: Some("ReadinessGatesNotReady"), message }
    }
}
