//! The YAML form of a scenario.

use std::collections::BTreeMap;

use decide::recommender::amount::Resources;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Error, Load, Seconds, Shape,
    policy::{Policy, Scaler},
    world::Size,
};

/// A run may take this many steps and no more: a mistyped duration should be an answer, not a wait.
const MAX_STEPS: f64 = 10_000_000.0;

/// A scenario that was read and checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: String,
    pub description: String,
    pub seed: u64,
    pub start: Timestamp,
    pub duration: Seconds,
    pub tick: Seconds,
    pub step: Seconds,
    pub load: Load,
    pub pods: Pods,
    pub metrics: Metrics,
    pub(crate) policies: Vec<Policy>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Form {
    name: String,
    #[serde(default)]
    description: String,
    /// The same seed gives the same noise, the same lost samples and the same failed starts.
    #[serde(default)]
    seed: u64,
    #[serde(default = "a_monday")]
    start: Timestamp,
    duration: Seconds,
    /// How often a policy looks.
    #[serde(default = "fifteen_seconds")]
    tick: Seconds,
    /// How finely time passes.
    #[serde(default = "one_second")]
    step: Seconds,
    load: Vec<Shape>,
    #[serde(default)]
    pods: Pods,
    #[serde(default)]
    metrics: Metrics,
    policies: Vec<PolicyForm>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PolicyForm {
    name: String,
    /// A HorizontalPodAutoscaler (autoscaling/v2), a Deployment or StatefulSet with SlimFaas/* annotations, a Vertex or
    /// MonoVertex (numaflow.numaproj.io/v1alpha1), or an Hvpa (autoscaling.k8s.io/v1alpha1).
    manifest: serde_json::Value,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Pods {
    pub initial: usize,
    /// From creation to ready.
    pub start_up: Seconds,
    /// What one pod of the initial size serves a second.
    pub capacity: f64,
    /// From arrival to answer, while there is a free pod.
    pub service_time: Seconds,
    /// How long demand waits for a pod before it is missed; without it, it waits for ever, as messages do.
    pub patience: Option<Seconds>,
    pub requests: Resources,
    /// CPU of a pod that is fully busy; the request if left out.
    pub busy_cpu: Resources,
    /// Memory that a pod uses; half its request if left out.
    pub used_memory: Resources,
    /// The share of starts that fail and are tried again.
    pub start_failure: f64,
    pub crashes: Vec<Crash>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Crash {
    pub at: Seconds,
    #[serde(default = "one")]
    pub pods: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Metrics {
    /// How often pods are asked.
    pub interval: Seconds,
    /// From the measurement to the policy.
    pub delay: Seconds,
    /// The share of measurements that get lost.
    pub loss: f64,
    pub outages: Vec<Outage>,
    /// What the metrics and triggers that a manifest names stand for.
    pub signals: BTreeMap<String, Signal>,
}

/// No measurement comes through.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Outage {
    pub at: Seconds,
    pub length: Seconds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Signal {
    /// Demand a second, served or not.
    Load,
    /// What was served a second.
    Served,
    /// What waits.
    Backlog,
}

// === impl Scenario ===

impl Scenario {
    /// # Errors
    /// If the text is not a scenario, a number makes no sense, or a manifest is not understood.
    pub fn from_yaml(text: &str) -> Result<Scenario, Error> {
        let form: Form = serde_saphyr::from_str(text).map_err(|error| Error::Yaml(error.to_string()))?;
        form.check()?;
        let load = Load::new(&form.load, form.seed, form.start)?;
        let mut policies = Vec::with_capacity(form.policies.len());
        for (idx, policy) in form.policies.into_iter().enumerate() {
            let scaler = Scaler::from_manifest(&policy.manifest, &form.pods, &form.metrics)
                .map_err(|error| error.under(&format!("policies[{idx}].manifest")))?;
            policies.push(Policy { name: policy.name, scaler });
        }
        Ok(Scenario {
            name: form.name,
            description: form.description,
            seed: form.seed,
            start: form.start,
            duration: form.duration,
            tick: form.tick,
            step: form.step,
            load,
            pods: form.pods,
            metrics: form.metrics,
            policies,
        })
    }

    /// The JSON Schema of a scenario file.
    pub fn schema() -> schemars::Schema {
        schemars::schema_for!(Form)
    }

    /// The same story with other luck.
    pub fn with_seed(mut self, seed: u64) -> Scenario {
        self.seed = seed;
        self.load.reseed(seed);
        self
    }
}

impl Form {
    fn check(&self) -> Result<(), Error> {
        let ensure = |holds: bool, path: &str, expected: &str| {
            if holds { Ok(()) } else { Err(Error::field(path, format!("expected {expected}"))) }
        };
        let share = |value: f64| (0.0..=1.0).contains(&value);
        ensure(self.step.0 > 0.0, "step", "more than 0 seconds")?;
        ensure(self.tick.0 >= self.step.0, "tick", "no less than step")?;
        ensure(self.duration.0 >= self.tick.0, "duration", "no less than tick")?;
        ensure(
            self.duration.0 / self.step.0 <= MAX_STEPS,
            "step",
            "a longer step: the duration would take more than 10 million of them",
        )?;
        let last =
            i64::try_from(jiff::SignedDuration::from_secs_f64(self.duration.0).as_secs()).unwrap_or(i64::MAX);
        ensure(
            self.start.checked_add(jiff::SignedDuration::from_secs(last)).is_ok(),
            "start",
            "a time that leaves room for the duration",
        )?;
        ensure(self.metrics.interval.0 > 0.0, "metrics.interval", "more than 0 seconds")?;
        ensure(share(self.metrics.loss), "metrics.loss", "a share from 0 to 1")?;
        ensure(share(self.pods.start_failure), "pods.startFailure", "a share from 0 to 1")?;
        ensure(
            self.pods.capacity > 0.0 && self.pods.capacity.is_finite(),
            "pods.capacity",
            "what a pod serves a second, more than 0",
        )?;
        ensure(self.pods.initial <= 100_000, "pods.initial", "100000 or fewer")?;
        ensure(!self.load.is_empty(), "load", "at least one shape")?;
        ensure(!self.policies.is_empty(), "policies", "at least one policy")
    }
}

// === impl Pods ===

impl Pods {
    pub(crate) fn size(&self) -> Size {
        Size { cpu: self.requests.cpu.unwrap_or(0), memory: self.requests.memory.unwrap_or(0) }
    }

    /// Thousandths of a core that serving one unit a second takes.
    pub(crate) fn cpu_per_unit(&self) -> f64 {
        self.busy_cpu.cpu.or(self.requests.cpu).unwrap_or(0) as f64 / self.capacity
    }

    pub(crate) fn memory(&self) -> f64 {
        self.used_memory.memory.unwrap_or(self.requests.memory.unwrap_or(0) / 2) as f64
    }
}

impl Default for Pods {
    fn default() -> Self {
        Pods {
            initial: 1,
            start_up: Seconds(10.0),
            capacity: 100.0,
            service_time: Seconds(0.1),
            patience: Some(Seconds(0.0)),
            requests: Resources { cpu: Some(500), memory: Some(256 << 20) },
            busy_cpu: Resources::default(),
            used_memory: Resources::default(),
            start_failure: 0.0,
            crashes: Vec::new(),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            interval: fifteen_seconds(),
            delay: Seconds(0.0),
            loss: 0.0,
            outages: Vec::new(),
            signals: BTreeMap::new(),
        }
    }
}

fn a_monday() -> Timestamp {
    // 2026-01-05T00:00:00Z
    Timestamp::from_second(1_767_571_200).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn fifteen_seconds() -> Seconds {
    Seconds(15.0)
}

fn one_second() -> Seconds {
    Seconds(1.0)
}

fn one() -> usize {
    1
}
