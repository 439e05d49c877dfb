//! What is remembered of an Hvpa between its decisions, in the store.

use decide::hvpa::{self, ContainerSize, Plan};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// For so long after a change, pods that do not run yet are a reason to wait for them; later they are in trouble.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);
/// Between two evictions of one workload's pods; twice as long each time that it did not help.
const EVICTION_PAUSE: SignedDuration = SignedDuration::from_mins(5);
const LONGEST_DOUBLING: u32 = 6;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    pub decision: hvpa::Memory,
    /// What pods that run are resized to: their template does not know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// The last change, until the API shows that it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
    /// Since when all pods run at the decided count and size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
    /// What was last written into the Hvpa's own `spec.replicas` from here, and when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<(i32, Timestamp)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction: Option<Eviction>,
    /// The last change, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    pub at: Timestamp,
    pub plan: Plan,
    pub reason: String,
    pub why: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sizes {
    /// The template's at that time. With another template the sizes begin anew.
    pub template: Vec<ContainerSize>,
    pub decided: Vec<ContainerSize>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    pub from: Plan,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_replicas: Option<i32>,
    /// What was remembered when it was decided.
    pub before: hvpa::Memory,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes_before: Option<Sizes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_before: Option<Applied>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Eviction {
    pub at: Timestamp,
    pub pod: String,
    /// How many there were in a row without all pods getting their size.
    pub n: u32,
}

impl Memory {
    /// The sizes that count as current: those decided for running pods, or the template's.
    pub fn current_sizes(&mut self, template: &[ContainerSize], in_place: bool) -> Vec<ContainerSize> {
        if self.sizes.as_ref().is_some_and(|sizes| !in_place || sizes.template != template) {
            self.sizes = None;
        }
        self.sizes.as_ref().map_or_else(|| template.to_vec(), |sizes| sizes.decided.clone())
    }

    /// Forgets a change that was decided about a count that was not the true one. The API refuses to write such a count, but
    /// the sizes that go with it are only remembered here.
    pub fn forget_outdated(&mut self, replicas: i32, was_outdated: bool) {
        let is_neither =
            |pending: &Pending| ![Some(pending.from.replicas), pending.to_replicas].contains(&Some(replicas));
        let is_known = |pending: &Pending| pending.to_replicas.is_some();
        if let Some(Pending { before, sizes_before, applied_before, .. }) =
            self.pending.take_if(|pending| is_known(pending) && (was_outdated || is_neither(pending)))
        {
            self.decision = before;
            self.sizes = sizes_before;
            self.applied = applied_before;
        }
    }

    /// A change that was remembered and never made is decided again.
    pub fn recover(&mut self, current: &Plan) {
        if let Some(Pending { from, before, .. }) = self.pending.take()
            && from == *current
        {
            self.decision = before;
        }
    }

    /// The moment from which on samples speak of the workload as it is.
    pub fn settle(&mut self, now: Timestamp, is_settled: bool) -> Option<Timestamp> {
        if is_settled {
            return Some(*self.settled_at.get_or_insert(now));
        }
        self.settled_at = None;
        let last = self.decision.last_scaling?;
        (now.duration_since(last) < PATIENCE).then_some(now)
    }

    /// `from` has the sizes that count from now on.
    pub fn changed(&mut self, from: &Plan, to: &Plan, before: hvpa::Memory, sizes_before: Option<Sizes>) {
        self.settled_at = None;
        self.pending = (from != to).then(|| Pending {
            from: from.clone(),
            to_replicas: Some(to.replicas),
            before,
            sizes_before,
            applied_before: self.applied.clone(),
        });
    }

    pub fn may_evict_from(&self) -> Option<Timestamp> {
        let Eviction { at, n, .. } = self.eviction.as_ref()?;
        let pause = EVICTION_PAUSE.saturating_mul(1 << n.saturating_sub(1).min(LONGEST_DOUBLING));
        Some(at.checked_add(pause).unwrap_or(Timestamp::MAX))
    }

    pub fn evicted(&mut self, at: Timestamp, pod: &str) {
        let n = self.eviction.as_ref().map_or(0, |eviction| eviction.n).saturating_add(1);
        self.eviction = Some(Eviction { at, pod: pod.to_owned(), n });
    }
}
