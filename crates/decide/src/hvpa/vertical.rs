//! What the vertical side wants, after every bound, and what a new request does to a limit.

use std::collections::BTreeMap;

use super::{
    ContainerRecommendation, ContainerSize, Mode, Observed, ScaleType, Spec, UpdateMode,
    VerticalRecommendation, need::Part,
};
use crate::recommender::{
    ContainerMode, ContainerPolicy, ControlledValues,
    amount::{self, Resource, Resources},
    policy_of,
};
use jiff::Timestamp;

/// The share of a request by which a target must differ, where no minimum change is set.
const DEFAULT_MIN_CHANGE: f64 = 0.1;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    pub ups: Vec<Change>,
    pub downs: Vec<Change>,
    /// More is wanted of something, and all of it is at its maximum.
    pub ups_exhausted: bool,
    /// Less is wanted of something, and all of it is at its minimum.
    pub downs_exhausted: bool,
    pub sampled_at: Option<Timestamp>,
    /// The clamped targets, by container.
    pub targets: BTreeMap<String, Resources>,
}

/// One request that should differ from what it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Index into the observed containers.
    pub container: usize,
    pub resource: Resource,
    pub from: u64,
    pub to: u64,
    /// Large enough, or urgent enough, to count as a recommendation.
    pub material: bool,
    /// The request lies outside the recommended range.
    pub outside_range: bool,
    pub above_limit: bool,
}

pub fn view(spec: &Spec, observed: &Observed, recommendation: &VerticalRecommendation) -> View {
    let mut view = View { sampled_at: recommendation.sampled_at, ..View::default() };
    let (mut wants_up, mut wants_down) = (false, false);
    for (idx, container) in observed.containers.iter().enumerate() {
        let policy = policy_of(&spec.vertical.container_policies, &container.name);
        let off = policy.is_some_and(|policy| policy.mode == ContainerMode::Off);
        let Some(advice) = recommendation.containers.iter().find(|one| one.container_name == container.name)
        else {
            continue;
        };
        if off {
            continue;
        }
        let mut targets = Resources::default();
        for resource in Resource::ALL {
            let controlled = policy.is_none_or(|policy| policy.controlled_resources.contains(&resource));
            // A target of 0 is what an empty history looks like.
            let Some(raw) = advice.target.get(resource).filter(|&raw| controlled && raw > 0) else {
                continue;
            };
            let uncapped = advice.uncapped_target.get(resource).unwrap_or(raw);
            let from = current_request(container, resource);
            let to = clamped(spec, policy, container, resource, raw);
            targets.set(resource, Some(to));
            wants_up |= uncapped > from;
            wants_down |= uncapped < from;
            let change = change(spec, idx, container, advice, resource, from, to);
            match change.to.cmp(&change.from) {
                std::cmp::Ordering::Greater => view.ups.push(change),
                std::cmp::Ordering::Less => view.downs.push(change),
                std::cmp::Ordering::Equal => {}
            }
        }
        view.targets.insert(container.name.clone(), targets);
    }
    view.ups_exhausted = wants_up && view.ups.is_empty();
    view.downs_exhausted = wants_down && view.downs.is_empty();
    view.drop_off(spec);
    view
}

fn change(
    spec: &Spec,
    container_idx: usize,
    container: &ContainerSize,
    advice: &ContainerRecommendation,
    resource: Resource,
    from: u64,
    to: u64,
) -> Change {
    let lower = advice.lower_bound.get(resource);
    let upper = advice.upper_bound.get(resource);
    let outside_range = lower.is_some_and(|lower| from < lower) || upper.is_some_and(|upper| from > upper);
    sized(spec, container_idx, container, resource, (from, to), outside_range)
}

fn sized(
    spec: &Spec,
    container_idx: usize,
    container: &ContainerSize,
    resource: Resource,
    (from, to): (u64, u64),
    outside_range: bool,
) -> Change {
    let scale = if to > from { &spec.vertical.scale_up } else { &spec.vertical.scale_down };
    let diff = from.abs_diff(to);
    let threshold = match spec.mode {
        // This mode has thresholds of its own, which only count when both sides want something.
        Mode::Mixed { .. } => noise(resource, from),
        _ => scale
            .min_change
            .get(resource)
            .threshold(resource, from)
            .unwrap_or_else(|| amount::scaled(from, DEFAULT_MIN_CHANGE)),
    };
    Change {
        container: container_idx,
        resource,
        from,
        to,
        material: diff > 0 && (diff >= threshold || outside_range),
        outside_range,
        above_limit: container.limits.get(resource).is_some_and(|limit| to > limit),
    }
}

impl View {
    /// Directions that are switched off want nothing.
    fn drop_off(&mut self, spec: &Spec) {
        let off = |scale: &ScaleType| scale.update_mode == UpdateMode::Off;
        if off(&spec.vertical.scale_up) {
            self.ups.clear();
        }
        if off(&spec.vertical.scale_down) {
            self.downs.clear();
        }
    }

    /// Whether there was something to drop.
    pub fn drop_downs(&mut self) -> bool {
        let wanted = self.wants_down();
        self.downs.clear();
        wanted
    }

    /// Drops what coupled resources are to shrink by; whether there was anything.
    pub fn forget_coupled_downs(&mut self, parts: &[Part]) -> bool {
        let before = self.downs.len();
        self.downs.retain(|change| !parts.iter().any(|part| part.is(change)));
        self.downs.len() != before
    }

    /// Drops what is wanted of resources that are not coupled; whether there was anything.
    pub fn forget_changes(&mut self, parts: &[Part]) -> bool {
        let wanted = self.has_recommendation();
        let is_coupled = |change: &Change| parts.iter().any(|part| part.is(change));
        self.ups.retain(is_coupled);
        self.downs.retain(is_coupled);
        wanted && !self.has_recommendation()
    }

    /// Asks for what coupled needs come to on so many pods instead of what was recommended. Pods that hold no more than `slack`
    /// times the need keep their size.
    pub fn carry(&mut self, spec: &Spec, observed: &Observed, parts: &[Part], pods: i32, slack: f64) {
        let mut wants = (false, false);
        for part in parts {
            let (container, resource) = (&observed.containers[part.container], part.need.resource);
            let policy = policy_of(&spec.vertical.container_policies, &container.name);
            let exact = part.size(pods);
            let is_close = exact <= part.request && part.request as f64 <= exact as f64 * slack;
            let size = if is_close { part.request } else { exact };
            wants = (wants.0 || size > part.request, wants.1 || size < part.request);
            let to = clamped(spec, policy, container, resource, size);
            let change = sized(spec, part.container, container, resource, (part.request, to), false);
            self.ups.retain(|other| !part.is(other));
            self.downs.retain(|other| !part.is(other));
            match change.to.cmp(&change.from) {
                std::cmp::Ordering::Greater => self.ups.push(change),
                std::cmp::Ordering::Less => self.downs.push(change),
                std::cmp::Ordering::Equal => {}
            }
        }
        self.ups_exhausted = wants.0 && self.ups.is_empty();
        self.downs_exhausted = wants.1 && self.downs.is_empty();
        self.drop_off(spec);
    }

    /// The pods that cover every need at the sizes asked for, if they can get no larger.
    pub fn pods_for(&self, parts: &[Part], pods: i32) -> i32 {
        let pods_for = |part: &Part| {
            let to = self.ups.iter().chain(&self.downs).find(|change| part.is(change));
            let size = to.map_or(part.request, |change| change.to);
            match size >= part.size(pods) {
                true => pods,
                false => i32::try_from(part.need.need.div_ceil(size.max(1))).unwrap_or(i32::MAX),
            }
        };
        parts.iter().map(pods_for).max().unwrap_or(pods)
    }

    pub fn has_recommendation(&self) -> bool {
        self.wants_up() || self.wants_down()
    }

    pub fn wants_up(&self) -> bool {
        self.ups.iter().any(|change| change.material)
    }

    pub fn wants_down(&self) -> bool {
        self.downs.iter().any(|change| change.material)
    }
}

impl Part {
    fn is(&self, change: &Change) -> bool {
        self.container == change.container && self.need.resource == change.resource
    }
}

impl Change {
    /// Once something moves, everything that differs by more than noise moves with it: the pods restart anyway.
    pub fn moves_along(&self) -> bool {
        self.material || self.from.abs_diff(self.to) >= noise(self.resource, self.from)
    }
}

/// Below a thousandth of a core, 1 Ki or one percent, a difference is noise.
fn noise(resource: Resource, current: u64) -> u64 {
    let unit = match resource {
        Resource::Cpu => 1,
        Resource::Memory => 1 << 10,
    };
    amount::scaled(current, 0.01).max(unit)
}

/// Kubernetes takes a limit for the request where none is given.
pub fn current_request(container: &ContainerSize, resource: Resource) -> u64 {
    container.requests.get(resource).or(container.limits.get(resource)).unwrap_or(0)
}

/// A new request, and the limit that goes with it, for one resource of `containers`; `observed` is the container as it is.
pub fn put(
    containers: &mut [ContainerSize],
    observed: &ContainerSize,
    resource: Resource,
    request: u64,
    spec: &Spec,
) {
    let resized = resized(observed, resource, request, spec);
    if let Some(container) = containers.iter_mut().find(|container| container.name == observed.name) {
        container.requests.set(resource, resized.requests.get(resource));
        container.limits.set(resource, resized.limits.get(resource));
    }
}

/// The policy's minimum, then its maximum, then the namespace's bounds, then the limit if limits are not ours to move.
pub fn clamped(
    spec: &Spec,
    policy: Option<&ContainerPolicy>,
    container: &ContainerSize,
    resource: Resource,
    target: u64,
) -> u64 {
    let range = &spec.vertical.limit_range;
    let mut to = target;
    for (min, max) in [
        (
            policy.and_then(|policy| policy.min_allowed.get(resource)),
            policy.and_then(|policy| policy.max_allowed.get(resource)),
        ),
        (range.min.get(resource), range.max.get(resource)),
    ] {
        to = to.max(min.unwrap_or(0)).min(max.unwrap_or(amount::MAX));
    }
    if requests_only(policy) {
        to = to.min(container.limits.get(resource).unwrap_or(amount::MAX));
    }
    to
}

fn requests_only(policy: Option<&ContainerPolicy>) -> bool {
    policy.is_some_and(|policy| policy.controlled_values == ControlledValues::RequestsOnly)
}

/// The container with a new request, and the limit that goes with it.
pub fn resized(container: &ContainerSize, resource: Resource, request: u64, spec: &Spec) -> ContainerSize {
    let mut resized = container.clone();
    resized.requests.set(resource, Some(request));
    let policy = policy_of(&spec.vertical.container_policies, &container.name);
    if let Some(limit) = container.limits.get(resource).filter(|_| !requests_only(policy)) {
        let new = new_limit(spec, container.requests.get(resource), limit, resource, request);
        let most = spec.vertical.limit_range.max.get(resource).unwrap_or(amount::MAX);
        resized.limits.set(resource, Some(new.min(most).max(request)));
    }
    resized
}

fn new_limit(spec: &Spec, old_request: Option<u64>, limit: u64, resource: Resource, request: u64) -> u64 {
    let Some(old_request) = old_request.filter(|&old| old > 0 && old != limit) else {
        return request;
    };
    let gap = spec.vertical.limits_requests_gap.get(resource);
    match (gap.value(resource), gap.percentage) {
        (None, None | Some(0)) => {
            let proportional = u128::from(limit) * u128::from(request) / u128::from(old_request);
            proportional.min(u128::from(amount::MAX)) as u64
        }
        (value, percentage) => {
            let factor = 1.0 + f64::from(percentage.unwrap_or(0)) / 100.0;
            amount::scaled(request, factor).max(request.saturating_add(value.unwrap_or(0))).min(amount::MAX)
        }
    }
}
