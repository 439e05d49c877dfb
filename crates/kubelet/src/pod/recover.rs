//! A pod that an earlier run of the node has begun: what the API says of it and what is on disk, put together.

use std::{collections::BTreeMap, net::Ipv4Addr, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as k8s;

use super::{
    container::{Delays, State, Terminated},
    machine::{Cause, Machine, Stop, specs},
    reasons,
    status::{FAILED, SUCCEEDED},
};

/// What the disk says of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trace {
    /// Its process is still there.
    Alive {
        since: Timestamp,
    },
    Ended(Terminated),
    /// It was started, and is gone; nobody saw how.
    Vanished {
        since: Option<Timestamp>,
    },
}

/// Runs by container name and instance.
pub type Traces = BTreeMap<(String, u32), Trace>;

/// The planner as it was, as far as can be told, and the runs to take over.
pub fn recover(
    pod: Arc<k8s::Pod>,
    address: Ipv4Addr,
    delays: Delays,
    traces: &Traces,
    now: Timestamp,
) -> (Machine, Vec<(usize, u32)>) {
    let mut machine = Machine::new(Arc::clone(&pod), address, delays, now);
    let status = pod.status.clone().unwrap_or_default();
    if let Some(start) = &status.start_time {
        machine.start_time = start.0;
    }
    let known: BTreeMap<&str, &k8s::ContainerStatus> = status
        .init_container_statuses
        .iter()
        .flatten()
        .chain(status.container_statuses.iter().flatten())
        .map(|status| (status.name.as_str(), status))
        .collect();
    let mut alive = Vec::new();
    for (index, spec) in specs(&pod).enumerate() {
        let container = &mut machine.containers[index];
        let from_api = known.get(spec.name.as_str());
        container.last = from_api.and_then(|s| terminated(s, s.last_state.as_ref()));
        let latest = traces.range((spec.name.clone(), 0)..=(spec.name.clone(), u32::MAX)).next_back();
        let api_end = from_api.and_then(|status| terminated(status, status.state.as_ref()));
        match latest {
            Some(((_, instance), trace)) => {
                container.instance = *instance;
                // The API may know the end of the run before, which is on disk as well when it was seen.
                let before = instance.checked_sub(1).and_then(|i| traces.get(&(spec.name.clone(), i)));
                if let Some(Trace::Ended(end)) = before {
                    container.last = Some(end.clone());
                }
                container.state = match trace {
                    Trace::Alive { since } => {
                        alive.push((index, *instance));
                        container.started_up = spec.startup_probe.is_none();
                        State::Running { since: *since }
                    }
                    Trace::Ended(end) => State::Terminated(end.clone()),
                    Trace::Vanished { since } => api_end.filter(|end| end.instance == *instance).map_or_else(
                        || State::Terminated(vanished(*instance, *since, now)),
                        State::Terminated,
                    ),
                };
            }
            // No trace on this disk, but the API has seen it: the data directory was lost, or it had not begun.
            None => match (from_api, api_end) {
                (_, Some(end)) => {
                    container.instance = end.instance;
                    container.state = State::Terminated(end);
                }
                (Some(status), None) if status.container_id.is_some() => {
                    let instance = u32::try_from(status.restart_count).unwrap_or(0);
                    let since = status.state.as_ref().and_then(|s| s.running.as_ref()?.started_at.as_ref());
                    let running = since.map(|time| time.0);
                    container.instance = instance;
                    container.state = match container.last.take() {
                        // Waiting for its restart: the last run is what there is.
                        Some(last) if running.is_none() => State::Terminated(last),
                        last => {
                            container.last = last;
                            State::Terminated(vanished(instance, running, now))
                        }
                    };
                }
                _ => {}
            },
        }
    }
    if matches!(status.phase.as_deref(), Some(SUCCEEDED | FAILED)) {
        machine.stop = Some(Stop { cause: Cause::Finished, by: now });
    }
    (machine, alive)
}

fn vanished(instance: u32, since: Option<Timestamp>, now: Timestamp) -> Terminated {
    Terminated {
        instance,
        exit_code: 137,
        reason: reasons::STATUS_UNKNOWN.to_owned(),
        message: Some("the container ended while the node was not running".to_owned()),
        started_at: since,
        finished_at: now,
    }
}

fn terminated(status: &k8s::ContainerStatus, state: Option<&k8s::ContainerState>) -> Option<Terminated> {
    let end = state?.terminated.as_ref()?;
    // The id ends in the run's number; a status that somebody else wrote has only the count.
    let instance = end
        .container_id
        .as_deref()
        .and_then(|id| id.rsplit_once('_')?.1.parse().ok())
        .unwrap_or_else(|| u32::try_from(status.restart_count).unwrap_or(0));
    Some(Terminated {
        instance,
        exit_code: end.exit_code,
        reason: end.reason.clone().unwrap_or_default(),
        message: end.message.clone(),
        started_at: end.started_at.as_ref().map(|time| time.0),
        finished_at: end.finished_at.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
    })
}

#[cfg(test)]
mod tests;
