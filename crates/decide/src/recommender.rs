//! The decaying-histogram recommender: usage samples in, request sizes out.
//!
//! ```text
//! samples, out-of-memory kills ──> histograms (usage) ──> percentile ─> margin ─> confidence ─> pod minimum ─> policy
//! ```
//!
//! A container without samples of a resource gets no figure for that resource: no data is not low usage.

pub mod amount;
pub mod checkpoint;
mod estimate;
mod histogram;
mod priority;
mod totals;
mod usage;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    decision::Step,
    input::InputError,
    quantity::{Figure, Quantity},
};
use amount::{Resource, Resources, Usage};

pub use checkpoint::Checkpoint;
pub use estimate::{Amount, Bound, Rule};
pub use histogram::{Buckets, Decaying, Histogram};
pub use priority::{Priority, Sizes, priority};
pub use totals::Total;
pub use usage::{Container, Discarded, PeakUpdate, PodWindow};

/// What the JSON form takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Input {
    pub now: Timestamp,
    #[serde(default)]
    pub spec: Spec,
    #[serde(default)]
    pub observed: Observed,
    #[serde(default)]
    pub memory: Memory,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// By container name; `*` stands for all that are not named.
    #[serde(default)]
    pub container_policies: Vec<ContainerPolicy>,
    /// The largest figures for containers whose policy sets no maximum.
    #[serde(default)]
    pub max_allowed: Resources,
    #[serde(default)]
    pub options: Options,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerPolicy {
    pub container_name: String,
    #[serde(default)]
    pub mode: ContainerMode,
    #[serde(default)]
    pub min_allowed: Resources,
    #[serde(default)]
    pub max_allowed: Resources,
    #[serde(default = "Resource::all")]
    pub controlled_resources: Vec<Resource>,
    #[serde(default)]
    pub controlled_values: ControlledValues,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContainerMode {
    #[default]
    Auto,
    Off,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ControlledValues {
    #[default]
    RequestsAndLimits,
    RequestsOnly,
}

/// The figures of the Vertical Pod Autoscaler 1.8, all of which can be set: short-lived workloads want shorter times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Options {
    pub target_percentile: f64,
    pub lower_percentile: f64,
    pub upper_percentile: f64,
    /// Added on top of every percentile: 0.15 is 15 %.
    pub margin_fraction: f64,
    pub cpu_half_life_seconds: i64,
    pub memory_half_life_seconds: i64,
    /// One memory peak a pod is kept per interval.
    pub memory_interval_seconds: i64,
    /// Without a sample for this many intervals a container's history is dropped.
    pub memory_interval_count: i32,
    /// The span of samples, one a minute, that makes a confidence of 1.
    pub confidence_interval_seconds: i64,
    pub oom_bump_up_ratio: f64,
    #[serde(with = "amount::memory")]
    #[schemars(with = "Quantity")]
    pub oom_min_bump_up: u64,
    /// The least a whole pod is given, shared by its containers.
    pub pod_minimum: Resources,
    /// Recommendations are rounded up to multiples of this.
    pub rounding: Resources,
    /// Also learn what all pods use together, and estimate what they need together.
    pub learn_totals: bool,
    /// Samples within such an interval are added up, the newest of each pod.
    pub total_interval_seconds: i64,
    /// Short, because replicas can follow a load within the day: the 90th percentile forgets a peak after 3.3 of these.
    pub total_half_life_seconds: i64,
    /// Containers whose CPU is rounded up to whole cores, as pinned CPUs need.
    pub integer_cpu_containers: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Observed {
    /// Of all pods that there are.
    #[serde(default)]
    pub samples: Vec<Sample>,
    #[serde(default)]
    pub out_of_memory: Vec<OutOfMemory>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sample {
    pub at: Timestamp,
    pub pod: String,
    pub container: String,
    #[serde(default)]
    pub usage: Usage,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutOfMemory {
    pub at: Timestamp,
    pub pod: String,
    pub container: String,
    /// The memory request of the container when it was killed.
    #[serde(with = "amount::usage")]
    #[schemars(with = "Figure")]
    pub request: f64,
}

/// Everything that was learnt, exactly; [`Container::save`] gives the lossy form other recommenders read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Memory {
    #[serde(default)]
    pub containers: BTreeMap<String, Container>,
    /// What all pods use together, by container name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub totals: BTreeMap<String, Total>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recommendation {
    /// Sorted by name.
    pub containers: Vec<ContainerRecommendation>,
    pub discarded: Vec<DiscardedSample>,
    pub memory: Memory,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecommendation {
    pub container_name: String,
    pub target: Resources,
    pub lower_bound: Resources,
    pub upper_bound: Resources,
    /// The target before the container's policy was applied: tells "clamped" from "satisfied".
    pub uncapped_target: Resources,
    /// What all pods need together, before any policy: that speaks of single pods.
    #[serde(default, skip_serializing_if = "TotalRecommendation::is_empty")]
    pub total: TotalRecommendation,
    pub confidence: f64,
    pub estimates: Vec<Estimate>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TotalRecommendation {
    pub target: Resources,
    pub lower_bound: Resources,
    pub upper_bound: Resources,
}

/// How one figure came about.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    pub resource: Resource,
    pub bound: Bound,
    /// Of all pods together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_total: bool,
    pub steps: Vec<Step<Rule>>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscardedSample {
    pub at: Timestamp,
    pub pod: String,
    pub container: String,
    pub resource: Resource,
    pub why: Discarded,
}

/// Learns from the observation, then estimates.
pub fn recommend(now: Timestamp, spec: &Spec, observed: &Observed, memory: &Memory) -> Recommendation {
    let mut memory = memory.clone();
    let discarded = memory.learn(now, &spec.options, observed);
    let containers = estimate::containers(spec, &memory);
    Recommendation { containers, discarded, memory }
}

// === impl Input ===

impl Input {
    /// # Errors
    /// If an option makes no sense.
    pub fn recommend(self) -> Result<Recommendation, InputError> {
        self.spec.options.validate().map_err(|error| error.under("spec.options"))?;
        Ok(recommend(self.now, &self.spec, &self.observed, &self.memory))
    }
}

// === impl Memory ===

impl Memory {
    /// Takes samples in order of time, whatever order they came in, and forgets what is over.
    pub fn learn(&mut self, now: Timestamp, options: &Options, observed: &Observed) -> Vec<DiscardedSample> {
        let mut discarded = Vec::new();
        let mut note = |at, pod: &str, container: &str, resource, outcome: Result<(), Discarded>| {
            if let Err(why) = outcome {
                discarded.push(DiscardedSample {
                    at,
                    pod: pod.to_owned(),
                    container: container.to_owned(),
                    resource,
                    why,
                });
            }
        };
        let mut samples: Vec<&Sample> = observed.samples.iter().collect();
        samples.sort_by(|a, b| {
            (a.at, &a.pod, &a.container)
                .cmp(&(b.at, &b.pod, &b.container))
                .then_with(|| a.usage.cmp_total(&b.usage))
        });
        for (name, total) in &mut self.totals {
            let look: Vec<&Sample> =
                samples.iter().copied().filter(|sample| sample.container == *name).collect();
            total.keep(options, &look);
        }
        let mut kills: Vec<&OutOfMemory> = observed.out_of_memory.iter().collect();
        kills.sort_by(|a, b| {
            (a.at, &a.pod, &a.container)
                .cmp(&(b.at, &b.pod, &b.container))
                .then_with(|| a.request.total_cmp(&b.request))
        });
        let mut kills = kills.into_iter().peekable();
        let mut kill = |memory: &mut Memory, kill: &OutOfMemory| {
            let container = memory.containers.entry(kill.container.clone()).or_default();
            let outcome = container.out_of_memory(options, now, &kill.pod, kill.at, kill.request);
            note(kill.at, &kill.pod, &kill.container, Resource::Memory, outcome);
        };
        let mut sample_outcomes = Vec::new();
        for sample in samples {
            while let Some(earlier) = kills.next_if(|kill| kill.at < sample.at) {
                kill(self, earlier);
            }
            if options.learn_totals {
                self.totals.entry(sample.container.clone()).or_default().observe(options, now, sample);
            }
            let container = self.containers.entry(sample.container.clone()).or_default();
            if let Some(cores) = sample.usage.cpu {
                let outcome = container.cpu_sample(options, now, &sample.pod, sample.at, cores);
                sample_outcomes.push((sample, Resource::Cpu, outcome));
            }
            if let Some(bytes) = sample.usage.memory {
                let outcome = container.memory_sample(options, now, &sample.pod, sample.at, bytes);
                sample_outcomes.push((sample, Resource::Memory, outcome));
            }
        }
        for later in kills {
            kill(self, later);
        }
        for total in self.totals.values_mut() {
            total.close_if_over(options, now);
        }
        self.totals.retain(|_, total| !total.is_expired(options, now));
        for (sample, resource, outcome) in sample_outcomes {
            note(sample.at, &sample.pod, &sample.container, resource, outcome);
        }
        self.containers.retain(|_, container| !container.is_expired(options, now));
        for container in self.containers.values_mut() {
            container.prune(options, now);
        }
        discarded
    }
}

// === impl TotalRecommendation ===

impl TotalRecommendation {
    fn is_empty(&self) -> bool {
        *self == TotalRecommendation::default()
    }
}

// === impl Recommendation ===

impl Recommendation {
    /// Every figure with the steps that led to it, and what was not used.
    pub fn explain(&self) -> Explanation<'_> {
        Explanation(self)
    }
}

/// The text form of a recommendation.
#[derive(Debug)]
pub struct Explanation<'a>(&'a Recommendation);

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.containers.is_empty() {
            f.write_str("no recommendation: there are no samples")?;
        }
        for (idx, container) in self.0.containers.iter().enumerate() {
            let lead = if idx == 0 { "" } else { "\n" };
            let ContainerRecommendation { container_name, target, confidence, .. } = container;
            write!(f, "{lead}{container_name}  {target}  (confidence {confidence:.3})")?;
            for Estimate { resource, bound, is_total, steps } in &container.estimates {
                let of_all = if *is_total { " of all pods" } else { "" };
                write!(f, "\n  {resource} {}{of_all}", bound.word())?;
                for step in steps {
                    write!(f, "\n    {} -> {}  {}", step.before, step.after, step.words())?;
                }
            }
        }
        for DiscardedSample { at, pod, container, resource, why } in &self.0.discarded {
            write!(f, "\n  not used: {resource} of {pod}/{container} at {at} {}", why.words())?;
        }
        Ok(())
    }
}

// === impl Spec ===

impl Spec {
    pub fn policy(&self, container: &str) -> Option<&ContainerPolicy> {
        policy_of(&self.container_policies, container)
    }
}

/// The policy named after the container, else the one for `*`.
pub fn policy_of<'a>(policies: &'a [ContainerPolicy], container: &str) -> Option<&'a ContainerPolicy> {
    let named = |name: &str| policies.iter().find(|policy| policy.container_name == name);
    named(container).or_else(|| named("*"))
}

// === impl Options ===

const DAY_SECONDS: i64 = 24 * 60 * 60;

impl Default for Options {
    fn default() -> Self {
        Options {
            target_percentile: 0.9,
            lower_percentile: 0.5,
            upper_percentile: 0.95,
            margin_fraction: 0.15,
            cpu_half_life_seconds: DAY_SECONDS,
            memory_half_life_seconds: DAY_SECONDS,
            memory_interval_seconds: DAY_SECONDS,
            memory_interval_count: 8,
            confidence_interval_seconds: DAY_SECONDS,
            oom_bump_up_ratio: 1.2,
            oom_min_bump_up: 100 << 20,
            pod_minimum: Resources { cpu: Some(25), memory: Some(250 << 20) },
            rounding: Resources::default(),
            learn_totals: false,
            total_interval_seconds: 60,
            total_half_life_seconds: 600,
            integer_cpu_containers: Vec::new(),
        }
    }
}

impl Options {
    pub(crate) fn cpu_half_life(&self) -> SignedDuration {
        at_least_a_second(self.cpu_half_life_seconds)
    }

    pub(crate) fn memory_half_life(&self) -> SignedDuration {
        at_least_a_second(self.memory_half_life_seconds)
    }

    pub(crate) fn memory_interval(&self) -> SignedDuration {
        at_least_a_second(self.memory_interval_seconds)
    }

    pub(crate) fn confidence_interval(&self) -> SignedDuration {
        at_least_a_second(self.confidence_interval_seconds)
    }

    /// # Errors
    /// If a figure makes no sense.
    pub fn validate(&self) -> Result<(), InputError> {
        let percentile = |p: f64| (0.0..=1.0).contains(&p);
        let positive = |seconds: i64| (1..=i64::from(u32::MAX)).contains(&seconds);
        let checks = [
            (percentile(self.target_percentile), "targetPercentile", "a number from 0 to 1"),
            (percentile(self.lower_percentile), "lowerPercentile", "a number from 0 to 1"),
            (percentile(self.upper_percentile), "upperPercentile", "a number from 0 to 1"),
            (self.margin_fraction >= 0.0, "marginFraction", "a number of 0 or more"),
            (positive(self.cpu_half_life_seconds), "cpuHalfLifeSeconds", "1 second or more"),
            (positive(self.memory_half_life_seconds), "memoryHalfLifeSeconds", "1 second or more"),
            (positive(self.memory_interval_seconds), "memoryIntervalSeconds", "1 second or more"),
            (self.memory_interval_count >= 1, "memoryIntervalCount", "1 or more"),
            (positive(self.confidence_interval_seconds), "confidenceIntervalSeconds", "1 second or more"),
            (positive(self.total_interval_seconds), "totalIntervalSeconds", "1 second or more"),
            (positive(self.total_half_life_seconds), "totalHalfLifeSeconds", "1 second or more"),
            (self.oom_bump_up_ratio >= 1.0, "oomBumpUpRatio", "a number of 1 or more"),
        ];
        match checks.into_iter().find(|(holds, ..)| !holds) {
            None => Ok(()),
            Some((_, field, expected)) => Err(InputError::new(field, format!("expected {expected}"))),
        }
    }
}

fn at_least_a_second(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds.clamp(1, u32::MAX.into()))
}
