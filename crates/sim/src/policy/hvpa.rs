use decide::{
    hpa::ResourceTarget,
    hvpa::{
        self, ContainerRecommendation, ContainerSize, HorizontalRecommendation, Memory, MetricTarget,
        Observed, ResourceMetric, Spec, TotalRecommendation, VerticalRecommendation,
    },
    quantity::Quantity,
    recommender::{
        self, Sample,
        amount::{Resource, Resources, Usage},
    },
};
use jiff::Timestamp;
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

impl Scaler {
    pub fn new(manifest: &Value, pods: &Pods, metrics: &Metrics) -> Result<Scaler, Error> {
        ensure_sizes(pods)?;
        let spec: api::hvpa::Spec = part(manifest, "/spec")?;
        let resolved = spec.resolve().map_err(|error| Error::from(error).under("spec"))?;
        let horizontal = hpa::Scaler::from_spec(resolved.horizontal, metrics)
            .map_err(|error| error.under("spec.hpa.template.spec"))?;
        Ok(Scaler::of(resolved.spec, horizontal))
    }

    /// The embedded recommender beside a horizontal one.
    pub fn of(spec: Spec, horizontal: hpa::Scaler) -> Scaler {
        let container_policies = spec.vertical.container_policies.clone();
        Scaler {
            spec,
            memory: Memory::default(),
            horizontal,
            recommender: recommender::Spec {
                container_policies,
                options: recommender::Options { learn_totals: true, ..recommender::Options::default() },
                ..recommender::Spec::default()
            },
            learnt: recommender::Memory::default(),
            recommended: None,
            last_sample: None,
        }
    }

    pub fn decide(&mut self, view: &View<'_>) -> Outcome {
        let now = view.now();
        self.learn(view, now);
        let size = view.world.size();
        let advice = self.horizontal.decision(view);
        let (deciding, limited) = self.horizontal.deciding_resource(&advice);
        let horizontal = HorizontalRecommendation {
            desired: advice.desired,
            by: None,
            active: !matches!(advice.reason.code, "NoValidMetric" | "InvalidMetricBlocksScaleDown"),
            limited,
            // A sample is an average: it speaks of the whole time since the one before it.
            sampled_at: view.sample.map(|sample| view.moment(sample.since)),
            metric: deciding.map(|deciding| metric(view, &deciding)),
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
            settled_at: Some(view.moment(view.world.settled_at())),
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
        // Pods that were resized since then share what was used then.
        let of_pods: f64 = view.world.pods().iter().filter_map(|pod| sample.cpu(view.pods, pod)).sum();
        let factor = if of_pods > 0.0 { sample.total_cpu(view.pods) / of_pods } else { 1.0 };
        let samples = view.world.pods().iter().filter_map(|pod| {
            let cpu = sample.cpu(view.pods, pod)? * factor;
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
            total: TotalRecommendation {
                target: container.total.target,
                lower_bound: container.total.lower_bound,
                upper_bound: container.total.upper_bound,
            },
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

pub fn ensure_sizes(pods: &Pods) -> Result<(), Error> {
    match pods.requests.cpu {
        Some(_) => Ok(()),
        None => Err(Error::field("", "sizes can only change if pods.requests gives one to start from")),
    }
}

/// What the deciding metric reads, and what all pods used of it.
fn metric(view: &View<'_>, deciding: &hpa::DecidingResource) -> ResourceMetric {
    let usage = view.sample.map(|sample| match deciding.is_cpu {
        true => Quantity(sample.total_cpu(view.pods) as i64),
        false => Quantity((view.pods.memory() * view.world.pods().len() as f64 * 1000.0) as i64),
    });
    ResourceMetric {
        resource: if deciding.is_cpu { Resource::Cpu } else { Resource::Memory },
        container: deciding.container.as_ref().map(ToString::to_string),
        target: match deciding.target {
            ResourceTarget::Utilization(percent) => MetricTarget::AverageUtilization(percent),
            ResourceTarget::AverageValue(value) => MetricTarget::AverageValue(value),
        },
        usage,
    }
}
