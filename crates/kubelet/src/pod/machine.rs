//! The planner of one pod: what happened goes in, what to do comes out. It has no clock and touches nothing.

use std::{net::Ipv4Addr, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as k8s;

use super::{
    container::{Container, Delays, Role, State, Terminated, Until, restarts},
    reasons,
};
use crate::probes::{self, Report};

mod news;
mod steps;

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

    fn in_pod(&self) -> String {
        let meta = &self.pod.metadata;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        format!("{}_{}({})", text(&meta.name), text(&meta.namespace), text(&meta.uid))
    }
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

#[cfg(test)]
mod tests;
