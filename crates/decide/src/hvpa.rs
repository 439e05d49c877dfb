//! Horizontal and vertical recommendations, applied together by one writer.
//!
//! ```text
//! H (replicas), t (request sizes) ──> usable? ──> clamped ──> mode picks ──> gates hold back ──> Plan
//! ```
//!
//! A recommendation is consumed once. After a change, figures sampled before it describe a workload that no longer
//! exists: they are not acted on, and the ratio mode, which applies only a share, never applies a second share of the
//! same pair. That is what keeps repeated passes from creeping to the full recommendation on both axes.

mod gates;
mod maintenance;
mod modes;
mod ratio;
mod rule;
mod spec;
mod vertical;

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    decision::{Chain, Decision, sooner},
    input::InputError,
    recommender::amount::{Resource, Resources},
};

pub use gates::Hold;
pub use maintenance::{MaintenanceWindow, TimeOfDay};
pub use modes::Verdict;
pub use ratio::Region;
pub use rule::Rule;
pub use spec::{
    Axis, ChangeParams, Combination, Horizontal, Interval, LimitRange, Mode, Ratio, ScaleParams, ScaleType,
    Spec, UpdateMode, Vertical,
};

/// What the JSON form takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Input {
    pub now: Timestamp,
    pub spec: Spec,
    pub observed: Observed,
    #[serde(default)]
    pub memory: Memory,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Observed {
    /// The target's `spec.replicas`; 0 means paused.
    pub replicas: i32,
    #[serde(default)]
    pub containers: Vec<ContainerSize>,
    #[serde(default)]
    pub horizontal: Option<HorizontalRecommendation>,
    #[serde(default)]
    pub vertical: Option<VerticalRecommendation>,
    /// The target is rolling out a template, or resizing pods in place.
    #[serde(default)]
    pub rollout_in_progress: bool,
    /// Out-of-memory kills and memory-pressure evictions of pods with the newest template.
    #[serde(default)]
    pub out_of_memory: Vec<OutOfMemory>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerSize {
    pub name: String,
    #[serde(default)]
    pub requests: Resources,
    #[serde(default)]
    pub limits: Resources,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HorizontalRecommendation {
    pub desired: i32,
    /// It knows its metrics.
    #[serde(default = "yes")]
    pub active: bool,
    /// It wants more than its maximum or less than its minimum.
    #[serde(default)]
    pub limited: bool,
    #[serde(default)]
    pub sampled_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VerticalRecommendation {
    #[serde(default = "yes")]
    pub provided: bool,
    #[serde(default)]
    pub low_confidence: bool,
    #[serde(default)]
    pub config_unsupported: bool,
    #[serde(default)]
    pub sampled_at: Option<Timestamp>,
    pub containers: Vec<ContainerRecommendation>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerRecommendation {
    pub container_name: String,
    pub target: Resources,
    #[serde(default)]
    pub lower_bound: Resources,
    #[serde(default)]
    pub upper_bound: Resources,
    #[serde(default)]
    pub uncapped_target: Resources,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutOfMemory {
    pub at: Timestamp,
    /// None if the whole pod was evicted.
    #[serde(default)]
    pub container: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Memory {
    /// One clock for both axes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scaling: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_processed: Option<Processed>,
    /// Since when a vertical change that has to wait has held back a horizontal one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppressed_since: Option<Timestamp>,
    /// By container: the last kill that was answered with more memory.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub out_of_memory_handled: BTreeMap<String, Timestamp>,
}

/// The pair of recommendations that the last change was made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Processed {
    pub at: Timestamp,
    pub horizontal: Option<i32>,
    pub vertical: BTreeMap<String, Resources>,
    pub applied_horizontal: bool,
    pub applied_vertical: bool,
}

/// What is decided: the replicas and the sizes of the containers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub replicas: i32,
    pub containers: Vec<ContainerSize>,
}

/// Why a recommendation is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Unusable {
    Missing,
    Inactive,
    Stale,
    Absurd,
    NotProvided,
    LowConfidence,
    ConfigUnsupported,
}

/// The horizontal side after clamping. Without a horizontal scaler the count is fixed where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct HorizontalView {
    min: i32,
    max: i32,
    /// None if it should be known and is not.
    wanted: Option<i32>,
    limited: bool,
    sampled_at: Option<Timestamp>,
}

/// Decides on the spec as given; call [`Spec::validate`] when it is first read.
pub fn decide(now: Timestamp, spec: &Spec, observed: &Observed, memory: &Memory) -> Decision<Memory, Rule> {
    let mut memory = memory.clone();
    memory.last_scaling = memory.last_scaling.map(|last| last.min(now));
    let current = Plan { replicas: observed.replicas, containers: observed.containers.clone() };
    let mut chain = Chain::new(current.clone());

    if observed.replicas <= 0 {
        chain.push(Rule::Paused);
        return chain.finish(memory, None);
    }
    let (min, max) = (spec.min_replicas.max(1), spec.max_replicas.max(spec.min_replicas).max(1));
    if spec.horizontal.deployed && !(min..=max).contains(&observed.replicas) {
        chain.push(Rule::Bounds { min, max });
        memory.last_scaling = Some(now);
        return chain.finish(memory, None);
    }

    let horizontal = horizontal_view(now, spec, observed, (min, max), &mut chain);
    let mut vertical = vertical_view(now, spec, observed, &mut chain);
    if horizontal.wanted.is_none() {
        // The vertical side may only shrink pods while the number of pods is known to be right.
        vertical.downs.clear();
    }

    let pick = modes::pick(spec, observed, &horizontal, &vertical);
    let gates =
        gates::Gates { now, spec, observed, memory: &memory, horizontal: &horizontal, vertical: &vertical };
    let (pick, suppressed_since) = gates.suppress(pick);
    let chosen = modes::apply(spec, observed, &horizontal, &vertical, &pick, &current);
    let held = gates.hold(&pick, chosen.containers != current.containers);
    let mut next_check = suppressed_since.1;
    let mut allowed = chosen;
    for hold in held.holds {
        next_check = sooner(next_check, hold.until);
        allowed = modes::without(&allowed, &current, &hold, &vertical);
        chain.push(Rule::Hold { hold });
    }
    chain.push(Rule::Choice { verdict: pick.verdict, plan: allowed });
    if let Some(containers) = out_of_memory(now, spec, observed, &vertical, &pick, chain.value(), &memory) {
        chain.push(Rule::OutOfMemory { containers });
    }

    let decided = chain.value().clone();
    memory.suppressed_since = suppressed_since.0;
    memory.remember(now, observed, &current, &decided, &horizontal, &vertical, held.pair_is_new);
    chain.finish(memory, next_check)
}

fn horizontal_view(
    now: Timestamp,
    spec: &Spec,
    observed: &Observed,
    (min, max): (i32, i32),
    chain: &mut Chain<Rule>,
) -> HorizontalView {
    let replicas = observed.replicas;
    if !spec.horizontal.deployed {
        let fixed = Some(replicas);
        return HorizontalView {
            min: replicas,
            max: replicas,
            wanted: fixed,
            limited: true,
            sampled_at: None,
        };
    }
    let usable = observed.horizontal.ok_or(Unusable::Missing).and_then(|recommendation| {
        match recommendation {
            HorizontalRecommendation { active: false, .. } => Err(Unusable::Inactive),
            HorizontalRecommendation { sampled_at: Some(at), .. } if spec.is_stale(now, at) => {
                Err(Unusable::Stale)
            }
            // A scaler that never computed anything reports 0.
            HorizontalRecommendation { desired: ..=0, .. } => Err(Unusable::Absurd),
            usable => Ok(usable),
        }
    });
    // A direction that is switched off cannot be exhausted later: the count is at its end already.
    let off = |scale: &ScaleType| scale.update_mode == UpdateMode::Off;
    let min = if off(&spec.horizontal.scale_down) { replicas } else { min };
    let max = if off(&spec.horizontal.scale_up) { replicas } else { max };
    let mut view = HorizontalView { min, max, wanted: None, limited: false, sampled_at: None };
    match usable {
        Ok(usable) => {
            let clamped = usable.desired.clamp(min, max);
            chain.push(Rule::Horizontal { desired: usable.desired, clamped });
            view.wanted = Some(clamped);
            view.limited = usable.limited || usable.desired != clamped;
            view.sampled_at = usable.sampled_at;
        }
        Err(why) => {
            chain.push(Rule::Unusable { axis: Axis::Horizontal, why });
        }
    }
    view
}

fn vertical_view(
    now: Timestamp,
    spec: &Spec,
    observed: &Observed,
    chain: &mut Chain<Rule>,
) -> vertical::View {
    let usable = observed.vertical.as_ref().ok_or(Unusable::Missing).and_then(|recommendation| {
        if !recommendation.provided {
            Err(Unusable::NotProvided)
        } else if recommendation.config_unsupported {
            Err(Unusable::ConfigUnsupported)
        } else if recommendation.low_confidence {
            Err(Unusable::LowConfidence)
        } else if recommendation.sampled_at.is_some_and(|at| spec.is_stale(now, at)) {
            Err(Unusable::Stale)
        } else {
            Ok(recommendation)
        }
    });
    match usable {
        Ok(recommendation) => {
            let view = vertical::view(spec, observed, recommendation);
            let mut targets = observed.containers.clone();
            for change in view.ups.iter().chain(&view.downs) {
                targets[change.container].requests.set(change.resource, Some(change.to));
            }
            chain.push(Rule::Vertical { containers: targets });
            view
        }
        Err(why) => {
            chain.push(Rule::Unusable { axis: Axis::Vertical, why });
            vertical::View::default()
        }
    }
}

/// Containers that were killed for memory since they last got more of it, at the size they should have now; none if
/// there is nothing to add to the plan.
fn out_of_memory(
    now: Timestamp,
    spec: &Spec,
    observed: &Observed,
    vertical: &vertical::View,
    pick: &modes::Pick,
    plan: &Plan,
    memory: &Memory,
) -> Option<Vec<ContainerSize>> {
    let allowed = match spec.vertical.scale_up.update_mode {
        UpdateMode::Auto => true,
        UpdateMode::Off => false,
        UpdateMode::MaintenanceWindow => {
            spec.maintenance_time_window.is_some_and(|window| window.contains(now))
        }
    };
    if !spec.oom_override || !allowed {
        return None;
    }
    let mut containers = plan.containers.clone();
    for change in vertical.ups.iter().filter(|change| change.resource == Resource::Memory) {
        let container = &observed.containers[change.container];
        if memory.unanswered_kill(observed, &container.name).is_none() {
            continue;
        }
        // A weight of 0 would leave it to be killed again.
        let weight = pick.weights.map_or(100.0, |weights| weights.up);
        let weight = if weight > 0.0 { weight } else { 100.0 };
        let to = ratio::additive_size(change.from, change.to, weight);
        if containers[change.container].requests.memory.unwrap_or(0) < to {
            let resized = vertical::resized(container, Resource::Memory, to, spec);
            containers[change.container].requests.memory = resized.requests.memory;
            containers[change.container].limits.memory = resized.limits.memory;
        }
    }
    (containers != plan.containers).then_some(containers)
}

// === impl Input ===

impl Input {
    /// # Errors
    /// If the spec contradicts itself.
    pub fn decide(self) -> Result<Decision<Memory, Rule>, InputError> {
        self.spec.validate().map_err(|error| error.under("spec"))?;
        Ok(decide(self.now, &self.spec, &self.observed, &self.memory))
    }
}

// === impl Spec ===

impl Spec {
    fn is_stale(&self, now: Timestamp, sampled_at: Timestamp) -> bool {
        sampled_at < spec::stale_before(now, self.staleness_seconds)
    }
}

// === impl Memory ===

impl Memory {
    /// The latest kill of the container that was not answered yet.
    fn unanswered_kill(&self, observed: &Observed, container: &str) -> Option<Timestamp> {
        let concerns = |kill: &&OutOfMemory| kill.container.as_deref().is_none_or(|name| name == container);
        let last = observed.out_of_memory.iter().filter(concerns).map(|kill| kill.at).max()?;
        let answered = self.out_of_memory_handled.get(container);
        (answered.is_none_or(|&answered| last > answered)).then_some(last)
    }

    #[allow(clippy::too_many_arguments)]
    fn remember(
        &mut self,
        now: Timestamp,
        observed: &Observed,
        current: &Plan,
        decided: &Plan,
        horizontal: &HorizontalView,
        vertical: &vertical::View,
        pair_is_new: bool,
    ) {
        if current == decided {
            return;
        }
        self.last_scaling = Some(now);
        for (before, after) in current.containers.iter().zip(&decided.containers) {
            if after.requests.memory > before.requests.memory
                && let Some(kill) = self.unanswered_kill(observed, &before.name)
            {
                self.out_of_memory_handled.insert(before.name.clone(), kill);
            }
        }
        let known = |name: &String| observed.containers.iter().any(|container| container.name == *name);
        self.out_of_memory_handled.retain(|name, _| known(name));
        let earlier = self.last_processed.take().filter(|_| !pair_is_new);
        let applied = |flag: fn(&Processed) -> bool| earlier.as_ref().is_some_and(flag);
        self.last_processed = Some(Processed {
            at: now,
            horizontal: horizontal.wanted,
            vertical: vertical.targets.clone(),
            applied_horizontal: current.replicas != decided.replicas
                || applied(|pair| pair.applied_horizontal),
            applied_vertical: current.containers != decided.containers
                || applied(|pair| pair.applied_vertical),
        });
    }
}

// === impl Plan ===

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.replicas)?;
        for (idx, container) in self.containers.iter().enumerate() {
            let lead = if idx == 0 { " x" } else { " +" };
            write!(f, "{lead} {}({}", container.name, container.requests)?;
            if !container.limits.is_empty() {
                write!(f, " up to {}", container.limits)?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

fn yes() -> bool {
    true
}
