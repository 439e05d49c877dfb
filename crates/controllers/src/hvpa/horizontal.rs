//! How many replicas somebody recommends, in the terms of the decision. Pure.

use std::collections::BTreeMap;

use decide::{
    hpa::{ResourceTarget, Source},
    hvpa::{HorizontalRecommendation, MetricTarget, ResourceMetric},
    quantity::Quantity,
    recommender::amount::Resource,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::autoscaling::v2::{self, HorizontalPodAutoscaler, MetricSpec, MetricStatus, MetricValueStatus},
    apimachinery::pkg::api::resource,
};
use workloads::{Advice, Usage};

/// Codes of decisions that were made without knowing the metrics.
const BLIND: [&str; 2] = ["NoValidMetric", "InvalidMetricBlocksScaleDown"];

/// Whoever writes the Hvpa's own scale.
pub fn from_scale(replicas: i32) -> HorizontalRecommendation {
    HorizontalRecommendation {
        desired: replicas,
        by: None,
        active: true,
        limited: false,
        sampled_at: None,
        metric: None,
    }
}

/// A HorizontalPodAutoscaler that scales the Hvpa, whose target has so many replicas. A count outside its bounds goes back
/// into them whatever its metrics say, as it does for any autoscaler.
pub fn from_autoscaler(hpa: &HorizontalPodAutoscaler, replicas: i32) -> Option<HorizontalRecommendation> {
    let (min, max) = (hpa.spec.min_replicas.unwrap_or(1), hpa.spec.max_replicas);
    if min <= max && !(min..=max).contains(&replicas) {
        return Some(from_scale(replicas.clamp(min, max)));
    }
    let status = hpa.status.as_ref()?;
    let holds = |name: &str| {
        let conditions = status.conditions.iter().flatten();
        conditions.into_iter().any(|condition| condition.type_ == name && condition.status == "True")
    };
    Some(HorizontalRecommendation {
        desired: status.desired_replicas,
        by: None,
        active: holds("AbleToScale") && holds("ScalingActive"),
        limited: holds("ScalingLimited"),
        sampled_at: None,
        metric: deciding(hpa),
    })
}

/// Of an autoscaler that follows resources alone: the one furthest above its target.
fn deciding(hpa: &HorizontalPodAutoscaler) -> Option<ResourceMetric> {
    let status = hpa.status.as_ref()?;
    let n_pods = i64::from(status.current_replicas.unwrap_or(0));
    let current = status.current_metrics.iter().flatten();
    let metrics = hpa.spec.metrics.as_deref().unwrap_or_default();
    let mut highest: Option<(f64, ResourceMetric)> = None;
    for spec in metrics {
        let (name, container, target) = resource_of(spec)?;
        let found = current.clone().find_map(|status| value_of(status, name, container))?;
        let average = quantity(found.average_value.as_ref())?;
        let (ratio, target) = if let Some(percent) = target.average_utilization {
            let ratio = f64::from(found.average_utilization?) / f64::from(percent.max(1));
            (ratio, MetricTarget::AverageUtilization(percent))
        } else {
            let wanted = quantity(target.average_value.as_ref())?;
            (average.0 as f64 / (wanted.0.max(1)) as f64, MetricTarget::AverageValue(wanted))
        };
        if highest.as_ref().is_none_or(|(known, _)| ratio > *known) {
            let metric = ResourceMetric {
                resource: known_resource(name)?,
                container: container.map(str::to_owned),
                target,
                usage: Some(Quantity(average.0.saturating_mul(n_pods))),
            };
            highest = Some((ratio, metric));
        }
    }
    highest.map(|(_, metric)| metric)
}

fn resource_of(spec: &MetricSpec) -> Option<(&str, Option<&str>, &v2::MetricTarget)> {
    if let Some(of) = &spec.resource {
        return Some((&of.name, None, &of.target));
    }
    let of = spec.container_resource.as_ref()?;
    Some((&of.name, Some(&of.container), &of.target))
}

fn value_of<'a>(
    status: &'a MetricStatus,
    name: &str,
    container: Option<&str>,
) -> Option<&'a MetricValueStatus> {
    if let Some(of) = &status.resource {
        return (of.name == name && container.is_none()).then_some(&of.current);
    }
    let of = status.container_resource.as_ref()?;
    (of.name == name && Some(of.container.as_str()) == container).then_some(&of.current)
}

/// What our own algorithm says, from the Hvpa's own metrics.
pub fn from_advice(advice: &Advice, usage: &BTreeMap<String, Usage>) -> HorizontalRecommendation {
    let metric = match &advice.deciding {
        Some(Source::Resource { resource, container, target }) => {
            known_resource(resource).map(|known| ResourceMetric {
                resource: known,
                container: container.as_deref().map(str::to_owned),
                target: match target {
                    ResourceTarget::Utilization(percent) => MetricTarget::AverageUtilization(*percent),
                    ResourceTarget::AverageValue(value) => MetricTarget::AverageValue(*value),
                },
                usage: total(usage, resource, container.as_deref()),
            })
        }
        _ => None,
    };
    HorizontalRecommendation {
        desired: advice.decision.desired,
        by: None,
        active: !BLIND.contains(&advice.decision.reason.code),
        limited: advice.is_limited,
        sampled_at: metric.as_ref().and_then(|_| sampled_at(usage)),
        metric,
    }
}

/// The oldest moment that samples speak of: each is an average over the window before it.
pub fn sampled_at(usage: &BTreeMap<String, Usage>) -> Option<Timestamp> {
    let begin =
        |usage: &Usage| usage.at?.checked_sub(SignedDuration::from_secs(usage.window_seconds.into())).ok();
    usage.values().filter_map(begin).min()
}

fn total(usage: &BTreeMap<String, Usage>, resource: &str, container: Option<&str>) -> Option<Quantity> {
    let mut sum: Option<i64> = None;
    for pod in usage.values() {
        for (name, used) in &pod.containers {
            let figure = used.get(resource).and_then(|figure| figure.0);
            if let Some(Quantity(used)) = figure.filter(|_| container.is_none_or(|wanted| wanted == name)) {
                sum = Some(sum.unwrap_or(0).saturating_add(used));
            }
        }
    }
    sum.map(Quantity)
}

fn known_resource(name: &str) -> Option<Resource> {
    Resource::ALL.into_iter().find(|resource| resource.name() == name)
}

fn quantity(quantity: Option<&resource::Quantity>) -> Option<Quantity> {
    quantity?.0.parse().ok()
}
