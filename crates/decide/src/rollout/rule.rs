use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Actions, Expected, NewInstance, Target};

/// One rule of a plan, with its input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", content = "input", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Rule {
    Expectations { pending: Vec<Expected>, until: Timestamp },
    ScaleDown { active: usize, replicas: usize, delete: Vec<Target> },
    ScaleUp { active: usize, replicas: usize, create: Vec<NewInstance> },
    Update { outdated: usize, in_flight: usize, max_concurrent_updated: usize, update: Vec<Target> },
    Settled { replicas: usize },
}

impl crate::decision::Rule for Rule {
    type Value = Actions;

    fn name(&self) -> &'static str {
        match self {
            Rule::Expectations { .. } => "expectations",
            Rule::ScaleDown { .. } => "scaleDown",
            Rule::ScaleUp { .. } => "scaleUp",
            Rule::Update { .. } => "update",
            Rule::Settled { .. } => "settled",
        }
    }

    fn apply(&self, before: &Actions) -> Actions {
        let mut after = before.clone();
        match self {
            Rule::Expectations { .. } => after = Actions::default(),
            Rule::ScaleDown { delete, .. } => after.delete.extend(delete.iter().cloned()),
            Rule::ScaleUp { create, .. } => after.create.extend(create.iter().cloned()),
            Rule::Update { update, .. } => after.update.extend(update.iter().cloned()),
            Rule::Settled { .. } => {}
        }
        after
    }

    fn code(&self, before: &Actions, after: &Actions) -> &'static str {
        match self {
            Rule::Expectations { .. } => "WaitingForCache",
            Rule::ScaleDown { .. } => "ScaleDown",
            Rule::ScaleUp { create, .. } if create.is_empty() => "CreationsSwitchedOff",
            Rule::ScaleUp { .. } => "ScaleUp",
            Rule::Update { .. } if before == after => "WaitingForReady",
            Rule::Update { .. } => "RollingUpdate",
            Rule::Settled { .. } => "Settled",
        }
    }

    fn words(&self, _before: &Actions, _after: &Actions, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Expectations { pending, until } => {
                let n = pending.len();
                let was = if n == 1 { "change was" } else { "changes were" };
                write!(out, "{n} {was} asked for and not seen yet, waiting until {until} at the latest")
            }
            Rule::ScaleDown { active, replicas, delete } => {
                write!(out, "{active} instances, {replicas} wanted: the newest {} go", delete.len())
            }
            Rule::ScaleUp { active, replicas, create } if create.is_empty() => {
                write!(out, "{active} instances, {replicas} wanted, but maxCreations is 0: none is created")
            }
            Rule::ScaleUp { active, replicas, create } => {
                write!(out, "{active} instances, {replicas} wanted: {} more", create.len())
            }
            Rule::Update { outdated, in_flight, max_concurrent_updated, update } => write!(
                out,
                "{outdated} outdated, {in_flight} of at most {max_concurrent_updated} not ready after an update: updates {} now",
                update.len()
            ),
            Rule::Settled { replicas } => write!(out, "{replicas} instances, all with the newest template"),
        }
    }
}
