//! The planner of one pod: what happened goes in, what to do comes out. It has no clock and touches nothing.

use std::{net::Ipv4Addr, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as k8s;

use super::{
    container::{Container, Delays, Role, State, Terminated, Until, restarts},
    reasons,
};
use crate::probes::{self, Report};

#[derive(Debug, Clone)]
pub enum Event {
    /// The API has a new version of the pod.
    Pod(Arc<k8s::Pod>),
    /// The API has it no more.
    Gone,
    Volumes(Result<(), String>),
    /// A ConfigMap or Secret that the pod refers to has changed, or a token is due.
    ObjectsChanged,
    Started {
        container: usize,
        instance: u32,
    },
    /// What the container needs is not there; no process was started.
    NotConfigured {
        container: usize,
        instance: u32,
        message: String,
    },
    Ended {
        container: usize,
        instance: u32,
        end: Terminated,
    },
    Probe {
        container: usize,
        instance: u32,
        report: Report,
    },
    HookFailed {
        container: usize,
        instance: u32,
        reason: &'static str,
        message: String,
    },
    Tick,
    /// The node stops and takes its processes with it.
    Shutdown {
        grace: SignedDuration,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Make the volumes, or bring them up to date.
    PrepareVolumes,
    Start {
        container: usize,
        instance: u32,
    },
    /// Run the stop hook and end the container's processes by then at the latest.
    Stop {
        container: usize,
        instance: u32,
        by: Timestamp,
    },
    /// An event about a container, or about the whole pod.
    Tell {
        container: Option<usize>,
        warning: bool,
        reason: &'static str,
        message: String,
    },
    /// New resource limits for a running container.
    Resize {
        container: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Finished,
    DeadlineExceeded,
    Deleted,
    Gone,
    Shutdown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    pub cause: Cause,
    pub by: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Volumes {
    Unasked,
    Preparing,
    Ready,
    Failed { retry_at: Timestamp },
}

#[derive(Debug)]
pub struct Machine {
    pub pod: Arc<k8s::Pod>,
    pub address: Ipv4Addr,
    pub start_time: Timestamp,
    /// Init containers in order, then the others: as in [`specs`].
    pub containers: Vec<Container>,
    pub volumes: Volumes,
    pub stop: Option<Stop>,
    pub delays: Delays,
}

/// Missing configuration is looked for again after this long, if nothing is heard of it before.
const RETRY: SignedDuration = SignedDuration::from_secs(10);
/// What a container gets to stop in even when the pod's time is up.
const SHORTEST_GRACE: SignedDuration = SignedDuration::from_secs(2);
const DEFAULT_GRACE: i64 = 30;

/// The pod's containers in the order of [`Machine::containers`].
pub fn specs(pod: &k8s::Pod) -> impl Iterator<Item = &k8s::Container> {
    pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
}

fn spec_of(pod: &k8s::Pod, index: usize) -> k8s::Container {
    specs(pod).nth(index).cloned().unwrap_or_default()
}

fn role_of(pod: &k8s::Pod, index: usize) -> Role {
    let init = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_deref()).unwrap_or_default();
    match init.get(index) {
        Some(container) if container.restart_policy.as_deref() == Some("Always") => Role::Sidecar,
        Some(_) => Role::Init,
        None => Role::Main,
    }
}

fn waiting_reason(pod: &k8s::Pod) -> &'static str {
    let has_init =
        pod.spec.as_ref().is_some_and(|s| s.init_containers.as_ref().is_some_and(|i| !i.is_empty()));
    if has_init { reasons::POD_INITIALIZING } else { reasons::CONTAINER_CREATING }
}

// === impl Machine ===

impl Machine {
    pub fn new(pod: Arc<k8s::Pod>, address: Ipv4Addr, delays: Delays, now: Timestamp) -> Self {
        let reason = waiting_reason(&pod);
        let containers = specs(&pod)
            .enumerate()
            .map(|(index, _)| Container::new(role_of(&pod, index), State::waiting(reason)))
            .collect();
        Self { pod, address, start_time: now, containers, volumes: Volumes::Unasked, stop: None, delays }
    }

    pub fn apply(&mut self, now: Timestamp, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Pod(pod) => self.update(now, pod, &mut effects),
            Event::Gone => self.begin_stop(Cause::Gone, after(now, SHORTEST_GRACE)),
            Event::Shutdown { grace } => {
                let grace = self.grace().min(grace);
                self.begin_stop(Cause::Shutdown, after(now, grace));
            }
            Event::Volumes(result) => self.volumes_done(now, result, &mut effects),
            Event::ObjectsChanged => self.objects_changed(now, &mut effects),
            Event::Started { container, instance } => self.started(now, container, instance, &mut effects),
            Event::NotConfigured { container, instance, message } => {
                self.not_configured(now, container, instance, message, &mut effects);
            }
            Event::Ended { container, instance, end } => self.ended(container, instance, end),
            Event::Probe { container, instance, report } => {
                self.probed(now, container, instance, report, &mut effects);
            }
            Event::HookFailed { container, instance, reason, message } => {
                if self.current(container, instance).is_some() {
                    effects.push(warn(container, reason, message));
                    if reason == reasons::FAILED_POST_START_HOOK {
                        let name = spec_of(&self.pod, container).name;
                        let by = after(now, self.grace());
                        self.stop_one(
                            container,
                            by,
                            format!("FailedPostStartHook of container {name}"),
                            &mut effects,
                        );
                    }
                }
            }
            Event::Tick => {}
        }
        self.advance(now, &mut effects);
        effects
    }

    /// When to be called with [`Event::Tick`].
    pub fn next_wake(&self) -> Option<Timestamp> {
        if self.stop.is_some() {
            return None;
        }
        let restarts = self.containers.iter().filter_map(|container| match container.state {
            State::Waiting { until: Until::Time(at), .. } => Some(at),
            _ => None,
        });
        let volumes = match self.volumes {
            Volumes::Failed { retry_at } => Some(retry_at),
            _ => None,
        };
        restarts.chain(volumes).chain(self.deadline()).min()
    }

    /// Everything that was to be stopped has stopped.
    pub fn stopped(&self) -> Option<Cause> {
        self.stop.filter(|_| !self.containers.iter().any(Container::is_active)).map(|stop| stop.cause)
    }

    /// Why a container waits that nothing is wrong with.
    pub fn waiting_reason(&self) -> &'static str {
        waiting_reason(&self.pod)
    }

    /// All is there that the first container needs, or was when it started.
    pub fn has_begun(&self) -> bool {
        self.volumes == Volumes::Ready
            || self.containers.iter().any(|c| c.is_running() || c.latest_end().is_some() || c.last.is_some())
    }

    /// Whether main containers may run, or have.
    pub fn is_initialized(&self) -> bool {
        let mains_began = self.containers.iter().any(|c| {
            c.role == Role::Main && (c.is_running() || c.latest_end().is_some() || c.last.is_some())
        });
        mains_began
            || self.containers.iter().all(|c| match c.role {
                Role::Init => c.has_succeeded(),
                Role::Sidecar => c.is_started(),
                Role::Main => true,
            })
    }

    pub fn grace(&self) -> SignedDuration {
        let seconds = self.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        SignedDuration::from_secs(seconds.unwrap_or(DEFAULT_GRACE).max(0))
    }

    fn deadline(&self) -> Option<Timestamp> {
        let seconds = self.pod.spec.as_ref()?.active_deadline_seconds?;
        Some(after(self.start_time, SignedDuration::from_secs(seconds)))
    }

    pub fn policy(&self) -> &str {
        self.pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always")
    }

    pub fn restarts(&self, index: usize, exit_code: i32) -> bool {
        restarts(&spec_of(&self.pod, index), self.containers[index].role, self.policy(), exit_code)
    }

    /// The container, unless the news is of an earlier run.
    fn current(&mut self, index: usize, instance: u32) -> Option<&mut Container> {
        self.containers
            .get_mut(index)
            .filter(|container| container.instance == instance && container.is_active())
    }

    // --- what happened ---

    fn update(&mut self, now: Timestamp, pod: Arc<k8s::Pod>, effects: &mut Vec<Effect>) {
        let old = std::mem::replace(&mut self.pod, pod);
        if self.volumes == Volumes::Ready
            && (old.metadata.labels != self.pod.metadata.labels
                || old.metadata.annotations != self.pod.metadata.annotations)
        {
            effects.push(Effect::PrepareVolumes);
        }
        let by = after(now, self.grace());
        if self.pod.metadata.deletion_timestamp.is_some() {
            // Counted from here: the timestamp is in whole seconds, which would take up to one off the grace.
            let grace = self.pod.metadata.deletion_grace_period_seconds;
            let by = grace.map_or(by, |seconds| after(now, SignedDuration::from_secs(seconds.max(0))));
            self.begin_stop(Cause::Deleted, by);
            return;
        }
        for index in 0..self.containers.len() {
            let (before, after) = (spec_of(&old, index), spec_of(&self.pod, index));
            if !self.containers[index].is_running() || self.stop.is_some() {
                continue;
            }
            if before.image != after.image {
                let message = format!("Container {} definition changed, will be restarted", after.name);
                self.stop_one(index, by, message, effects);
            } else if before.resources != after.resources {
                if resize_restarts(&before, &after) {
                    let message = format!("Container {} resize requires restart", after.name);
                    self.stop_one(index, by, message, effects);
                } else {
                    effects.push(Effect::Resize { container: index });
                }
            }
        }
    }

    fn volumes_done(&mut self, now: Timestamp, result: Result<(), String>, effects: &mut Vec<Effect>) {
        match result {
            Ok(()) => self.volumes = Volumes::Ready,
            Err(message) => {
                effects.push(warn(None, reasons::FAILED_MOUNT, message));
                // Volumes that were made once keep what they have.
                if self.volumes != Volumes::Ready {
                    self.volumes = Volumes::Failed { retry_at: after(now, RETRY) };
                }
            }
        }
    }

    fn objects_changed(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        match self.volumes {
            Volumes::Ready => effects.push(Effect::PrepareVolumes),
            Volumes::Failed { .. } => self.volumes = Volumes::Failed { retry_at: now },
            Volumes::Unasked | Volumes::Preparing => {}
        }
        for container in &mut self.containers {
            if let State::Waiting { reason: reasons::CONFIG_ERROR, until, .. } = &mut container.state {
                *until = Until::Time(now);
            }
        }
    }

    fn started(&mut self, now: Timestamp, index: usize, instance: u32, effects: &mut Vec<Effect>) {
        let spec = spec_of(&self.pod, index);
        let Some(container) = self.current(index, instance) else { return };
        container.state = State::Running { since: now };
        container.started_up = spec.startup_probe.is_none();
        effects.push(tell(index, reasons::STARTED, format!("Started container {}", spec.name)));
    }

    fn not_configured(
        &mut self,
        now: Timestamp,
        index: usize,
        instance: u32,
        message: String,
        effects: &mut Vec<Effect>,
    ) {
        let Some(container) = self.current(index, instance) else { return };
        effects.push(warn(index, reasons::FAILED, format!("Error: {message}")));
        container.state = State::Waiting {
            reason: reasons::CONFIG_ERROR,
            message: Some(message),
            until: Until::Time(after(now, RETRY)),
        };
    }

    fn ended(&mut self, index: usize, instance: u32, end: Terminated) {
        let Some(container) = self.current(index, instance) else { return };
        container.state = State::Terminated(end);
        container.started_up = false;
        container.probed_ready = false;
        container.stop_by = None;
    }

    fn probed(
        &mut self,
        now: Timestamp,
        index: usize,
        instance: u32,
        report: Report,
        effects: &mut Vec<Effect>,
    ) {
        let spec = spec_of(&self.pod, index);
        let grace = self.grace();
        let Some(container) = self.current(index, instance) else { return };
        let kind = match report {
            Report::Failed { kind, message } => {
                effects.push(warn(
                    index,
                    reasons::UNHEALTHY,
                    format!("{} probe failed: {message}", kind.title()),
                ));
                return;
            }
            Report::Became { kind: probes::Kind::Readiness, healthy } => {
                container.probed_ready = healthy;
                return;
            }
            Report::Became { kind: probes::Kind::Startup, healthy: true } => {
                container.started_up = true;
                return;
            }
            Report::Became { healthy: true, .. } => return,
            Report::Became { kind, healthy: false } => kind,
        };
        let own_grace = kind.of(&spec).and_then(|probe| probe.termination_grace_period_seconds);
        let grace = own_grace.map_or(grace, SignedDuration::from_secs);
        let message = format!(
            "Container {} failed {} probe, will be restarted",
            spec.name,
            kind.title().to_lowercase()
        );
        self.stop_one(index, after(now, grace), message, effects);
    }

    // --- what follows ---

    fn begin_stop(&mut self, cause: Cause, by: Timestamp) {
        match &mut self.stop {
            // Deletion of a pod that has run to its end, or a second deletion with less grace.
            Some(stop) => {
                let final_already = matches!(stop.cause, Cause::Gone | Cause::Shutdown);
                if !final_already && cause != Cause::Finished {
                    stop.cause = cause;
                }
                stop.by = stop.by.min(by);
            }
            None => self.stop = Some(Stop { cause, by }),
        }
        for container in &mut self.containers {
            if let State::Waiting { .. } = container.state
                && let Some(last) = container.last.take()
            {
                container.state = State::Terminated(last);
            }
        }
    }

    /// Stops one container for a reason of its own; it is restarted as its policy says.
    fn stop_one(&mut self, index: usize, by: Timestamp, message: String, effects: &mut Vec<Effect>) {
        let container = &mut self.containers[index];
        if container.stop_by.is_none() {
            container.stop_by = Some(by);
            effects.push(tell(index, reasons::KILLING, message));
            effects.push(Effect::Stop { container: index, instance: container.instance, by });
        }
    }

    fn advance(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.stop.is_none() && self.deadline().is_some_and(|deadline| now >= deadline) {
            let by = after(now, self.grace());
            self.begin_stop(Cause::DeadlineExceeded, by);
            effects.push(tell(
                None,
                reasons::DEADLINE_EXCEEDED,
                "Pod was active on the node longer than the specified deadline".to_owned(),
            ));
        }
        if self.stop.is_none() {
            self.start_step(now, effects);
        }
        if let Some(stop) = self.stop {
            self.stop_step(now, stop, effects);
        }
    }

    fn start_step(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        match self.volumes {
            Volumes::Unasked => {
                self.volumes = Volumes::Preparing;
                effects.push(Effect::PrepareVolumes);
                return;
            }
            Volumes::Failed { retry_at } if now >= retry_at => {
                self.volumes = Volumes::Preparing;
                effects.push(Effect::PrepareVolumes);
                return;
            }
            Volumes::Failed { .. } | Volumes::Preparing => return,
            Volumes::Ready => {}
        }
        let initialized = self.is_initialized();
        for index in 0..self.containers.len() {
            let container = &self.containers[index];
            match container.role {
                Role::Init if initialized || container.has_succeeded() => continue,
                Role::Init | Role::Sidecar | Role::Main => self.start_if_due(index, now, effects),
            }
            let container = &self.containers[index];
            let holds_up_the_rest = match container.role {
                Role::Init => true,
                Role::Sidecar => !initialized && !container.is_started(),
                Role::Main => false,
            };
            let failed_for_good = container.role == Role::Init
                && matches!(&container.state, State::Terminated(end) if !self.restarts(index, end.exit_code));
            if failed_for_good {
                self.begin_stop(Cause::Finished, after(now, self.grace()));
                return;
            }
            if holds_up_the_rest {
                return;
            }
        }
        let all_over = self.containers.iter().enumerate().filter(|(_, c)| c.role == Role::Main).all(
            |(index, c)| matches!(&c.state, State::Terminated(end) if !self.restarts(index, end.exit_code)),
        );
        if all_over {
            self.begin_stop(Cause::Finished, after(now, self.grace()));
        }
    }

    fn start_if_due(&mut self, index: usize, now: Timestamp, effects: &mut Vec<Effect>) {
        let spec = spec_of(&self.pod, index);
        if let State::Terminated(end) = &self.containers[index].state {
            if !self.restarts(index, end.exit_code) {
                return;
            }
            let end = end.clone();
            let delay = self.containers[index].backoff.delay(&self.delays, end.finished_at);
            let due = after(end.finished_at, delay);
            let in_pod = self.in_pod();
            let container = &mut self.containers[index];
            container.state = State::Waiting {
                reason: reasons::CRASH_LOOP,
                message: Some(format!(
                    "back-off {} restarting failed container={} pod={in_pod}",
                    go_duration(delay),
                    spec.name
                )),
                until: Until::Time(due),
            };
            container.instance = end.instance + 1;
            container.last = Some(end);
            if due > now {
                let message = format!("Back-off restarting failed container {} in pod {in_pod}", spec.name);
                effects.push(warn(index, reasons::BACK_OFF, message));
            }
        }
        let container = &mut self.containers[index];
        match container.state {
            State::Waiting { until: Until::ItsTurn, .. } => {}
            State::Waiting { until: Until::Time(at), .. } if now >= at => {}
            _ => return,
        }
        if let Some((reason, message)) = refusal(&spec) {
            effects.push(warn(index, reasons::FAILED, format!("Error: {message}")));
            container.state = State::Waiting { reason, message: Some(message), until: Until::Never };
            return;
        }
        if let (State::Waiting { reason: reasons::CRASH_LOOP, .. }, Some(last)) =
            (&container.state, &container.last)
        {
            container.backoff.restarted(&self.delays, last.finished_at, now);
        }
        container.state = State::Starting;
        effects.push(Effect::Start { container: index, instance: container.instance });
    }

    fn stop_step(&mut self, now: Timestamp, stop: Stop, effects: &mut Vec<Effect>) {
        let mains_active = self.containers.iter().any(|c| c.role != Role::Sidecar && c.is_active());
        if mains_active {
            for index in 0..self.containers.len() {
                if self.containers[index].role != Role::Sidecar {
                    self.stop_by(index, stop.by, effects);
                }
            }
            return;
        }
        // Sidecars leave in the opposite order of their coming, one after the other.
        if let Some(index) =
            (0..self.containers.len()).rev().find(|index| self.containers[*index].is_active())
        {
            self.stop_by(index, stop.by.max(after(now, SHORTEST_GRACE)), effects);
        }
    }

    /// Asks again only when there is less time than before.
    fn stop_by(&mut self, index: usize, by: Timestamp, effects: &mut Vec<Effect>) {
        let container = &mut self.containers[index];
        if !container.is_active() || container.stop_by.is_some_and(|before| before <= by) {
            return;
        }
        if container.stop_by.is_none() && container.is_running() {
            let name = spec_of(&self.pod, index).name;
            effects.push(tell(index, reasons::KILLING, format!("Stopping container {name}")));
        }
        container.stop_by = Some(by);
        effects.push(Effect::Stop { container: index, instance: container.instance, by });
    }

    fn in_pod(&self) -> String {
        let meta = &self.pod.metadata;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        format!("{}_{}({})", text(&meta.name), text(&meta.namespace), text(&meta.uid))
    }
}

/// Why a container can never run here.
fn refusal(spec: &k8s::Container) -> Option<(&'static str, String)> {
    if spec.command.as_ref().is_none_or(Vec::is_empty) {
        let image = spec.image.as_deref().unwrap_or_default();
        return Some((
            reasons::IMAGE_NOT_RUNNABLE,
            format!(
                "container \"{}\" has no command, and the process node does not run images (\"{image}\"): give the \
                 container a command that exists on this machine",
                spec.name
            ),
        ));
    }
    probes::unsupported(spec).map(|message| (reasons::PROBE_NOT_SUPPORTED, message))
}

fn resize_restarts(before: &k8s::Container, after: &k8s::Container) -> bool {
    let value = |container: &k8s::Container, name: &str| {
        let resources = container.resources.clone().unwrap_or_default();
        (
            resources.requests.unwrap_or_default().remove(name),
            resources.limits.unwrap_or_default().remove(name),
        )
    };
    after.resize_policy.iter().flatten().any(|policy| {
        policy.restart_policy == "RestartContainer"
            && value(before, &policy.resource_name) != value(after, &policy.resource_name)
    })
}

fn tell(container: impl Into<Option<usize>>, reason: &'static str, message: String) -> Effect {
    Effect::Tell { container: container.into(), warning: false, reason, message }
}

fn warn(container: impl Into<Option<usize>>, reason: &'static str, message: String) -> Effect {
    Effect::Tell { container: container.into(), warning: true, reason, message }
}

/// A grace of centuries is as good as none.
fn after(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// As Go prints it: `10s`, `1m20s`, `5m0s`.
fn go_duration(duration: SignedDuration) -> String {
    let (minutes, seconds) = (duration.as_secs() / 60, duration.as_secs() % 60);
    if minutes == 0 { format!("{seconds}s") } else { format!("{minutes}m{seconds}s") }
}

#[cfg(test)]
mod tests;
