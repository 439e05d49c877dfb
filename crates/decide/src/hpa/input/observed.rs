use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    super::{
        observed::{Answer, Observed, Phase, Pod, Ready, Requests, Sample},
        spec::{ResourceTarget, Source, Spec},
    },
    spec::{LabelSelector, MetricForm, MetricType, ObjectRef, SpecForm},
};
use crate::{
    input::{InputError, check_range, check_unique, maybe_moment, shown},
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
    /// Requests of the pod as a whole. A resource that is not among them is what the containers request together.
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

// === check ===

impl ObservedForm {
    /// What a person may have written by mistake: of two figures for one thing neither is better.
    pub(super) fn check(&self, spec: &SpecForm) -> Result<(), InputError> {
        check_unique(self.pods.iter().map(|pod| pod.name.as_str()), |idx| format!("pods[{idx}].name"))?;
        for (idx, pod) in self.pods.iter().enumerate() {
            pod.check().map_err(|error| error.under(format!("pods[{idx}]")))?;
        }
        for (idx, reading) in self.readings.iter().enumerate() {
            let same = |other: &&ReadingForm| {
                (&other.metric, &other.selector, &other.object)
                    == (&reading.metric, &reading.selector, &reading.object)
            };
            if self.readings[..idx].iter().any(|other| same(&other)) {
                let message = format!("there is a reading of {} already; give one", shown(&reading.metric));
                return Err(InputError::new(format!("readings[{idx}].metric"), message));
            }
            let metric = spec.metrics.iter().find(|metric| reading.is_of(metric));
            reading.check(metric).map_err(|error| error.under(format!("readings[{idx}]")))?;
        }
        Ok(())
    }
}

impl PodForm {
    fn check(&self) -> Result<(), InputError> {
        check_unique(self.containers.iter().map(|of| of.name.as_str()), |idx| {
            format!("containers[{idx}].name")
        })?;
        let by_container =
            |resource: &&String| self.containers.iter().any(|of| of.usage.contains_key(*resource));
        match self.usage.keys().find(by_container) {
            None => Ok(()),
            Some(resource) => {
                let message = "given for the pod as a whole and by container; give one of them";
                Err(InputError::new(format!("usage.{resource}"), message))
            }
        }
    }
}

impl ReadingForm {
    fn check(&self, metric: Option<&MetricForm>) -> Result<(), InputError> {
        if self.error.is_some() && !self.values.is_empty() {
            return Err(InputError::new("error", "expected values or an error, found both"));
        }
        let kind = metric.map_or(MetricType::Resource, |metric| metric.kind);
        let expected = match kind {
            MetricType::External => return Ok(()),
            MetricType::Object if self.values.len() <= 1 => return Ok(()),
            MetricType::Object => "expected one value, as an Object metric has, found several",
            _ if self.values.is_empty() => return Ok(()),
            _ => "expected no values: what pods report stands with the pods",
        };
        Err(InputError::new("values", expected))
    }
}

// === resolve ===

impl ObservedForm {
    /// Translates names into the indices of the spec's metrics; `form` is what `spec` was resolved from.
    ///
    /// # Errors
    /// If a count is negative or a reading belongs to no metric.
    pub fn resolve(&self, spec: &Spec, form: &SpecForm) -> Result<Observed, InputError> {
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
            // With pod-level requests, a container without one of its own is no fault.
            let own = self.requests.get(resource).map(|request| request.0);
            let of_containers = self.containers.iter().filter_map(|of| of.requests.get(resource));
            let together = of_containers.map(|request| request.0).reduce(i64::saturating_add);
            return own.or(together).ok_or(None);
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
