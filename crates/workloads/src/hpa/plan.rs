use std::sync::Arc;

use decide::hpa::{self, Decision, Memory, status::report};
use engine::{
    Failure,
    effect::{Effect, Plan, Target},
    kind,
};
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus};
use serde_json::{Value, json};

use super::status::{self, Conditions};
use crate::object::{annotation, nonzero, time};

pub(super) const COMPONENT: &str = "horizontal-pod-autoscaler";
/// What the windows and budgets need to know of the past, for a process that comes later.
pub(super) const MEMORY: &str = "autoscaling.ballast.dev/memory";

/// Everything the effects for one autoscaler depend on.
pub(super) struct Observed {
    pub hpa: Arc<HorizontalPodAutoscaler>,
    /// What is scaled, and its size.
    pub target: Option<(Target, i32)>,
    pub input: Result<Input, Trouble>,
    pub failure: Option<Failure>,
}

/// A decision's input, without the time.
pub(super) struct Input {
    pub spec: hpa::Spec,
    pub observed: hpa::Observed,
    pub memory: Memory,
}

/// Why there can be no decision.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Trouble {
    NoScale(String),
    BadSelector(String),
    BadSpec(String),
}

/// The effects, and the decision if there was one.
pub(super) fn plan(observed: &Observed, now: Timestamp) -> (Plan, Option<Decision>) {
    let mut conditions = Conditions::of(&observed.hpa, now);
    let own = Target::of(&kind::HORIZONTAL_POD_AUTOSCALER, &observed.hpa.metadata);
    let mut plan = Plan::default();
    let stored = observed.hpa.status.clone().unwrap_or_default();
    let input = match &observed.input {
        Ok(input) => input,
        Err(trouble) => {
            let (reason, message) = match trouble {
                Trouble::NoScale(message) => {
                    conditions.set("AbleToScale", false, "FailedGetScale", message.clone());
                    ("FailedGetScale", message)
                }
                Trouble::BadSelector(message) => {
                    conditions.set("ScalingActive", false, "InvalidSelector", message.clone());
                    ("InvalidSelector", message)
                }
                Trouble::BadSpec(message) => {
                    conditions.set("ScalingActive", false, "InvalidMetricSourceType", message.clone());
                    ("InvalidMetricSourceType", message)
                }
            };
            if conditions.changed() {
                plan.push(Effect::warning(own, COMPONENT, reason, message.clone()));
            }
            let status = HorizontalPodAutoscalerStatus { conditions: conditions.finish(), ..stored };
            plan.effects.extend(status::write_if_changed(&observed.hpa, status));
            return (plan, None);
        }
    };
    let decision = hpa::decide(now, &input.spec, &input.observed, input.memory.clone());
    let report = report(&input.spec, &decision);
    let scale_refused = observed.failure.as_ref().filter(|failure| failure.kind != own.kind);
    if let Some(failure) = scale_refused {
        let message =
            format!("the HPA controller was unable to update the target scale: {}", failure.message);
        conditions.set("AbleToScale", false, "FailedUpdateScale", message);
    } else {
        let message = "the HPA controller was able to get the target's current scale";
        conditions.set("AbleToScale", true, "SucceededGetScale", message.into());
    }
    for condition in &report.conditions {
        // A refusal stays to be seen until a write succeeds.
        if scale_refused.is_some() && condition.kind == "AbleToScale" {
            continue;
        }
        let mut message = condition.message.clone();
        if condition.reason.starts_with("FailedGet") {
            message = format!("the HPA was unable to compute the replica count: {message}");
            if conditions.reason(condition.kind) != Some(condition.reason) {
                plan.push(Effect::warning(own.clone(), COMPONENT, condition.reason, message.clone()));
            }
        }
        conditions.set(condition.kind, condition.status, condition.reason, message);
    }
    let mut last_scale_time = stored.last_scale_time.clone();
    let rescale = rescale(observed, &decision, report.rescale.as_deref());
    if rescale.is_some() {
        last_scale_time = Some(time(now));
        let message =
            format!("the HPA controller was able to update the target scale to {}", decision.desired);
        if scale_refused.is_none() {
            conditions.set("AbleToScale", true, "SucceededRescale", message);
        }
    }
    if decision.changes() {
        let own_zero = decision.desired == 0 && input.spec.min == 0 && input.spec.works_without_pods();
        conditions.set_zero(own_zero);
    }
    // Told before the attempt that may fail again.
    let status = HorizontalPodAutoscalerStatus {
        observed_generation: observed.hpa.metadata.generation,
        current_replicas: nonzero(decision.current),
        desired_replicas: decision.desired,
        last_scale_time,
        current_metrics: status::current_metrics(&observed.hpa, &report.metrics),
        conditions: conditions.finish(),
    };
    let status = status::write_if_changed(&observed.hpa, status);
    if scale_refused.is_some() {
        plan.effects.extend(status);
        plan.effects.extend(remember(&observed.hpa, &decision));
        plan.effects.extend(rescale.into_iter().flatten());
    } else {
        // The past is written before the change it is about: a crash in between forgets nothing.
        plan.effects.extend(remember(&observed.hpa, &decision));
        plan.effects.extend(rescale.into_iter().flatten());
        plan.effects.extend(status);
    }
    if let Some(at) = decision.next_check {
        plan.look_again(at.max(now));
    }
    (plan, Some(decision))
}

fn rescale(observed: &Observed, decision: &Decision, why: Option<&str>) -> Option<[Effect; 2]> {
    let (target, _) = observed.target.clone()?;
    let own = Target::of(&kind::HORIZONTAL_POD_AUTOSCALER, &observed.hpa.metadata);
    let why = why.unwrap_or(decision.reason.code);
    let note = format!("New size: {}; reason: {why}", decision.desired);
    Some([scaling::rescale(&target, decision)?, Effect::event(own, COMPONENT, "SuccessfulRescale", note)])
}

/// The newest recommendation is left out: it is made again at the next start, and its time would change with every
/// decision although nothing else does.
fn durable(memory: &Memory) -> Option<String> {
    let mut value = json!(memory);
    if let Some(recommendations) = value["recommendations"].as_array_mut() {
        recommendations.pop();
    }
    let empty = |value: &Value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        other => other.is_null(),
    };
    let nothing = empty(&value["recommendations"]) && empty(&value["changes"]);
    (!nothing).then(|| value.to_string())
}

fn remember(hpa: &HorizontalPodAutoscaler, decision: &Decision) -> Option<Effect> {
    let wanted = durable(&decision.memory);
    if annotation(&hpa.metadata, MEMORY) == wanted.as_deref() {
        return None;
    }
    let target = Target::of(&kind::HORIZONTAL_POD_AUTOSCALER, &hpa.metadata);
    Some(Effect::patch(target, json!({ "metadata": { "annotations": { MEMORY: wanted } } })))
}

/// What an earlier process left. Something unreadable is as good as nothing: windows begin anew.
pub(super) fn stored_memory(hpa: &HorizontalPodAutoscaler) -> Memory {
    annotation(&hpa.metadata, MEMORY).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}
