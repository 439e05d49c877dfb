//! What all pods of the target used together. A figure for one pod remembers how many pods there were when it was learnt, for
//! days; a sum does not depend on it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Container, Options, Sample,
    amount::{Resource, Usage},
};

/// The name under which a sum is learnt, as if one pod had used it all.
const ALL_PODS: &str = "*";

/// One container name over all pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Total {
    /// The sums of past intervals.
    pub(super) history: Container,
    /// The interval that is not over yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    round: Option<Round>,
}

/// An interval whose samples are still coming in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Round {
    start: Timestamp,
    /// The newest sample of each pod.
    pods: BTreeMap<String, Usage>,
}

impl Total {
    /// Leaves pods out of the open round that a new look at all pods no longer finds. Whoever came in their place uses what
    /// they used, and it would count twice.
    pub(super) fn keep(&mut self, options: &Options, look: &[&Sample]) {
        let Some(round) = &mut self.round else { return };
        if look.iter().any(|sample| round_of(options, sample.at) == round.start) {
            let found: BTreeSet<&str> = look.iter().map(|sample| sample.pod.as_str()).collect();
            round.pods.retain(|pod, _| found.contains(pod.as_str()));
        }
    }

    /// Samples come in order of time; one for a round that is over comes too late, and one that is no number says nothing.
    pub(super) fn observe(&mut self, options: &Options, now: Timestamp, sample: &Sample) {
        let start = round_of(options, sample.at);
        if self.round.as_ref().is_some_and(|round| round.start < start) {
            self.close(options, now);
        }
        let round = self.round.get_or_insert_with(|| Round { start, pods: BTreeMap::new() });
        if round.start == start {
            let known = round.pods.entry(sample.pod.clone()).or_default();
            let usable = |value: Option<f64>| value.filter(|value| value.is_finite() && *value >= 0.0);
            known.cpu = usable(sample.usage.cpu).or(known.cpu);
            known.memory = usable(sample.usage.memory).or(known.memory);
        }
    }

    /// Learns from the open round if its time is over.
    pub(super) fn close_if_over(&mut self, options: &Options, now: Timestamp) {
        if self.round.as_ref().is_some_and(|round| round.start < round_of(options, now)) {
            self.close(options, now);
        }
    }

    fn close(&mut self, options: &Options, now: Timestamp) {
        let Some(Round { start, pods }) = self.round.take() else { return };
        let sum = |of: fn(&Usage) -> Option<f64>| {
            let known: Vec<f64> = pods.values().filter_map(of).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>())
        };
        let options = &options.for_totals();
        // What cannot be used was left out of the sum, and the rounds come in order.
        if let Some(cores) = sum(|usage| usage.cpu) {
            let _ = self.history.cpu_sample(options, now, ALL_PODS, start, cores);
        }
        if let Some(bytes) = sum(|usage| usage.memory) {
            let _ = self.history.memory_sample(options, now, ALL_PODS, start, bytes);
        }
    }

    pub(super) fn is_expired(&self, options: &Options, now: Timestamp) -> bool {
        self.round.is_none() && self.history.is_expired(options, now)
    }

    /// What to estimate from: the past rounds, or as long as there are none, what has come in of the first. A figure for one
    /// pod would be wrong by as much as the count has changed since.
    pub(super) fn known(&self, options: &Options) -> Cow<'_, Container> {
        let is_new = Resource::ALL.into_iter().all(|one| self.history.histogram(one).is_empty());
        match &self.round {
            Some(round) if is_new => {
                let mut so_far = self.clone();
                so_far.close(options, round.start);
                Cow::Owned(so_far.history)
            }
            _ => Cow::Borrowed(&self.history),
        }
    }
}

impl Options {
    /// Sums are to follow a load that comes and goes within a day, which counts of replicas can.
    fn for_totals(&self) -> Options {
        let seconds = self.total_half_life_seconds;
        Options {
            cpu_half_life_seconds: seconds,
            memory_half_life_seconds: seconds,
            memory_interval_seconds: seconds,
            ..self.clone()
        }
    }
}

/// The beginning of the round that `at` lies in.
fn round_of(options: &Options, at: Timestamp) -> Timestamp {
    let length = options.total_interval_seconds.max(1);
    let into = SignedDuration::from_secs(at.as_second().rem_euclid(length));
    let whole = Timestamp::from_second(at.as_second()).unwrap_or(at);
    whole.checked_sub(into).unwrap_or(whole)
}
