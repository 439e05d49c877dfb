use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use engine::{
    effect::{Effect, Plan, Target},
    kind,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};

use crate::object::{
    controller_of, name,
    numbers::{Round, is_percentage, scaled},
    pods, time,
};

const COMPONENT: &str = "controllermanager";
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
/// An eviction that has not led to a deletion by then is taken to have failed.
const EVICTION_PATIENCE: Duration = Duration::from_secs(120);

/// Everything a decision about one budget depends on.
pub(crate) struct Observed {
    pub budget: Arc<PodDisruptionBudget>,
    pub pods: Vec<Arc<Pod>>,
    /// By the uid of the pods' controllers; only for budgets that need it.
    pub scales: BTreeMap<String, Result<Scale, String>>,
}

/// The size that somebody asked for, and who.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    pub uid: String,
    pub replicas: i32,
}

/// A percentage, or a number that may be missing, is relative to how many pods there should be.
pub(crate) fn needs_scales(budget: &PodDisruptionBudget) -> bool {
    let Some(spec) = &budget.spec else { return false };
    spec.max_unavailable.is_some() || spec.min_available.as_ref().is_some_and(is_percentage)
}

pub(crate) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let budget = &*observed.budget;
    let mut plan = Plan::default();
    let stored = budget.status.clone().unwrap_or_default();
    let status = match expectation(observed) {
        Err(message) => failed(budget, stored.clone(), message, now),
        Ok((expected, desired_healthy)) => {
            let (disrupted, recheck) = still_disrupted(observed, &stored, now);
            if let Some(at) = recheck {
                plan.look_again(at);
            }
            let healthy = observed.pods.iter().filter(|pod| {
                pods::ready(pod) && !pods::terminating(pod) && !disrupted.contains_key(name(&pod.metadata))
            });
            let current_healthy = i32::try_from(healthy.count()).unwrap_or(i32::MAX);
            let allowed = if expected <= 0 { 0 } else { (current_healthy - desired_healthy).max(0) };
            let condition =
                if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
            PodDisruptionBudgetStatus {
                current_healthy: Some(current_healthy),
                desired_healthy: Some(desired_healthy),
                expected_pods: Some(expected),
                disruptions_allowed: Some(allowed),
                disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
                observed_generation: budget.metadata.generation,
                conditions: Some(with_condition(budget, &stored, condition, String::new(), now)),
            }
        }
    };
    let unmanaged = needs_scales(budget)
        && observed.pods.iter().any(|pod| controller_of(&pod.metadata).is_none())
        && stored != status;
    if unmanaged {
        let note = "Pods selected by this PodDisruptionBudget have no controller, so how many to expect is not known. \
                    To count them, give .spec.minAvailable as a number.";
        plan.push(Effect::warning(target(budget), COMPONENT, "UnmanagedPods", note));
    }
    if stored != status {
        plan.push(Effect::status(
            &kind::POD_DISRUPTION_BUDGET,
            &budget.metadata,
            budget.status.as_ref(),
            &status,
        ));
    }
    plan
}

fn target(budget: &PodDisruptionBudget) -> Target {
    Target::of(&kind::POD_DISRUPTION_BUDGET, &budget.metadata)
}

/// How many pods there should be, and how many of them healthy.
fn expectation(observed: &Observed) -> Result<(i32, i32), String> {
    let n_pods = i32::try_from(observed.pods.len()).unwrap_or(i32::MAX);
    let Some(spec) = &observed.budget.spec else { return Ok((n_pods, 0)) };
    if let Some(max_unavailable) = &spec.max_unavailable {
        let expected = expected_scale(observed)?;
        let unavailable = scaled(max_unavailable, expected, Round::Up).ok_or_else(|| {
            format!("spec.maxUnavailable {max_unavailable:?} is neither a number nor a percentage")
        })?;
        return Ok((expected, (expected - unavailable).max(0)));
    }
    match &spec.min_available {
        None => Ok((n_pods, 0)),
        Some(min_available) if !is_percentage(min_available) => {
            Ok((n_pods, scaled(min_available, 0, Round::Up).unwrap_or(0)))
        }
        Some(min_available) => {
            let expected = expected_scale(observed)?;
            let healthy = scaled(min_available, expected, Round::Up).ok_or_else(|| {
                format!("spec.minAvailable {min_available:?} is neither a number nor a percentage")
            })?;
            Ok((expected, healthy))
        }
    }
}

fn expected_scale(observed: &Observed) -> Result<i32, String> {
    let mut by_owner: HashMap<&str, i32> = HashMap::new();
    for pod in &observed.pods {
        let Some(owner) = controller_of(&pod.metadata) else { continue };
        match observed.scales.get(&owner.uid) {
            Some(Ok(scale)) => by_owner.insert(&scale.uid, scale.replicas),
            Some(Err(message)) => return Err(message.clone()),
            None => return Err(format!("found no controllers for pod {:?}", name(&pod.metadata))),
        };
    }
    Ok(by_owner.values().fold(0, |sum: i32, n| sum.saturating_add(*n)))
}

/// Evicted pods that are not deleted yet count as gone, for a while.
fn still_disrupted(
    observed: &Observed,
    stored: &PodDisruptionBudgetStatus,
    now: Timestamp,
) -> (BTreeMap<String, Time>, Option<Timestamp>) {
    let mut kept = BTreeMap::new();
    let mut recheck: Option<Timestamp> = None;
    for pod in observed.pods.iter().filter(|pod| !pods::terminating(pod)) {
        let pod_name = name(&pod.metadata);
        let Some(since) = stored.disrupted_pods.as_ref().and_then(|disrupted| disrupted.get(pod_name)) else {
            continue;
        };
        let Ok(until) = since.0.checked_add(EVICTION_PATIENCE) else { continue };
        if until >= now {
            kept.insert(pod_name.to_owned(), since.clone());
            recheck = Some(recheck.map_or(until, |at| at.min(until)));
        }
    }
    (kept, recheck)
}

/// What cannot be counted allows nothing.
fn failed(
    budget: &PodDisruptionBudget,
    stored: PodDisruptionBudgetStatus,
    message: String,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let conditions = with_condition(budget, &stored, ("False", "SyncFailed"), message, now);
    PodDisruptionBudgetStatus { disruptions_allowed: Some(0), conditions: Some(conditions), ..stored }
}

fn with_condition(
    budget: &PodDisruptionBudget,
    stored: &PodDisruptionBudgetStatus,
    (status, reason): (&str, &str),
    message: String,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = stored.conditions.clone().unwrap_or_default();
    let held = conditions.iter().position(|condition| condition.type_ == DISRUPTION_ALLOWED);
    let since = held
        .map(|index| &conditions[index])
        .filter(|held| held.status == status)
        .map_or_else(|| time(now), |held| held.last_transition_time.clone());
    let condition = Condition {
        type_: DISRUPTION_ALLOWED.into(),
        status: status.into(),
        reason: reason.into(),
        message,
        last_transition_time: since,
        observed_generation: budget.metadata.generation,
    };
    match held {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
    conditions
}
