//! CronJob: a Job for each time of a schedule.

mod plan;
mod schedule;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::{Cached, Failure, Key, PlanError, Queue, Reconcile, effect::Plan};
use futures::future::{BoxFuture, FutureExt, ready};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::ResourceExt;

pub(crate) use plan::{Observed, plan};

use crate::object::{controller_of, uid};

pub(crate) const NAME: &str = "cronjob";

pub(crate) struct Controller {
    cron_jobs: Cached<CronJob>,
    jobs: Cached<Job>,
}

impl Controller {
    pub fn new(cron_jobs: Cached<CronJob>, jobs: Cached<Job>, queue: &Arc<Queue<Key>>) -> Self {
        cron_jobs.enqueue(queue);
        let own = queue.clone();
        jobs.listen(move |change| {
            for job in change.sides() {
                if let Some(owner) = controller_of(&job.metadata).filter(|owner| owner.kind == "CronJob") {
                    own.add(Key::new(job.namespace().unwrap_or_default(), &owner.name));
                }
            }
        });
        Self { cron_jobs, jobs }
    }

    fn observe(&self, key: &Key) -> Option<Observed> {
        let cron_job = self.cron_jobs.get(key)?;
        let jobs = self.jobs.controlled_by(uid(&cron_job.metadata));
        Some(Observed { cron_job, jobs })
    }
}

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self, _: &Key) -> Option<engine::kind::Kind> {
        Some(engine::kind::CRON_JOB)
    }

    fn plan<'a>(
        &'a self,
        key: &'a Key,
        _failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>> {
        ready(Ok(self.observe(key).map(|observed| plan(&observed, now)).unwrap_or_default())).boxed()
    }
}
