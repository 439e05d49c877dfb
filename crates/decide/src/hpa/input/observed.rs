use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        observed::{Answer, Observed, Phase, Pod, Ready, Requests, Sample},
        spec::{ResourceTarget, Source, Spec},
    },
    spec::{LabelSelector, MetricForm, ObjectRef, SpecForm},
};
use crate::{
    input::{InputError, check_range, maybe_moment},
    quantity::{Figure, Quantity},
};

/// The target's scale, its pods, and what the metrics APIs answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObservedForm {
    /// The target's `spec.replicas`.
    pub replicas: i32,
    /// The target's `status.replicas`; the same as `replicas` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_replicas: Option<i32>,
    /// Whether the autoscaler itself went to zero; a zero set by hand switches it off.
    #[serde(default)]
    pub scaled_to_zero: bool,
    #[serde(default)]
    pub pods: Vec<PodForm>,
    /// Values of Object and External metrics, and errors of any metric.
    #[serde(default)]
    pub readings: Vec<ReadingForm>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodForm {
    pub name: String,
    #[serde(default)]
    pub phase: Phase,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_moment")]
    pub deletion_timestamp: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_moment")]
    pub start_time: Option<Timestamp>,
    /// The Ready condition; a pod without one has never been ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// Requests of the pod as a whole; they stand in for those of its containers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    /// Usage of the pod as a whole, where it is not given by container.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub usage: BTreeMap<String, Figure>,
    /// Containers, with init containers that keep running.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerForm>,
    /// What the pod reports for Pods metrics, by metric name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, Figure>,
    /// When usage and metrics were sampled; now if left out.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_moment")]
    pub sampled_at: Option<Timestamp>,
    /// The time the sample covers.
    #[serde(default)]
    pub sample_window_seconds: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerForm {
    pub name: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub usage: BTreeMap<String, Figure>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadingForm {
    /// The metric's (or resource's) name in the spec.
    pub metric: String,
    /// Needed only where two metrics share a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Needed only where two Object metrics share a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// One value for an Object metric, any number for an External one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Figure>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_moment")]
    pub timestamp: Option<Timestamp>,
    /// Why there is no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

// === resolve ===

impl ObservedForm {
    pub(super) fn resolve(&self, spec: &Spec, form: &SpecForm) -> Result<Observed, InputError> {
        check_range("replicas", self.replicas, 0..=i32::MAX)?;
        let status_replicas = self.status_replicas.unwrap_or(self.replicas);
        check_range("statusReplicas", status_replicas, 0..=i32::MAX)?;
        for (idx, reading) in self.readings.iter().enumerate() {
            let cpu_by_default = form.metrics.is_empty() && reading.metric == "cpu";
            if !cpu_by_default && !form.metrics.iter().any(|metric| reading.is_of(metric)) {
                let message =
                    format!("the spec has no metric {:?} with that selector and object", reading.metric);
                return Err(InputError::new(format!("readings[{idx}].metric"), message));
            }
        }
        let answers = spec
            .metrics
            .iter()
            .enumerate()
            .map(|(idx, metric)| self.answer(&metric.source, form.metrics.get(idx)));
        Ok(Observed {
            current: self.replicas,
            status_replicas,
            scaled_to_zero: self.scaled_to_zero,
            answers: answers.collect(),
            pods: self.pods.iter().map(PodForm::resolve).collect(),
        })
    }

    /// A metric without a form is the default one, CPU.
    fn answer(&self, source: &Source, form: Option<&MetricForm>) -> Answer {
        let reading = self.readings.iter().find(|reading| match form {
            Some(form) => reading.is_of(form),
            None => reading.metric == "cpu",
        });
        if let Some(error) = reading.and_then(|reading| reading.error.as_deref()) {
            return Answer::Failed(error.into());
        }
        match source {
            Source::Resource { resource, container, target } => Answer::Pods {
                samples: self
                    .pods
                    .iter()
                    .map(|pod| pod.usage_sample(resource, container.as_deref()))
                    .collect(),
                requests: match target {
                    ResourceTarget::Utilization(_) => self.requests(resource, container.as_deref()),
                    ResourceTarget::AverageValue(_) => Requests::Known(Vec::new()),
                },
            },
            Source::Pods { .. } => {
                let name = form.map_or("", |form| form.identity().0);
                Answer::Pods {
                    samples: self.pods.iter().map(|pod| pod.sample(pod.metrics.get(name)?.0)).collect(),
                    requests: Requests::Known(Vec::new()),
                }
            }
            Source::Object { .. } | Source::External { .. } => match reading {
                Some(reading) => Answer::Total { values: reading.values.clone(), at: reading.timestamp },
                None => Answer::Failed("there is no reading of it".into()),
            },
        }
    }

    fn requests(&self, resource: &str, container: Option<&str>) -> Requests {
        let mut requests = Vec::with_capacity(self.pods.len());
        for pod in &self.pods {
            match pod.request(resource, container) {
                Ok(request) => requests.push(request),
                Err(container) => return Requests::Missing { pod: pod.name.as_str().into(), container },
            }
        }
        Requests::Known(requests)
    }
}

impl ReadingForm {
    fn is_of(&self, metric: &MetricForm) -> bool {
        let (name, selector, object) = metric.identity();
        self.metric == name
            && (self.selector.is_none() || self.selector.as_ref() == selector)
            && (self.object.is_none() || self.object.as_ref() == object)
    }
}

impl PodForm {
    fn resolve(&self) -> Pod {
        Pod {
            phase: self.phase,
            deleting: self.deletion_timestamp.is_some(),
            start: self.start_time,
            ready: self.ready,
        }
    }

    fn sample(&self, value: Option<Quantity>) -> Option<Sample> {
        Some(Sample {
            value: value?.0,
            at: self.sampled_at,
            window_seconds: self.sample_window_seconds.into(),
        })
    }

    /// The usage of the pod: as given for the whole, or of all containers together. One container without a
    /// figure leaves the pod without one.
    fn usage_sample(&self, resource: &str, container: Option<&str>) -> Option<Sample> {
        let whole = container.is_none().then(|| self.usage.get(resource)).flatten();
        if let Some(usage) = whole {
            return self.sample(usage.0);
        }
        let mut total: Option<i64> = None;
        for of in self.containers.iter().filter(|of| container.is_none_or(|name| name == of.name)) {
            let usage = of.usage.get(resource)?.0?.0;
            if usage < 0 {
                return None;
            }
            total = Some(total.unwrap_or(0).saturating_add(usage));
        }
        self.sample(total.map(Quantity))
    }

    /// The pod's request, or the container that has none.
    fn request(&self, resource: &str, container: Option<&str>) -> Result<i64, Option<Arc<str>>> {
        if container.is_none() && !self.requests.is_empty() {
            return self.requests.get(resource).map(|request| request.0).ok_or(None);
        }
        let mut total = 0i64;
        let mut found = container.is_none();
        for of in self.containers.iter().filter(|of| container.is_none_or(|name| name == of.name)) {
            let request = of.requests.get(resource).ok_or_else(|| Some(of.name.as_str().into()))?;
            total = total.saturating_add(request.0);
            found = true;
        }
        match (found, container) {
            (false, Some(name)) => Err(Some(name.into())),
            _ => Ok(total),
        }
    }
}
