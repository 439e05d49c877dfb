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

/// What one direction is allowed within rolling periods.
#[derive(Clone, Copy, Debug)]
pub struct Rates<'a> {
    pub direction: Direction,
    pub select: Select,
    pub policies: &'a [Policy],
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
    /// When it was decided.
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
    /// Gives the change that turns out to have been applied.
    pub fn settle(&mut self, now: Timestamp, current: i32, keep_seconds: i64) -> Option<Change> {
        let settled = self.pending.take().and_then(|pending| {
            let (low, high) = (pending.from.min(pending.to), pending.from.max(pending.to));
            let by = current.clamp(low, high).saturating_sub(pending.from);
            (by != 0).then_some(Change { at: pending.at.min(now), by })
        });
        self.applied.extend(settled);
        let cutoff = before(now, keep_seconds);
        self.applied.retain_mut(|change| {
            change.at = change.at.min(now);
            change.at > cutoff
        });
        settled
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

// === impl Rates ===

impl Rates<'_> {
    /// The limit now. It never asks for a move the other way: with the budget overspent the count stays.
    pub fn budget(&self, now: Timestamp, current: i32, changes: &Changes) -> Budget {
        let spent = |policy: &Policy| changes.net(now, policy.period_seconds.into());
        let chosen = self.furthest(current, spent);
        let (limit, policy, spent) =
            chosen.map_or((current, None, 0), |(limit, policy, spent)| (limit, Some(policy), spent));
        Budget { direction: self.direction, limit: self.onward(current, limit), policy, spent }
    }

    /// The first moment at which time alone allows more, once `decided` is applied: some policy's period lets go of a
    /// change, and that moves the limit that all policies make together.
    pub fn released(
        &self,
        now: Timestamp,
        current: i32,
        decided: i32,
        changes: &Changes,
    ) -> Option<Timestamp> {
        let mut applied: Vec<Change> =
            changes.applied.iter().map(|change| Change { at: change.at.min(now), ..*change }).collect();
        if decided != current {
            applied.push(Change { at: now, by: decided.saturating_sub(current) });
        }
        applied.sort_by_key(|change| change.at);
        let later_net = suffix_sums(&applied);
        // Without a period the next decision may go on; it should still not be the same moment's.
        let period = |policy: &Policy| i64::from(policy.period_seconds).max(1);
        let leaves = |policy: &Policy| {
            let seconds = period(policy);
            applied.iter().map(move |change| after(change.at, seconds)).filter(|at| *at > now)
        };
        let mut moments: Vec<Timestamp> = self.policies.iter().flat_map(leaves).collect();
        if self.policies.iter().any(|policy| policy.period_seconds <= 0) {
            moments.push(after(now, 1));
        }
        moments.sort_unstable();
        moments.dedup();
        moments.into_iter().find(|at| {
            let net = |policy: &Policy| {
                let cutoff = before(*at, policy.period_seconds.into());
                later_net[applied.partition_point(|change| change.at <= cutoff)]
            };
            let limit = self.furthest(decided, net).map_or(decided, |(limit, ..)| limit);
            self.onward(decided, limit) != decided
        })
    }

    /// The limit of the policy that counts, that policy, and what its period has seen.
    fn furthest(&self, current: i32, net: impl Fn(&Policy) -> i32) -> Option<(i32, Policy, i32)> {
        if self.select == Select::Disabled {
            return None;
        }
        let mut chosen: Option<(i32, Policy, i32)> = None;
        for policy in self.policies {
            let spent = net(policy);
            let limit = policy.limit(self.direction, current.saturating_sub(spent));
            let further = match (&chosen, self.direction) {
                (None, _) => true,
                (Some((best, ..)), Direction::Up) => (limit > *best) == (self.select == Select::Max),
                (Some((best, ..)), Direction::Down) => (limit < *best) == (self.select == Select::Max),
            };
            if further {
                chosen = Some((limit, *policy, spent));
            }
        }
        chosen
    }

    fn onward(&self, current: i32, limit: i32) -> i32 {
        match self.direction {
            Direction::Up => limit.max(current),
            Direction::Down => limit.min(current),
        }
    }
}

/// At `idx` the sum of all changes from there on, held within 32 bits; one more entry than changes.
fn suffix_sums(changes: &[Change]) -> Vec<i32> {
    let mut sums = vec![0i32; changes.len() + 1];
    let mut sum = 0i64;
    for idx in (0..changes.len()).rev() {
        sum = sum.saturating_add(changes[idx].by.into());
        sums[idx] = sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    }
    sums
}

// === impl Budget ===

impl Budget {
    pub fn apply(&self, before: i32) -> i32 {
        match self.direction {
            Direction::Up => before.min(self.limit),
            Direction::Down => before.max(self.limit),
        }
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
