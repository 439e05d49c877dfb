//! What was asked for and not seen yet. A cache lags behind the writes: acting on it again would create twice.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Actions, Instance};
use crate::window::after;

/// An action that left no trace for this long was lost; planning goes on without it.
const EXPIRY_SECONDS: i64 = 5 * 60;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Memory {
    /// The running number of the next instance.
    #[serde(default)]
    pub next_sequence: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expectations: Vec<Expectation>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expectation {
    pub since: Timestamp,
    pub expected: Expected,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Expected {
    Created { name: String },
    Deleted { uid: String },
    Updated { uid: String, revision: String },
}

impl Memory {
    pub(super) fn settle(&mut self, now: Timestamp, instances: &[Instance]) {
        self.expectations.retain_mut(|expectation| {
            expectation.since = expectation.since.min(now);
            now < after(expectation.since, EXPIRY_SECONDS) && !expectation.expected.is_met(instances)
        });
    }

    pub(super) fn expect(&mut self, now: Timestamp, actions: &Actions, revision: &str) {
        let created = actions.create.iter().map(|new| Expected::Created { name: new.name.clone() });
        let deleted = actions.delete.iter().map(|target| Expected::Deleted { uid: target.uid.clone() });
        let updated = actions
            .update
            .iter()
            .map(|target| Expected::Updated { uid: target.uid.clone(), revision: revision.to_owned() });
        let all = deleted.chain(created).chain(updated);
        self.expectations.extend(all.map(|expected| Expectation { since: now, expected }));
    }

    /// When planning goes on at the latest, if something is still expected.
    pub(super) fn waits_until(&self) -> Option<Timestamp> {
        self.expectations.iter().map(|expectation| after(expectation.since, EXPIRY_SECONDS)).max()
    }

    pub(super) fn expected(&self) -> impl Iterator<Item = &Expected> {
        self.expectations.iter().map(|expectation| &expectation.expected)
    }

    /// A call that was refused will never be seen.
    pub fn forget_failed(&mut self, failed: &Expected) {
        self.expectations.retain(|expectation| expectation.expected != *failed);
    }
}

impl Expected {
    fn is_met(&self, instances: &[Instance]) -> bool {
        let by_uid = |uid: &str| instances.iter().find(|one| one.uid == uid);
        match self {
            Expected::Created { name } => instances.iter().any(|one| one.name == *name),
            Expected::Deleted { uid } => by_uid(uid).is_none_or(|one| one.terminating),
            Expected::Updated { uid, revision } => {
                by_uid(uid).is_none_or(|one| one.terminating || one.revision.as_ref() == Some(revision))
            }
        }
    }
}
