//! One load, two axes: where both recommenders follow the same resource, they are two opinions about one need.
//!
//! ```text
//! H replicas of size q ──> H * q ──┐
//!                                  ├──> need ──> replicas = need / q, size = need / R
//! R pods of target t ────> R * t ──┘
//! ```
//!
//! After one axis carried a change, the other has nothing left to want. Read as two signals instead, a jump from 1 to 5 cores
//! made the modes hold 23: the sizes grew first, and the count that was meant for the old size grew after them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Axis, Coupling, HorizontalView, Memory, MetricTarget, Observed, ResourceMetric, Spec, UpdateMode,
    VerticalRecommendation, spec::expected_at, vertical::current_request,
};
use crate::{
    input::InputError,
    recommender::{
        ContainerMode,
        amount::{self, Resource, Resources},
        policy_of,
    },
    window::before,
};

/// What the recommender adds to usage; an average value asks for usage without it.
const MARGIN: f64 = 1.15;

/// Pods that use this share of what they can get may be wanting more than they can show.
const SATURATED: f64 = 0.95;

/// What is assumed of a load that is hidden behind pods that get no more: so many times what they show. A third of the way is
/// gained on a load that grows by steps of what can be seen, and the need is not passed by half. No metric of the
/// Kubernetes APIs tells how much processor time a pod waited for, so this stays a guess; it is made only where usage
/// stands at a limit, or at the requests where there is none.
const HIDDEN: f64 = 1.4;

/// How long after the last growth anything is given back. A load that rises, or swings, then finds it in use before it is taken
/// away, instead of one axis growing and the other shrinking in turn.
const GIVE_BACK_AFTER_SECONDS: i64 = 1800;

/// Whole amounts are rounded up; a billionth of one is floating-point dust.
const DUST: f64 = 1e-9;

/// The need for one resource of one container, in thousandths of a core or bytes, over all pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Need {
    pub container: String,
    pub resource: Resource,
    /// Replicas times request, now.
    pub held: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub horizontal: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vertical: Option<u64>,
    /// Sides that have seen nothing yet of the last change, and keep what they said before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<Axis>,
    pub need: u64,
}

/// A coupled resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Index into the observed containers.
    pub container: usize,
    pub request: u64,
    pub need: Need,
    /// The part of the need that was seen; the rest is assumed.
    pub seen: u64,
    /// What the pair on a ratio's path is found by: what is held may be a little more than is needed.
    pub on_path: u64,
    /// Less would do, and it is too soon to give anything back.
    pub is_waiting: bool,
}

/// What one side says about the need.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Opinion {
    /// More than is held.
    Up(f64),
    /// More than is held: so much was seen, and so much is assumed.
    Hidden(f64, f64),
    /// What is held will do, and so would this.
    Same(f64),
}

#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    pub now: Timestamp,
    pub spec: &'a Spec,
    pub observed: &'a Observed,
    pub memory: &'a Memory,
    pub horizontal: &'a HorizontalView,
    /// Usable ones only.
    pub vertical: Option<&'a VerticalRecommendation>,
    pub vertical_is_news: bool,
}

impl Sides<'_> {
    /// Every coupled resource with its need; empty if the sides are independent.
    pub fn needs(&self) -> Vec<Part> {
        if self.spec.coupling == Coupling::Off || !self.spec.horizontal.deployed {
            return Vec::new();
        }
        let metric = self.observed.horizontal.as_ref().and_then(|horizontal| horizontal.metric.as_ref());
        let coupled: Vec<(usize, Resource)> = self
            .controlled()
            .filter(|&(idx, resource)| {
                let name = &self.observed.containers[idx].name;
                match metric {
                    Some(metric) => metric.follows(name, resource),
                    // It does not know its metric now: what was coupled stays so.
                    None if self.horizontal.wanted.is_none() => self
                        .memory
                        .needs
                        .get(name)
                        .is_some_and(|kept| kept.horizontal.get(resource).is_some()),
                    None => false,
                }
            })
            .collect();
        let request = |&(idx, resource): &(usize, Resource)| {
            current_request(&self.observed.containers[idx], resource) as f64
        };
        let all: f64 = coupled.iter().map(request).sum();
        coupled.iter().map(|&(idx, resource)| self.part(idx, resource, metric, all)).collect()
    }

    /// The resources that the vertical side may change.
    fn controlled(&self) -> impl Iterator<Item = (usize, Resource)> + '_ {
        let vertical = &self.spec.vertical;
        let off = [&vertical.scale_up, &vertical.scale_down].iter().all(|s| s.update_mode == UpdateMode::Off);
        self.observed.containers.iter().enumerate().filter(move |_| !off).flat_map(move |(idx, container)| {
            let policy = policy_of(&vertical.container_policies, &container.name);
            Resource::ALL.into_iter().filter_map(move |resource| {
                let controlled = policy.is_none_or(|policy| {
                    policy.mode == ContainerMode::Auto && policy.controlled_resources.contains(&resource)
                });
                (controlled && current_request(container, resource) > 0).then_some((idx, resource))
            })
        })
    }

    /// `all` is what the coupled containers of one pod request together.
    fn part(&self, idx: usize, resource: Resource, metric: Option<&ResourceMetric>, all: f64) -> Part {
        let container = &self.observed.containers[idx];
        let request = current_request(container, resource);
        let held = f64::from(self.observed.replicas) * request as f64;
        let kept = self.memory.needs.get(&container.name).copied().unwrap_or_default();
        let mut stale = Vec::new();

        let horizontal = match (metric, self.horizontal.desired) {
            (Some(metric), Some(desired)) if self.horizontal_is_fresh() => {
                let limit = container.limits.get(resource).map(|limit| limit as f64);
                Some(self.horizontal_opinion(metric, desired, request as f64 / all, held, limit))
            }
            (_, Some(_)) => {
                stale.push(Axis::Horizontal);
                kept.horizontal.get(resource).map(|need| self.opinion_of(need as f64, held))
            }
            (_, None) => None,
        };
        let advice = self
            .vertical
            .and_then(|vertical| vertical.containers.iter().find(|one| one.container_name == container.name));
        let vertical = advice.and_then(|advice| {
            let pods = f64::from(self.observed.replicas);
            let each = |sizes: &Resources| sizes.get(resource).map(|amount| amount as f64 * pods);
            let need = match advice.total.target.get(resource) {
                // A sum over pods does not depend on how many there are, so it is never stale.
                Some(need) => Some(need as f64),
                None if self.vertical_is_fresh() => {
                    let target = each(&advice.uncapped_target).filter(|&need| need > 0.0);
                    target.or_else(|| each(&advice.target))
                }
                None => {
                    stale.push(Axis::Vertical);
                    kept.vertical.get(resource).map(|need| need as f64)
                }
            };
            need.filter(|&need| need > 0.0).map(|need| self.opinion_of(need, held))
        });
        let need = self.agreed(held, horizontal, vertical);
        let known = horizontal.zip(vertical).map(|(one, other)| one.point().max(other.point()));
        let is_waiting =
            need == held && known.is_some_and(|known| known < held * (1.0 - self.spec.tolerance));
        let seen = match (horizontal, vertical) {
            (Some(Opinion::Hidden(seen, _)), Some(Opinion::Up(other))) => seen.max(other),
            (Some(Opinion::Hidden(seen, _)), _) => seen,
            _ => need,
        };
        let whole = |amount: f64| ((amount - DUST).ceil().max(0.0) as u64).min(amount::MAX);
        Part {
            container: idx,
            request,
            need: Need {
                container: container.name.clone(),
                resource,
                held: whole(held),
                horizontal: horizontal.map(|opinion| whole(opinion.point())),
                vertical: vertical.map(|opinion| whole(opinion.point())),
                stale,
                need: whole(need),
            },
            seen: whole(seen),
            on_path: whole(if need == held { known.map_or(held, |known| known.min(held)) } else { need }),
            is_waiting,
        }
    }

    /// `share` is the part of the pod's requests that this container has, and `limit` that of one container.
    fn horizontal_opinion(
        &self,
        metric: &ResourceMetric,
        desired: i32,
        share: f64,
        held: f64,
        limit: Option<f64>,
    ) -> Opinion {
        let HorizontalView { min, max, limited, .. } = *self.horizontal;
        let pods = f64::from(self.observed.replicas);
        let usage = metric.usage.map(|usage| metric.resource.amount_of(usage) as f64 * share);
        let (each, asked) = match metric.target {
            MetricTarget::AverageUtilization(percent) => {
                (held / pods, usage.map(|usage| usage * 100.0 / f64::from(percent)))
            }
            MetricTarget::AverageValue(value) => {
                let each = metric.resource.amount_of(value) as f64 * share * MARGIN;
                (each, usage.map(|usage| usage * MARGIN))
            }
        };
        let is_saturated = usage.is_some_and(|usage| match limit {
            Some(limit) => usage >= SATURATED * limit * pods,
            // On a full node pods get what they request. Where they use clearly more, nothing holds them back.
            None => (SATURATED * held..=(2.0 - SATURATED) * held).contains(&usage),
        });
        let most = f64::from(desired) * each;
        // A whole number of pods was asked for, so the need may be up to one pod less; at an end of its range it may be
        // anything beyond.
        let low = if desired <= min { 0.0 } else { most - each };
        let is_open = desired >= max || (limited && desired > self.observed.replicas);
        let high = if is_open { f64::INFINITY } else { most };
        match asked {
            Some(asked) if low + DUST >= held && is_saturated => {
                Opinion::Hidden(asked.max(held), asked.max(held) * HIDDEN)
            }
            // An autoscaler remembers counts that it wanted at another size: what the pods use now tells.
            Some(asked) if low + DUST >= held && asked <= held * (1.0 + self.spec.tolerance) => {
                Opinion::Same(held)
            }
            Some(asked) => self.opinion_of(asked.clamp(low.min(high), high), held),
            None if low + DUST >= held => Opinion::Up(most),
            None => Opinion::Same(if high < held { high } else { low }),
        }
    }

    /// An opinion that is no more than a figure.
    fn opinion_of(&self, need: f64, held: f64) -> Opinion {
        if need > held * (1.0 + self.spec.tolerance) { Opinion::Up(need) } else { Opinion::Same(need) }
    }

    /// The larger of both going up; going down both have to agree.
    fn agreed(&self, held: f64, horizontal: Option<Opinion>, vertical: Option<Opinion>) -> f64 {
        let highest = horizontal.iter().chain(&vertical).map(|opinion| opinion.point()).fold(0.0, f64::max);
        let is_up = |opinion: &Opinion| !matches!(opinion, Opinion::Same(_));
        match (horizontal, vertical) {
            _ if horizontal.iter().chain(&vertical).any(is_up) => highest.max(held),
            (Some(_), Some(_)) if highest < held * (1.0 - self.spec.tolerance) && self.may_give_back() => {
                highest
            }
            _ => held,
        }
    }

    fn may_give_back(&self) -> bool {
        // Pods that were made too large for their new number until the last of them ran.
        if self.memory.trading && self.horizontal_is_fresh() {
            return true;
        }
        let calm_since = before(self.now, GIVE_BACK_AFTER_SECONDS);
        self.memory.last_growth.is_none_or(|last| last <= calm_since)
    }

    fn horizontal_is_fresh(&self) -> bool {
        let Some(settled) = self.settled_at() else { return true };
        let told_before = self.memory.last_processed.as_ref().and_then(|pair| pair.horizontal);
        match self.horizontal.sampled_at {
            _ if self.observed.rollout_in_progress => false,
            Some(at) => at > settled,
            None => self.horizontal.desired.is_some() && told_before != self.horizontal.desired,
        }
    }

    fn vertical_is_fresh(&self) -> bool {
        let Some(settled) = self.settled_at() else { return true };
        match self.vertical.and_then(|vertical| vertical.sampled_at) {
            _ if self.observed.rollout_in_progress => false,
            Some(at) => at > settled,
            None => self.vertical_is_news,
        }
    }

    /// None if nothing was ever changed here.
    fn settled_at(&self) -> Option<Timestamp> {
        let changed = self.memory.last_scaling?;
        Some(self.observed.settled_at.map_or(changed, |settled| settled.max(changed)))
    }
}

// === impl Opinion ===

impl Opinion {
    fn point(self) -> f64 {
        match self {
            Opinion::Up(need) | Opinion::Hidden(_, need) | Opinion::Same(need) => need,
        }
    }
}

// === impl Part ===

impl Part {
    /// The count that covers the need at the current size.
    pub fn replicas(&self) -> i32 {
        let pods = |amount: u64| amount as f64 / self.request as f64;
        // A pod that only what is assumed asks for is not started.
        let replicas = (pods(self.seen) - DUST).ceil().max((pods(self.need.need) + DUST).floor());
        (replicas.min(f64::from(i32::MAX)) as i32).max(1)
    }

    /// The size that covers the need on `pods` pods.
    pub fn size(&self, pods: i32) -> u64 {
        self.need.need.div_ceil(u64::from(pods.max(1).unsigned_abs()))
    }
}

// === impl ResourceMetric ===

impl ResourceMetric {
    fn follows(&self, container: &str, resource: Resource) -> bool {
        let positive = match self.target {
            MetricTarget::AverageUtilization(percent) => percent > 0,
            MetricTarget::AverageValue(value) => value.0 > 0,
        };
        positive
            && self.resource == resource
            && self.container.as_deref().is_none_or(|name| name == container)
    }

    /// # Errors
    /// If the target or the usage makes no sense.
    pub(super) fn validate(&self) -> Result<(), InputError> {
        match self.target {
            MetricTarget::AverageUtilization(..=0) => {
                return Err(expected_at("target.averageUtilization", "1 or more"));
            }
            MetricTarget::AverageValue(value) if value.0 <= 0 => {
                return Err(expected_at("target.averageValue", "a quantity above 0"));
            }
            _ => {}
        }
        match self.usage {
            Some(usage) if usage.0 < 0 => Err(expected_at("usage", "a quantity of 0 or more")),
            _ => Ok(()),
        }
    }
}
