//! From histograms to figures.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Container, ContainerMode, ContainerPolicy, ContainerRecommendation, Estimate, Memory, Options, Spec,
    Total, TotalRecommendation,
    amount::{self, Resource, Resources},
    histogram::Buckets,
};
use crate::decision::{Chain, Step};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Bound {
    Target,
    Lower,
    Upper,
}

/// An amount that knows its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Amount {
    pub resource: Resource,
    pub amount: u64,
}

/// One rule of an estimate, with its input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", content = "input", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Rule {
    /// `value` (cores or bytes) is the end of the bucket that holds the percentile.
    Percentile {
        percentile: f64,
        value: f64,
    },
    Margin {
        fraction: f64,
    },
    /// Multiplies by `(1 + multiplier / confidence) ^ exponent`: little history widens the bounds.
    Confidence {
        confidence: f64,
        multiplier: f64,
        exponent: i32,
    },
    /// A container's share of what a pod gets at least.
    PodMinimum {
        minimum: u64,
    },
    Rounding {
        multiple: u64,
    },
    /// The minimum first, then the maximum: where they contradict, the maximum wins.
    Policy {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<u64>,
    },
}

pub(super) fn containers(spec: &Spec, memory: &Memory) -> Vec<ContainerRecommendation> {
    let controlled = || {
        memory
            .containers
            .iter()
            .filter(|(name, _)| spec.policy(name).is_none_or(|policy| policy.mode == ContainerMode::Auto))
    };
    let n_containers = controlled().count();
    controlled()
        .map(|(name, container)| {
            let mut recommendation = container_recommendation(spec, name, container, n_containers);
            if let Some(total) = memory.totals.get(name) {
                add_total(spec, total, &mut recommendation);
            }
            recommendation
        })
        .filter(|recommendation| !recommendation.target.is_empty())
        .collect()
}

fn container_recommendation(
    spec: &Spec,
    name: &str,
    container: &Container,
    n_containers: usize,
) -> ContainerRecommendation {
    let policy = spec.policy(name);
    let mut recommendation = ContainerRecommendation {
        container_name: name.to_owned(),
        target: Resources::default(),
        lower_bound: Resources::default(),
        upper_bound: Resources::default(),
        uncapped_target: Resources::default(),
        total: TotalRecommendation::default(),
        confidence: container.confidence(&spec.options),
        estimates: Vec::new(),
    };
    for resource in Resource::ALL {
        let is_controlled = policy.is_none_or(|policy| policy.controlled_resources.contains(&resource));
        if !is_controlled || container.histogram(resource).is_empty() {
            continue;
        }
        for bound in [Bound::Target, Bound::Lower, Bound::Upper] {
            let steps = estimate(spec, name, policy, container, resource, bound, n_containers);
            let amount = steps.last().map(|step| step.after.amount);
            match bound {
                Bound::Target => {
                    let uncapped = steps.last().map(|step| step.before.amount);
                    recommendation.uncapped_target.set(resource, uncapped);
                    recommendation.target.set(resource, amount);
                }
                Bound::Lower => recommendation.lower_bound.set(resource, amount),
                Bound::Upper => recommendation.upper_bound.set(resource, amount),
            }
            recommendation.estimates.push(Estimate { resource, bound, is_total: false, steps });
        }
    }
    recommendation
}

fn add_total(spec: &Spec, total: &Total, recommendation: &mut ContainerRecommendation) {
    let policy = spec.policy(&recommendation.container_name);
    let is_controlled =
        |resource: &Resource| policy.is_none_or(|policy| policy.controlled_resources.contains(resource));
    let history = total.known(&spec.options);
    let known = |resource: &Resource| !history.histogram(*resource).is_empty();
    for resource in Resource::ALL.into_iter().filter(is_controlled).filter(known) {
        for bound in [Bound::Target, Bound::Lower, Bound::Upper] {
            let mut chain = Chain::new(Amount { resource, amount: 0 });
            push_usage(&mut chain, &spec.options, &history, resource, bound);
            let amount = Some(chain.value().amount);
            match bound {
                Bound::Target => recommendation.total.target.set(resource, amount),
                Bound::Lower => recommendation.total.lower_bound.set(resource, amount),
                Bound::Upper => recommendation.total.upper_bound.set(resource, amount),
            }
            let steps = chain.finish((), None).steps;
            recommendation.estimates.push(Estimate { resource, bound, is_total: true, steps });
        }
    }
}

fn estimate(
    spec: &Spec,
    name: &str,
    policy: Option<&ContainerPolicy>,
    container: &Container,
    resource: Resource,
    bound: Bound,
    n_containers: usize,
) -> Vec<Step<Rule>> {
    let options = &spec.options;
    let mut chain = Chain::new(Amount { resource, amount: 0 });
    push_usage(&mut chain, options, container, resource, bound);
    let minimum = options.pod_minimum.get(resource).unwrap_or(0);
    chain.push(Rule::PodMinimum { minimum: amount::scaled(minimum, 1.0 / n_containers.max(1) as f64) });
    if let Some(multiple) = rounding(options, name, resource) {
        chain.push(Rule::Rounding { multiple });
    }
    let max = policy.and_then(|policy| policy.max_allowed.get(resource)).or(spec.max_allowed.get(resource));
    chain.push(Rule::Policy { min: policy.and_then(|policy| policy.min_allowed.get(resource)), max });
    chain.finish((), None).steps
}

/// From usage to an estimate: percentile, margin, confidence.
fn push_usage(
    chain: &mut Chain<Rule>,
    options: &Options,
    container: &Container,
    resource: Resource,
    bound: Bound,
) {
    let percentile = match bound {
        Bound::Target => options.target_percentile,
        Bound::Lower => options.lower_percentile,
        Bound::Upper => options.upper_percentile,
    };
    let buckets = match resource {
        Resource::Cpu => Buckets::cpu(),
        Resource::Memory => Buckets::memory(),
    };
    let value = container.histogram(resource).percentile(&buckets, percentile);
    chain.push(Rule::Percentile { percentile, value });
    chain.push(Rule::Margin { fraction: options.margin_fraction });
    let confidence = container.confidence(options);
    match bound {
        Bound::Target => {}
        // A hundredth of a day already brings the lower bound within 20 % of its final value ...
        Bound::Lower => {
            chain.push(Rule::Confidence { confidence, multiplier: 0.001, exponent: -2 });
        }
        // ... while the upper one is still twice its final value after a whole day.
        Bound::Upper => {
            chain.push(Rule::Confidence { confidence, multiplier: 1.0, exponent: 1 });
        }
    }
}

fn rounding(options: &Options, name: &str, resource: Resource) -> Option<u64> {
    let whole_core =
        resource == Resource::Cpu && options.integer_cpu_containers.iter().any(|container| container == name);
    let multiple = if whole_core { Some(1000) } else { options.rounding.get(resource) };
    multiple.filter(|&multiple| multiple > 1)
}

impl Container {
    pub(super) fn histogram(&self, resource: Resource) -> &super::Decaying {
        match resource {
            Resource::Cpu => &self.cpu,
            Resource::Memory => &self.memory,
        }
    }
}

// === impl Bound ===

impl Bound {
    pub fn word(self) -> &'static str {
        match self {
            Bound::Target => "target",
            Bound::Lower => "lower bound",
            Bound::Upper => "upper bound",
        }
    }
}

// === impl Amount ===

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource.words(self.amount))
    }
}

// === impl Rule ===

impl crate::decision::Rule for Rule {
    type Value = Amount;

    fn name(&self) -> &'static str {
        match self {
            Rule::Percentile { .. } => "percentile",
            Rule::Margin { .. } => "margin",
            Rule::Confidence { .. } => "confidence",
            Rule::PodMinimum { .. } => "podMinimum",
            Rule::Rounding { .. } => "rounding",
            Rule::Policy { .. } => "policy",
        }
    }

    fn apply(&self, before: &Amount) -> Amount {
        let Amount { resource, amount } = *before;
        let amount = match *self {
            Rule::Percentile { value, .. } => resource.amount(value),
            Rule::Margin { fraction } => {
                amount.saturating_add(amount::scaled(amount, fraction)).min(amount::MAX)
            }
            Rule::Confidence { confidence, multiplier, exponent } => {
                amount::scaled(amount, (1.0 + multiplier / confidence).powi(exponent))
            }
            Rule::PodMinimum { minimum } => amount.max(minimum),
            Rule::Rounding { multiple } => {
                amount.div_ceil(multiple.max(1)).saturating_mul(multiple).min(amount::MAX)
            }
            Rule::Policy { min, max } => amount.max(min.unwrap_or(0)).min(max.unwrap_or(amount::MAX)),
        };
        Amount { resource, amount }
    }

    fn code(&self, before: &Amount, after: &Amount) -> &'static str {
        match self {
            _ if before == after => "Unchanged",
            Rule::Percentile { .. } => "UsagePercentile",
            Rule::Margin { .. } => "SafetyMargin",
            Rule::Confidence { .. } => "Confidence",
            Rule::PodMinimum { .. } => "PodMinimum",
            Rule::Rounding { .. } => "Rounding",
            Rule::Policy { .. } => "ContainerPolicy",
        }
    }

    fn words(&self, before: &Amount, after: &Amount, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |amount: u64| before.resource.words(amount);
        match *self {
            Rule::Percentile { percentile, .. } => {
                write!(out, "{} % of the usage was at or below {after}", percentile * 100.0)
            }
            Rule::Margin { fraction } => write!(out, "{} % safety margin", fraction * 100.0),
            Rule::Confidence { confidence, multiplier, exponent } => {
                let factor = (1.0 + multiplier / confidence).powi(exponent);
                write!(out, "confidence {confidence:.3} multiplies by {factor:.3}")
            }
            Rule::PodMinimum { minimum } => {
                write!(out, "a container of this pod gets at least {}", words(minimum))
            }
            Rule::Rounding { multiple } => write!(out, "rounded up to a multiple of {}", words(multiple)),
            Rule::Policy { min: None, max: None } => out.write_str("no policy bounds"),
            Rule::Policy { min, max } => {
                let bound = |bound: Option<u64>| bound.map_or_else(|| "-".to_owned(), words);
                write!(out, "the policy allows {} to {}", bound(min), bound(max))
            }
        }
    }
}
