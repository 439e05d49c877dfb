//! The Set planner: how many instances to create, which to delete, which to update now.
//!
//! ```text
//! names, times, hashes ──(this file)──> Problem ──(solve)──> Solution ──(this file)──> Decision with names
//! ```
//!
//! One pass scales down, then up, then updates. Deletion goes from the newest to the oldest, updates from the oldest
//! to the newest, and at most `maxConcurrentUpdated` instances may be unready because of updates at a time, however often
//! the template changes.

mod expectations;
mod model;
mod names;
mod rule;
mod solve;

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    decision::{Chain, Decision},
    input::{InputError, check_unique, moment},
};

pub use expectations::{Expectation, Expected, Memory};
pub use model::{Instance as InstanceModel, InstanceOrd, Problem, Solution};
pub use names::{MAX_NAME_LENGTH, instance_name};
pub use rule::Rule;
pub use solve::{slow_start, solve};

/// What the JSON form takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Input {
    #[serde(deserialize_with = "moment")]
    pub now: Timestamp,
    pub spec: Spec,
    #[serde(default)]
    pub observed: Observed,
    #[serde(default)]
    pub memory: Memory,
    /// Names of new instances are drawn from this; a different one every pass keeps them unpredictable.
    #[serde(default)]
    pub seed: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// The Set's name, which begins the names of its instances.
    pub name: String,
    pub replicas: u32,
    #[serde(default = "one")]
    pub max_concurrent_updated: u32,
    /// The hash of the template that instances should have.
    pub revision: String,
    /// No single pass creates more than this, so that one typo does not flood the API server.
    #[serde(default = "five_hundred")]
    pub max_creations: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Observed {
    #[serde(default)]
    pub instances: Vec<Instance>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Instance {
    pub name: String,
    pub uid: String,
    #[serde(deserialize_with = "moment")]
    pub created_at: Timestamp,
    /// The Set's running number at creation: creation times have only a second's resolution.
    #[serde(default)]
    pub sequence: u64,
    /// The template hash the instance carries; none counts as outdated.
    #[serde(default)]
    pub revision: Option<String>,
    /// The Set has changed this instance since it was created.
    #[serde(default)]
    pub updated: bool,
    #[serde(default)]
    pub generation: i64,
    /// The Ready condition, if there is one.
    #[serde(default)]
    pub ready: Option<Ready>,
    #[serde(default)]
    pub terminating: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ready {
    pub status: bool,
    pub observed_generation: i64,
}

/// What to do now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Actions {
    /// Newest first.
    pub delete: Vec<Target>,
    pub create: Vec<NewInstance>,
    /// Oldest first.
    pub update: Vec<Target>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    pub name: String,
    pub uid: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewInstance {
    pub name: String,
    pub sequence: u64,
}

/// The counts of a Set's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    pub replicas: usize,
    pub ready_replicas: usize,
    pub updated_replicas: usize,
    pub updated_ready_replicas: usize,
    pub terminating_replicas: usize,
}

/// Plans one pass. The memory out expects every action of the plan to happen; tell it with
/// [`Memory::forget_failed`] which did not.
pub fn plan(
    now: Timestamp,
    spec: &Spec,
    observed: &Observed,
    memory: &Memory,
    seed: u64,
) -> Decision<Memory, Rule> {
    let mut memory = memory.clone();
    memory.settle(now, &observed.instances);
    let mut chain = Chain::new(Actions::default());
    if let Some(until) = memory.waits_until() {
        chain.push(Rule::Expectations { pending: memory.expected().cloned().collect(), until });
        return chain.finish(memory, Some(until));
    }

    // Oldest first, so that an instance's ordinal is its rank by age.
    let mut active: Vec<&Instance> = observed.instances.iter().filter(|one| !one.terminating).collect();
    active.sort_by_key(|one| (one.created_at, one.sequence, &one.name));
    let problem = Problem {
        replicas: spec.replicas as usize,
        max_concurrent_updated: spec.max_concurrent_updated.max(1) as usize,
        max_creations: spec.max_creations as usize,
        instances: active.iter().map(|one| one.model(&spec.revision)).collect(),
    };
    let solution = solve(&problem);

    let targets = |ords: &[InstanceOrd]| ords.iter().map(|ord| active[ord.0].target()).collect::<Vec<_>>();
    let counted = (active.len(), problem.replicas);
    if !solution.delete.is_empty() {
        chain.push(Rule::ScaleDown {
            active: counted.0,
            replicas: counted.1,
            delete: targets(&solution.delete),
        });
    }
    if counted.0 < counted.1 {
        let create = new_instances(spec, observed, &mut memory, solution.create, seed);
        chain.push(Rule::ScaleUp { active: counted.0, replicas: counted.1, create });
    }
    let outdated = problem.outdated_after(&solution);
    if outdated > 0 {
        chain.push(Rule::Update {
            outdated,
            in_flight: problem.in_flight_after(&solution),
            max_concurrent_updated: problem.max_concurrent_updated,
            update: targets(&solution.update),
        });
    }
    if chain.value() == &Actions::default() && outdated == 0 {
        chain.push(Rule::Settled { replicas: counted.1 });
    }
    memory.expect(now, chain.value(), &spec.revision);
    let next_check = memory.waits_until();
    chain.finish(memory, next_check)
}

pub fn counts(spec: &Spec, observed: &Observed) -> Counts {
    let mut counts = Counts::default();
    for instance in &observed.instances {
        if instance.terminating {
            counts.terminating_replicas += 1;
            continue;
        }
        let model = instance.model(&spec.revision);
        counts.replicas += 1;
        counts.ready_replicas += usize::from(model.is_ready);
        counts.updated_replicas += usize::from(model.is_current);
        counts.updated_ready_replicas += usize::from(model.is_current && model.is_ready);
    }
    counts
}

fn new_instances(
    spec: &Spec,
    observed: &Observed,
    memory: &mut Memory,
    n: usize,
    seed: u64,
) -> Vec<NewInstance> {
    let seen = observed.instances.iter().map(|one| one.sequence).max();
    let mut sequence = memory.next_sequence.max(seen.map_or(0, |seen| seen.saturating_add(1)));
    let mut taken: BTreeSet<String> = observed.instances.iter().map(|one| one.name.clone()).collect();
    let mut create = Vec::with_capacity(n);
    let mut draw = seed;
    while create.len() < n {
        let name = instance_name(&spec.name, draw);
        draw = draw.wrapping_add(1);
        if taken.insert(name.clone()) {
            create.push(NewInstance { name, sequence });
            sequence = sequence.saturating_add(1);
        }
    }
    memory.next_sequence = sequence;
    create
}

// === impl Input ===

impl Input {
    /// # Errors
    /// If the spec makes no sense.
    pub fn plan(self) -> Result<Decision<Memory, Rule>, InputError> {
        if self.spec.max_concurrent_updated == 0 {
            return Err(InputError::new("spec.maxConcurrentUpdated", "expected 1 or more, found 0"));
        }
        if self.spec.name.is_empty() {
            return Err(InputError::new("spec.name", "expected the Set's name, found nothing"));
        }
        let instances = &self.observed.instances;
        let under = |field: &'static str| move |idx: usize| format!("observed.instances[{idx}].{field}");
        check_unique(instances.iter().map(|one| one.name.as_str()), under("name"))?;
        check_unique(instances.iter().map(|one| one.uid.as_str()), under("uid"))?;
        Ok(plan(self.now, &self.spec, &self.observed, &self.memory, self.seed))
    }
}

// === impl Instance ===

impl Instance {
    fn model(&self, revision: &str) -> InstanceModel {
        InstanceModel {
            is_current: self.revision.as_deref() == Some(revision),
            is_ready: self.is_ready(),
            was_updated: self.updated,
        }
    }

    /// A Ready condition that describes an older generation says nothing about this one: right after an update it is
    /// still True.
    pub fn is_ready(&self) -> bool {
        let of_this = |ready: Ready| ready.status && ready.observed_generation == self.generation;
        !self.terminating && self.ready.is_some_and(of_this)
    }

    fn target(&self) -> Target {
        Target { name: self.name.clone(), uid: self.uid.clone() }
    }
}

// === impl Actions ===

impl fmt::Display for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |targets: &[Target]| {
            targets.iter().map(|target| target.name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let mut parts = Vec::new();
        if !self.delete.is_empty() {
            parts.push(format!("delete {}", names(&self.delete)));
        }
        if !self.create.is_empty() {
            parts.push(format!("create {}", self.create.len()));
        }
        if !self.update.is_empty() {
            parts.push(format!("update {}", names(&self.update)));
        }
        f.write_str(if parts.is_empty() { "nothing" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

fn one() -> u32 {
    1
}

fn five_hundred() -> u32 {
    500
}
