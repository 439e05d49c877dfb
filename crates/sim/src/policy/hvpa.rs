use decide::{
    hpa::input::{MetricForm, SpecForm},
    hvpa::{
        self, Axis, ChangeParams, ContainerRecommendation, ContainerSize, Horizontal,
        HorizontalRecommendation, Interval, MaintenanceWindow, Memory, Mode, Observed, Ratio, ScaleParams,
        ScaleType, Spec, UpdateMode, Vertical, VerticalRecommendation,
    },
    recommender::{
        self, ContainerPolicy, Sample,
        amount::{Resources, Usage},
    },
};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::{Outcome, View, hpa, part};
use crate::{
    Error,
    scenario::{Metrics, Pods},
    world::Size,
};

/// The one container of a simulated pod.
const CONTAINER: &str = "app";

/// How often the recommender is fed.
const SAMPLE_EVERY: f64 = 60.0;

#[derive(Clone, Debug)]
pub struct Scaler {
    spec: Spec,
    memory: Memory,
    horizontal: hpa::Scaler,
    recommender: recommender::Spec,
    learnt: recommender::Memory,
    recommended: Option<VerticalRecommendation>,
    last_sample: Option<f64>,
}

/// `spec` of an Hvpa. Beside the fields of the public type, `mode` names one of the five modes, and the ratio's own fields are
/// taken too; without either, the weight-based intervals count.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Form {
    #[serde(default)]
    mode: Option<Mode>,
    #[serde(default)]
    ratio_based_scaling_spec: Option<Ratio>,
    #[serde(default)]
    initial_scaling: Option<Axis>,
    #[serde(default)]
    final_scaling: Option<Axis>,
    #[serde(default)]
    weight_based_scaling_intervals: Vec<Interval>,
    #[serde(default)]
    maintenance_time_window: Option<MaintenanceWindow>,
    hpa: HpaForm,
    #[serde(default)]
    vpa: VpaForm,
    #[serde(default, rename = "replicas")]
    _replicas: Option<i32>,
    #[serde(default, rename = "targetRef")]
    _target_ref: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HpaForm {
    #[serde(default = "yes")]
    deploy: bool,
    #[serde(default)]
    scale_up: ScaleTypeForm,
    #[serde(default)]
    scale_down: ScaleTypeForm,
    template: HpaTemplateForm,
    #[serde(default, rename = "selector")]
    _selector: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HpaTemplateForm {
    spec: HpaSpecForm,
    #[serde(default, rename = "metadata")]
    _metadata: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HpaSpecForm {
    #[serde(default)]
    min_replicas: Option<i32>,
    max_replicas: i32,
    #[serde(default)]
    metrics: Vec<MetricForm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct VpaForm {
    #[serde(default = "yes", rename = "deploy")]
    _deploy: bool,
    #[serde(default)]
    scale_up: ScaleTypeForm,
    #[serde(default)]
    scale_down: ScaleTypeForm,
    #[serde(default)]
    template: VpaTemplateForm,
    #[serde(default)]
    limits_requests_gap_scale_params: ScaleParamsForm,
    #[serde(default, rename = "selector")]
    _selector: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct VpaTemplateForm {
    #[serde(default)]
    spec: VpaSpecForm,
    #[serde(default, rename = "metadata")]
    _metadata: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct VpaSpecForm {
    #[serde(default)]
    resource_policy: ResourcePolicyForm,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourcePolicyForm {
    #[serde(default)]
    container_policies: Vec<ContainerPolicy>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScaleTypeForm {
    #[serde(default)]
    update_policy: UpdatePolicyForm,
    #[serde(default)]
    min_change: ScaleParamsForm,
    #[serde(default)]
    stabilization_duration: Option<SignedDuration>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UpdatePolicyForm {
    #[serde(default)]
    update_mode: UpdateMode,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScaleParamsForm {
    #[serde(default)]
    cpu: ChangeParams,
    #[serde(default)]
    memory: ChangeParams,
    #[serde(default, rename = "replicas")]
    _replicas: ChangeParams,
}

impl Scaler {
    pub fn new(manifest: &Value, pods: &Pods, metrics: &Metrics) -> Result<Scaler, Error> {
        if pods.requests.cpu.is_none() {
            return Err(Error::field("", "sizes can only change if pods.requests gives one to start from"));
        }
        let form: Form = part(manifest, "/spec")?;
        let hpa_spec = SpecForm {
            min_replicas: form.hpa.template.spec.min_replicas,
            max_replicas: form.hpa.template.spec.max_replicas,
            metrics: form.hpa.template.spec.metrics.clone(),
            ..SpecForm::default()
        };
        let horizontal = hpa::Scaler::from_spec(hpa_spec, metrics)
            .map_err(|error| error.under("spec.hpa.template.spec"))?;
        let (min_replicas, max_replicas) = horizontal.bounds();
        let container_policies = form.vpa.template.spec.resource_policy.container_policies.clone();
        let spec = Spec {
            mode: form.mode()?,
            min_replicas,
            max_replicas,
            horizontal: Horizontal {
                deployed: form.hpa.deploy,
                scale_up: form.hpa.scale_up.resolve(),
                scale_down: form.hpa.scale_down.resolve(),
            },
            vertical: Vertical {
                scale_up: form.vpa.scale_up.resolve(),
                scale_down: form.vpa.scale_down.resolve(),
                container_policies: container_policies.clone(),
                limits_requests_gap: form.vpa.limits_requests_gap_scale_params.resolve(),
                ..Vertical::default()
            },
            maintenance_time_window: form.maintenance_time_window,
            oom_override: true,
            staleness_seconds: 300,
            tolerance: 0.1,
        };
        spec.validate().map_err(|error| Error::from(error).under("spec"))?;
        Ok(Scaler {
            spec,
            memory: Memory::default(),
            horizontal,
            recommender: recommender::Spec { container_policies, ..recommender::Spec::default() },
            learnt: recommender::Memory::default(),
            recommended: None,
            last_sample: None,
        })
    }

    pub fn decide(&mut self, view: &View<'_>) -> Outcome {
        let now = view.now();
        self.learn(view, now);
        let size = view.world.size();
        let advice = self.horizontal.decision(view);
        let horizontal = HorizontalRecommendation {
            desired: advice.desired,
            active: !matches!(advice.reason.code, "NoValidMetric" | "InvalidMetricBlocksScaleDown"),
            limited: false,
            sampled_at: view.sample.map(|sample| view.moment(sample.at)),
        };
        let observed = Observed {
            replicas: view.replicas,
            containers: vec![ContainerSize {
                name: CONTAINER.to_owned(),
                requests: Resources { cpu: Some(size.cpu), memory: Some(size.memory) },
                limits: Resources::default(),
            }],
            horizontal: Some(horizontal),
            vertical: self.recommended.clone(),
            rollout_in_progress: view.world.is_rolling(),
            out_of_memory: Vec::new(),
        };
        let mut decision = hvpa::decide(now, &self.spec, &observed, &self.memory);
        self.memory = std::mem::take(&mut decision.memory);
        // The horizontal side is told what became of its advice, or its own windows would argue with a count that
        // was never applied.
        self.horizontal.remember(advice.memory);
        let requests =
            decision.desired.containers.first().map(|container| container.requests).unwrap_or_default();
        Outcome {
            replicas: decision.desired.replicas,
            size: Some(Size {
                cpu: requests.cpu.unwrap_or(size.cpu),
                memory: requests.memory.unwrap_or(size.memory),
            }),
            code: decision.reason.code,
            words: Box::new(decision),
        }
    }

    /// Once a minute, what each pod used.
    fn learn(&mut self, view: &View<'_>, now: Timestamp) {
        let Some(sample) = view.sample else { return };
        if self.last_sample.is_some_and(|last| sample.at < last + SAMPLE_EVERY) {
            return;
        }
        self.last_sample = Some(sample.at);
        let at = view.moment(sample.at);
        let samples = view.world.pods().iter().filter_map(|pod| {
            let cpu = sample.cpu(view.pods, pod)?;
            Some(Sample {
                at,
                pod: pod.id.to_string(),
                container: CONTAINER.to_owned(),
                usage: Usage { cpu: Some(cpu / 1000.0), memory: Some(view.pods.memory()) },
            })
        });
        let seen = recommender::Observed { samples: samples.collect(), out_of_memory: Vec::new() };
        let recommendation = recommender::recommend(now, &self.recommender, &seen, &self.learnt);
        self.learnt = recommendation.memory;
        let containers = recommendation.containers.into_iter().map(|container| ContainerRecommendation {
            container_name: container.container_name,
            target: container.target,
            lower_bound: container.lower_bound,
            upper_bound: container.upper_bound,
            uncapped_target: container.uncapped_target,
        });
        self.recommended = Some(VerticalRecommendation {
            provided: true,
            low_confidence: false,
            config_unsupported: false,
            sampled_at: Some(at),
            containers: containers.collect(),
        });
    }
}

impl Form {
    fn mode(&self) -> Result<Mode, Error> {
        if let Some(mode) = &self.mode {
            return Ok(mode.clone());
        }
        if let Some(ratio) = &self.ratio_based_scaling_spec {
            return Ok(Mode::Ratio(Ratio {
                initial_scaling: self.initial_scaling,
                final_scaling: self.final_scaling,
                ..ratio.clone()
            }));
        }
        if self.weight_based_scaling_intervals.is_empty() {
            let message = "expected mode, ratioBasedScalingSpec or weightBasedScalingIntervals";
            return Err(Error::field("spec", message));
        }
        Ok(Mode::Ratio(Ratio { intervals: self.weight_based_scaling_intervals.clone(), ..Ratio::default() }))
    }
}

impl ScaleTypeForm {
    fn resolve(&self) -> ScaleType {
        ScaleType {
            update_mode: self.update_policy.update_mode,
            stabilization_seconds: self.stabilization_duration.map_or(0, |duration| duration.as_secs()),
            min_change: self.min_change.resolve(),
        }
    }
}

impl ScaleParamsForm {
    fn resolve(&self) -> ScaleParams {
        ScaleParams { cpu: self.cpu, memory: self.memory }
    }
}

fn yes() -> bool {
    true
}
