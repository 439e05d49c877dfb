//! Conditions of an object's status.

use engine::object::time;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// The longest message that the API takes.
const LONGEST_MESSAGE: usize = 32768;

/// One condition without its type and times.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConditionState {
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

impl ConditionState {
    pub fn new(status: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { status, reason, message: message.into() }
    }
}

/// The time of the last change is kept as long as the status is the same.
pub(crate) fn condition(
    type_: &str,
    state: &ConditionState,
    before: Option<&Condition>,
    now: Timestamp,
) -> Condition {
    let since = before
        .filter(|before| before.status == state.status)
        .map_or_else(|| time(now), |before| before.last_transition_time.clone());
    Condition {
        type_: type_.to_owned(),
        status: state.status.to_owned(),
        reason: state.reason.to_owned(),
        message: cut(&state.message),
        last_transition_time: since,
        observed_generation: None,
    }
}

fn cut(message: &str) -> String {
    let end = (0..=LONGEST_MESSAGE.min(message.len())).rev().find(|at| message.is_char_boundary(*at));
    message[..end.unwrap_or(0)].to_owned()
}
