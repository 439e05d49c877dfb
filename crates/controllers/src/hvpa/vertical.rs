//! How large containers should be, in the terms of the decision: of a VerticalPodAutoscaler, or learnt here. Pure.

use std::{collections::BTreeMap, sync::Arc};

use api::hvpa::{Hvpa, Spec};
use decide::{
    hvpa::{ContainerRecommendation, ContainerSize, TotalRecommendation, VerticalRecommendation},
    quantity::Quantity,
    recommender::{
        self, Memory, Options, OutOfMemory, Sample,
        amount::{Resource, Resources, Usage as Amounts},
    },
};
use engine::{
    effect::{Effect, Target},
    kind::Kind,
    object::{annotation, by_age, controller_of, controller_reference, name, uid},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    api::DynamicObject,
    core::{Selector, SelectorExt},
};
use serde_json::{Value, json};
use workloads::Usage;

use super::{
    hvpa_kind,
    pods::{kills, pod_sizes},
    workload::Workload,
};

pub const VPA: Kind =
    Kind::namespaced("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", "verticalpodautoscalers");
/// `Embedded` on an Hvpa asks for the recommender in here also where VerticalPodAutoscalers are served.
const RECOMMENDER: &str = "ballast.dev/recommender";
/// What less than an hour of samples says may make pods larger, not smaller.
const YOUNG: f64 = 1.0 / 24.0;
/// What one workload's history may come to in the store.
const LARGEST_HISTORY: usize = 256 << 10;

pub fn wants_embedded(hvpa: &Hvpa) -> bool {
    annotation(&hvpa.metadata, RECOMMENDER).is_some_and(|text| text.eq_ignore_ascii_case("embedded"))
}

/// Derived from the Hvpa, so that two leaders cannot make two.
pub fn child_name(hvpa: &Hvpa) -> String {
    format!("{}-hvpa", name(&hvpa.metadata))
}

/// The one to read among those of the workload: the Hvpa's own, whoever made it, or one of nobody's that `vpa.selector`
/// finds and that never acts, which becomes its own.
pub fn choose(hvpa: &Hvpa, mut of_workload: Vec<Arc<DynamicObject>>) -> Option<Arc<DynamicObject>> {
    of_workload.sort_by(|a, b| by_age(&a.metadata, &b.metadata));
    let selector = hvpa.spec.vpa.as_ref().and_then(|vpa| vpa.selector.clone());
    let selector = selector.and_then(|selector| Selector::try_from(selector).ok());
    let is_found = |vpa: &DynamicObject| {
        let labels = vpa.metadata.labels.clone().unwrap_or_default();
        selector.as_ref().map(|selector| selector.matches(&labels))
    };
    let (own, others): (Vec<_>, Vec<_>) = of_workload.into_iter().partition(|vpa| is_ours(hvpa, vpa));
    let own: Vec<_> = own.into_iter().filter(|vpa| is_found(vpa).unwrap_or(true)).collect();
    let usual = own.iter().find(|vpa| name(&vpa.metadata) == child_name(hvpa));
    let is_free = |vpa: &&Arc<DynamicObject>| {
        is_found(vpa) == Some(true) && controller_of(&vpa.metadata).is_none() && only_recommends(vpa)
    };
    usual.or(own.first()).or(others.iter().find(is_free)).cloned()
}

/// Makes what [`choose`] found, or did not, the VerticalPodAutoscaler that recommends for an Hvpa and never acts; nothing
/// if it is as it should be.
pub fn child(hvpa: &Hvpa, workload: &Workload, found: Option<&DynamicObject>) -> Vec<Effect> {
    let mut wanted = json!({
        "targetRef": {
            "apiVersion": workload.target.kind.api_version(),
            "kind": workload.target.kind.kind,
            "name": workload.target.name,
        },
        "updatePolicy": { "updateMode": "Off" },
    });
    let policy = resource_policy(&hvpa.spec);
    if !policy.is_null() {
        wanted["resourcePolicy"] = policy;
    }
    let mut body = json!({
        "metadata": { "ownerReferences": [controller_reference(&hvpa_kind(), &hvpa.metadata)] },
        "spec": wanted,
    });
    if let Some(metadata) = hvpa.spec.vpa.as_ref().and_then(|vpa| vpa.template.metadata.as_ref()) {
        let maps = [("labels", &metadata.labels), ("annotations", &metadata.annotations)];
        for (field, map) in maps.into_iter().filter(|(_, map)| !map.is_empty()) {
            body["metadata"][field] = json!(map);
        }
    }
    let namespace = hvpa.metadata.namespace.as_deref();
    match found {
        None => vec![Effect::Apply {
            target: Target::absent(&VPA, namespace, child_name(hvpa)),
            must_be_absent: true,
            body,
        }],
        Some(found) if is_ours(hvpa, found) && is_as(found, &body) => Vec::new(),
        Some(found) => {
            let is_new = !is_ours(hvpa, found);
            let confirm = is_new.then(|| Effect::Confirm(Target::of(&hvpa_kind(), &hvpa.metadata)));
            let target = Target::of(&VPA, &found.metadata);
            confirm.into_iter().chain([Effect::Apply { target, must_be_absent: false, body }]).collect()
        }
    }
}

fn is_as(found: &DynamicObject, wanted: &Value) -> bool {
    let metadata = json!(found.metadata);
    let has =
        |field: &str| wanted["metadata"].get(field).is_none_or(|wanted| contains(&metadata[field], wanted));
    has("labels") && has("annotations") && contains(&found.data["spec"], &wanted["spec"])
}

/// The API adds defaults; what was asked for has to be there.
fn contains(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| found.get(key).map_or(wanted.is_null(), |found| contains(found, wanted))),
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found.iter().zip(wanted).all(|(found, wanted)| contains(found, wanted))
        }
        _ => found == wanted,
    }
}

fn resource_policy(spec: &Spec) -> Value {
    let of_vpa = spec.vpa.as_ref().and_then(|vpa| vpa.template.spec.resource_policy.as_ref());
    let embedded = spec.vpa_spec.as_ref().and_then(|vpa| vpa.spec.resource_policy.as_ref());
    let mut policy = json!(of_vpa.or(embedded));
    // An amount that is not set is left out of ours, and an empty map is not the same to everybody.
    let policies = policy.get_mut("containerPolicies").and_then(Value::as_array_mut);
    for one in policies.into_iter().flatten() {
        if let Some(fields) = one.as_object_mut() {
            fields.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
        }
    }
    policy
}

pub fn is_ours(hvpa: &Hvpa, vpa: &DynamicObject) -> bool {
    controller_of(&vpa.metadata).is_some_and(|owner| owner.uid == uid(&hvpa.metadata))
}

/// Whether this VerticalPodAutoscaler changes pods of the workload by itself.
pub fn acts_on(vpa: &DynamicObject, workload: &Target) -> bool {
    let spec = &vpa.data["spec"];
    let target = &spec["targetRef"];
    target["kind"] == *workload.kind.kind
        && target["name"] == workload.name.as_str()
        && vpa.metadata.namespace == workload.namespace
        && !only_recommends(vpa)
}

fn only_recommends(vpa: &DynamicObject) -> bool {
    vpa.data["spec"]["updatePolicy"]["updateMode"] == "Off"
}

/// What a VerticalPodAutoscaler recommends.
pub fn from_vpa(vpa: &DynamicObject) -> VerticalRecommendation {
    let status = &vpa.data["status"];
    let holds = |name: &str| {
        let conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|condition| condition["type"] == name && condition["status"] == "True")
    };
    let amounts = |value: &Value| {
        let amount = |one: Resource| {
            let quantity: Quantity = value[one.name()].as_str()?.parse().ok()?;
            Some(one.amount_of(quantity))
        };
        Resources { cpu: amount(Resource::Cpu), memory: amount(Resource::Memory) }
    };
    let containers = status["recommendation"]["containerRecommendations"].as_array();
    let containers: Vec<ContainerRecommendation> = containers
        .into_iter()
        .flatten()
        .map(|one| ContainerRecommendation {
            container_name: one["containerName"].as_str().unwrap_or_default().to_owned(),
            target: amounts(&one["target"]),
            lower_bound: amounts(&one["lowerBound"]),
            upper_bound: amounts(&one["upperBound"]),
            uncapped_target: amounts(&one["uncappedTarget"]),
            total: TotalRecommendation::default(),
        })
        .collect();
    VerticalRecommendation {
        provided: holds("RecommendationProvided") && !containers.is_empty(),
        low_confidence: holds("LowConfidence"),
        config_unsupported: holds("ConfigUnsupported"),
        sampled_at: None,
        containers,
    }
}

pub fn recommender(spec: &decide::hvpa::Spec) -> recommender::Spec {
    recommender::Spec {
        container_policies: spec.vertical.container_policies.clone(),
        options: Options { learn_totals: true, ..Options::default() },
        ..recommender::Spec::default()
    }
}

/// What pods used, and what they were killed for.
pub fn seen(pods: &[Arc<Pod>], usage: &BTreeMap<String, Usage>, now: Timestamp) -> recommender::Observed {
    let mut observed = recommender::Observed::default();
    for pod in pods {
        let pod_name = name(&pod.metadata);
        if let Some(used) = usage.get(pod_name) {
            for (container, figures) in &used.containers {
                let units = |one: Resource| {
                    let Quantity(milli) = figures.get(one.name())?.0?;
                    Some(milli as f64 / 1000.0)
                };
                observed.samples.push(Sample {
                    at: used.at.unwrap_or(now),
                    pod: pod_name.to_owned(),
                    container: container.clone(),
                    usage: Amounts { cpu: units(Resource::Cpu), memory: units(Resource::Memory) },
                });
            }
        }
        let sizes = pod_sizes(pod);
        for kill in kills(pod) {
            let killed =
                |size: &&ContainerSize| kill.container.as_ref().is_none_or(|name| *name == size.name);
            for size in sizes.iter().filter(killed) {
                observed.out_of_memory.push(OutOfMemory {
                    at: kill.at,
                    pod: pod_name.to_owned(),
                    container: size.name.clone(),
                    request: Resource::Memory.units(size.requests.memory.unwrap_or(0)),
                });
            }
        }
    }
    observed
}

/// What was learnt, as a recommendation. `sizes` are those that pods have now.
pub fn from_recommender(
    learnt: &recommender::Recommendation,
    sizes: &[ContainerSize],
    sampled_at: Option<Timestamp>,
) -> VerticalRecommendation {
    let containers = learnt.containers.iter().map(|one| {
        let mut target = one.target;
        if one.confidence < YOUNG
            && let Some(size) = sizes.iter().find(|size| size.name == one.container_name)
        {
            for resource in Resource::ALL {
                if let (Some(known), Some(held)) = (target.get(resource), size.requests.get(resource)) {
                    target.set(resource, Some(known.max(held)));
                }
            }
        }
        ContainerRecommendation {
            container_name: one.container_name.clone(),
            target,
            lower_bound: one.lower_bound,
            upper_bound: one.upper_bound,
            uncapped_target: one.uncapped_target,
            total: TotalRecommendation {
                target: one.total.target,
                lower_bound: one.total.lower_bound,
                upper_bound: one.total.upper_bound,
            },
        }
    });
    let containers: Vec<_> = containers.collect();
    VerticalRecommendation {
        provided: !containers.is_empty(),
        low_confidence: false,
        config_unsupported: false,
        sampled_at,
        containers,
    }
}

/// Without the open day of each pod, if those of many pods are more than should be kept.
pub fn bounded(memory: Memory, options: &Options, now: Timestamp) -> Memory {
    if serde_json::to_vec(&memory).is_ok_and(|text| text.len() <= LARGEST_HISTORY) {
        return memory;
    }
    let closed = memory.containers.iter().filter_map(|(name, container)| {
        let closed = recommender::Container::load(&container.save(options, now)).ok()?;
        Some((name.clone(), closed))
    });
    Memory { containers: closed.collect(), totals: BTreeMap::new() }
}
