//! A HorizontalPodAutoscaler that scales the target itself and has left the count to an Hvpa: both of its directions are
//! switched off, so that it writes no count but one outside its own bounds. Its metrics are read here, and the Hvpa stays
//! within those bounds: there is never a count that both would write. Pure.

use std::sync::Arc;

use api::hvpa::Resolved;
use decide::hpa::Settings;
use engine::object::name;
use k8s_openapi::api::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscaler};

/// Whether it leaves every count alone that is within its bounds.
pub fn is_switched_off(hpa: &HorizontalPodAutoscaler) -> bool {
    let is_off = |rules: &Option<HPAScalingRules>| {
        rules.as_ref()?.select_policy.as_deref().map(|one| one == "Disabled")
    };
    let behavior = hpa.spec.behavior.as_ref();
    behavior
        .is_some_and(|both| is_off(&both.scale_up) == Some(true) && is_off(&both.scale_down) == Some(true))
}

/// Why the autoscalers of the target and an Hvpa of this name cannot both be. `of_hvpa` are those that scale the Hvpa.
pub fn conflict(
    direct: &[Arc<HorizontalPodAutoscaler>],
    of_hvpa: &[Arc<HorizontalPodAutoscaler>],
    target: &str,
    hvpa: &str,
) -> Option<String> {
    if let Some(hpa) = direct.iter().find(|hpa| !is_switched_off(hpa)) {
        return Some(format!(
            "HorizontalPodAutoscaler {} scales {target} directly: let it scale Hvpa {hvpa}, or delete it, or set \
             selectPolicy: Disabled in its behavior.scaleUp and behavior.scaleDown to have its metrics read here",
            name(&hpa.metadata)
        ));
    }
    let one = direct.first()?;
    // The autoscaler's controller refuses both where two follow the same pods, and of two nobody can say whose metrics count.
    let (other, scales) = match (direct.get(1), of_hvpa.first()) {
        (Some(other), _) => (other, target.to_owned()),
        (None, Some(other)) => (other, format!("Hvpa {hvpa}")),
        (None, None) => return None,
    };
    Some(format!(
        "HorizontalPodAutoscaler {} scales {target} and HorizontalPodAutoscaler {} scales {scales}: delete one of them",
        name(&one.metadata),
        name(&other.metadata)
    ))
}

/// Gives the Hvpa the autoscaler's metrics and bounds in place of its own metrics and beside its own bounds.
///
/// # Errors
/// In words, if no count would suit both, or the autoscaler's spec cannot be used.
pub fn adopt(resolved: &mut Resolved, hpa: &HorizontalPodAutoscaler) -> Result<(), String> {
    let of = format!("HorizontalPodAutoscaler {}", name(&hpa.metadata));
    let (_, mut form) = api::hpa::spec(&hpa.spec, Settings::default())
        .map_err(|error| format!("the metrics of {of} cannot be read: spec.{error}"))?;
    let (least, most) = (form.min_replicas.unwrap_or(1), form.max_replicas);
    let (min, max) = (resolved.spec.min_replicas.max(least), resolved.spec.max_replicas.min(most));
    if min > max {
        return Err(format!(
            "{of} keeps {least} to {most} replicas and this Hvpa {} to {}: let them overlap",
            resolved.spec.min_replicas, resolved.spec.max_replicas
        ));
    }
    if let Some(behavior) = &mut form.behavior {
        for rules in [&mut behavior.scale_up, &mut behavior.scale_down].into_iter().flatten() {
            rules.select_policy = None;
        }
    }
    (form.min_replicas, form.max_replicas) = (Some(min), max);
    (resolved.spec.min_replicas, resolved.spec.max_replicas) = (min, max);
    resolved.spec.horizontal.deployed = true;
    resolved.horizontal = form;
    Ok(())
}
