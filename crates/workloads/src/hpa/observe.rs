//! Pods and answers in the decision's terms.

use std::{collections::BTreeMap, sync::Arc};

use decide::{
    hpa::{
        Answer, Condition, Memory, Phase, Ready, Requests, Sample, Settings,
        input::{ContainerForm, ObservedForm, PodForm, ReadingForm},
    },
    input::InputError,
    quantity::{Figure, Quantity},
};
use k8s_openapi::{
    api::{
        autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec},
        core::v1::{Container, Pod, PodSpec},
    },
    apimachinery::pkg::api::resource,
};

use super::{
    Scaled,
    metrics::{Answers, Value},
    plan::{self, Trouble},
    status::SCALED_TO_ZERO,
};
use crate::object::{name, pods};

/// Pods of that kind of metric which are asked for by their own API, so a sample has a time of its own.
const NO_SAMPLE: &str = "no value for this pod";

/// What a decision depends on besides the objects.
pub(super) struct Circumstances {
    pub settings: Settings,
    pub memory: Memory,
}

pub(super) fn input(
    hpa: &HorizontalPodAutoscaler,
    spec: &HorizontalPodAutoscalerSpec,
    scaled: &Scaled,
    pods: &[Arc<Pod>],
    answers: Answers,
    Circumstances { settings, memory }: Circumstances,
) -> Result<plan::Input, Trouble> {
    let invalid = |error: InputError| Trouble::BadSpec(format!("the HPA's spec cannot be used: {error}"));
    let (resolved, form) = api::hpa::spec(spec, settings).map_err(invalid)?;
    let metrics = spec.metrics.as_deref().unwrap_or_default();
    let failed = |metric: &str, why: &str| ReadingForm {
        metric: metric.to_owned(),
        error: Some(why.to_owned()),
        ..ReadingForm::default()
    };
    let mut readings = Vec::new();
    if let Err(why) = &answers.usage {
        let resources = metrics.iter().filter_map(|metric| {
            let resource = metric.resource.as_ref().map(|source| &source.name);
            resource.or(metric.container_resource.as_ref().map(|source| &source.name))
        });
        readings.extend(resources.map(|resource| failed(resource, why)));
        if metrics.is_empty() {
            readings.push(failed("cpu", why));
        }
    }
    let usage = answers.usage.unwrap_or_default();
    let pod_forms: Vec<PodForm> =
        pods.iter().map(|pod| pod_form(pod, usage.get(name(&pod.metadata)))).collect();
    let observed = ObservedForm {
        replicas: scaled.replicas,
        status_replicas: Some(scaled.status_replicas),
        scaled_to_zero: scaled_to_zero(hpa),
        pods: pod_forms,
        readings,
    };
    let mut observed = observed.resolve(&resolved, &form).map_err(invalid)?;
    for (slot, (metric, answer)) in observed.answers.iter_mut().zip(metrics.iter().zip(answers.others)) {
        match answer {
            None => {}
            Some(Err(why)) => *slot = Answer::Failed(why.into()),
            Some(Ok(values)) if metric.type_ == "Pods" => *slot = by_pod(pods, &values),
            Some(Ok(values)) => {
                let at = values.iter().filter_map(|value| value.at).min();
                *slot = Answer::Total { values: values.into_iter().map(|value| value.value).collect(), at };
            }
        }
    }
    Ok(plan::Input { spec: resolved, observed, memory })
}

/// Zero was the autoscaler's own decision, by its condition.
fn scaled_to_zero(hpa: &HorizontalPodAutoscaler) -> bool {
    let conditions = hpa.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == SCALED_TO_ZERO && condition.status == "True")
}

fn by_pod(pods: &[Arc<Pod>], values: &[Value]) -> Answer {
    let sample = |pod: &Arc<Pod>| {
        let value = values.iter().find(|value| value.object == name(&pod.metadata))?;
        let figure = value.value.0?;
        Some(Sample { value: figure.0, at: value.at, window_seconds: value.window_seconds })
    };
    let samples: Vec<Option<Sample>> = pods.iter().map(sample).collect();
    if samples.iter().all(Option::is_none) && !pods.is_empty() {
        return Answer::Failed(NO_SAMPLE.into());
    }
    Answer::Pods { samples, requests: Requests::Known(Vec::new()) }
}

fn pod_form(pod: &Pod, usage: Option<&super::metrics::Usage>) -> PodForm {
    let spec = pod.spec.as_ref();
    let status = pod.status.as_ref();
    let sidecars = spec
        .into_iter()
        .flat_map(|spec| spec.init_containers.iter().flatten())
        .filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let containers = spec.into_iter().flat_map(|spec| spec.containers.iter()).chain(sidecars);
    PodForm {
        name: name(&pod.metadata).to_owned(),
        phase: match pods::phase(pod) {
            "Running" => Phase::Running,
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            "Unknown" => Phase::Unknown,
            _ => Phase::Pending,
        },
        deletion_timestamp: pod.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        start_time: status.and_then(|status| status.start_time.as_ref()).map(|time| time.0),
        ready: ready(pod),
        requests: spec.map(pod_requests).unwrap_or_default(),
        usage: BTreeMap::new(),
        containers: containers.map(|container| container_form(container, usage)).collect(),
        metrics: BTreeMap::new(),
        sampled_at: usage.and_then(|usage| usage.at),
        sample_window_seconds: usage.map_or(0, |usage| usage.window_seconds),
    }
}

fn container_form(container: &Container, usage: Option<&super::metrics::Usage>) -> ContainerForm {
    let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let used: Option<&BTreeMap<String, Figure>> =
        usage.and_then(|usage| usage.containers.get(&container.name));
    ContainerForm {
        name: container.name.clone(),
        requests: quantities(requests),
        usage: used.cloned().unwrap_or_default(),
    }
}

/// What the pod as a whole requests, if it says so for any resource: its own figures, and what its containers request
/// together for the rest, each with the overhead of its runtime class. Init containers run one after the other, beside
/// the sidecars before them, so each is a minimum.
pub(super) fn pod_requests(spec: &PodSpec) -> BTreeMap<String, Quantity> {
    let of = |container: &Container| {
        quantities(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
    };
    let mut own = quantities(spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
    own.retain(|resource, _| matches!(&**resource, "cpu" | "memory") || resource.starts_with("hugepages-"));
    if own.is_empty() {
        return own;
    }
    let mut all = BTreeMap::new();
    spec.containers.iter().for_each(|container| add(&mut all, of(container)));
    let (mut sidecars, mut minimum) = (BTreeMap::new(), BTreeMap::new());
    for container in spec.init_containers.iter().flatten() {
        let mut needs = sidecars.clone();
        add(&mut needs, of(container));
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut all, of(container));
            sidecars.clone_from(&needs);
        }
        raise(&mut minimum, needs);
    }
    raise(&mut all, minimum);
    all.extend(own);
    add(&mut all, quantities(spec.overhead.as_ref()));
    all
}

fn add(to: &mut BTreeMap<String, Quantity>, more: BTreeMap<String, Quantity>) {
    for (resource, Quantity(more)) in more {
        let sum = &mut to.entry(resource).or_default().0;
        *sum = sum.saturating_add(more);
    }
}

fn raise(to: &mut BTreeMap<String, Quantity>, minimum: BTreeMap<String, Quantity>) {
    for (resource, minimum) in minimum {
        let held = to.entry(resource).or_default();
        *held = minimum.max(*held);
    }
}

fn ready(pod: &Pod) -> Option<Ready> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some(Ready {
        status: match condition.status.as_str() {
            "True" => Condition::True,
            "False" => Condition::False,
            _ => Condition::Unknown,
        },
        since: condition.last_transition_time.as_ref()?.0,
    })
}

/// A request that is no quantity cannot have come through the API; it counts as absent.
fn quantities(requests: Option<&BTreeMap<String, resource::Quantity>>) -> BTreeMap<String, Quantity> {
    let parse = |(resource, quantity): (&String, &resource::Quantity)| {
        Some((resource.clone(), quantity.0.parse::<Quantity>().ok()?))
    };
    requests.into_iter().flatten().filter_map(parse).collect()
}
