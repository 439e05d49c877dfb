//! One decision about an Hvpa, and what is remembered of it. Pure.

use std::sync::Arc;

use api::hvpa::UpdateMode;
use decide::{
    Chain,
    hvpa::{self, ContainerSize, Observed, Plan as Pair, Rule},
};
use engine::{
    effect::{Effect, Plan, Target},
    kind,
    object::{created, name},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::{
    MANAGER,
    apply::{Applying, Progress, Refused, Situation, applying as applying_to},
    horizontal, hvpa_kind,
    memory::{Applied, Memory, Sizes},
    observe::{Horizontal, Seen, Vertical},
    pods::{has_sizes, kills, pod_sizes},
    vertical,
    workload::{SizesIn, Workload, function_resources},
};

pub type Decision = decide::Decision<Memory, Rule>;

/// While an autoscaler's wish is held back, its scale is set right no more often than this: each time it writes again.
const ACKNOWLEDGE_EVERY: SignedDuration = SignedDuration::from_mins(1);

/// What is left to do for running pods to have the sizes that are wanted.
pub fn applying(
    seen: &Seen,
    wanted: &[ContainerSize],
    memory: &Memory,
    refused: Option<&Refused>,
    now: Timestamp,
) -> Applying {
    let Some(workload) = &seen.workload else { return Applying::default() };
    applying_to(&Situation {
        now,
        pods: &workload.pods,
        replicas: workload.replicas,
        wanted,
        mode: seen.hvpa.spec.update_mode,
        memory,
        refused,
    })
}

/// `was_outdated`: the API refused the last write of the target, since it was about another version of it.
pub fn decide(
    now: Timestamp,
    seen: &Seen,
    mut memory: Memory,
    refused: Option<&Refused>,
    was_outdated: bool,
) -> Decision {
    let (Some(workload), Ok(resolved)) = (&seen.workload, &seen.resolved) else {
        return refuse(seen, memory);
    };
    memory.forget_outdated(workload.replicas, was_outdated);
    let sizes = memory.current_sizes(&workload.sizes, seen.is_in_place());
    let current = Pair { replicas: workload.replicas, containers: sizes.clone() };
    memory.recover(&current);
    let progress = applying(seen, &sizes, &memory, refused, now).progress;
    if progress == Progress::Done {
        memory.eviction = None;
    }
    let is_resizing = match &progress {
        Progress::Done => false,
        Progress::Resizing { .. } => true,
        Progress::Waiting { reason, .. } => *reason != "ResizeRefused",
    };
    let mut spec = resolved.spec.clone();
    let told = recommended(seen, &memory);
    if matches!(seen.horizontal, Horizontal::Scale | Horizontal::Autoscaler { .. }) {
        spec.horizontal.deployed = told.is_some() || !matches!(seen.horizontal, Horizontal::Scale);
    }
    let observed = Observed {
        replicas: current.replicas,
        containers: sizes.clone(),
        horizontal: told,
        vertical: seen.vertical.recommendation(),
        rollout_in_progress: workload.is_rolling || is_resizing,
        settled_at: memory.settle(now, workload.is_complete() && progress == Progress::Done),
        out_of_memory: out_of_memory(seen, workload, &sizes, now),
    };
    let before = memory.decision.clone();
    let decided = hvpa::decide(now, &spec, &observed, &before);
    let decide::Decision { current, desired, reason, steps, next_check, memory: decision } = decided;
    memory.decision = decision;
    let mut decision = Decision { current, desired, reason, steps, next_check, memory };
    if decision.changes() {
        note(now, seen, workload, &mut decision, before);
    }
    prepare(now, seen, workload, &mut decision, refused);
    decision
}

/// Remembers a change.
fn note(now: Timestamp, seen: &Seen, workload: &Workload, decision: &mut Decision, before: hvpa::Memory) {
    let why = decision.why();
    let Decision { current, desired, reason, memory, .. } = decision;
    let mut from = current.clone();
    let sizes_before = memory.sizes.clone();
    if seen.is_in_place() && current.containers != desired.containers {
        let decided = desired.containers.clone();
        memory.sizes = Some(Sizes { template: workload.sizes.clone(), decided });
        // These sizes count from now on, whatever becomes of the count.
        from.containers.clone_from(&desired.containers);
    }
    memory.changed(&from, desired, before, sizes_before);
    memory.applied = Some(Applied { at: now, plan: desired.clone(), reason: reason.code.to_owned(), why });
}

/// What will be done beside the change, remembered before it is.
fn prepare(
    now: Timestamp,
    seen: &Seen,
    workload: &Workload,
    decision: &mut Decision,
    refused: Option<&Refused>,
) {
    let applying = applying(seen, &decision.desired.containers, &decision.memory, refused, now);
    if let Some(pod) = &applying.evict {
        decision.memory.evicted(now, name(&pod.metadata));
    }
    let replicas = decision.desired.replicas;
    let is_new = replicas != decision.current.replicas;
    let written = seen.hvpa.spec.replicas;
    let is_due =
        decision.memory.acknowledged.is_none_or(|(_, at)| now.duration_since(at) >= ACKNOWLEDGE_EVERY);
    let acknowledges = workload.has_scale
        && replicas > 0
        && match (written, &seen.horizontal) {
            // Without it nobody can read the scale, let alone write it.
            (None, _) => true,
            (Some(written), Horizontal::Autoscaler { .. }) => written != replicas && (is_new || is_due),
            _ => false,
        };
    if acknowledges {
        decision.memory.acknowledged = Some((replicas, now));
    }
}

/// The write of a change: count and sizes at once where the template carries them.
pub fn write(target: &Target, seen: &Seen, decision: &Decision) -> Vec<Effect> {
    let Some(workload) = &seen.workload else { return Vec::new() };
    let effect = match (seen.hvpa.spec.update_mode, workload.sizes_in) {
        (UpdateMode::Template, SizesIn::Template) => scaling::resize_template(target, decision),
        (UpdateMode::Template, SizesIn::FunctionResources) => {
            scaling::resize_fields(target, api::kyma::CONTAINER, function_resources, decision)
        }
        _ => scaling::rescale(target, decision).filter(|_| workload.has_scale),
    };
    effect.into_iter().collect()
}

/// What else there is to do, whether something changes or not.
pub fn follow_up(
    seen: &Seen,
    decision: &Decision,
    refused: Option<&Refused>,
    is_held: bool,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    let (Some(workload), Ok(_)) = (&seen.workload, &seen.resolved) else { return plan };
    let about = || Target::of(&hvpa_kind(), &seen.hvpa.metadata);
    let memory = &decision.memory;
    let applying = applying(seen, &decision.desired.containers, memory, refused, now);
    if !is_held {
        for pod in &applying.resizes {
            let target = Target::of(&kind::POD, &pod.metadata);
            plan.effects.extend(scaling::resize_pod(&target, &pod_sizes(pod), decision));
        }
        let evicted = memory.eviction.as_ref().filter(|eviction| eviction.at == now);
        let is_it = |pod: &&Arc<Pod>| evicted.is_some_and(|one| one.pod == name(&pod.metadata));
        if let Some(pod) = workload.pods.iter().find(is_it) {
            let note = format!("Recreate pod {}: it cannot be resized where it runs", name(&pod.metadata));
            plan.push(Effect::event(about(), MANAGER, "RecreatePod", note));
            plan.push(Effect::Evict(Target::of(&kind::POD, &pod.metadata)));
        }
        if memory.acknowledged.is_some_and(|(_, at)| at == now) {
            plan.push(scaling::acknowledge(&about(), decision));
        }
    }
    if let Vertical::Autoscaler { found, .. } = &seen.vertical {
        plan.effects.extend(vertical::child(&seen.hvpa, workload, found.as_deref()));
    }
    plan.next = applying.next;
    plan
}

/// What the horizontal side says, in the knowledge of what was written from here.
pub fn recommended(seen: &Seen, memory: &Memory) -> Option<hvpa::HorizontalRecommendation> {
    let by = match &seen.horizontal {
        Horizontal::Autoscaler { name, .. } => Some(format!("HorizontalPodAutoscaler {name}")),
        Horizontal::Metrics { adopted: Some(name), .. } => {
            Some(format!("the horizontal side, by the metrics of HorizontalPodAutoscaler {name},"))
        }
        _ => None,
    };
    let told = match &seen.horizontal {
        Horizontal::Autoscaler { recommendation, .. } => recommendation.clone(),
        Horizontal::Metrics { answer, .. } => answer.clone().and_then(Result::ok),
        Horizontal::Scale => {
            let own = memory.acknowledged.map(|(replicas, _)| replicas);
            seen.hvpa.spec.replicas.filter(|written| own != Some(*written)).map(horizontal::from_scale)
        }
        Horizontal::Nobody => None,
    };
    told.map(|told| hvpa::HorizontalRecommendation { by, ..told })
}

fn refuse(seen: &Seen, memory: Memory) -> Decision {
    let replicas = seen.workload.as_ref().map_or(0, |workload| workload.replicas);
    let mut chain = Chain::new(Pair { replicas, containers: Vec::new() });
    let why = match &seen.resolved {
        Err(trouble) => trouble.message.clone(),
        Ok(_) => "the target is not known".to_owned(),
    };
    chain.push(Rule::Refused { why });
    chain.finish(memory, None)
}

/// Kills of pods that have the size that counts now: more of what was killed at another size is decided already.
fn out_of_memory(
    seen: &Seen,
    workload: &Workload,
    sizes: &[ContainerSize],
    now: Timestamp,
) -> Vec<hvpa::OutOfMemory> {
    let since = created(&seen.hvpa.metadata, now);
    let pods = workload.pods.iter().filter(|pod| has_sizes(pod, sizes));
    let kills = pods.flat_map(|pod| kills(pod)).filter(|kill| kill.at >= since);
    kills.map(Into::into).collect()
}
