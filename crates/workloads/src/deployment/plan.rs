use std::sync::Arc;

use engine::{
    Failure, Verb,
    effect::{Effect, Plan, Target},
    kind,
};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};

use super::{
    rollout::{COMPONENT, Rollout},
    status,
};
use crate::object::{being_deleted, claim::claim, pods, selector, uid};

/// Everything a decision about one Deployment depends on.
pub(crate) struct Observed {
    pub deployment: Arc<Deployment>,
    /// ReplicaSets of the namespace that the Deployment controls or nobody does.
    pub candidates: Vec<Arc<ReplicaSet>>,
    /// Names taken by other owners' ReplicaSets.
    pub foreign_names: Vec<String>,
    /// Pods controlled by the candidates.
    pub pods: Vec<Arc<Pod>>,
    pub failure: Option<Failure>,
}

pub(crate) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let deployment = &*observed.deployment;
    let Some(spec) = &deployment.spec else { return Plan::default() };
    let Some(wanted) = selector::parse(&spec.selector) else { return Plan::default() };
    if wanted.selects_all() {
        return selecting_all(deployment);
    }
    let claim = claim(
        &kind::DEPLOYMENT,
        &deployment.metadata,
        &wanted,
        &kind::REPLICA_SET,
        &observed.candidates,
        |_| true,
    );
    let mut rollout = Rollout::new(observed, spec, claim.owned, now);
    rollout.effects = claim.effects;

    if being_deleted(&deployment.metadata) {
        rollout.settle_revision();
        rollout.count();
        return rollout.finish();
    }
    rollout.note_pause();
    let paused = spec.paused == Some(true);
    if paused || rollout.wants_scaling() {
        rollout.settle_revision();
        rollout.scale_in_proportion();
        if paused {
            rollout.clean_up();
        }
        rollout.count();
        return rollout.finish();
    }
    let recreate = spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate");
    if recreate {
        recreate_turn(&mut rollout, observed)
    } else {
        rolling_turn(&mut rollout, observed)
    }
    rollout.finish()
}

fn selecting_all(deployment: &Deployment) -> Plan {
    let target = Target::of(&kind::DEPLOYMENT, &deployment.metadata);
    let observed = deployment.status.as_ref().and_then(|status| status.observed_generation);
    if observed >= deployment.metadata.generation {
        return Plan::default();
    }
    let mut status = deployment.status.clone().unwrap_or_default();
    status.observed_generation = deployment.metadata.generation;
    let note = "This deployment is selecting all pods. A non-empty selector is required.";
    vec![Effect::warning(target, COMPONENT, "SelectingAll", note), status::write(deployment, status)].into()
}

fn rolling_turn(rollout: &mut Rollout<'_>, observed: &Observed) {
    if !ensure_new_set(rollout, observed) {
        return;
    }
    let scaled = rollout.grow_new() || rollout.shrink_old();
    if !scaled && rollout.stored_complete() {
        rollout.clean_up();
    }
    rollout.count_and_judge();
}

fn recreate_turn(rollout: &mut Rollout<'_>, observed: &Observed) {
    rollout.settle_revision();
    let scaled_down = rollout.shrink_old_to_nothing();
    if scaled_down || old_pods_exist(rollout, observed) {
        return rollout.count_and_judge();
    }
    if rollout.new.is_none() && !ensure_new_set(rollout, observed) {
        return;
    }
    rollout.resize_new(rollout.replicas);
    if rollout.stored_complete() {
        rollout.clean_up();
    }
    rollout.count_and_judge();
}

/// False if there is no new set to go on with: its name is taken, or the last attempt to create it failed.
fn ensure_new_set(rollout: &mut Rollout<'_>, observed: &Observed) -> bool {
    rollout.settle_revision();
    if rollout.new.is_some() {
        return true;
    }
    let refused = observed
        .failure
        .as_ref()
        .filter(|failure| failure.verb == Verb::Create && failure.kind == kind::REPLICA_SET);
    match refused {
        Some(failure) => {
            rollout.report_refusal(&failure.name, &failure.message, &observed.foreign_names);
            false
        }
        None => rollout.create_new(&observed.foreign_names),
    }
}

/// A pod that is not finished counts until it is gone: Recreate never runs two versions side by side.
fn old_pods_exist(rollout: &Rollout<'_>, observed: &Observed) -> bool {
    let new_uid = rollout.new.map(|new| uid(&rollout.sets[new].object.metadata).to_owned());
    let is_new = |pod: &Pod| {
        crate::object::controller_of(&pod.metadata).map(|owner| owner.uid.as_str()) == new_uid.as_deref()
    };
    rollout.old_indexes().any(|old| rollout.sets[old].running() > 0)
        || observed.pods.iter().any(|pod| !is_new(pod) && !pods::finished(pod))
}
