use std::collections::VecDeque;

use decide::vertex::{self, Downstream, Memory, Observed, Partition, Sample, Spec};
use jiff::Timestamp;

use super::moment;

/// From a message's start to its acknowledgement.
const IN_HAND_SECONDS: f64 = 0.2;

/// From a decision to the change, which is when cooldowns begin: another controller makes it.
const APPLY_SECONDS: f64 = 1.0;

/// One vertex of a chain.
#[derive(Clone, Debug)]
pub struct Stage {
    pub name: &'static str,
    pub spec: Spec,
    /// Messages that a pod does a second.
    pub capacity: f64,
    /// From creation to ready.
    pub start_up: f64,
    pub initial: usize,
}

#[derive(Debug)]
pub struct Running {
    stage: Stage,
    pub backlog: f64,
    /// When each pod is or was ready; the newest last.
    pods: Vec<f64>,
    /// What was done in this second.
    pub moved: f64,
    pub processed: f64,
    looks: VecDeque<Look>,
    memory: Memory,
    last_scaled: Option<f64>,
    pub next_check: Option<f64>,
    /// What the last decision was about, in words.
    pub why: String,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: f64,
    sample: Sample,
}

/// Over the lookback, as far as looks have arrived.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    pub pending: i64,
    pub rate: Option<f64>,
    pub at: Timestamp,
}

impl Running {
    pub fn new(stage: &Stage) -> Running {
        Running {
            backlog: 0.0,
            pods: vec![f64::NEG_INFINITY; stage.initial],
            moved: 0.0,
            processed: 0.0,
            looks: VecDeque::new(),
            memory: Memory::default(),
            last_scaled: None,
            next_check: None,
            why: String::new(),
            stage: stage.clone(),
        }
    }

    pub fn name(&self) -> &'static str {
        self.stage.name
    }

    pub fn replicas(&self) -> usize {
        self.pods.len()
    }

    pub fn usable(&self) -> i64 {
        self.stage.spec.usable_length()
    }

    /// Messages that may still be written to its buffer; a source reads from something without end.
    pub fn room(&self) -> f64 {
        match self.stage.spec.is_source() {
            true => f64::INFINITY,
            false => (self.usable() as f64 - self.backlog).max(0.0),
        }
    }

    pub fn usage(&self) -> f64 {
        self.backlog / self.usable() as f64
    }

    pub fn next_second(&mut self) {
        self.moved = 0.0;
    }

    /// Works for `seconds` of a pod at full speed, and gives what was done.
    pub fn work(&mut self, time: f64, seconds: f64, room: f64) -> f64 {
        let can = self.ready(time) as f64 * self.stage.capacity * seconds;
        let moved = self.backlog.min(can).min(room);
        self.backlog -= moved;
        self.moved += moved;
        self.processed += moved;
        moved
    }

    fn ready(&self, time: f64) -> usize {
        self.pods.iter().filter(|ready_at| **ready_at <= time).count()
    }

    /// None if there is a pod that always was.
    fn ready_since(&self, time: f64) -> Option<f64> {
        let ready = self.pods.iter().copied().filter(|ready_at| *ready_at <= time);
        ready.reduce(f64::min).filter(|ready_at| ready_at.is_finite())
    }

    /// `pending_off` and `processed_off` are factors by which the reading is wrong.
    pub fn look(&mut self, time: f64, pending_off: f64, processed_off: f64, downstream_usage: f64) {
        let in_hand = (self.moved * IN_HAND_SECONDS).round() as i64;
        let pending = (self.backlog * pending_off).round() as i64;
        let is_source = self.stage.spec.is_source();
        let newest = self.looks.back().map_or(0.0, |look| look.sample.processed);
        let sample = Sample {
            at: moment(time),
            pending: if is_source { pending + in_hand } else { pending },
            ack_pending: if is_source { 0 } else { in_hand },
            // A pod's counter was read a little earlier or later.
            processed: (self.processed + self.moved * (processed_off - 1.0)).max(newest),
            ready: i32::try_from(self.ready(time)).unwrap_or(i32::MAX),
            downstream_usage,
        };
        self.looks.push_back(Look { at: time, sample });
        while self.looks.front().is_some_and(|look| look.at < time - 1200.0) {
            self.looks.pop_front();
        }
    }

    fn seen(&self, time: f64, lag: u64) -> impl DoubleEndedIterator<Item = &Look> {
        let (newest, oldest) = (time - lag as f64, time - self.stage.spec.scale.lookback_seconds() as f64);
        self.looks.iter().filter(move |look| look.at <= newest && look.at >= oldest)
    }

    pub fn figures(&self, time: f64, lag: u64) -> Option<Figures> {
        let (first, last) = (self.seen(time, lag).next()?, self.seen(time, lag).next_back()?);
        let waiting = |look: &Look| look.sample.pending + look.sample.ack_pending;
        let (n, sum) = self.seen(time, lag).fold((0, 0), |(n, sum), look| (n + 1, sum + waiting(look)));
        let rate = (last.at > first.at)
            .then(|| (last.sample.processed - first.sample.processed) / (last.at - first.at));
        let at_once =
            self.stage.spec.counts_at_once(moment(time), self.last_scaled.map(moment), waiting(last));
        let pending = if at_once { waiting(last) } else { sum / n };
        Some(Figures { pending, rate, at: last.sample.at })
    }

    pub fn decide(&mut self, time: f64, lag: u64, downstream: Vec<Downstream>) {
        let current = i32::try_from(self.pods.len()).unwrap_or(i32::MAX);
        let figures = self.figures(time, lag);
        let partition = Partition {
            name: self.stage.name.into(),
            pending: figures.map(|figures| figures.pending),
            ack_pending: 0,
            rate: figures.and_then(|figures| figures.rate),
            at: figures.map(|figures| figures.at),
        };
        let observed = Observed {
            current,
            desired: current,
            ready: i32::try_from(self.ready(time)).unwrap_or(i32::MAX),
            phase: "Running".into(),
            rolling_update: false,
            last_scaled_at: self.last_scaled.map(moment),
            ready_since: self.ready_since(time).map(moment),
            partitions: vec![partition],
            downstream,
            samples: self.seen(time, lag).map(|look| look.sample).collect(),
            template: None,
        };
        let decision = vertex::decide(moment(time), &self.stage.spec, &observed, &self.memory);
        self.next_check = decision
            .next_check
            .map(|at| at.duration_since(moment(0.0)).as_secs_f64().ceil())
            .filter(|at| *at > time);
        if decision.changes() {
            self.last_scaled = Some(time + APPLY_SECONDS);
            let wanted = usize::try_from(decision.desired).unwrap_or(0);
            self.pods.resize(wanted, time + self.stage.start_up);
        }
        self.why = decision.explain().to_string();
        self.memory = decision.memory;
    }
}
