//! What a definition's status says.

use api::kro::{Condition, State, Status};
use engine::{
    effect::{Effect, Plan, Target},
    kind::Kind,
};
use jiff::Timestamp;

use super::{
    ResourceGraphDefinition,
    plan::{KindsAre, Observed, Step},
};
use crate::graphs::{MANAGER, registry::Serving};

/// Findings beyond these are not told: each is a sentence with a path.
const FINDINGS_SHOWN: usize = 20;

/// Adds the status to what is written, in front: what fails then is told by the next one. The second value says whether
/// the definition is active.
pub(super) fn complete(
    step: Step,
    observed: &Observed<'_>,
    serving: Option<Serving>,
    now: Timestamp,
) -> (Plan, bool) {
    let definition = observed.definition;
    let kind = Kind::of::<ResourceGraphDefinition>();
    let stored = definition.status.as_ref();
    let wanted = status(&step, observed, serving, now);
    let is_active = wanted.state == Some(State::Active);
    let mut effects = Vec::new();
    if stored != Some(&wanted) {
        effects.push(Effect::status(&kind, &definition.metadata, stored, &wanted));
        let state = |status: Option<&Status>| status.and_then(|status| status.state);
        let target = || Target::of(&kind, &definition.metadata);
        if state(stored) != wanted.state {
            let ready = wanted.conditions.iter().find(|condition| condition.type_ == "Ready");
            let why = ready.and_then(|ready| ready.message.clone()).unwrap_or_default();
            effects.push(match is_active {
                true => Effect::event(target(), MANAGER, "Active", "instances are looked after"),
                false => Effect::warning(target(), MANAGER, "Inactive", why),
            });
        }
    }
    effects.extend(step.effects);
    (Plan::from(effects), is_active)
}

fn status(step: &Step, observed: &Observed<'_>, serving: Option<Serving>, now: Timestamp) -> Status {
    let stored = observed.definition.status.clone().unwrap_or_default();
    let mut status = match observed.graph {
        Ok(graph) => graph.definition_status(),
        // what was accepted before is what is served
        Err(_) => Status {
            topological_order: stored.topological_order.clone(),
            resources: stored.resources.clone(),
            ..Status::default()
        },
    };
    let generation = observed.definition.metadata.generation;
    let is_served = matches!(serving, Some(Serving::Graph(served)) if served == generation);
    let still = match serving {
        Some(Serving::Graph(Some(older))) if !is_served => {
            format!("; generation {older}, accepted before, keeps being served")
        }
        _ => String::new(),
    };
    let accepted = match observed.graph {
        Ok(_) => ("True", "Valid", "the definition is valid".to_owned()),
        Err(errors) => {
            let shown: Vec<String> = errors.iter().take(FINDINGS_SHOWN).map(ToString::to_string).collect();
            let more = errors.len().saturating_sub(FINDINGS_SHOWN);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            ("False", "InvalidResourceGraph", format!("{}{more}{still}", shown.join("; ")))
        }
    };
    let failure = observed.failure.filter(|failure| !failure.conflict);
    let kinds = match (&step.kinds, failure) {
        (KindsAre::Ready, _) => ("True", "Ready", "the generated kinds are served".to_owned()),
        (KindsAre::Refused(why), _) => ("False", "Failed", format!("{why}{still}")),
        (_, Some(failure)) => ("False", "Failed", format!("{}: {}", failure.name, failure.message)),
        (KindsAre::Waiting(why), None) => ("Unknown", "Waiting", why.clone()),
        (KindsAre::NotAsked, None) => ("Unknown", "Waiting", "the definition is not accepted".to_owned()),
    };
    let controller = match serving {
        Some(Serving::Graph(_)) => ("True", "Running", "instances are looked after".to_owned()),
        Some(Serving::Retired) => {
            ("False", "FailedToStart", "no accepted version is known; instances can be deleted".to_owned())
        }
        None => ("Unknown", "Waiting", "it starts when the kinds are served".to_owned()),
    };
    // the one that says most about why it is not ready
    let root = [&accepted, &kinds, &controller]
        .into_iter()
        .find(|one| one.0 == "False")
        .or_else(|| [&accepted, &kinds, &controller].into_iter().find(|one| one.0 != "True"));
    let ready = match root {
        None => ("True", "Ready", String::new()),
        Some(root) => root.clone(),
    };
    let resolved = ("True", "Resolved", "revisions are not kept apart".to_owned());
    status.state = Some(if is_served && root.is_none() { State::Active } else { State::Inactive });
    let all = [
        ("GraphRevisionsResolved", resolved),
        ("GraphAccepted", accepted),
        ("KindReady", kinds),
        ("ControllerReady", controller),
        ("Ready", ready),
    ];
    status.conditions = all
        .into_iter()
        .map(|(type_, (status, reason, message))| {
            let before = stored.conditions.iter().find(|condition| condition.type_ == type_);
            let time = before.filter(|before| before.status == status);
            Condition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: (!message.is_empty()).then_some(message),
                last_transition_time: time
                    .and_then(|before| before.last_transition_time.clone())
                    .or_else(|| Some(engine::object::time(now).0.to_string())),
                observed_generation: generation,
            }
        })
        .collect();
    status.last_issued_revision = stored.last_issued_revision;
    status
}
