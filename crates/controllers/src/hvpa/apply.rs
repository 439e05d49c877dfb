//! How decided sizes reach pods that run: resized where they are, one after the other where that restarts them, and
//! recreated where it cannot be done. Pure.

use std::sync::Arc;

use api::hvpa::UpdateMode;
use decide::hvpa::ContainerSize;
use engine::{
    object::name,
    pods::{phase, ready},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::{
    memory::Memory,
    pods::{Resize, has_sizes, resize, restarts},
};

/// As the Vertical Pod Autoscaler's updater has it.
const DEFERRED_FOR: SignedDuration = SignedDuration::from_mins(5);
const IN_PROGRESS_FOR: SignedDuration = SignedDuration::from_hours(1);
/// In one turn; the rest comes in the next.
const RESIZES_AT_ONCE: usize = 20;
/// A single pod is not taken away to be made anew: nothing would answer meanwhile.
const FEWEST_FOR_EVICTION: usize = 2;

#[derive(Clone, Debug, Default)]
pub struct Applying {
    pub resizes: Vec<Arc<Pod>>,
    pub evict: Option<Arc<Pod>>,
    pub progress: Progress,
    pub next: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Progress {
    /// All pods have the sizes that were decided, or there is nothing to do in place.
    #[default]
    Done,
    Resizing {
        n_left: usize,
    },
    Waiting {
        reason: &'static str,
        message: String,
    },
}

/// The API refused to resize a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    pub pod: String,
    pub message: String,
}

pub struct Situation<'a> {
    pub now: Timestamp,
    pub pods: &'a [Arc<Pod>],
    pub replicas: i32,
    pub wanted: &'a [ContainerSize],
    pub mode: UpdateMode,
    pub memory: &'a Memory,
    pub refused: Option<&'a Refused>,
}

pub fn applying(situation: &Situation<'_>) -> Applying {
    let Situation { now, pods, wanted, mode, memory, refused, .. } = situation;
    let is_in_place = matches!(mode, UpdateMode::InPlace | UpdateMode::InPlaceOrRecreate);
    if !is_in_place || memory.sizes.is_none() {
        return Applying::default();
    }
    let mut applying = Applying::default();
    let mut n_left = 0;
    let mut stuck: Option<(&Arc<Pod>, &'static str, String)> = None;
    let n_ready = pods.iter().filter(|pod| ready(pod)).count();
    let is_refused = |pod: &Pod| refused.is_some_and(|refused| refused.pod == name(&pod.metadata));
    for pod in pods.iter() {
        if has_sizes(pod, wanted) {
            match resize(pod) {
                Resize::None => {}
                Resize::Infeasible { message } => {
                    n_left += 1;
                    stuck.get_or_insert((pod, "Infeasible", message));
                }
                Resize::Deferred { since, message } => {
                    n_left += 1;
                    let until = later(since.unwrap_or(*now), DEFERRED_FOR);
                    if until <= *now {
                        stuck.get_or_insert((pod, "Deferred", message));
                    } else {
                        sooner(&mut applying.next, until);
                    }
                }
                Resize::InProgress { since } => {
                    n_left += 1;
                    if since.is_some_and(|since| later(since, IN_PROGRESS_FOR) <= *now) {
                        stuck.get_or_insert((pod, "ResizeInProgress", String::new()));
                    }
                }
            }
            continue;
        }
        n_left += 1;
        // A pod that waits for its node or its images has no container to resize yet; it is looked at when it runs.
        if phase(pod) != "Running" || is_refused(pod) {
            continue;
        }
        if restarts(pod, wanted) {
            // One disruption at a time: it may go only while all others answer.
            let others_ready = n_ready == pods.len() || (n_ready + 1 == pods.len() && !ready(pod));
            if others_ready && applying.resizes.is_empty() {
                applying.resizes.push(pod.clone());
            }
        } else if applying.resizes.len() < RESIZES_AT_ONCE {
            applying.resizes.push(pod.clone());
        }
    }
    if let Some(Refused { pod, message }) =
        refused.filter(|refused| pods.iter().any(|pod| name(&pod.metadata) == refused.pod))
    {
        let message = format!("pod {pod} cannot be resized: {message}");
        applying.progress = Progress::Waiting { reason: "ResizeRefused", message };
    } else if let Some((pod, reason, message)) = stuck {
        applying.progress = Progress::Waiting {
            reason,
            message: format!("pod {} cannot be resized where it runs: {message}", name(&pod.metadata)),
        };
        if *mode == UpdateMode::InPlaceOrRecreate {
            evict(situation, pod, n_ready, &mut applying);
        }
    } else if n_left > 0 {
        applying.progress = Progress::Resizing { n_left };
    }
    applying
}

fn evict(situation: &Situation<'_>, pod: &Arc<Pod>, n_ready: usize, applying: &mut Applying) {
    let Situation { now, pods, replicas, memory, .. } = situation;
    let is_complete = i32::try_from(pods.len()).ok() == Some(*replicas);
    let others_ready = n_ready == pods.len() || (n_ready + 1 == pods.len() && !ready(pod));
    if !is_complete || !others_ready || pods.len() < FEWEST_FOR_EVICTION {
        return;
    }
    match memory.may_evict_from().filter(|from| from > now) {
        Some(from) => sooner(&mut applying.next, from),
        None => applying.evict = Some(pod.clone()),
    }
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn sooner(next: &mut Option<Timestamp>, at: Timestamp) {
    *next = Some(next.map_or(at, |next| next.min(at)));
}
