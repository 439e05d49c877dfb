use std::{sync::Arc, time::Duration};

use engine::{
    effect::{Announce, Effect, Note, Plan, Propagation, Target},
    kind,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job},
        core::v1::ObjectReference,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde_json::json;

use super::schedule::{Due, Schedule};
use crate::object::{being_deleted, by_age, controller_reference, created, name, time};

const COMPONENT: &str = "cronjob-controller";
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Everything a decision about one CronJob depends on.
pub(crate) struct Observed {
    pub cron_job: Arc<CronJob>,
    /// The Jobs it made.
    pub jobs: Vec<Arc<Job>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Active,
    Complete,
    Failed,
}

fn outcome(job: &Job) -> Outcome {
    let has = |kind: &str| {
        let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.type_ == kind && condition.status == "True")
    };
    match (has("Complete"), has("Failed")) {
        (true, _) => Outcome::Complete,
        (_, true) => Outcome::Failed,
        _ => Outcome::Active,
    }
}

pub(crate) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let cron_job = &*observed.cron_job;
    let mut plan = Plan::default();
    let spec = &cron_job.spec;
    if being_deleted(&cron_job.metadata) {
        return plan;
    }
    let mut status = status(observed);
    forget_old(observed, spec, &mut plan);
    if spec.suspend != Some(true) {
        run_due(observed, spec, &mut status, &mut plan, now);
    }
    let stored = cron_job.status.clone().unwrap_or_default();
    let active = |status: &CronJobStatus| status.active.clone().unwrap_or_default();
    let same = active(&stored) == active(&status)
        && stored.last_schedule_time == status.last_schedule_time
        && stored.last_successful_time == status.last_successful_time;
    if !same {
        plan.push(Effect::status(&kind::CRON_JOB, &cron_job.metadata, cron_job.status.as_ref(), &status));
    }
    plan
}

/// Which of its Jobs run, and when one last succeeded.
fn status(observed: &Observed) -> CronJobStatus {
    let mut running: Vec<&Job> =
        observed.jobs.iter().map(|job| &**job).filter(|job| outcome(job) == Outcome::Active).collect();
    running.sort_by(|a, b| by_age(&a.metadata, &b.metadata));
    let reference = |job: &&Job| ObjectReference {
        api_version: Some("batch/v1".into()),
        kind: Some("Job".into()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        ..Default::default()
    };
    let active: Vec<ObjectReference> = running.iter().map(reference).collect();
    let stored = observed.cron_job.status.clone().unwrap_or_default();
    let successes = observed.jobs.iter().filter(|job| outcome(job) == Outcome::Complete);
    let last_success = successes
        .filter_map(|job| job.status.as_ref()?.completion_time.clone())
        .chain(stored.last_successful_time.clone())
        .max_by_key(|time| time.0);
    CronJobStatus {
        active: (!active.is_empty()).then_some(active),
        last_successful_time: last_success,
        last_schedule_time: stored.last_schedule_time,
    }
}

/// Of finished Jobs only the last few are kept.
fn forget_old(observed: &Observed, spec: &CronJobSpec, plan: &mut Plan) {
    for (kind, limit) in [
        (Outcome::Complete, spec.successful_jobs_history_limit.unwrap_or(3)),
        (Outcome::Failed, spec.failed_jobs_history_limit.unwrap_or(1)),
    ] {
        let mut finished: Vec<&Job> = observed
            .jobs
            .iter()
            .map(|job| &**job)
            .filter(|job| outcome(job) == kind && !being_deleted(&job.metadata))
            .collect();
        finished.sort_by(|a, b| by_age(&a.metadata, &b.metadata));
        let surplus = finished.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        plan.effects.extend(finished.into_iter().take(surplus).map(|job| delete(&observed.cron_job, job)));
    }
}

fn delete(cron_job: &CronJob, job: &Job) -> Effect {
    Effect::Delete {
        target: Target { resource_version: None, ..Target::of(&kind::JOB, &job.metadata) },
        propagation: Some(Propagation::Background),
        announce: Some(announce(cron_job, "Delete")),
    }
}

fn announce(cron_job: &CronJob, verb: &str) -> Announce {
    let (done, failed, before, trouble) = match verb {
        "Create" => ("SuccessfulCreate", "FailedCreate", "Created job ", "Error creating job: "),
        _ => ("SuccessfulDelete", "FailedDelete", "Deleted job ", "Error deleting job: "),
    };
    Announce {
        regarding: Target::of(&kind::CRON_JOB, &cron_job.metadata),
        component: COMPONENT,
        done: (done, Note { before, after: String::new() }),
        failed: (failed, Note { before: trouble, after: String::new() }),
    }
}

/// Starts the Job of the latest time that is due. Earlier ones that nobody started are left out, as upstream does.
fn run_due(
    observed: &Observed,
    spec: &CronJobSpec,
    status: &mut CronJobStatus,
    plan: &mut Plan,
    now: Timestamp,
) {
    let cron_job = &*observed.cron_job;
    let target = || Target::of(&kind::CRON_JOB, &cron_job.metadata);
    let schedule = match Schedule::parse(&spec.schedule, spec.time_zone.as_deref()) {
        Ok(schedule) => schedule,
        Err(why) => {
            plan.push(Effect::warning(target(), COMPONENT, "UnparseableSchedule", why));
            return;
        }
    };
    let deadline = spec.starting_deadline_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let last = status.last_schedule_time.as_ref().map(|time| time.0);
    let mut since = last.unwrap_or_else(|| created(&cron_job.metadata, now));
    if let Some(earliest) = deadline.and_then(|seconds| now.checked_sub(Duration::from_secs(seconds)).ok()) {
        since = since.max(earliest);
    }
    let Due { latest, too_many, next } = schedule.due(since, now);
    if let Some(next) = next {
        plan.look_again(next);
    }
    let Some(at) = latest else { return };
    if too_many {
        let note =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        plan.push(Effect::warning(target(), COMPONENT, "TooManyMissedTimes", note));
    }
    let job_name = format!("{}-{}", name(&cron_job.metadata), at.as_second().div_euclid(60));
    let running: Vec<&Job> =
        observed.jobs.iter().map(|job| &**job).filter(|job| outcome(job) == Outcome::Active).collect();
    if observed.jobs.iter().any(|job| name(&job.metadata) == job_name) {
        status.last_schedule_time = Some(time(at));
        return;
    }
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !running.is_empty() => {
            let note = "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.push(Effect::event(target(), COMPONENT, "JobAlreadyActive", note));
            // When the other one ends, this time is still due, unless its deadline has passed by then.
            return;
        }
        Some("Replace") => plan.effects.extend(running.iter().map(|job| delete(cron_job, job))),
        _ => {}
    }
    plan.push(create(cron_job, spec, &job_name, at));
    status.last_schedule_time = Some(time(at));
}

/// Named after its time: two who decide the same create one.
fn create(cron_job: &CronJob, spec: &CronJobSpec, job_name: &str, at: Timestamp) -> Effect {
    let described = spec.job_template.metadata.clone().unwrap_or_default();
    let mut annotations = described.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED.into(), time(at).0.to_string());
    let job = Job {
        metadata: ObjectMeta {
            namespace: cron_job.metadata.namespace.clone(),
            name: Some(job_name.to_owned()),
            labels: described.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(&kind::CRON_JOB, &cron_job.metadata)]),
            ..Default::default()
        },
        spec: spec.job_template.spec.clone(),
        status: None,
    };
    Effect::Create {
        kind: kind::JOB,
        namespace: cron_job.metadata.namespace.clone(),
        body: json!(job),
        announce: Some(announce(cron_job, "Create")),
    }
}
