//! Job: pods that run until enough of them succeeded.
//!
//! - `pods`: names, indexes and the finalizer that keeps a finished pod until it is counted
//! - `tally`: which pods ended how, counted exactly once
//! - `plan`: when the job is over, and how many pods it needs until then
//! - `conditions`: how it says so

mod conditions;
mod indexes;
mod plan;
mod pods;
mod tally;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::{Cached, Failure, Key, PlanError, Queue, Reconcile, effect::Plan};
use futures::future::{BoxFuture, FutureExt, ready};
use jiff::Timestamp;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt;

pub(crate) use plan::{Observed, plan};

use crate::object::{controller_of, label, uid};

pub(crate) const NAME: &str = "job";

pub(crate) struct Controller {
    jobs: Cached<Job>,
    pods: Cached<Pod>,
}

impl Controller {
    pub fn new(jobs: Cached<Job>, pods: Cached<Pod>, queue: &Arc<Queue<Key>>) -> Self {
        jobs.enqueue(queue);
        let own = queue.clone();
        pods.listen(move |change| {
            for pod in change.sides() {
                if let Some(name) = job_of(pod) {
                    own.add(Key::new(pod.namespace().unwrap_or_default(), name));
                }
            }
        });
        Self { jobs, pods }
    }

    fn observe(&self, key: &Key) -> Option<Observed> {
        let job = self.jobs.get(key)?;
        let pods = self.pods.in_namespace(&key.namespace);
        let taken = pods.iter().map(|pod| pod.name_any()).collect();
        let candidates = pods
            .into_iter()
            .filter(|pod| controller_of(&pod.metadata).is_none_or(|owner| owner.uid == uid(&job.metadata)))
            .collect();
        Some(Observed { job, candidates, taken })
    }

    /// Pods of a job that is gone: nobody will count them.
    fn left_behind(&self, key: &Key) -> Plan {
        let pods = self.pods.in_namespace(&key.namespace);
        let orphans = pods.iter().filter(|pod| job_of(pod) == Some(key.name.as_str()));
        orphans.filter_map(|pod| pods::let_go(pod)).collect::<Vec<_>>().into()
    }
}

/// The job that a pod belongs to or, if it carries the mark of one but no owner, belonged to.
fn job_of(pod: &Pod) -> Option<&str> {
    match controller_of(&pod.metadata) {
        Some(owner) => (owner.kind == "Job").then_some(owner.name.as_str()),
        None => label(&pod.metadata, pods::JOB_NAME_LABEL),
    }
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self, _: &Key) -> Option<engine::kind::Kind> {
        Some(engine::kind::JOB)
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        _failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        let plan = match self.observe(key) {
            Some(observed) => plan(&observed, now),
            None => self.left_behind(key),
        };
        ready(Ok(plan)).boxed()
    }
}
