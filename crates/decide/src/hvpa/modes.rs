//! Which side a mode listens to.

use serde::{Deserialize, Serialize};

use super::{
    Axis, Combination, Hold, HorizontalView, Mode, Observed, Plan, Spec,
    need::Part,
    path::Path,
    ratio::{self, Region},
    spec::{Ratio, ScaleParams},
    vertical::{self, Change, View},
};
use crate::recommender::{self, ContainerPolicy, amount::Resources, policy_of};

/// What a mode chose, before anything had to wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pick {
    pub horizontal: bool,
    pub ups: bool,
    pub downs: bool,
    /// Shares instead of the full recommendations.
    pub weights: Option<Weights>,
    pub verdict: Verdict,
}

/// The vertical side's share in percent, which may differ where one direction has no horizontal room left.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Weights {
    /// The horizontal side gets 100 minus this.
    pub base: f64,
    pub up: f64,
    pub down: f64,
}

/// Why the mode chose it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Verdict {
    NothingRecommended,
    HorizontalRecommended,
    HorizontalPreferred,
    OnlyVertical,
    VerticalPreferred,
    /// Vertical, because the replicas can go no further.
    HorizontalExhausted,
    HorizontalNotExhausted,
    HorizontalUnknown,
    /// A waiting vertical change has held the horizontal one back for long enough.
    SuppressionEnded,
    AboveThreshold {
        axis: Axis,
    },
    BelowThresholds,
    Weighted(Weights),
    /// The pair that the need comes to on the path of the ratio, at so many replicas before rounding.
    OnPath {
        replicas: f64,
    },
}

/// The ratio, if it is a path.
pub fn path(spec: &Spec) -> Option<&Ratio> {
    match &spec.mode {
        Mode::Ratio(ratio) if ratio.combination == Combination::Path => Some(ratio),
        _ => None,
    }
}

/// Where the need lies on the path, in replicas.
pub fn on_path(spec: &Spec, ratio: &Ratio, observed: &Observed, parts: &[Part]) -> f64 {
    let regions = ratio.regions(spec.min_replicas, spec.max_replicas).unwrap_or_default();
    let pod_minimum = recommender::Options::default().pod_minimum;
    let sum = |of: &dyn Fn(&Part) -> f64| parts.iter().map(of).sum::<f64>();
    let bound = |part: &Part, policy_bound: fn(&ContainerPolicy) -> Resources| {
        let name = &observed.containers[part.container].name;
        let policy = policy_of(&spec.vertical.container_policies, name);
        policy.and_then(|policy| policy_bound(policy).get(part.need.resource)).map(|amount| amount as f64)
    };
    let smallest = sum(&|part| {
        let least = pod_minimum.get(part.need.resource).unwrap_or(1) as f64;
        bound(part, |policy| policy.min_allowed).unwrap_or(least)
    });
    let largest = sum(&|part| bound(part, |policy| policy.max_allowed).unwrap_or(f64::INFINITY));
    let path = Path::new(&regions, (spec.min_replicas, spec.max_replicas), (smallest, largest));
    path.replicas(sum(&|part| part.on_path as f64))
}

/// Both axes of the pair.
pub fn pick_on_path(
    replicas: f64,
    observed: &Observed,
    horizontal: &HorizontalView,
    vertical: &View,
) -> Pick {
    let moves = horizontal.wanted.is_some_and(|wanted| wanted != observed.replicas);
    let pick = Pick {
        horizontal: moves,
        // Fewer pods have to be larger, by however little; a little too large is not worth a resize.
        ups: vertical.wants_up() || (moves && !vertical.ups.is_empty()),
        downs: vertical.wants_down(),
        weights: None,
        verdict: Verdict::OnPath { replicas },
    };
    if pick.horizontal || pick.is_vertical() { pick } else { Pick::nothing(Verdict::NothingRecommended) }
}

pub fn pick(spec: &Spec, observed: &Observed, horizontal: &HorizontalView, vertical: &View) -> Pick {
    let wanted = horizontal.wanted.unwrap_or(observed.replicas);
    let has_horizontal = wanted != observed.replicas;
    let has_vertical = vertical.has_recommendation();
    match &spec.mode {
        Mode::HpaPreferred { require_scaling_limited } => {
            hpa_preferred(observed.replicas, *require_scaling_limited, horizontal, vertical)
        }
        Mode::HpaBiased => match (has_horizontal, has_vertical) {
            (true, true) => Pick::horizontal(Verdict::HorizontalPreferred),
            (true, false) => Pick::horizontal(Verdict::HorizontalRecommended),
            (false, true) => Pick::vertical(vertical, Verdict::OnlyVertical),
            (false, false) => Pick::nothing(Verdict::NothingRecommended),
        },
        Mode::VpaBiased { .. } => match (has_horizontal, has_vertical) {
            (true, true) => Pick::vertical(vertical, Verdict::VerticalPreferred),
            (true, false) => Pick::horizontal(Verdict::HorizontalRecommended),
            (false, true) => Pick::vertical(vertical, Verdict::OnlyVertical),
            (false, false) => Pick::nothing(Verdict::NothingRecommended),
        },
        Mode::Mixed { preference, replicas, thresholds } => match (has_horizontal, has_vertical) {
            (true, true) => {
                let horizontal_counts = wanted.abs_diff(observed.replicas) > replicas.unsigned_abs();
                mixed(*preference, horizontal_counts, exceeds(thresholds, vertical), vertical)
            }
            (true, false) => Pick::horizontal(Verdict::HorizontalRecommended),
            (false, true) => Pick::vertical(vertical, Verdict::OnlyVertical),
            (false, false) => Pick::nothing(Verdict::NothingRecommended),
        },
        Mode::Ratio(ratio) => match has_horizontal || has_vertical {
            true => weighted(spec, ratio, observed.replicas, horizontal, vertical),
            false => Pick::nothing(Verdict::NothingRecommended),
        },
    }
}

fn hpa_preferred(replicas: i32, require_limited: bool, horizontal: &HorizontalView, vertical: &View) -> Pick {
    let Some(wanted) = horizontal.wanted else {
        return Pick::nothing(Verdict::HorizontalUnknown);
    };
    if wanted != replicas {
        return Pick::horizontal(Verdict::HorizontalRecommended);
    }
    let ups = vertical.wants_up()
        && replicas == horizontal.max
        && wanted >= horizontal.max
        && (!require_limited || horizontal.limited);
    let downs = vertical.wants_down() && replicas == horizontal.min && wanted <= horizontal.min;
    match ups || downs {
        true => Pick { ups, downs, ..Pick::nothing(Verdict::HorizontalExhausted) },
        false if vertical.has_recommendation() => Pick::nothing(Verdict::HorizontalNotExhausted),
        false => Pick::nothing(Verdict::NothingRecommended),
    }
}

fn mixed(preference: Axis, horizontal_counts: bool, vertical_counts: bool, vertical: &View) -> Pick {
    match (horizontal_counts, vertical_counts, preference) {
        (true, true, Axis::Horizontal) => Pick::horizontal(Verdict::HorizontalPreferred),
        (true, true, Axis::Vertical) => Pick::vertical(vertical, Verdict::VerticalPreferred),
        (true, false, _) => Pick::horizontal(Verdict::AboveThreshold { axis: Axis::Horizontal }),
        (false, true, _) => Pick::vertical(vertical, Verdict::AboveThreshold { axis: Axis::Vertical }),
        (false, false, _) => Pick::nothing(Verdict::BelowThresholds),
    }
}

fn exceeds(thresholds: &ScaleParams, vertical: &View) -> bool {
    vertical.ups.iter().chain(&vertical.downs).any(|change| {
        let threshold = thresholds.get(change.resource).threshold(change.resource, change.from).unwrap_or(0);
        change.above_limit || change.from.abs_diff(change.to) > threshold
    })
}

fn weighted(spec: &Spec, ratio: &Ratio, replicas: i32, horizontal: &HorizontalView, vertical: &View) -> Pick {
    // An invalid ratio was refused when the spec was read; to a caller who did not ask, it is horizontal only.
    let regions: Vec<Region> = ratio.regions(spec.min_replicas, spec.max_replicas).unwrap_or_default();
    let wanted = horizontal.wanted.unwrap_or(replicas);
    let delta = wanted.saturating_sub(replicas);
    // A side that has nothing left to give leaves the whole move to the other.
    let vertical_exhausted = (delta > 0 && vertical.ups_exhausted) || (delta < 0 && vertical.downs_exhausted);
    let base = if vertical_exhausted { 0.0 } else { ratio::weight_at(&regions, replicas, delta) };
    let at_max = horizontal.wanted == Some(horizontal.max) && replicas == horizontal.max;
    let at_min = horizontal.wanted == Some(horizontal.min) && replicas == horizontal.min;
    let weights =
        Weights { base, up: if at_max { 100.0 } else { base }, down: if at_min { 100.0 } else { base } };
    Pick {
        horizontal: delta != 0,
        ups: vertical.wants_up(),
        downs: vertical.wants_down(),
        weights: Some(weights),
        verdict: Verdict::Weighted(weights),
    }
}

/// The plan a pick leads to.
pub fn apply(
    spec: &Spec,
    observed: &Observed,
    horizontal: &HorizontalView,
    vertical: &View,
    pick: &Pick,
    current: &Plan,
) -> Plan {
    let mut plan = current.clone();
    let wanted = horizontal.wanted.filter(|_| pick.horizontal).unwrap_or(observed.replicas);
    let multiplicative =
        matches!(&spec.mode, Mode::Ratio(Ratio { combination: Combination::Multiplicative, .. }));
    if pick.horizontal {
        plan.replicas = match pick.weights {
            None => wanted,
            Some(weights) if multiplicative => {
                ratio::multiplicative_replicas(observed.replicas, wanted, weights.base)
            }
            Some(weights) => ratio::additive_replicas(observed.replicas, wanted, weights.base),
        };
    }
    let pods = (observed.replicas, wanted, plan.replicas);
    let share = |change: &Change, weight: f64| match weight {
        0.0 => change.from,
        weight if multiplicative => ratio::multiplicative_size(change.from, change.to, weight, pods),
        weight => ratio::additive_size(change.from, change.to, weight),
    };
    let ups = vertical.ups.iter().filter(|_| pick.ups).map(|change| (change, pick.weights.map(|w| w.up)));
    let downs =
        vertical.downs.iter().filter(|_| pick.downs).map(|change| (change, pick.weights.map(|w| w.down)));
    for (change, weight) in ups.chain(downs).filter(|(change, _)| change.moves_along()) {
        let to = weight.map_or(change.to, |weight| share(change, weight));
        if weight.is_none() || (to != change.from && is_worth_it(spec, change, to)) {
            let container = &observed.containers[change.container];
            vertical::put(&mut plan.containers, container, change.resource, to, spec);
        }
    }
    plan
}

/// A minimum change that the user set counts for the share that is applied, unless the request is out of its range: a
/// recommendation capped by what the node had to give would otherwise stay just below the threshold for ever.
pub fn is_worth_it(spec: &Spec, change: &Change, to: u64) -> bool {
    let scale = if change.to > change.from { &spec.vertical.scale_up } else { &spec.vertical.scale_down };
    let threshold = scale.min_change.get(change.resource).threshold(change.resource, change.from);
    change.outside_range || threshold.is_none_or(|threshold| to.abs_diff(change.from) >= threshold)
}

/// The plan without what is held back.
pub fn without(plan: &Plan, current: &Plan, hold: &Hold, vertical: &View) -> Plan {
    let mut allowed = plan.clone();
    if hold.axis == Axis::Horizontal {
        allowed.replicas = current.replicas;
        return allowed;
    }
    let downs = vertical.downs.iter().filter(|_| !hold.only_ups);
    let ups = vertical.ups.iter().filter(|_| !hold.only_downs);
    let is_held = |change: &&Change| match &hold.part {
        Some(part) => {
            current.containers[change.container].name == part.container && change.resource == part.resource
        }
        None => true,
    };
    for change in ups.chain(downs).filter(is_held) {
        let (back, to) = (&current.containers[change.container], &mut allowed.containers[change.container]);
        to.requests.set(change.resource, back.requests.get(change.resource));
        to.limits.set(change.resource, back.limits.get(change.resource));
    }
    allowed
}

// === impl Pick ===

impl Pick {
    fn nothing(verdict: Verdict) -> Pick {
        Pick { horizontal: false, ups: false, downs: false, weights: None, verdict }
    }

    pub fn horizontal(verdict: Verdict) -> Pick {
        Pick { horizontal: true, ..Pick::nothing(verdict) }
    }

    fn vertical(vertical: &View, verdict: Verdict) -> Pick {
        Pick { ups: vertical.wants_up(), downs: vertical.wants_down(), ..Pick::nothing(verdict) }
    }

    pub fn is_vertical(&self) -> bool {
        self.ups || self.downs
    }
}
