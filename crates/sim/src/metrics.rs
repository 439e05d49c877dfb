//! What a policy gets to know of the world: later, and not always.

use std::collections::VecDeque;

use jiff::Timestamp;
use promql::MemorySource;

use crate::{
    Signal,
    random::{Stream, unit},
    scenario::{Metrics, Pods},
    series::Recorded,
    world::{Pod, Step, World},
};

#[derive(Debug, Default)]
pub struct Pipeline {
    recorded: Recorded,
    /// Measurements on their way, oldest first.
    samples: VecDeque<Sample>,
    n_taken: u64,
    /// What was measured since the last one.
    arrived: f64,
    served: f64,
    could_serve: f64,
    since: f64,
    /// What was served from the beginning.
    total: f64,
}

/// One measurement. Ready pods share the load by their capacity, so a rate per capacity says what each one does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub at: f64,
    /// The beginning of the time that it is an average of.
    pub since: f64,
    pub load: f64,
    pub served: f64,
    pub backlog: f64,
    /// What waits without being served yet.
    pub waiting: f64,
    /// Share of the ready pods' capacity that was used.
    pub busy: f64,
    /// What was served from the beginning.
    pub processed: f64,
    pub ready: usize,
}

impl Pipeline {
    pub fn observe(&mut self, step: &Step, dt: f64) {
        self.arrived += step.arrived;
        self.served += step.served;
        self.total += step.served;
        self.could_serve += step.capacity * dt;
    }

    /// Takes a measurement at `t`, unless it gets lost.
    pub fn measure(&mut self, metrics: &Metrics, pods: &Pods, seed: u64, t: f64, world: &World) {
        let index = self.n_taken;
        self.n_taken += 1;
        let span = (t - self.since).max(1e-9);
        let (load, served) = (self.arrived / span, self.served / span);
        let busy = if self.could_serve > 0.0 { (self.served / self.could_serve).min(1.0) } else { 0.0 };
        let since = self.since;
        (self.arrived, self.served, self.could_serve, self.since) = (0.0, 0.0, 0.0, t);
        let is_out =
            metrics.outages.iter().any(|outage| (outage.at.0..outage.at.0 + outage.length.0).contains(&t));
        let is_lost = is_out || unit(seed, Stream::LostSample, index) < metrics.loss;
        let in_hand = served * pods.service_time.0;
        let (waiting, ready) = (world.backlog(), world.n_ready(t));
        let backlog = waiting + in_hand;
        let sample =
            Sample { at: t, since, load, served, backlog, waiting, busy, processed: self.total, ready };
        self.recorded.measure(&metrics.series, &sample, pods, world, is_lost);
        if !is_lost {
            self.samples.push_back(sample);
        }
    }

    /// The series that a query at `t` can read.
    pub fn series(&mut self, metrics: &Metrics, start: Timestamp, t: f64) -> &MemorySource {
        self.recorded.at(start, metrics.delay.0, t)
    }

    /// The newest measurement that has arrived by `t`; older ones are forgotten.
    pub fn latest(&mut self, metrics: &Metrics, t: f64) -> Option<Sample> {
        let arrived = |sample: &Sample| sample.at + metrics.delay.0 <= t;
        while self.samples.len() > 1 && self.samples.get(1).is_some_and(arrived) {
            self.samples.pop_front();
        }
        self.samples.front().copied().filter(arrived)
    }
}

impl Sample {
    pub fn value(&self, signal: Signal) -> f64 {
        match signal {
            Signal::Load => self.load,
            Signal::Served => self.served,
            Signal::Backlog => self.backlog,
        }
    }

    /// CPU of all pods in thousandths of a core.
    pub fn total_cpu(&self, pods: &Pods) -> f64 {
        self.served * pods.cpu_per_unit()
    }

    /// The pod's CPU in thousandths of a core; none if it was not ready then.
    pub fn cpu(&self, pods: &Pods, pod: &Pod) -> Option<f64> {
        (pod.ready_at <= self.at).then(|| self.busy * pod.capacity(pods) * pods.cpu_per_unit())
    }
}
