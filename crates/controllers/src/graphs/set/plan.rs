//! What has to be written for a Set: `decide::rollout` says which instances, this says how. Pure.

use std::{collections::HashMap, sync::Arc};

use decide::{
    Decision, Rule, Step,
    rollout::{self, Actions},
};
use engine::{
    Failure,
    effect::{Announce, Application, Effect, Note, Plan, Propagation, Target},
    kind::Kind,
    object::{controller_of, controller_reference, label, name, uid},
};
use graph::{labels, plan::is_suspended};
use jiff::Timestamp;
use kube::api::DynamicObject;
use scaling::{Outcome, Record};
use serde_json::{Value, json};

use super::{children, status};
use crate::graphs::{SET_MANAGER, figures, object};

/// As records of decisions name it.
const POLICY: &str = "set";
/// No single turn makes more than this, so that one typo does not flood the API server.
const MOST_CREATIONS: u32 = 500;

pub(super) struct Observed {
    pub kind: Kind,
    pub instance_kind: Kind,
    pub set: Arc<DynamicObject>,
    /// Those that the Set controls, and those without an owner that bear its mark.
    pub instances: Vec<Arc<DynamicObject>>,
    /// Why the last plan ended early.
    pub failure: Option<Failure>,
}

/// A decision about a Set.
pub(super) struct Planned {
    pub plan: Plan,
    pub figures: figures::Set,
    pub record: Record,
}

pub(super) fn plan(observed: &Observed, now: Timestamp) -> Planned {
    let meta = &observed.set.metadata;
    let set = object::value(&observed.kind, &observed.set);
    let template = &set["spec"]["template"];
    let count = |value: &Value, unset: u32| {
        value.as_u64().map_or(unset, |count| u32::try_from(count).unwrap_or(u32::MAX))
    };
    let spec = rollout::Spec {
        name: name(meta).to_owned(),
        replicas: count(&set["spec"]["replicas"], 1),
        max_concurrent_updated: count(&set["spec"]["rollingUpdate"]["maxConcurrentUpdated"], 1).max(1),
        revision: children::revision(template),
        max_creations: MOST_CREATIONS,
    };
    let (own, strays) = sorted(observed);
    let own: Vec<&Arc<DynamicObject>> = own;
    let instances: Vec<rollout::Instance> =
        own.iter().map(|instance| children::observed(instance, now)).collect();
    let seed = children::seed(meta, &instances);
    let seen = rollout::Observed { instances };
    // The engine plans only when the caches show what the plan before has written: there is nothing to remember.
    let decision = rollout::plan(now, &spec, &seen, &rollout::Memory::default(), seed);
    let counts = rollout::counts(&spec, &seen);
    let is_paused = is_suspended(&set);
    let wanted = status::Wanted {
        counts,
        spec: &spec,
        code: decision.reason.code,
        why: decision.why(),
        is_paused,
        failure: observed.failure.as_ref(),
    };
    let mut effects = status::write(&observed.kind, &observed.set, &set, &wanted, now);
    let is_rolling_out =
        counts.updated_ready_replicas < counts.replicas || counts.updated_replicas < counts.replicas;
    let figures = figures::Set { desired: spec.replicas, counts, is_rolling_out };
    let record = |outcome| record(observed, &decision, &figures, outcome, now);
    if is_paused {
        let record = record(Outcome::Held(format!("the annotation {} says so", labels::RECONCILE)));
        return Planned { plan: Plan::from(effects), record, figures };
    }
    if !strays.is_empty() {
        // who is counted changes, so that the rest waits for the next turn
        effects.extend(strays);
        let record = record(Outcome::Held("instances are taken in or let go first".to_owned()));
        return Planned { plan: Plan::from(effects), record, figures };
    }
    let how = children::Wanted { set_kind: &observed.kind, set: meta, template, revision: &spec.revision };
    effects.extend(act(observed, &own, &how, &decision.desired));
    let does_something = decision.desired != Actions::default();
    let record = record(if does_something { Outcome::Written } else { Outcome::Nothing });
    Planned { plan: Plan::from(effects), record, figures }
}

/// For who asks why. Names of instances are counted, not listed: a Set may have thousands.
fn record(
    observed: &Observed,
    decision: &Decision<rollout::Memory, rollout::Rule>,
    figures: &figures::Set,
    outcome: Outcome,
    now: Timestamp,
) -> Record {
    let shown = |Actions { delete, create, update }: &Actions| {
        let parts = [("delete", delete.len()), ("create", create.len()), ("update", update.len())];
        let parts: Vec<String> =
            parts.iter().filter(|(_, n)| *n > 0).map(|(verb, n)| format!("{verb} {n}")).collect();
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
    };
    let step = |step: &Step<rollout::Rule>| {
        json!({
            "rule": step.rule.name(), "before": shown(&step.before), "after": shown(&step.after),
            "words": step.words().to_string(),
        })
    };
    let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    Record {
        at: now,
        policy: POLICY.to_owned(),
        object: (&Target::of(&observed.kind, &observed.set.metadata)).into(),
        current: count(figures.counts.replicas),
        desired: i32::try_from(figures.desired).unwrap_or(i32::MAX),
        sizes: None,
        reason: decision.reason.code.to_owned(),
        why: decision.why(),
        outcome,
        conflict: None,
        steps: decision.steps.iter().map(step).collect(),
        next_check: decision.next_check,
    }
}

/// Instances that are counted, and what has to be written so that the right ones are: an orphan that bears the Set's
/// mark is taken in, and one whose mark somebody has taken off is let go.
fn sorted(observed: &Observed) -> (Vec<&Arc<DynamicObject>>, Vec<Effect>) {
    let meta = &observed.set.metadata;
    let mark = children::label_value(name(meta));
    let (mut own, mut effects) = (Vec::new(), Vec::new());
    for instance in &observed.instances {
        let owners = instance.metadata.owner_references.clone().unwrap_or_default();
        let is_marked = label(&instance.metadata, labels::SET_NAME) == Some(mark.as_str());
        let is_controlled = controller_of(&instance.metadata).is_some_and(|owner| owner.uid == uid(meta));
        let target = Target::of(&observed.instance_kind, &instance.metadata);
        let is_leaving = instance.metadata.deletion_timestamp.is_some();
        match (is_controlled, is_marked) {
            (true, true) => own.push(instance),
            (true, false) if is_leaving => own.push(instance),
            (true, false) => {
                let rest: Vec<_> = owners.into_iter().filter(|owner| owner.uid != uid(meta)).collect();
                effects.push(Effect::patch(target, json!({ "metadata": { "ownerReferences": rest } })));
            }
            (false, true) if !is_leaving => {
                let mut all = owners;
                all.push(controller_reference(&observed.kind, meta));
                effects.push(Effect::Confirm(Target::of(&observed.kind, meta)));
                effects.push(Effect::patch(target, json!({ "metadata": { "ownerReferences": all } })));
            }
            (false, _) => {}
        }
    }
    (own, effects)
}

fn act(
    observed: &Observed,
    own: &[&Arc<DynamicObject>],
    how: &children::Wanted<'_>,
    actions: &Actions,
) -> Vec<Effect> {
    let by_uid: HashMap<&str, &Arc<DynamicObject>> =
        own.iter().map(|instance| (uid(&instance.metadata), *instance)).collect();
    let set = Target::of(&observed.kind, &observed.set.metadata);
    let tell = |reason: &'static str, note: String| Effect::event(set.clone(), SET_MANAGER, reason, note);
    let mut effects = Vec::new();
    for instance in actions.delete.iter().filter_map(|victim| by_uid.get(victim.uid.as_str())) {
        let note = |before| Note { before, after: String::new() };
        effects.push(Effect::Delete {
            target: Target {
                // its status may change meanwhile
                resource_version: None,
                ..Target::of(&observed.instance_kind, &instance.metadata)
            },
            propagation: Some(Propagation::Background),
            announce: Some(Announce {
                regarding: set.clone(),
                component: SET_MANAGER,
                done: ("SuccessfulDelete", note("deleted instance ")),
                failed: ("FailedDelete", note("failed to delete an instance: ")),
            }),
        });
    }
    // 1, 2, 4 …: if the API refuses them, it is asked once, not five hundred times
    let mut new = actions.create.iter();
    for size in rollout::slow_start(actions.create.len()) {
        let batch: Vec<&rollout::NewInstance> = new.by_ref().take(size).collect();
        let apply = batch.iter().map(|new| Application {
            target: Target::absent(
                &observed.instance_kind,
                observed.set.metadata.namespace.as_deref(),
                &new.name,
            ),
            must_be_absent: true,
            body: how.new_instance(new.sequence),
        });
        effects.push(Effect::ApplyAll(apply.collect()));
        effects.extend(
            batch.iter().map(|new| tell("SuccessfulCreate", format!("created instance {}", new.name))),
        );
    }
    let outdated: Vec<&Arc<DynamicObject>> =
        actions.update.iter().filter_map(|one| by_uid.get(one.uid.as_str()).copied()).collect();
    if !outdated.is_empty() {
        let apply = outdated.iter().map(|instance| {
            let sequence = children::observed(instance, Timestamp::UNIX_EPOCH).sequence;
            Application {
                target: Target::of(&observed.instance_kind, &instance.metadata),
                must_be_absent: false,
                body: how.updated(&observed.instance_kind, instance, sequence),
            }
        });
        effects.push(Effect::ApplyAll(apply.collect()));
        for instance in outdated {
            let note = format!("updated instance {} to template {}", name(&instance.metadata), how.revision);
            effects.push(tell("SuccessfulUpdate", note));
            let target = Target::of(&observed.instance_kind, &instance.metadata);
            let note = format!("updated to template {} of {}", how.revision, set.name);
            effects.push(Effect::event(target, SET_MANAGER, "SuccessfulUpdate", note));
        }
    }
    effects
}
