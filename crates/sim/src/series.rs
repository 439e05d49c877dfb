//! Series as a scraper would have stored them, for the queries of a policy.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use promql::{Labels, METRIC_NAME, MemorySource, STALE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    metrics::Sample,
    policy::moment,
    scenario::Pods,
    world::{Pod, World},
};

/// A series that the simulated pods expose.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SeriesForm {
    pub name: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    pub follows: Follows,
    /// The series counts what it follows up, as `…_total` does, in place of showing it.
    #[serde(default)]
    pub counter: bool,
    /// Each ready pod has a series of its own, with its share and a label `pod`.
    #[serde(default)]
    pub per_pod: bool,
    #[serde(default = "one")]
    pub factor: f64,
}

/// What a series shows of the world. Per pod, each has its share of what all have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Follows {
    /// Demand a second, served or not.
    Load,
    /// What was served a second.
    Served,
    /// What waits.
    Backlog,
    /// What the ready pods can serve a second.
    Capacity,
    /// The share of the ready pods' capacity that is used, from 0 to 1; per pod it is the same for each.
    Busy,
    /// Ready pods.
    Ready,
    /// Seconds from arrival to answer: what waits and what is served share the pods, so it grows without limit as
    /// they become busy. Per pod it is the same for each.
    Latency,
}

/// All that was measured. What is still on its way cannot be queried yet.
#[derive(Debug, Default)]
pub struct Recorded {
    arrived: MemorySource,
    on_its_way: VecDeque<(f64, Vec<(Labels, f64)>)>,
    counted: BTreeMap<Labels, f64>,
    shown: Vec<Labels>,
    last: f64,
}

impl Recorded {
    /// Notes a measurement at `sample.at`; one that is lost still counts up what is counted.
    pub fn measure(
        &mut self,
        declared: &[SeriesForm],
        sample: &Sample,
        pods: &Pods,
        world: &World,
        is_lost: bool,
    ) {
        let span = sample.at - self.last;
        self.last = sample.at;
        let ready: Vec<&Pod> = world.pods().iter().filter(|pod| pod.ready_at <= sample.at).collect();
        let capacity: f64 = ready.iter().map(|pod| pod.capacity(pods)).sum();
        let mut values = Vec::new();
        for form in declared {
            let labels = form.labels.iter().map(|(n, v)| (n.as_str(), v.as_str()));
            let labels = Labels::from_pairs(labels.chain([(METRIC_NAME, form.name.as_str())]));
            let all = form.factor * form.follows.value(sample, pods, capacity, ready.len());
            if !form.per_pod {
                values.push(self.shown_as(form, labels, all, span));
                continue;
            }
            for pod in &ready {
                let share = match form.follows {
                    Follows::Busy | Follows::Latency => 1.0,
                    _ if capacity > 0.0 => pod.capacity(pods) / capacity,
                    _ => 0.0,
                };
                let labels = labels.with("pod", &format!("pod-{}", pod.id));
                values.push(self.shown_as(form, labels, all * share, span));
            }
        }
        if is_lost {
            return;
        }
        // A series that is no longer exposed ends, and does not linger for five minutes.
        let gone = self.shown.iter().filter(|known| !values.iter().any(|(labels, _)| labels == *known));
        let ended: Vec<(Labels, f64)> = gone.map(|labels| (labels.clone(), STALE)).collect();
        self.shown = values.iter().map(|(labels, _)| labels.clone()).collect();
        values.extend(ended);
        self.on_its_way.push_back((sample.at, values));
    }

    fn shown_as(&mut self, form: &SeriesForm, labels: Labels, value: f64, span: f64) -> (Labels, f64) {
        if !form.counter {
            return (labels, value);
        }
        let counted = self.counted.entry(labels.clone()).or_default();
        *counted += value * span;
        (labels, *counted)
    }

    /// What can be queried at `t`.
    pub fn at(&mut self, start: Timestamp, delay: f64, t: f64) -> &MemorySource {
        while let Some((at, values)) = self.on_its_way.pop_front_if(|(at, _)| *at + delay <= t) {
            let time = moment(start, at).as_millisecond();
            for (labels, value) in values {
                // Two series of one name and the same labels: the first one stands.
                let _ = self.arrived.push(&labels, time, value);
            }
        }
        &self.arrived
    }
}

impl Follows {
    fn value(self, sample: &Sample, pods: &Pods, capacity: f64, n_ready: usize) -> f64 {
        match self {
            Self::Load => sample.load,
            Self::Served => sample.served,
            Self::Backlog => sample.backlog,
            Self::Capacity => capacity,
            Self::Busy => sample.busy,
            Self::Ready => n_ready as f64,
            Self::Latency => {
                // A queue in front of a server: twice the service time at half the load, ten times at nine tenths.
                let serving = pods.service_time.0 / (1.0 - sample.busy.min(MOST_BUSY));
                let waiting = if capacity > 0.0 { sample.waiting / capacity } else { 0.0 };
                serving + waiting
            }
        }
    }
}

/// Beyond this the backlog tells how long it takes.
const MOST_BUSY: f64 = 0.99;

fn one() -> f64 {
    1.0
}
