//! Counts each pod's end once, also over restarts: its uid is noted in the status first, then its finalizer goes, and
//! only when that is seen does the uid become a number.

use std::{collections::BTreeSet, sync::Arc};

use engine::effect::Effect;
use k8s_openapi::api::{
    batch::v1::{JobStatus, UncountedTerminatedPods},
    core::v1::Pod,
};

use super::{indexes, pods};
use crate::object::uid;

pub(super) struct Tally {
    pub succeeded: i32,
    pub failed: i32,
    /// Of a job by index.
    pub completed: BTreeSet<i32>,
    /// How the counts stand in the status.
    pub counted: (i32, i32),
    pub uncounted: UncountedTerminatedPods,
    /// To be done once the status is written.
    pub releases: Vec<Effect>,
}

impl Tally {
    pub fn of(status: &JobStatus, owned: &[Arc<Pod>], indexed: bool, only_when_over: bool) -> Self {
        let held: BTreeSet<&str> =
            owned.iter().filter(|pod| pods::tracked(pod)).map(|pod| uid(&pod.metadata)).collect();
        let (mut succeeded, mut failed) = (status.succeeded.unwrap_or(0), status.failed.unwrap_or(0));
        let before = status.uncounted_terminated_pods.clone().unwrap_or_default();
        let settle = |uids: Option<Vec<String>>, count: &mut i32| -> Vec<String> {
            let (waiting, over): (Vec<_>, Vec<_>) =
                uids.unwrap_or_default().into_iter().partition(|uid| held.contains(uid.as_str()));
            *count = count.saturating_add(i32::try_from(over.len()).unwrap_or(i32::MAX));
            waiting
        };
        let mut good = settle(before.succeeded, &mut succeeded);
        let mut bad = settle(before.failed, &mut failed);
        let mut completed = indexes::parse(status.completed_indexes.as_deref().unwrap_or_default());
        let mut releases = Vec::new();
        for pod in owned.iter().filter(|pod| pods::tracked(pod)) {
            let id = uid(&pod.metadata).to_owned();
            if good.contains(&id) || bad.contains(&id) {
                releases.extend(pods::let_go(pod));
            } else if crate::object::pods::phase(pod) == "Succeeded" {
                match pods::index(pod).filter(|_| indexed) {
                    Some(index) => {
                        completed.insert(index);
                    }
                    None => good.push(id),
                }
                releases.extend(pods::let_go(pod));
            } else if pods::failed(pod, only_when_over) {
                bad.push(id);
                releases.extend(pods::let_go(pod));
            }
        }
        if indexed {
            succeeded = i32::try_from(completed.len()).unwrap_or(i32::MAX);
        }
        let total =
            |count: i32, more: &[String]| count.saturating_add(i32::try_from(more.len()).unwrap_or(i32::MAX));
        let filled = |uids: Vec<String>| (!uids.is_empty()).then_some(uids);
        Self {
            succeeded: total(succeeded, &good),
            failed: total(failed, &bad),
            completed,
            counted: (succeeded, failed),
            uncounted: UncountedTerminatedPods { succeeded: filled(good), failed: filled(bad) },
            releases,
        }
    }

    pub fn is_settled(&self) -> bool {
        self.uncounted.succeeded.is_none() && self.uncounted.failed.is_none()
    }
}
