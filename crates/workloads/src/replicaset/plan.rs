use std::sync::Arc;

use engine::{
    Failure, Verb,
    effect::{Announce, Effect, Note, Plan, Target},
    kind,
};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus},
    core::v1::Pod,
};
use serde_json::json;

use super::rank;
use crate::object::{
    being_deleted, claim::claim, controller_reference, name, nonzero, pods, selector, template, time,
};

/// More are created or deleted in a later turn, so that one set cannot occupy the API for long.
const BURST: usize = 500;
const COMPONENT: &str = "replicaset-controller";
const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Everything a decision about one ReplicaSet depends on.
pub(crate) struct Observed {
    pub set: Arc<ReplicaSet>,
    /// Pods of the namespace that the set controls or nobody does.
    pub candidates: Vec<Arc<Pod>>,
    /// Pods of all sets of the same owner.
    pub related: Vec<Arc<Pod>>,
    pub failure: Option<Failure>,
}

pub(crate) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let set = &*observed.set;
    let mut plan = Plan::default();
    let Some(spec) = &set.spec else { return plan };
    let Some(wanted) = selector::parse(&spec.selector).filter(|wanted| !wanted.selects_all()) else {
        return plan;
    };
    let claim =
        claim(&kind::REPLICA_SET, &set.metadata, &wanted, &kind::POD, &observed.candidates, pods::active);
    plan.effects = claim.effects;
    let (active, rest): (Vec<_>, Vec<_>) = claim.owned.into_iter().partition(|pod| pods::active(pod));
    let n_terminating = rest.iter().filter(|pod| pods::terminating(pod) && !pods::finished(pod)).count();

    let desired = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let status = status(observed, &active, n_terminating, desired, min_ready, now);
    let status_effect = (!same(set.status.as_ref(), &status)).then(|| write_status(set, status.clone()));

    let mut changes = Vec::new();
    if !being_deleted(&set.metadata) {
        if active.len() < desired {
            changes = creations(set, (desired - active.len()).min(BURST));
        } else if active.len() > desired {
            let n_surplus = (active.len() - desired).min(BURST);
            changes = deletions(set, rank::first_to_go(&active, &observed.related, n_surplus, now));
        }
    }
    // While creation fails, say so before trying again: the failing effect ends the plan.
    if observed.failure.is_some() {
        plan.effects.extend(status_effect);
        plan.effects.extend(changes);
    } else {
        plan.effects.extend(changes);
        plan.effects.extend(status_effect);
    }
    if min_ready > 0
        && let Some(at) = pods::next_available(active.iter().map(|pod| &**pod), min_ready, now)
    {
        plan.look_again(at);
    }
    plan
}

fn creations(set: &ReplicaSet, n: usize) -> Vec<Effect> {
    let Some(described) = set.spec.as_ref().and_then(|spec| spec.template.as_ref()) else {
        return Vec::new();
    };
    let namespace = set.metadata.namespace.clone().unwrap_or_default();
    let owner = controller_reference(&kind::REPLICA_SET, &set.metadata);
    let mut pod = template::pod(described, &namespace, owner);
    pod.metadata.generate_name = Some(format!("{}-", name(&set.metadata)));
    let create = Effect::Create {
        kind: kind::POD,
        namespace: Some(namespace),
        body: json!(pod),
        announce: Some(Announce {
            regarding: Target::of(&kind::REPLICA_SET, &set.metadata),
            component: COMPONENT,
            done: ("SuccessfulCreate", Note { before: "Created pod: ", after: String::new() }),
            failed: ("FailedCreate", Note { before: "Error creating: ", after: String::new() }),
        }),
    };
    vec![create; n]
}

fn deletions(set: &ReplicaSet, surplus: Vec<Arc<Pod>>) -> Vec<Effect> {
    let announce = Announce {
        regarding: Target::of(&kind::REPLICA_SET, &set.metadata),
        component: COMPONENT,
        done: ("SuccessfulDelete", Note { before: "Deleted pod: ", after: String::new() }),
        failed: ("FailedDelete", Note { before: "Error deleting: ", after: String::new() }),
    };
    let delete = |pod: Arc<Pod>| Effect::Delete {
        // A pod's status changes all the time; that must not save it.
        target: Target { resource_version: None, ..Target::of(&kind::POD, &pod.metadata) },
        propagation: None,
        announce: Some(announce.clone()),
    };
    surplus.into_iter().map(delete).collect()
}

fn status(
    observed: &Observed,
    active: &[Arc<Pod>],
    n_terminating: usize,
    desired: usize,
    min_ready: i32,
    now: Timestamp,
) -> ReplicaSetStatus {
    let set = &*observed.set;
    let template_labels = set
        .spec
        .as_ref()
        .and_then(|spec| spec.template.as_ref())
        .map(crate::object::template_labels)
        .unwrap_or_default();
    let count = |test: &dyn Fn(&Pod) -> bool| {
        i32::try_from(active.iter().filter(|pod| test(pod)).count()).unwrap_or(i32::MAX)
    };
    ReplicaSetStatus {
        replicas: count(&|_| true),
        fully_labeled_replicas: nonzero(count(&|pod| selector::contains(&pod.metadata, &template_labels))),
        ready_replicas: nonzero(count(&pods::ready)),
        available_replicas: nonzero(count(&|pod| pods::available(pod, min_ready, now))),
        terminating_replicas: Some(i32::try_from(n_terminating).unwrap_or(i32::MAX)),
        observed_generation: set.metadata.generation,
        conditions: conditions(observed, active.len(), desired, now),
    }
}

fn conditions(
    observed: &Observed,
    n_active: usize,
    desired: usize,
    now: Timestamp,
) -> Option<Vec<ReplicaSetCondition>> {
    let stored =
        observed.set.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let (held, mut conditions): (Vec<_>, Vec<_>) =
        stored.into_iter().partition(|condition| condition.type_ == REPLICA_FAILURE);
    let failing = observed.failure.as_ref().filter(|failure| {
        failure.kind == kind::POD
            && matches!(failure.verb, Verb::Create | Verb::Delete)
            && n_active != desired
    });
    if let Some(failure) = failing {
        conditions.push(held.into_iter().next().unwrap_or_else(|| ReplicaSetCondition {
            type_: REPLICA_FAILURE.into(),
            status: "True".into(),
            reason: Some(if n_active < desired { "FailedCreate" } else { "FailedDelete" }.into()),
            message: Some(failure.message.clone()),
            last_transition_time: Some(time(now)),
        }));
    }
    (!conditions.is_empty()).then_some(conditions)
}

/// Zero, null and absent are the same; servers differ in which they store.
fn same(stored: Option<&ReplicaSetStatus>, wanted: &ReplicaSetStatus) -> bool {
    let Some(stored) = stored else { return false };
    let zero_to_none = |n: Option<i32>| n.and_then(nonzero);
    let stored = ReplicaSetStatus {
        available_replicas: zero_to_none(stored.available_replicas),
        fully_labeled_replicas: zero_to_none(stored.fully_labeled_replicas),
        ready_replicas: zero_to_none(stored.ready_replicas),
        conditions: stored.conditions.clone().filter(|conditions| !conditions.is_empty()),
        ..stored.clone()
    };
    stored == *wanted
}

fn write_status(set: &ReplicaSet, status: ReplicaSetStatus) -> Effect {
    Effect::status(&kind::REPLICA_SET, &set.metadata, set.status.as_ref(), &status)
}
