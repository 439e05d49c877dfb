//! The YAML form of a scenario.

use std::collections::BTreeMap;

use decide::recommender::amount::Resources;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Error, Load, Seconds, Shape,
    policy::{Policy, Scaler},
    series::SeriesForm,
    world::Size,
};

/// A run may take this many steps and no more: a mistyped duration should be an answer, not a wait.
const MAX_STEPS: f64 = 10_000_000.0;

/// Thirty years.
const MAX_DURATION: f64 = 30.0 * 365.25 * 86_400.0;

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
    /// MonoVertex (numaflow.numaproj.io/v1alpha1), an Hvpa (autoscaling.k8s.io/v1alpha1), a VerticalPodAutoscaler
    /// (autoscaling.k8s.io/v1), or a List of a HorizontalPodAutoscaler and a VerticalPodAutoscaler that know nothing of each other.
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
    /// How long a pod takes to run at a new size in place; if left out, pods are replaced in a rolling update.
    pub resize: Option<Seconds>,
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
    /// What the metrics that a HorizontalPodAutoscaler or an Hvpa names stand for.
    pub signals: BTreeMap<String, Signal>,
    /// What pods expose, for the PromQL triggers of a function on demand.
    pub series: Vec<SeriesForm>,
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
        let nowhere = |name: &str| Err(format!("there is no folder to look for {name:?} in"));
        Scenario::read(text, &nowhere)
    }

    /// As `from_yaml`; `file` reads what lies beside the scenario, by the name that the scenario calls it.
    ///
    /// # Errors
    /// As `from_yaml`, and if a file cannot be read.
    pub fn read(text: &str, file: &dyn Fn(&str) -> Result<String, String>) -> Result<Scenario, Error> {
        let form: Form = serde_saphyr::from_str(text).map_err(|error| {
            let message = error.to_string();
            Error::Yaml(message.strip_prefix("error: ").unwrap_or(&message).to_owned())
        })?;
        form.check()?;
        let load = Load::new(&form.load, form.seed, form.start, file)?;
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

    /// Only the first `n` policies.
    pub fn with_policies(mut self, n: usize) -> Scenario {
        self.policies.truncate(n);
        self
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
        ensure(self.duration.0 <= MAX_DURATION, "duration", "30 years or less")?;
        let length = jiff::SignedDuration::from_secs_f64(self.duration.0);
        ensure(self.start.checked_add(length).is_ok(), "start", "a time that leaves room for the duration")?;
        ensure(self.metrics.interval.0 > 0.0, "metrics.interval", "more than 0 seconds")?;
        for (idx, series) in self.metrics.series.iter().enumerate() {
            let path = format!("metrics.series[{idx}]");
            ensure(!series.name.is_empty(), &format!("{path}.name"), "the name of a metric")?;
            ensure(series.factor.is_finite(), &format!("{path}.factor"), "a finite number")?;
        }
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
            resize: None,
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
            series: Vec::new(),
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

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const HPA: &str = "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {maxReplicas: 3}}";

    fn error(top: &str, manifest: &str) -> String {
        let yaml = format!("name: x\n{top}\npolicies: [{{name: a, manifest: {manifest}}}]\n");
        match Scenario::from_yaml(&yaml) {
            Ok(_) => format!("accepted: {yaml}"),
            // Without the excerpt, which shows what the test already says.
            Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn bad_scenarios_name_the_field() {
        let fine = "duration: 1h\nload: [{shape: constant, value: 1}]";
        let with = |more: &str| error(&format!("{fine}\n{more}"), HPA);
        let errors = [
            error("duration: soon\nload: []", HPA),
            error("duration: 1h\nload: []", HPA),
            error("duration: 1h\nload: [{shape: hill, value: 1}]", HPA),
            error("duration: 1h\nload: [{shape: constant, value: .nan}]", HPA),
            error("duration: 1h\nload: [{shape: wave, low: 1, high: 2, period: 0}]", HPA),
            error("duration: 1h\nload: [{shape: trace, csv: \"a,b\\n1,x\"}]", HPA),
            error("duration: 1h\nload: [{shape: trace, file: load.csv}]", HPA),
            with("tick: 0"),
            error("duration: 5000h\nload: [{shape: constant, value: 1}]", HPA),
            error("duration: 1e300\nstep: 1e299\ntick: 1e299\nload: [{shape: constant, value: 1}]", HPA),
            with("metrics: {loss: 2}"),
            with("pods: {capacity: 0}"),
            with("podz: {}"),
            error(fine, "{apiVersion: v1, kind: Pod}"),
            error(
                fine,
                "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {minReplicas: 3, maxReplicas: 1}}",
            ),
            error(
                fine,
                "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {maxReplicas: 3, metrics: [{type: External, external: {metric: {name: depth}, target: {type: Value, value: 5}}}]}}",
            ),
            error(
                fine,
                "{apiVersion: apps/v1, kind: Deployment, metadata: {annotations: {SlimFaas/ReplicasMin: many}}}",
            ),
            error(
                fine,
                "{apiVersion: apps/v1, kind: Deployment, metadata: {annotations: {SlimFaas/Scale: '{\"ReplicaMax\": \"x\"}'}}}",
            ),
            error(
                fine,
                "{apiVersion: apps/v1, kind: Deployment, metadata: {annotations: {SlimFaas/Scale: '{\"Triggers\": [{\"Query\": \"sum(x)\", \"Threshold\": 1}]}'}}}",
            ),
            error(
                fine,
                "{apiVersion: numaflow.numaproj.io/v1alpha1, kind: Vertex, spec: {scale: {min: 4, max: 2}, sink: {}}}",
            ),
            error(
                fine,
                "{apiVersion: autoscaling.k8s.io/v1alpha1, kind: Hvpa, spec: {hpa: {template: {spec: {maxReplicas: 3}}}}}",
            ),
        ];
        expect![[r#"
            the scenario cannot be read: line 2 column 1: invalid value: string "soon", expected a length of time such as 90s, 5m, 1h30m or a number of seconds, 0 or more
            load: expected at least one shape
            the scenario cannot be read: line 3 column 9: unknown variant `hill`, expected one of constant, step, spike, ramp, wave, noise, trace
            the scenario cannot be read: line 3 column 33: non-finite float `.nan` rejected by the configured policy
            load[0].period: expected more than 0 seconds
            load[0].csv: line 2: expected "time,value", found "1,x"
            load[0].file: there is no folder to look for "load.csv" in
            tick: expected no less than step
            step: expected a longer step: the duration would take more than 10 million of them
            duration: expected 30 years or less
            metrics.loss: expected a share from 0 to 1
            pods.capacity: expected what a pod serves a second, more than 0
            the scenario cannot be read: line 4 column 1: unknown field `podz`, expected one of name, description, seed, start, duration, tick, step, load, pods, metrics, policies
            policies[0].manifest.kind: expected an autoscaling/v2 HorizontalPodAutoscaler, an apps/v1 Deployment or StatefulSet, a numaflow.numaproj.io/v1alpha1 Vertex or MonoVertex, an autoscaling.k8s.io/v1alpha1 Hvpa, an autoscaling.k8s.io/v1 VerticalPodAutoscaler, or a v1 List of a HorizontalPodAutoscaler and a VerticalPodAutoscaler, found "v1" "Pod"
            policies[0].manifest.spec.maxReplicas: expected a number from 3 to 2147483647, found 1
            policies[0].manifest.spec.metrics[0].external.metric.name: nothing is known of "depth"; say under metrics.signals whether it stands for load, served or backlog
            policies[0].manifest.annotations[SlimFaas/ReplicasMin]: expected a whole number from 0 to 150000, found "many"
            policies[0].manifest.annotations[SlimFaas/Scale]: ReplicaMax: expected a whole number of at most 2147483647, found "x" at line 1 column 17
            policies[0].manifest.annotations[SlimFaas/Scale].Triggers[0].Query: nothing is known of "x"; say under metrics.series what it follows
            policies[0].manifest.spec.scale.max: expected a number from 4 to 2147483647, found 2
            policies[0].manifest.spec: missing field `targetRef`"#]].assert_eq(&errors.join("\n"));
    }

    #[test]
    fn the_schema_is_closed() {
        let schema = Scenario::schema().to_value();
        assert_eq!(schema["additionalProperties"], serde_json::json!(false));
    }
}
