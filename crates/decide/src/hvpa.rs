//! Horizontal and vertical recommendations, applied together by one writer.
//!
//! ```text
//! H (replicas), t (request sizes) ──> usable? ──> clamped ──> one need? ──> mode picks ──> gates hold back ──> Plan
//! ```
//!
//! Where both follow the same resource they are coupled: [`need`] makes one need of both, and the mode decides which axis
//! carries it.
//!
//! A recommendation is consumed once. After a change, figures sampled before it describe a workload that no longer
//! exists: they are not acted on, and the ratio mode, which applies only a share, never applies a second share of the
//! same pair. That is what keeps repeated passes from creeping to the full recommendation on both axes.

mod gates;
mod maintenance;
mod modes;
mod need;
mod observed;
mod path;
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
    recommender::{
        amount::{Resource, Resources},
        policy_of,
    },
};

pub use gates::Hold;
pub use maintenance::{MaintenanceWindow, TimeOfDay};
pub use modes::Verdict;
pub use need::Need;
pub use observed::{
    ContainerRecommendation, ContainerSize, HorizontalRecommendation, MetricTarget, Observed, OutOfMemory,
    ResourceMetric, TotalRecommendation, VerticalRecommendation,
};
pub use ratio::Region;
pub use rule::Rule;
pub use spec::{
    Axis, ChangeParams, Combination, Coupling, Horizontal, Interval, LimitRange, Mode, Ratio, ScaleParams,
    ScaleType, Spec, UpdateMode, Vertical,
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
pub struct Memory {
    /// One clock for both axes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scaling: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_processed: Option<Processed>,
    /// Since when a vertical change that has to wait has held back a horizontal one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppressed_since: Option<Timestamp>,
    /// What a vertical change's stabilization counts from, if not from the last change: replicas that went ahead of a waiting
    /// size do not make it wait again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vertical_clock: Option<Timestamp>,
    /// When a coupled need last made the target larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_growth: Option<Timestamp>,
    /// The last change was more pods that are to be smaller, once they all run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trading: bool,
    /// By container: what each side said it needs when the last change was made.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub needs: BTreeMap<String, KeptNeed>,
    /// By container: the last kill that was answered with more memory.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub out_of_memory_handled: BTreeMap<String, Timestamp>,
}

/// A need over all pods, by the side that stated it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeptNeed {
    #[serde(default)]
    pub horizontal: Resources,
    #[serde(default)]
    pub vertical: Resources,
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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct HorizontalView {
    min: i32,
    max: i32,
    /// As recommended, before any bound; none if it should be known and is not.
    desired: Option<i32>,
    /// As recommended, clamped.
    told: Option<i32>,
    /// What the mode goes by: as recommended, or what the need comes to.
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

    let mut horizontal = horizontal_view(now, spec, observed, (min, max), &mut chain);
    let advice = usable_vertical(now, spec, observed, &mut chain);
    let mut vertical =
        advice.map(|advice| vertical_view(spec, observed, advice, &mut chain)).unwrap_or_default();
    let news = gates::targets_changed(&memory, &vertical);
    let parts = need::Sides {
        now,
        spec,
        observed,
        memory: &memory,
        horizontal: &horizontal,
        vertical: advice,
        vertical_is_news: news,
    }
    .needs();
    let is_coupled = !parts.is_empty();
    let mut early_holds = Vec::new();
    let (mut point, mut is_trading) = (None, false);
    if is_coupled {
        chain.push(Rule::Need { parts: parts.iter().map(|part| part.need.clone()).collect() });
        if gates::is_consumed(&memory, vertical.sampled_at, news) && vertical.forget_changes(&parts) {
            early_holds.push(Hold::new(Axis::Vertical, gates::Why::Consumed));
        }
        let wanted = match modes::path(spec) {
            Some(ratio) => {
                let on_path = match parts.iter().any(|part| part.is_waiting) {
                    true => f64::from(observed.replicas),
                    false => modes::on_path(spec, ratio, observed, &parts),
                };
                point = Some(on_path);
                let need_changes = parts.iter().any(|part| part.need.need != part.need.held);
                path::rounded(on_path, observed.replicas, need_changes)
            }
            None => parts.iter().map(need::Part::replicas).max().unwrap_or(observed.replicas),
        };
        horizontal.carry(wanted);
        let pods =
            if point.is_some() { horizontal.wanted.unwrap_or(observed.replicas) } else { observed.replicas };
        let slack = if point.is_some() { path::SLACK } else { 1.0 };
        vertical.carry(spec, observed, &parts, pods, slack);
        if point.is_some() {
            // What the sizes cannot carry any more is left to the replicas.
            horizontal.raise(vertical.pods_for(&parts, pods));
            // More and smaller pods: the larger ones are needed until the new ones run.
            let starts = horizontal.wanted.is_some_and(|wanted| wanted > observed.replicas);
            if starts && vertical.forget_coupled_downs(&parts) {
                early_holds
                    .push(Hold { only_downs: true, ..Hold::new(Axis::Vertical, gates::Why::PodsStart) });
                is_trading = true;
            }
        }
    }
    if horizontal.wanted.is_none() && vertical.drop_downs() {
        // The vertical side may only shrink pods while the number of pods is known to be right.
        early_holds
            .push(Hold { only_downs: true, ..Hold::new(Axis::Vertical, gates::Why::HorizontalUnknown) });
    }

    let mut pick = match point {
        Some(replicas) => modes::pick_on_path(replicas, observed, &horizontal, &vertical),
        None => modes::pick(spec, observed, &horizontal, &vertical),
    };
    let mut gates = gates::Gates {
        now,
        spec,
        observed,
        memory: &memory,
        horizontal: &horizontal,
        vertical: &vertical,
        is_coupled,
    };
    let suppression = gates.suppress(&mut pick);
    let mut chosen = modes::apply(spec, observed, &horizontal, &vertical, &pick, &current);
    let mut held = gates.hold(&pick, &chosen);
    // Half of a pair is not the pair: what may change now has to do with what may not.
    let (alone_h, alone_v);
    if point.is_some() && !held.holds.is_empty() {
        let waits = |axis: Axis| held.holds.iter().any(|hold| hold.axis == axis && !hold.is_part());
        let mut other_h = horizontal;
        let mut other_v = vertical.clone();
        let covers = |replicas: i32| parts.iter().all(|part| part.size(replicas) <= part.request);
        if waits(Axis::Horizontal) {
            other_v.carry(spec, observed, &parts, observed.replicas, path::SLACK);
        } else if waits(Axis::Vertical)
            && horizontal.wanted.is_some_and(|wanted| wanted < observed.replicas && !covers(wanted))
        {
            other_h.wanted = Some(observed.replicas);
            held.holds.push(Hold::new(Axis::Horizontal, gates::Why::SizesWait));
        }
        (alone_h, alone_v) = (other_h, other_v);
        gates.vertical = &alone_v;
        gates.horizontal = &alone_h;
        pick = modes::pick_on_path(point.unwrap_or_default(), observed, &alone_h, &alone_v);
        chosen = modes::apply(spec, observed, &alone_h, &alone_v, &pick, &current);
    }
    for hold in early_holds {
        chain.push(Rule::Hold { hold });
    }
    let mut next_check = suppression.until;
    let mut allowed = chosen;
    for hold in held.holds.into_iter().chain(suppression.hold) {
        next_check = sooner(next_check, hold.until);
        allowed = modes::without(&allowed, &current, &hold, gates.vertical);
        chain.push(Rule::Hold { hold });
    }
    chain.push(Rule::Choice { verdict: pick.verdict, plan: allowed });
    let vertical = gates.vertical;
    let is_known = is_coupled || !gates::is_consumed(&memory, vertical.sampled_at, news);
    if let Some(containers) =
        within_allowed(now, spec, observed, vertical, chain.value()).filter(|_| is_known)
    {
        chain.push(Rule::Allowed { containers });
    }
    if let Some(containers) = out_of_memory(now, spec, observed, vertical, chain.value(), &memory) {
        chain.push(Rule::OutOfMemory { containers });
    }

    let decided = chain.value().clone();
    let vertical_clock = (pick.verdict == Verdict::SuppressionEnded)
        .then(|| memory.vertical_clock.or(memory.last_scaling))
        .flatten();
    let vertical = vertical.clone();
    memory.suppressed_since = suppression.since;
    if current != decided {
        memory.vertical_clock = vertical_clock;
        memory.trading = is_trading;
        memory.keep_needs(now, &parts, &decided);
        memory.remember(now, observed, &current, &decided, &horizontal, &vertical, held.pair_is_new);
    }
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
            desired: fixed,
            told: fixed,
            wanted: fixed,
            limited: true,
            sampled_at: None,
        };
    }
    let usable = observed.horizontal.as_ref().ok_or(Unusable::Missing).and_then(|recommendation| {
        match recommendation {
            HorizontalRecommendation { active: false, .. } => Err(Unusable::Inactive),
            HorizontalRecommendation { sampled_at: Some(at), .. } if spec.is_stale(now, *at) => {
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
    let mut view = HorizontalView { min, max, ..HorizontalView::default() };
    match usable {
        Ok(usable) => {
            let clamped = usable.desired.clamp(min, max);
            chain.push(Rule::Horizontal { by: usable.by.clone(), desired: usable.desired, clamped });
            view.desired = Some(usable.desired);
            (view.told, view.wanted) = (Some(clamped), Some(clamped));
            view.limited = usable.limited || usable.desired != clamped;
            view.sampled_at = usable.sampled_at;
        }
        Err(why) => {
            chain.push(Rule::Unusable { axis: Axis::Horizontal, why });
        }
    }
    view
}

/// The vertical recommendation, if it can be used.
fn usable_vertical<'a>(
    now: Timestamp,
    spec: &Spec,
    observed: &'a Observed,
    chain: &mut Chain<Rule>,
) -> Option<&'a VerticalRecommendation> {
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
        Ok(recommendation) => Some(recommendation),
        Err(why) => {
            chain.push(Rule::Unusable { axis: Axis::Vertical, why });
            None
        }
    }
}

fn vertical_view(
    spec: &Spec,
    observed: &Observed,
    recommendation: &VerticalRecommendation,
    chain: &mut Chain<Rule>,
) -> vertical::View {
    let view = vertical::view(spec, observed, recommendation);
    let mut targets = observed.containers.clone();
    for change in view.ups.iter().chain(&view.downs) {
        targets[change.container].requests.set(change.resource, Some(change.to));
    }
    chain.push(Rule::Vertical { containers: targets });
    view
}

/// Whether sizes may change in this direction now, leaving aside when they last did.
fn is_open(now: Timestamp, spec: &Spec, scale: &ScaleType) -> bool {
    match scale.update_mode {
        UpdateMode::Auto => true,
        UpdateMode::Off => false,
        UpdateMode::MaintenanceWindow => {
            spec.maintenance_time_window.is_some_and(|window| window.contains(now))
        }
    }
}

/// Requests that lie outside their policy's bounds, brought to the nearer one: a share of a change, and a mode that does not
/// listen to the sizes now, may leave them there.
fn within_allowed(
    now: Timestamp,
    spec: &Spec,
    observed: &Observed,
    vertical: &vertical::View,
    plan: &Plan,
) -> Option<Vec<ContainerSize>> {
    if observed.rollout_in_progress {
        return None;
    }
    let mut containers = plan.containers.clone();
    for change in vertical.ups.iter().chain(&vertical.downs) {
        let container = &observed.containers[change.container];
        let policy = policy_of(&spec.vertical.container_policies, &container.name);
        let planned = vertical::current_request(&plan.containers[change.container], change.resource);
        let to = vertical::clamped(spec, policy, container, change.resource, planned);
        let scale = if to > planned { &spec.vertical.scale_up } else { &spec.vertical.scale_down };
        // Toward the target only: a bound that the other side of the change violates is not this change's business.
        let is_toward = (to > planned) == (change.to > change.from);
        if to != planned && is_toward && is_open(now, spec, scale) {
            vertical::put(&mut containers, container, change.resource, to, spec);
        }
    }
    (containers != plan.containers).then_some(containers)
}

/// Containers that were killed for memory since they last got more of it, at the size they should have now; none if
/// there is nothing to add to the plan.
fn out_of_memory(
    now: Timestamp,
    spec: &Spec,
    observed: &Observed,
    vertical: &vertical::View,
    plan: &Plan,
    memory: &Memory,
) -> Option<Vec<ContainerSize>> {
    if !spec.oom_override || !is_open(now, spec, &spec.vertical.scale_up) {
        return None;
    }
    let mut containers = plan.containers.clone();
    for change in vertical.ups.iter().filter(|change| change.resource == Resource::Memory) {
        let container = &observed.containers[change.container];
        if memory.unanswered_kill(observed, &container.name).is_none() {
            continue;
        }
        // All of it, whatever the weight: a share would leave it to be killed again.
        if containers[change.container].requests.memory.unwrap_or(0) < change.to {
            vertical::put(&mut containers, container, Resource::Memory, change.to, spec);
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
        if let Some(metric) = self.observed.horizontal.as_ref().and_then(|side| side.metric.as_ref()) {
            metric.validate().map_err(|error| error.under("observed.horizontal.metric"))?;
        }
        Ok(decide(self.now, &self.spec, &self.observed, &self.memory))
    }
}

// === impl Spec ===

impl Spec {
    fn is_stale(&self, now: Timestamp, sampled_at: Timestamp) -> bool {
        sampled_at < spec::stale_before(now, self.staleness_seconds)
    }
}

// === impl HorizontalView ===

impl HorizontalView {
    /// Asks for what a need comes to instead of what was recommended.
    fn carry(&mut self, replicas: i32) {
        if self.wanted.is_some() {
            let clamped = replicas.clamp(self.min, self.max);
            self.wanted = Some(clamped);
            self.limited |= clamped != replicas;
        }
    }

    fn raise(&mut self, replicas: i32) {
        if let Some(wanted) = &mut self.wanted {
            *wanted = replicas.clamp(self.min, self.max).max(*wanted);
        }
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

    /// Keeps what was said about the need, for as long as newer words would be about the workload as it was.
    fn keep_needs(&mut self, now: Timestamp, parts: &[need::Part], decided: &Plan) {
        self.needs.clear();
        for need::Part { container, need, .. } in parts {
            let kept = self.needs.entry(need.container.clone()).or_default();
            kept.horizontal.set(need.resource, need.horizontal);
            kept.vertical.set(need.resource, need.vertical);
            let request = vertical::current_request(&decided.containers[*container], need.resource);
            let pods = u64::from(decided.replicas.max(0).unsigned_abs());
            if request.saturating_mul(pods) > need.held {
                self.last_growth = Some(now);
            }
        }
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
            horizontal: horizontal.told,
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
