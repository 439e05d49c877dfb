//! What an Hvpa's status says. True at every turn, and written only when something changed that a person would notice:
//! amounts that moved by a little with the last sample are not.

use api::hvpa::{
    Applied, Blocked, ContainerStatus, HorizontalStatus, Hvpa, LastScaling, NeedStatus, ResourceAmounts,
    Status, VerticalStatus,
};
use decide::{
    Step,
    hvpa::{
        Axis, ContainerSize, HorizontalRecommendation, Need, ResourceMetric, Rule, VerticalRecommendation,
    },
    recommender::amount::{Resource, Resources},
};
use engine::{Failure, effect::Effect, object::time};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Condition};
use serde_json::json;

use super::{
    apply::Progress,
    hvpa_kind,
    memory::Memory,
    observe::{Horizontal, Seen, Vertical},
    workload::SizesIn,
};

const READY: &str = "Ready";
const HORIZONTAL: &str = "HorizontalRecommendation";
const VERTICAL: &str = "VerticalRecommendation";
const RESIZED: &str = "Resized";
/// Amounts that differ by less are not news.
const NEAR: f64 = 0.05;

pub struct Facts<'a> {
    pub seen: &'a Seen,
    pub decision: &'a decide::Decision<Memory, Rule>,
    pub progress: Progress,
    pub failure: Option<Failure>,
    pub told: Option<HorizontalRecommendation>,
    /// Why nothing is written, if somebody asked for that.
    pub held: Option<String>,
}

/// What the Ready condition says now.
pub fn ready_reason(hvpa: &Hvpa) -> Option<&str> {
    let conditions = hvpa.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == READY).map(|condition| condition.reason.as_str())
}

pub fn write(facts: &Facts<'_>, now: Timestamp) -> Option<Effect> {
    let hvpa = &facts.seen.hvpa;
    let wanted = status(facts, now);
    let stored = hvpa.status.as_ref();
    // As JSON: an empty list and one that is not there are the same to the API.
    let same = stored.is_some_and(|stored| json!(stored) == json!(wanted));
    (!same).then(|| Effect::status(&hvpa_kind(), &hvpa.metadata, stored, &wanted))
}

fn status(facts: &Facts<'_>, now: Timestamp) -> Status {
    let Facts { seen, decision, told, .. } = facts;
    let hvpa = &seen.hvpa;
    let stored = hvpa.status.clone().unwrap_or_default();
    let steps = &decision.steps;
    let mut status = Status { observed_generation: hvpa.metadata.generation, ..stored.clone() };
    status.conditions = Some(conditions(facts, stored.conditions.unwrap_or_default(), now));
    status.adopted_autoscaler = seen.adopted().map(str::to_owned);
    status.last_error = facts.failure.as_ref().map(|failure| failure.message.clone());
    let Some(workload) = &seen.workload else {
        status.blocked.clear();
        return status;
    };
    status.replicas = Some(workload.status_replicas);
    status.target_selector = Some(workload.selector.clone()).filter(|selector| !selector.is_empty());
    if seen.resolved.is_err() {
        status.blocked.clear();
        return status;
    }
    let horizontal = told.as_ref().map(|told| horizontal_status(told, decision.current.replicas));
    status.horizontal = settled(stored.horizontal, horizontal, |old, new| {
        HorizontalStatus { sampled_at: None, ..old.clone() }
            == HorizontalStatus { sampled_at: None, ..new.clone() }
    });
    let vertical = seen.vertical.recommendation().as_ref().map(vertical_status);
    status.vertical = settled(stored.vertical, vertical, |old, new| {
        let pairs = old.containers.iter().zip(&new.containers);
        old.containers.len() == new.containers.len()
            && pairs.into_iter().all(|(old, new)| {
                old.container_name == new.container_name
                    && near(&old.target, &new.target)
                    && near(&old.total, &new.total)
            })
    });
    let needs = steps.iter().find_map(|step| match &step.rule {
        Rule::Need { parts } => Some(parts.iter().map(need_status).collect::<Vec<_>>()),
        _ => None,
    });
    let needs = needs.unwrap_or_default();
    let are_near = needs.len() == stored.need.len()
        && needs.iter().zip(&stored.need).all(|(new, old)| {
            old.container_name == new.container_name
                && near(&old.need, &new.need)
                && near(&old.held, &new.held)
                && near(&old.horizontal, &new.horizontal)
                && near(&old.vertical, &new.vertical)
        });
    status.need = if are_near { stored.need } else { needs };
    status.blocked = steps.iter().filter_map(blocked).collect();
    if let Some(applied) = &decision.memory.applied {
        status.applied = Some(Applied {
            replicas: applied.plan.replicas,
            requests: applied.plan.containers.iter().map(size_status).collect(),
            reason: Some(applied.reason.clone()),
            message: Some(applied.why.clone()),
            at: Some(time(applied.at)),
        });
        let is_known = |last: &LastScaling| last.last_scale_time == Some(time(applied.at));
        if !status.last_scaling.as_ref().is_some_and(is_known) {
            status.last_scaling = Some(LastScaling {
                last_scale_time: Some(time(applied.at)),
                hpa_status: status.horizontal.clone(),
                vpa_status: status.vertical.clone(),
            });
        }
    }
    status
}

/// What is stored, if what is new differs from it by nothing that matters.
fn settled<T>(stored: Option<T>, new: Option<T>, is_near: impl Fn(&T, &T) -> bool) -> Option<T> {
    match (stored, new) {
        (Some(stored), Some(new)) if is_near(&stored, &new) => Some(stored),
        (_, new) => new,
    }
}

fn conditions(facts: &Facts<'_>, stored: Vec<Condition>, now: Timestamp) -> Vec<Condition> {
    let Facts { seen, decision, progress, failure, told, held } = facts;
    let mut list = stored;
    let mut set = |type_: &str, holds: bool, reason: &str, message: String| {
        let status = if holds { "True" } else { "False" };
        let known = list.iter().position(|condition| condition.type_ == type_);
        let since = known.map(|idx| &list[idx]).filter(|known| known.status == status);
        let condition = Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: since.map_or_else(|| time(now), |known| known.last_transition_time.clone()),
            observed_generation: seen.hvpa.metadata.generation,
        };
        match known {
            Some(idx) => list[idx] = condition,
            None => list.push(condition),
        }
    };
    if let Err(trouble) = &seen.resolved {
        set(READY, false, trouble.reason, trouble.message.clone());
        return list;
    }
    let of_target = failure.as_ref().filter(|failure| failure.kind.kind != "Pod");
    match (of_target, held) {
        (Some(failure), _) => {
            let message = format!("the API refuses {} {}: {}", failure.kind, failure.name, failure.message);
            set(READY, false, "Refused", message);
        }
        (None, Some(why)) => set(READY, false, "Held", why.clone()),
        (None, None) => set(READY, true, "Scaling", "recommendations are applied as they come".to_owned()),
    }
    let unusable = |axis: Axis| {
        let is_it = |step: &&Step<Rule>| matches!(&step.rule, Rule::Unusable { axis: of, .. } if *of == axis);
        decision.steps.iter().find(is_it).map(|step| step.words().to_string())
    };
    let (reason, who) = match &seen.horizontal {
        Horizontal::Autoscaler { name, .. } => {
            ("HorizontalPodAutoscaler", format!("HorizontalPodAutoscaler {name} recommends"))
        }
        Horizontal::Scale if told.is_some() => ("Scale", "spec.replicas is the recommendation".to_owned()),
        Horizontal::Scale => {
            ("Nobody", "nobody has written the scale of this Hvpa: the count stays".to_owned())
        }
        Horizontal::Metrics { adopted: None, .. } => {
            ("Metrics", "the metrics of this Hvpa decide".to_owned())
        }
        Horizontal::Metrics { adopted: Some(name), .. } => (
            "AdoptedAutoscaler",
            format!("the metrics of HorizontalPodAutoscaler {name} decide: it is switched off"),
        ),
        Horizontal::Nobody => ("Nobody", "there is one pod on each node: only sizes change".to_owned()),
    };
    match (&seen.horizontal, unusable(Axis::Horizontal)) {
        (Horizontal::Metrics { answer: Some(Err(why)), .. }, _) => {
            set(HORIZONTAL, false, "MetricsUnavailable", why.clone());
        }
        (_, Some(why)) => set(HORIZONTAL, false, "NotUsable", format!("{who}; {why}")),
        (_, None) => set(HORIZONTAL, true, reason, who),
    }
    let (reason, who) = match &seen.vertical {
        Vertical::Autoscaler { name, .. } => {
            ("VerticalPodAutoscaler", format!("VerticalPodAutoscaler {name} recommends"))
        }
        Vertical::Embedded(_) => ("EmbeddedRecommender", "sizes are learnt from metrics.k8s.io".to_owned()),
        Vertical::Nobody => match seen.workload.as_ref().filter(|one| one.sizes_in == SizesIn::Nowhere) {
            Some(workload) => {
                let kind = &workload.target.kind.kind;
                let message = format!(
                    "a {kind} says how many there are, not how large: only replicas change. To change sizes too, \
                     let the Hvpa scale the workload that the {kind} makes"
                );
                ("NotPossible", message)
            }
            None => ("NotAsked", "vpa.deploy is off, or there is no vpa".to_owned()),
        },
    };
    match (&seen.vertical, unusable(Axis::Vertical)) {
        (Vertical::Nobody, _) => set(VERTICAL, false, reason, who),
        (Vertical::Embedded(Some(Err(why))), _) => set(VERTICAL, false, "MetricsUnavailable", why.clone()),
        (_, Some(why)) => set(VERTICAL, false, "NotUsable", format!("{who}; {why}")),
        (_, None) => set(VERTICAL, true, reason, who),
    }
    let evicts =
        failure.as_ref().filter(|failure| failure.kind.kind == "Pod" && failure.verb == engine::Verb::Delete);
    match (evicts, progress) {
        (Some(failure), _) => {
            let message = format!("pod {} is not recreated: {}", failure.name, failure.message);
            set(RESIZED, false, "EvictionRefused", message);
        }
        (None, Progress::Done) => {
            set(RESIZED, true, "Done", "pods have the sizes that were decided".to_owned())
        }
        // How many are left changes with each pod; that some are does not.
        (None, Progress::Resizing { .. }) => {
            set(RESIZED, false, "Resizing", "pods are being resized where they run".to_owned());
        }
        (None, Progress::Waiting { reason, message }) => set(RESIZED, false, reason, message.clone()),
    }
    list
}

fn blocked(step: &Step<Rule>) -> Option<Blocked> {
    let Rule::Hold { hold } = &step.rule else { return None };
    let axis = match hold.axis {
        Axis::Horizontal => "horizontal",
        Axis::Vertical => "vertical",
    };
    Some(Blocked {
        axis: axis.to_owned(),
        reason: step.code().to_owned(),
        message: Some(step.words().to_string()),
        until: hold.until.map(time),
    })
}

fn horizontal_status(told: &HorizontalRecommendation, current: i32) -> HorizontalStatus {
    HorizontalStatus {
        current_replicas: Some(current),
        desired_replicas: Some(told.desired),
        metric: told.metric.as_ref().map(|ResourceMetric { resource, container, .. }| match container {
            Some(container) => format!("{resource} of {container}"),
            None => resource.to_string(),
        }),
        sampled_at: told.sampled_at.map(time),
    }
}

fn vertical_status(advice: &VerticalRecommendation) -> VerticalStatus {
    let containers = advice.containers.iter().map(|one| ContainerStatus {
        container_name: one.container_name.clone(),
        target: amounts(&one.target),
        lower_bound: amounts(&one.lower_bound),
        upper_bound: amounts(&one.upper_bound),
        total: amounts(&one.total.target),
    });
    VerticalStatus { containers: containers.collect(), sampled_at: advice.sampled_at.map(time) }
}

fn size_status(size: &ContainerSize) -> ContainerStatus {
    ContainerStatus {
        container_name: size.name.clone(),
        target: amounts(&size.requests),
        ..ContainerStatus::default()
    }
}

fn need_status(need: &Need) -> NeedStatus {
    let of = |amount: Option<u64>| {
        let mut all = Resources::default();
        all.set(need.resource, amount);
        amounts(&all)
    };
    NeedStatus {
        container_name: need.container.clone(),
        need: of(Some(need.need)),
        held: of(Some(need.held)),
        horizontal: of(need.horizontal),
        vertical: of(need.vertical),
    }
}

fn amounts(amounts: &Resources) -> ResourceAmounts {
    let quantity = |one: Resource| amounts.get(one).map(|amount| Quantity(one.quantity(amount)));
    ResourceAmounts { cpu: quantity(Resource::Cpu), memory: quantity(Resource::Memory) }
}

fn near(old: &ResourceAmounts, new: &ResourceAmounts) -> bool {
    let parse = |quantity: &Option<Quantity>| {
        let parsed: Option<decide::quantity::Quantity> = quantity.as_ref()?.0.parse().ok();
        parsed.map(|quantity| quantity.0 as f64)
    };
    let are_near = |old: &Option<Quantity>, new: &Option<Quantity>| match (parse(old), parse(new)) {
        (Some(old), Some(new)) => (old - new).abs() <= NEAR * old.abs().max(new.abs()),
        (old, new) => old.is_none() && new.is_none(),
    };
    are_near(&old.cpu, &new.cpu) && are_near(&old.memory, &new.memory)
}
