//! What a job says of itself.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};

use crate::object::time;

pub(super) const COMPLETE: &str = "Complete";
pub(super) const FAILED: &str = "Failed";
pub(super) const SUSPENDED: &str = "Suspended";
pub(super) const SUCCESS: &str = "SuccessCriteriaMet";
pub(super) const FAILURE: &str = "FailureTarget";

pub(super) fn find<'a>(status: &'a JobStatus, kind: &str) -> Option<&'a JobCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind && condition.status == "True")
}

/// When it became complete or failed.
pub(super) fn finished_at(status: &JobStatus) -> Option<Timestamp> {
    let end = find(status, COMPLETE).or_else(|| find(status, FAILED))?;
    end.last_transition_time.as_ref().map(|time| time.0)
}

/// Sets a condition; its times change with its status only.
pub(super) fn set(
    status: &mut JobStatus,
    kind: &str,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let word = if holds { "True" } else { "False" };
    let conditions = status.conditions.get_or_insert_default();
    if conditions.iter().any(|condition| condition.type_ == kind && condition.status == word) {
        return false;
    }
    conditions.retain(|condition| condition.type_ != kind);
    conditions.push(JobCondition {
        type_: kind.into(),
        status: word.into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        last_probe_time: Some(time(now)),
        last_transition_time: Some(time(now)),
    });
    true
}
