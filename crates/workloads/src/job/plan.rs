use std::{collections::BTreeSet, sync::Arc, time::Duration};

use engine::{
    effect::{Effect, Plan, Propagation, Target},
    kind,
};
use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::{Job, JobSpec, JobStatus},
    core::v1::Pod,
};

use super::{
    conditions::{self, COMPLETE, FAILED, FAILURE, SUCCESS, SUSPENDED},
    indexes, pods as own,
    tally::Tally,
};
use crate::object::{being_deleted, by_age, claim::claim, nonzero, pods, selector, time};

const COMPONENT: &str = "job-controller";
/// More are created or deleted in a later turn, so that one job cannot occupy the API for long.
const BURST: usize = 500;
/// After the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// What others may have set and this controller does not judge by.
const IGNORED: &str = "podFailurePolicy, successPolicy and backoffLimitPerIndex are stored and not evaluated here: every failed pod counts against backoffLimit";

/// Everything a decision about one Job depends on.
pub(crate) struct Observed {
    pub job: Arc<Job>,
    /// Pods of the namespace that the job controls or nobody does.
    pub candidates: Vec<Arc<Pod>>,
    /// The names of all pods of the namespace.
    pub taken: BTreeSet<String>,
}

/// How a job ends: whether well, and why.
struct End {
    good: bool,
    reason: &'static str,
    message: &'static str,
}

const REACHED: End =
    End { good: true, reason: "CompletionsReached", message: "Reached expected number of succeeded pods" };
const TOO_OFTEN: End = End {
    good: false,
    reason: "BackoffLimitExceeded",
    message: "Job has reached the specified backoff limit",
};
const TOO_LONG: End =
    End { good: false, reason: "DeadlineExceeded", message: "Job was active longer than specified deadline" };

pub(crate) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let job = &*observed.job;
    let Some(spec) = &job.spec else { return Plan::default() };
    if spec.managed_by.as_deref().is_some_and(|manager| manager != "kubernetes.io/job-controller") {
        return Plan::default();
    }
    let Some(wanted) =
        spec.selector.as_ref().and_then(selector::parse).filter(|wanted| !wanted.selects_all())
    else {
        return Plan::default();
    };
    let claim = claim(&kind::JOB, &job.metadata, &wanted, &kind::POD, &observed.candidates, pods::active);
    let stored = job.status.clone().unwrap_or_default();
    if being_deleted(&job.metadata) || conditions::finished_at(&stored).is_some() {
        return over(job, spec, &stored, &claim.owned, now);
    }
    let turn = Turn { observed, job, spec, owned: &claim.owned, now };
    let mut plan = Plan::from(claim.effects);
    turn.work(stored, &mut plan);
    plan
}

/// Nothing is counted any more: pods may go, and after a while the job too.
fn over(job: &Job, spec: &JobSpec, status: &JobStatus, owned: &[Arc<Pod>], now: Timestamp) -> Plan {
    let mut plan = Plan::from(owned.iter().filter_map(|pod| own::let_go(pod)).collect::<Vec<_>>());
    let ttl = spec.ttl_seconds_after_finished.and_then(|seconds| u64::try_from(seconds).ok());
    if let (Some(end), Some(ttl)) = (conditions::finished_at(status), ttl)
        && !being_deleted(&job.metadata)
        && let Ok(at) = end.checked_add(Duration::from_secs(ttl))
    {
        if at <= now {
            plan.push(Effect::Delete {
                target: Target::of(&kind::JOB, &job.metadata),
                propagation: Some(Propagation::Background),
                announce: None,
            });
        } else {
            plan.look_again(at);
        }
    }
    plan
}

/// One turn of one job that goes on.
struct Turn<'a> {
    observed: &'a Observed,
    job: &'a Job,
    spec: &'a JobSpec,
    owned: &'a [Arc<Pod>],
    now: Timestamp,
}

impl Turn<'_> {
    fn work(&self, stored: JobStatus, plan: &mut Plan) {
        let only_when_over = self.spec.pod_replacement_policy.as_deref() == Some("Failed");
        let tally = Tally::of(&stored, self.owned, self.indexed(), only_when_over);
        let active: Vec<&Pod> = self.owned.iter().map(|pod| &**pod).filter(|pod| pods::active(pod)).collect();
        let n_terminating =
            self.owned.iter().filter(|pod| pods::terminating(pod) && !pods::finished(pod)).count();
        let mut status = stored.clone();
        let mut events = Vec::new();
        self.suspend_or_start(&mut status, &mut events);
        let end = self.end(&status, &tally, &active);
        if let Some(end) = &end {
            let kind = if end.good { SUCCESS } else { FAILURE };
            conditions::set(&mut status, kind, true, end.reason, end.message, self.now);
        }
        let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        status.active = nonzero(count(active.len()));
        status.ready = Some(count(active.iter().filter(|pod| pods::ready(pod)).count()));
        status.terminating = Some(count(n_terminating));
        status.succeeded = nonzero(tally.counted.0);
        status.failed = nonzero(tally.counted.1);
        status.completed_indexes =
            Some(indexes::print(&tally.completed)).filter(|text| self.indexed() && !text.is_empty());
        status.uncounted_terminated_pods = Some(tally.uncounted.clone());
        if let Some(end) = &end
            && active.is_empty()
            && n_terminating == 0
            && tally.is_settled()
            && tally.releases.is_empty()
        {
            self.finish(end, &mut status, &mut events);
        }
        if normal(&stored) != normal(&status) {
            let meta = &self.job.metadata;
            plan.push(Effect::status(&kind::JOB, meta, self.job.status.as_ref(), &status));
        }
        plan.effects.extend(tally.releases.iter().cloned());
        plan.effects.extend(events);
        if end.is_some() {
            plan.effects.extend(active.iter().take(BURST).map(|pod| own::delete(self.job, pod)));
            return;
        }
        if let Some(at) = self.deadline(&status) {
            plan.look_again(at);
        }
        let waiting_for = if only_when_over { n_terminating } else { 0 };
        self.resize(&tally, active, waiting_for, plan);
    }

    fn suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    fn indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    fn suspend_or_start(&self, status: &mut JobStatus, events: &mut Vec<Effect>) {
        let target = || Target::of(&kind::JOB, &self.job.metadata);
        if self.suspended() {
            if conditions::set(status, SUSPENDED, true, "JobSuspended", "Job suspended", self.now) {
                events.push(Effect::event(target(), COMPONENT, "Suspended", "Job suspended"));
            }
            status.start_time = None;
            return;
        }
        if conditions::find(status, SUSPENDED).is_some() {
            conditions::set(status, SUSPENDED, false, "JobResumed", "Job resumed", self.now);
            events.push(Effect::event(target(), COMPONENT, "Resumed", "Job resumed"));
        }
        if status.start_time.is_none() {
            status.start_time = Some(time(self.now));
            let spec = self.spec;
            if spec.pod_failure_policy.is_some()
                || spec.success_policy.is_some()
                || spec.backoff_limit_per_index.is_some()
            {
                events.push(Effect::warning(target(), COMPONENT, "Unsupported", IGNORED));
            }
        }
    }

    fn deadline(&self, status: &JobStatus) -> Option<Timestamp> {
        let seconds = u64::try_from(self.spec.active_deadline_seconds?).ok()?;
        status.start_time.as_ref()?.0.checked_add(Duration::from_secs(seconds)).ok()
    }

    /// Whether the job is over, now or since an earlier turn.
    fn end(&self, status: &JobStatus, tally: &Tally, active: &[&Pod]) -> Option<End> {
        if let Some(condition) = conditions::find(status, FAILURE) {
            let late = condition.reason.as_deref() == Some(TOO_LONG.reason);
            return Some(if late { TOO_LONG } else { TOO_OFTEN });
        }
        if conditions::find(status, SUCCESS).is_some() {
            return Some(REACHED);
        }
        let limit = self.spec.backoff_limit.unwrap_or(6);
        let restarts = active.iter().map(|pod| own::restarts(pod)).fold(0, i32::saturating_add);
        let restarts_in_place =
            self.spec.template.spec.as_ref().and_then(|pod| pod.restart_policy.as_deref())
                == Some("OnFailure");
        if tally.failed > limit || (restarts_in_place && restarts > 0 && restarts >= limit) {
            return Some(TOO_OFTEN);
        }
        if !self.suspended() && self.deadline(status).is_some_and(|at| at <= self.now) {
            return Some(TOO_LONG);
        }
        let enough = match self.spec.completions {
            Some(completions) => tally.succeeded >= completions,
            // the work queue is empty: no new pod is started after the first success
            None => tally.succeeded > 0 && active.is_empty(),
        };
        enough.then_some(REACHED)
    }

    fn finish(&self, end: &End, status: &mut JobStatus, events: &mut Vec<Effect>) {
        let target = Target::of(&kind::JOB, &self.job.metadata);
        if end.good {
            conditions::set(status, COMPLETE, true, end.reason, end.message, self.now);
            status.completion_time = Some(time(self.now));
            events.push(Effect::event(target, COMPONENT, "Completed", "Job completed"));
        } else {
            conditions::set(status, FAILED, true, end.reason, end.message, self.now);
            events.push(Effect::warning(target, COMPONENT, end.reason, end.message));
        }
    }

    /// As many pods as may run side by side and are still needed.
    fn resize(&self, tally: &Tally, mut active: Vec<&Pod>, waiting_for: usize, plan: &mut Plan) {
        let parallelism = self.spec.parallelism.unwrap_or(1).max(0);
        let wanted = match self.spec.completions {
            _ if self.suspended() => 0,
            Some(completions) => parallelism.min(completions.saturating_sub(tally.succeeded)),
            None if tally.succeeded > 0 => i32::try_from(active.len()).unwrap_or(i32::MAX),
            None => parallelism,
        };
        let wanted = usize::try_from(wanted).unwrap_or(0);
        if active.len() > wanted {
            // the youngest have done least, those that are not ready nothing
            active.sort_by(|a, b| {
                pods::ready(a).cmp(&pods::ready(b)).then_with(|| by_age(&b.metadata, &a.metadata))
            });
            let surplus = (active.len() - wanted).min(BURST);
            plan.effects.extend(active.iter().take(surplus).map(|pod| own::delete(self.job, pod)));
            return;
        }
        let missing = wanted.saturating_sub(active.len() + waiting_for).min(BURST);
        if missing == 0 {
            return;
        }
        if let Some(at) = self.pause_ends().filter(|at| *at > self.now) {
            plan.look_again(at);
            return;
        }
        self.create(tally, &active, missing, plan);
    }

    fn create(&self, tally: &Tally, active: &[&Pod], missing: usize, plan: &mut Plan) {
        // Every pod there ever was is counted, waits to be counted, or is there.
        let others = self.owned.iter().filter(|pod| own::tracked(pod) && !pods::finished(pod)).count();
        let mut attempt =
            i64::from(tally.succeeded) + i64::from(tally.failed) + i64::try_from(others).unwrap_or(0);
        let free: Vec<Option<i32>> = if self.indexed() {
            let busy: BTreeSet<i32> = active.iter().filter_map(|pod| own::index(pod)).collect();
            let all = 0..self.spec.completions.unwrap_or(0);
            let open = all.filter(|index| !tally.completed.contains(index) && !busy.contains(index));
            open.take(missing).map(Some).collect()
        } else {
            vec![None; missing]
        };
        for index in free {
            let effect = loop {
                let (name, effect) = own::create(self.job, attempt, index);
                attempt += 1;
                if !self.observed.taken.contains(&name) {
                    break effect;
                }
            };
            plan.push(effect);
        }
    }

    /// Pods that failed since the last success make the next one wait.
    fn pause_ends(&self) -> Option<Timestamp> {
        let ended = |phase: &'static str| {
            self.owned
                .iter()
                .filter(move |pod| pods::phase(pod) == phase)
                .map(|pod| own::ended_at(pod, self.now))
        };
        let last_success = ended("Succeeded").max();
        let failures: Vec<Timestamp> =
            ended("Failed").filter(|at| last_success.is_none_or(|success| *at > success)).collect();
        let doublings = u32::try_from(failures.len()).unwrap_or(u32::MAX).checked_sub(1)?;
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST_PAUSE);
        failures.into_iter().max()?.checked_add(pause).ok()
    }
}

/// Zero, null and absent are the same; servers differ in which they store.
fn normal(status: &JobStatus) -> JobStatus {
    let mut status = status.clone();
    for count in [&mut status.active, &mut status.succeeded, &mut status.failed] {
        *count = count.and_then(nonzero);
    }
    status.uncounted_terminated_pods = status.uncounted_terminated_pods.filter(|pods| {
        [&pods.succeeded, &pods.failed].iter().any(|uids| uids.iter().flatten().next().is_some())
    });
    status.conditions = status.conditions.filter(|conditions| !conditions.is_empty());
    status
}
