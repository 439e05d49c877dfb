//! What is remembered of a container: two histograms over all its pods, and each pod's open day of memory.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Options,
    amount::{self, Resource},
    histogram::{Buckets, Decaying},
};

/// Every CPU sample weighs the same; a heavier weight for bigger requests let one resized pod outvote the rest.
const CPU_SAMPLE_WEIGHT: f64 = 0.1;
const MEMORY_SAMPLE_WEIGHT: f64 = 1.0;

/// A clock on another node may run ahead a little; a sample further in the future would outweigh all honest ones.
const MAX_CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The history of one container name over all pods of the workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Container {
    pub(super) cpu: Decaying,
    pub(super) memory: Decaying,
    /// First, last and number count CPU samples only: they come at a steady pace, memory peaks do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) first_sample: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_sample: Option<Timestamp>,
    #[serde(default)]
    pub(super) n_samples: u64,
    #[serde(default)]
    pub(super) pods: BTreeMap<String, PodWindow>,
}

/// One pod's progress through its current memory interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodWindow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_cpu: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_memory: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    window_end: Option<Timestamp>,
    /// Kept apart, because the bump after an out-of-memory kill starts from real usage: starting from the last
    /// bump would compound 20 % at every restart.
    memory_peak: u64,
    oom_peak: u64,
}

/// What a memory sample changes in the histogram; both parts are stamped with the end of the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeakUpdate {
    pub window_end: Timestamp,
    pub subtract: Option<u64>,
    pub add: u64,
}

/// Why a sample was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Discarded {
    NotANumber,
    Negative,
    InTheFuture,
    NotNewer,
    OomTooOld,
}

// === impl Discarded ===

impl Discarded {
    pub fn words(self) -> &'static str {
        match self {
            Discarded::NotANumber => "is not a finite number",
            Discarded::Negative => "is negative",
            Discarded::InTheFuture => "lies in the future",
            Discarded::NotNewer => "is not newer than the last sample of its pod",
            Discarded::OomTooOld => "is an out-of-memory kill older than the pod's current memory interval",
        }
    }
}

// === impl Container ===

impl Container {
    pub fn cpu_sample(
        &mut self,
        options: &Options,
        now: Timestamp,
        pod: &str,
        ts: Timestamp,
        cores: f64,
    ) -> Result<(), Discarded> {
        let milli = valid_amount(now, ts, cores, Resource::Cpu)?;
        let window = self.pods.entry(pod.to_owned()).or_default();
        if window.last_cpu.is_some_and(|last| ts <= last) {
            return Err(Discarded::NotNewer);
        }
        window.last_cpu = Some(ts);
        self.cpu.add(
            &Buckets::cpu(),
            options.cpu_half_life(),
            ts,
            Resource::Cpu.units(milli),
            CPU_SAMPLE_WEIGHT,
        );
        self.first_sample = Some(self.first_sample.map_or(ts, |first| first.min(ts)));
        self.last_sample = Some(self.last_sample.map_or(ts, |last| last.max(ts)));
        self.n_samples = self.n_samples.saturating_add(1);
        Ok(())
    }

    pub fn memory_sample(
        &mut self,
        options: &Options,
        now: Timestamp,
        pod: &str,
        ts: Timestamp,
        bytes: f64,
    ) -> Result<(), Discarded> {
        let bytes = valid_amount(now, ts, bytes, Resource::Memory)?;
        let window = self.pods.entry(pod.to_owned()).or_default();
        if window.last_memory.is_some_and(|last| ts < last) {
            return Err(Discarded::NotNewer);
        }
        let update = window.observe(options.memory_interval(), ts, bytes, false);
        self.apply(options, update);
        Ok(())
    }

    /// A container killed for memory needed more than it had: 20 % or 100 Mi more, whichever is greater.
    pub fn out_of_memory(
        &mut self,
        options: &Options,
        now: Timestamp,
        pod: &str,
        ts: Timestamp,
        request: f64,
    ) -> Result<(), Discarded> {
        let request = valid_amount(now, ts, request, Resource::Memory)?;
        let window = self.pods.entry(pod.to_owned()).or_default();
        let oldest = window.last_memory.and_then(|last| last.checked_sub(options.memory_interval()).ok());
        if oldest.is_some_and(|oldest| ts < oldest) {
            return Err(Discarded::OomTooOld);
        }
        let used = request.max(window.memory_peak);
        let needed =
            used.saturating_add(options.oom_min_bump_up).max(amount::scaled(used, options.oom_bump_up_ratio));
        let update = window.observe(options.memory_interval(), ts, needed.min(amount::MAX), true);
        self.apply(options, update);
        Ok(())
    }

    fn apply(&mut self, options: &Options, update: Option<PeakUpdate>) {
        let Some(PeakUpdate { window_end, subtract, add }) = update else { return };
        let (buckets, half_life) = (Buckets::memory(), options.memory_half_life());
        if let Some(old) = subtract {
            self.memory.subtract(&buckets, half_life, window_end, old as f64, MEMORY_SAMPLE_WEIGHT);
        }
        self.memory.add(&buckets, half_life, window_end, add as f64, MEMORY_SAMPLE_WEIGHT);
    }

    /// How much history stands behind an estimate, in days of one sample a minute; the span and the number must
    /// both be there.
    pub fn confidence(&self, options: &Options) -> f64 {
        let (Some(first), Some(last)) = (self.first_sample, self.last_sample) else { return 0.0 };
        let interval = options.confidence_interval().as_secs_f64().max(1.0);
        let lifespan = last.duration_since(first).as_secs_f64() / interval;
        let samples = self.n_samples as f64 / (interval / 60.0);
        lifespan.min(samples)
    }

    /// Pods come and go: a pod that reported nothing for a whole interval holds nothing that is still open.
    pub(super) fn prune(&mut self, options: &Options, now: Timestamp) {
        self.pods.retain(|_, window| {
            window.last_seen().is_some_and(|last| now.duration_since(last) <= options.memory_interval())
        });
    }

    pub(super) fn is_expired(&self, options: &Options, now: Timestamp) -> bool {
        let last = self.pods.values().filter_map(PodWindow::last_seen).chain(self.last_sample).max();
        let keep = options.memory_interval().saturating_mul(options.memory_interval_count);
        last.is_none_or(|last| now.duration_since(last) >= keep)
    }

    pub(super) fn forget_open_peaks(&mut self, options: &Options, now: Timestamp) {
        let open: Vec<(Timestamp, u64)> = self
            .pods
            .values()
            .filter_map(|window| Some((window.window_end?, window.max_peak())))
            .filter(|&(end, peak)| now < end && peak > 0)
            .collect();
        for (end, peak) in open {
            let half_life = options.memory_half_life();
            self.memory.subtract(&Buckets::memory(), half_life, end, peak as f64, MEMORY_SAMPLE_WEIGHT);
        }
    }
}

// === impl PodWindow ===

impl PodWindow {
    pub fn observe(
        &mut self,
        interval: SignedDuration,
        ts: Timestamp,
        bytes: u64,
        is_oom: bool,
    ) -> Option<PeakUpdate> {
        self.last_memory = Some(self.last_memory.map_or(ts, |last| last.max(ts)));
        let window_end = self.window_end.unwrap_or(ts);
        let (window_end, subtract) = if ts < window_end {
            let old = self.max_peak();
            if old == 0 || bytes <= old {
                return None;
            }
            (window_end, Some(old))
        } else {
            let interval_nanos = interval.as_nanos().max(1);
            let past = ts.as_nanosecond() - window_end.as_nanosecond();
            let shift = past - past.rem_euclid(interval_nanos) + interval_nanos;
            let next =
                Timestamp::from_nanosecond(window_end.as_nanosecond() + shift).unwrap_or(Timestamp::MAX);
            (self.memory_peak, self.oom_peak) = (0, 0);
            (next, None)
        };
        self.window_end = Some(window_end);
        if is_oom {
            self.oom_peak = bytes;
        } else {
            self.memory_peak = bytes;
        }
        Some(PeakUpdate { window_end, subtract, add: bytes })
    }

    fn max_peak(&self) -> u64 {
        self.memory_peak.max(self.oom_peak)
    }

    fn last_seen(&self) -> Option<Timestamp> {
        self.last_cpu.max(self.last_memory)
    }
}

fn valid_amount(now: Timestamp, ts: Timestamp, value: f64, resource: Resource) -> Result<u64, Discarded> {
    if !value.is_finite() {
        return Err(Discarded::NotANumber);
    }
    if value < 0.0 {
        return Err(Discarded::Negative);
    }
    if ts.duration_since(now) > MAX_CLOCK_SKEW {
        return Err(Discarded::InTheFuture);
    }
    Ok(resource.amount(value))
}
