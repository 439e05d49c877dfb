//! Conditions and current metrics of an autoscaler.

use decide::hpa::status::Current;
use engine::{effect::Effect, kind};
use jiff::Timestamp;
use k8s_openapi::{
    api::autoscaling::v2::{
        ContainerResourceMetricStatus, ExternalMetricStatus, HorizontalPodAutoscaler,
        HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus, MetricSpec, MetricStatus,
        MetricValueStatus, ObjectMetricStatus, PodsMetricStatus, ResourceMetricStatus,
    },
    apimachinery::pkg::api::resource::Quantity,
};

use crate::object::{nonzero, time};

pub(super) const SCALED_TO_ZERO: &str = "ScaledToZero";

pub(super) struct Conditions {
    stored: Option<Vec<HorizontalPodAutoscalerCondition>>,
    list: Vec<HorizontalPodAutoscalerCondition>,
    now: Timestamp,
}

impl Conditions {
    pub fn of(hpa: &HorizontalPodAutoscaler, now: Timestamp) -> Self {
        let stored = hpa.status.as_ref().and_then(|status| status.conditions.clone());
        Self { list: stored.clone().unwrap_or_default(), stored, now }
    }

    pub fn reason(&self, type_: &str) -> Option<&str> {
        self.list.iter().find(|condition| condition.type_ == type_)?.reason.as_deref()
    }

    /// Times change only with the status.
    pub fn set(&mut self, type_: &str, holds: bool, reason: &str, message: String) {
        let status = if holds { "True" } else { "False" };
        // As stored, not as set a moment ago: within one decision only the last word counts.
        let stored = self.stored.iter().flatten().find(|condition| condition.type_ == type_);
        let since = stored
            .filter(|stored| stored.status == status)
            .map_or_else(|| Some(time(self.now)), |stored| stored.last_transition_time.clone());
        let condition = HorizontalPodAutoscalerCondition {
            type_: type_.into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: Some(message),
            last_transition_time: since,
        };
        match self.list.iter().position(|held| held.type_ == type_) {
            Some(index) => self.list[index] = condition,
            None => self.list.push(condition),
        }
    }

    /// With every change of the count: marks a zero as the autoscaler's own, so that it may be left again. Whatever the
    /// minimum is by now, a count above zero ends it.
    pub fn set_zero(&mut self, went_to_zero: bool) {
        if went_to_zero {
            self.set(
                SCALED_TO_ZERO,
                true,
                "ScaledToZero",
                "the HPA controller scaled the target to zero".into(),
            );
        } else if self.list.iter().any(|condition| condition.type_ == SCALED_TO_ZERO) {
            self.set(SCALED_TO_ZERO, false, "NotScaledToZero", "the target is not scaled to zero".into());
        }
    }

    pub fn changed(&self) -> bool {
        self.stored.as_deref().unwrap_or_default() != self.list
    }

    pub fn finish(self) -> Option<Vec<HorizontalPodAutoscalerCondition>> {
        (!self.list.is_empty()).then_some(self.list)
    }
}

/// Metrics that could not be read keep no place in the list, as in the real controller's.
pub(super) fn current_metrics(
    hpa: &HorizontalPodAutoscaler,
    currents: &[Option<Current>],
) -> Option<Vec<MetricStatus>> {
    let default = vec![MetricSpec { type_: "Resource".into(), ..MetricSpec::default() }];
    let specs = hpa.spec.metrics.clone().filter(|metrics| !metrics.is_empty());
    let specs = specs.unwrap_or(default);
    let statuses: Vec<MetricStatus> = specs
        .iter()
        .zip(currents)
        .filter_map(|(spec, current)| Some(metric_status(spec, (*current)?)))
        .collect();
    // No metric was read at all (out of bounds, switched off): what was known stays.
    match currents.is_empty() {
        true => hpa.status.as_ref().and_then(|status| status.current_metrics.clone()),
        false => (!statuses.is_empty()).then_some(statuses),
    }
}

fn metric_status(spec: &MetricSpec, current: Current) -> MetricStatus {
    let quantity = |quantity: Option<decide::quantity::Quantity>| quantity.map(|q| Quantity(q.to_string()));
    let current = MetricValueStatus {
        average_utilization: current.average_utilization,
        average_value: quantity(current.average_value),
        value: quantity(current.value),
    };
    let mut status = MetricStatus { type_: spec.type_.clone(), ..MetricStatus::default() };
    if let Some(source) = &spec.container_resource {
        status.container_resource = Some(ContainerResourceMetricStatus {
            container: source.container.clone(),
            name: source.name.clone(),
            current,
        });
    } else if let Some(source) = &spec.pods {
        status.pods = Some(PodsMetricStatus { metric: source.metric.clone(), current });
    } else if let Some(source) = &spec.object {
        status.object = Some(ObjectMetricStatus {
            described_object: source.described_object.clone(),
            metric: source.metric.clone(),
            current,
        });
    } else if let Some(source) = &spec.external {
        status.external = Some(ExternalMetricStatus { metric: source.metric.clone(), current });
    } else {
        let name = spec.resource.as_ref().map_or_else(|| "cpu".to_owned(), |source| source.name.clone());
        status.resource = Some(ResourceMetricStatus { name, current });
    }
    status
}

pub(super) fn write_if_changed(
    hpa: &HorizontalPodAutoscaler,
    status: HorizontalPodAutoscalerStatus,
) -> Option<Effect> {
    let normal = |status: &HorizontalPodAutoscalerStatus| HorizontalPodAutoscalerStatus {
        current_replicas: status.current_replicas.and_then(nonzero),
        current_metrics: status.current_metrics.clone().filter(|metrics| !metrics.is_empty()),
        conditions: status.conditions.clone().filter(|conditions| !conditions.is_empty()),
        ..status.clone()
    };
    let same = hpa.status.as_ref().is_some_and(|stored| normal(stored) == normal(&status));
    let write =
        || Effect::status(&kind::HORIZONTAL_POD_AUTOSCALER, &hpa.metadata, hpa.status.as_ref(), &status);
    (!same).then(write)
}
