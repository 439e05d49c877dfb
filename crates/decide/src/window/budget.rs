use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{after, before};

/// How much may change within a rolling period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    /// Whether `value` counts pods or percent of the pods at the start of the period.
    #[serde(rename = "type")]
    pub kind: PolicyType,
    pub value: i32,
    /// The rolling period in seconds.
    pub period_seconds: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PolicyType {
    Pods,
    Percent,
}

/// Which of several policies counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Select {
    /// The one that allows the largest change.
    #[default]
    Max,
    /// The one that allows the smallest change.
    Min,
    /// None: this direction is switched off.
    Disabled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    Up,
    Down,
}

/// The limit that policies and past changes set, as a step's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    pub direction: Direction,
    /// The furthest count allowed now.
    pub limit: i32,
    /// The policy that sets it; none if the direction is disabled or has no policies.
    pub policy: Option<Policy>,
    /// Replicas already added (or, negative, removed) within that policy's period.
    pub spent: i32,
}

/// Changes really applied, as far back as a policy can look, and the one that is still to be confirmed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Changes {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    applied: Vec<Change>,
    /// Decided last time; it becomes an applied change once the observed count shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pending: Option<Pending>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Change {
    pub at: Timestamp,
    /// Positive for added, negative for removed replicas.
    pub by: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Pending {
    at: Timestamp,
    from: i32,
    to: i32,
}

// === impl Changes ===

impl Changes {
    /// Turns the pending change into an applied one as far as `current` shows it, and forgets what no policy can see.
    ///
    /// A write that failed leaves `current` where it was: nothing was applied, so no budget is used up.
    pub fn settle(&mut self, now: Timestamp, current: i32, keep_seconds: i64) {
        if let Some(pending) = self.pending.take() {
            let (low, high) = (pending.from.min(pending.to), pending.from.max(pending.to));
            let by = current.clamp(low, high).saturating_sub(pending.from);
            if by != 0 {
                self.applied.push(Change { at: pending.at.min(now), by });
            }
        }
        let cutoff = before(now, keep_seconds);
        self.applied.retain_mut(|change| {
            change.at = change.at.min(now);
            change.at > cutoff
        });
    }

    /// Notes what was decided; it counts only when the next observation shows it.
    pub fn decided(&mut self, now: Timestamp, from: i32, to: i32) {
        self.pending = (from != to).then_some(Pending { at: now, from, to });
    }

    /// Replicas added minus replicas removed within the last `seconds`.
    fn net(&self, now: Timestamp, seconds: i64) -> i32 {
        let net: i64 = self.within(now, seconds).map(|change| i64::from(change.by)).sum();
        net.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
    }

    fn within(&self, now: Timestamp, seconds: i64) -> impl Iterator<Item = &Change> {
        let cutoff = before(now, seconds);
        self.applied.iter().filter(move |change| change.at.min(now) > cutoff)
    }
}

// === impl Policy ===

impl Policy {
    /// The furthest count from a period that began with `base` replicas.
    ///
    /// Percent rounds so that progress is always possible: 10 % up from 1 allows 2, 50 % down from 1 allows 0.
    fn limit(&self, direction: Direction, base: i32) -> i32 {
        let share = f64::from(self.value) / 100.0;
        match (self.kind, direction) {
            (PolicyType::Pods, Direction::Up) => base.saturating_add(self.value),
            (PolicyType::Pods, Direction::Down) => base.saturating_sub(self.value),
            (PolicyType::Percent, Direction::Up) => (f64::from(base) * (1.0 + share)).ceil() as i32,
            (PolicyType::Percent, Direction::Down) => (f64::from(base) * (1.0 - share)) as i32,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.kind {
            PolicyType::Pods => " pods",
            PolicyType::Percent => " %",
        };
        write!(f, "{}{unit} in {} s", self.value, self.period_seconds)
    }
}

// === impl Budget ===

impl Budget {
    /// The limit for one direction. A limit never asks for a move the other way: with the budget overspent the count stays.
    pub fn new(
        now: Timestamp,
        current: i32,
        direction: Direction,
        policies: &[Policy],
        select: Select,
        changes: &Changes,
    ) -> Self {
        let mut chosen: Option<(i32, Policy, i32)> = None;
        if select != Select::Disabled {
            for policy in policies {
                let spent = changes.net(now, policy.period_seconds.into());
                let limit = policy.limit(direction, current.saturating_sub(spent));
                let further = match (&chosen, direction) {
                    (None, _) => true,
                    (Some((best, ..)), Direction::Up) => (limit > *best) == (select == Select::Max),
                    (Some((best, ..)), Direction::Down) => (limit < *best) == (select == Select::Max),
                };
                if further {
                    chosen = Some((limit, *policy, spent));
                }
            }
        }
        let (limit, policy, spent) =
            chosen.map_or((current, None, 0), |(limit, policy, spent)| (limit, Some(policy), spent));
        let limit = match direction {
            Direction::Up => limit.max(current),
            Direction::Down => limit.min(current),
        };
        Budget { direction, limit, policy, spent }
    }

    pub fn apply(&self, before: i32) -> i32 {
        match self.direction {
            Direction::Up => before.min(self.limit),
            Direction::Down => before.max(self.limit),
        }
    }

    /// When more will be allowed, for a decision that this budget held back: the oldest change leaves the period, or,
    /// with none in it yet, the change decided now does.
    pub fn released(&self, now: Timestamp, changes: &Changes) -> Option<Timestamp> {
        // Without a period the next decision may go on; it should still not be the same moment's.
        let seconds = i64::from(self.policy?.period_seconds).max(1);
        let oldest = changes.within(now, seconds).map(|change| change.at.min(now)).min();
        Some(after(oldest.unwrap_or(now), seconds))
    }

    pub fn code(&self, before: i32, after: i32) -> &'static str {
        match self.direction {
            _ if before == after => "WithinBudget",
            Direction::Up => "ScaleUpLimit",
            Direction::Down => "ScaleDownLimit",
        }
    }

    pub fn words(&self, before: i32, after: i32, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.direction {
            Direction::Up => "up",
            Direction::Down => "down",
        };
        let Some(policy) = self.policy else {
            return write!(out, "scaling {way} is switched off");
        };
        match before == after {
            true => write!(out, "within {policy}")?,
            false => write!(out, "scaling {way} is limited to {policy}, so {after} and not {before}")?,
        }
        match self.spent {
            0 => Ok(()),
            spent => write!(out, " ({spent:+} already in that period)"),
        }
    }
}
