//! What has to wait, and until when. Waiting does not hand the turn to the other side: a change that is merely late
//! is still the mode's choice.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Axis, HorizontalView, Memory, Mode, Observed, Plan, Processed, ScaleType, Spec, UpdateMode,
    modes::{Pick, Verdict, is_worth_it},
    vertical::{View, current_request},
};
use crate::{
    recommender::amount::{Resource, Resources},
    window::cooling,
};

#[derive(Clone, Copy, Debug)]
pub struct Gates<'a> {
    pub now: Timestamp,
    pub spec: &'a Spec,
    pub observed: &'a Observed,
    pub memory: &'a Memory,
    pub horizontal: &'a HorizontalView,
    pub vertical: &'a View,
    /// Both sides speak of one need, which keeps what is stale itself.
    pub is_coupled: bool,
}

/// A change that is held back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    pub axis: Axis,
    /// Only shrinking is held back, growing goes on.
    #[serde(default)]
    pub only_downs: bool,
    /// Only growing is held back.
    #[serde(default)]
    pub only_ups: bool,
    /// Only this request is held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    pub why: Why,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    pub container: String,
    pub resource: Resource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// The recommendation was made before the last change, or its share was applied already.
    Consumed,
    RollingUpdate,
    MaintenanceWindow,
    StabilizationWindow,
    /// The other side's share is everything.
    Weight,
    /// The share that would be applied is too small.
    MinChange,
    /// A size that has to wait comes first.
    SizesFirst,
    /// Fewer pods would have to be larger, and the sizes have to wait.
    SizesWait,
    /// Pods can be smaller when there are more of them, which have to start first.
    PodsStart,
    /// The replicas can still go that way.
    NotExhausted,
    /// How many pods there should be is not known.
    HorizontalUnknown,
}

/// What a waiting size keeps from happening.
#[derive(Debug, Default)]
pub struct Suppression {
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub hold: Option<Hold>,
}

struct TooSmall {
    holds: Vec<Hold>,
    is_all: bool,
}

pub struct Held {
    pub holds: Vec<Hold>,
    /// The pair of recommendations differs from the one last acted on.
    pub pair_is_new: bool,
}

type Blocked = (Why, Option<Timestamp>);

impl Gates<'_> {
    /// Lets the horizontal side go first when the vertical one has kept it waiting for too long.
    pub fn suppress(&self, pick: &mut Pick) -> Suppression {
        let Mode::VpaBiased { max_suppression_seconds } = &self.spec.mode else {
            return Suppression::default();
        };
        if pick.verdict != Verdict::VerticalPreferred || self.vertical_gate().is_ok() {
            return Suppression::default();
        }
        let since = self.memory.suppressed_since.map_or(self.now, |since| since.min(self.now));
        let length = max_suppression_seconds.unwrap_or(self.vertical_scale().stabilization_seconds);
        match cooling(self.now, Some(since), length) {
            Some(until) => {
                let hold = Hold { until: Some(until), ..Hold::new(Axis::Horizontal, Why::SizesFirst) };
                Suppression { since: Some(since), until: Some(until), hold: Some(hold) }
            }
            None => {
                *pick = Pick::horizontal(Verdict::SuppressionEnded);
                Suppression { since: Some(since), ..Suppression::default() }
            }
        }
    }

    /// Every part of the pick that has to wait; `chosen` is the plan that it leads to.
    pub fn hold(&self, pick: &Pick, chosen: &Plan) -> Held {
        let pair_is_new = self.pair_is_new();
        let is_ratio = pick.weights.is_some();
        let share_applied = |applied: fn(&Processed) -> bool| {
            is_ratio && !pair_is_new && self.memory.last_processed.as_ref().is_some_and(applied)
        };
        let mut holds = Vec::new();
        if pick.horizontal {
            let blocked = if pick.weights.is_some_and(|weights| weights.base >= 100.0) {
                Err((Why::Weight, None))
            } else if share_applied(|pair| pair.applied_horizontal) {
                Err((Why::Consumed, None))
            } else {
                self.gate(self.horizontal_scale(), self.memory.last_scaling).and_then(|()| {
                    let is_news = is_ratio || self.horizontal.told != self.told_before();
                    self.news(self.horizontal.sampled_at, is_news)
                })
            };
            if let Err((why, until)) = blocked {
                holds.push(Hold { until, ..Hold::new(Axis::Horizontal, why) });
            }
        }
        if pick.is_vertical() {
            let no_share = |weights: super::modes::Weights| {
                (!pick.ups || weights.up <= 0.0) && (!pick.downs || weights.down <= 0.0)
            };
            let too_small = self.too_small(pick, chosen);
            let resizes = chosen.containers != self.observed.containers && !too_small.is_all;
            let blocked = if pick.weights.is_some_and(no_share) {
                Err((Why::Weight, None))
            } else if share_applied(|pair| pair.applied_vertical) {
                Err((Why::Consumed, None))
            } else if !resizes {
                Err((Why::MinChange, None))
            } else {
                self.vertical_gate()
            };
            match blocked {
                Err((why, until)) => holds.push(Hold { until, ..Hold::new(Axis::Vertical, why) }),
                Ok(()) => {
                    holds.extend(too_small.holds);
                    self.hold_directions(pick, &mut holds);
                }
            }
        }
        Held { holds, pair_is_new }
    }

    /// Parts that go the other way than what lets the sizes change.
    fn hold_directions(&self, pick: &Pick, holds: &mut Vec<Hold>) {
        let only_downs = |why, until| Hold { only_downs: true, until, ..Hold::new(Axis::Vertical, why) };
        if pick.ups && pick.downs {
            let scale = &self.spec.vertical.scale_down;
            if let Err((why, until)) = self.gate(scale, self.vertical_clock()) {
                holds.push(only_downs(why, until));
            }
        }
        if let Some(weights) = pick.weights {
            match (pick.ups && weights.up <= 0.0, pick.downs && weights.down <= 0.0) {
                (true, false) => {
                    holds.push(Hold { only_ups: true, ..Hold::new(Axis::Vertical, Why::Weight) });
                }
                (false, true) => holds.push(only_downs(Why::Weight, None)),
                _ => {}
            }
        }
        if matches!(self.spec.mode, Mode::HpaPreferred { .. }) {
            if self.vertical.wants_down() && !pick.downs {
                holds.push(only_downs(Why::NotExhausted, None));
            }
            if self.vertical.wants_up() && !pick.ups {
                holds.push(Hold { only_ups: true, ..Hold::new(Axis::Vertical, Why::NotExhausted) });
            }
        }
    }

    /// Requests whose change is less than the minimum that the user set. Shares were left out by whoever made them.
    fn too_small(&self, pick: &Pick, chosen: &Plan) -> TooSmall {
        let alone_in_mixed =
            matches!(self.spec.mode, Mode::Mixed { .. }) && pick.verdict == Verdict::OnlyVertical;
        let ups = self.vertical.ups.iter().filter(|_| pick.ups);
        let downs = self.vertical.downs.iter().filter(|_| pick.downs);
        let (mut holds, mut n_changes) = (Vec::new(), 0);
        for change in ups.chain(downs).filter(|change| change.moves_along()) {
            let name = &self.observed.containers[change.container].name;
            let to = current_request(&chosen.containers[change.container], change.resource);
            let share = match pick.weights {
                // Left out: what it would have been does not matter, it was less than the minimum.
                Some(_) if to == change.from => Some(change.from),
                None if alone_in_mixed => Some(change.to),
                _ => None,
            };
            n_changes += 1;
            if share.is_some_and(|to| !is_worth_it(self.spec, change, to)) {
                let part = Part { container: name.clone(), resource: change.resource };
                holds.push(Hold { part: Some(part), ..Hold::new(Axis::Vertical, Why::MinChange) });
            }
        }
        TooSmall { is_all: n_changes > 0 && holds.len() == n_changes, holds }
    }

    fn vertical_gate(&self) -> Result<(), Blocked> {
        if self.observed.rollout_in_progress {
            return Err((Why::RollingUpdate, None));
        }
        self.gate(self.vertical_scale(), self.vertical_clock())?;
        // Of a ratio's pair either side makes the other news.
        let is_news = matches!(self.spec.mode, Mode::Ratio(_)) || targets_changed(self.memory, self.vertical);
        self.news(self.vertical.sampled_at, is_news)
    }

    /// What the sizes' stabilization counts from.
    fn vertical_clock(&self) -> Option<Timestamp> {
        self.memory.vertical_clock.map(|at| at.min(self.now)).or(self.memory.last_scaling)
    }

    fn told_before(&self) -> Option<i32> {
        self.memory.last_processed.as_ref().and_then(|pair| pair.horizontal)
    }

    fn news(&self, sampled_at: Option<Timestamp>, value_changed: bool) -> Result<(), Blocked> {
        match !self.is_coupled && is_consumed(self.memory, sampled_at, value_changed) {
            true => Err((Why::Consumed, None)),
            false => Ok(()),
        }
    }

    /// A recommendation that grows one thing and shrinks another counts as growing.
    fn vertical_scale(&self) -> &ScaleType {
        match self.vertical.wants_up() {
            true => &self.spec.vertical.scale_up,
            false => &self.spec.vertical.scale_down,
        }
    }

    fn horizontal_scale(&self) -> &ScaleType {
        match self.horizontal.wanted.is_some_and(|wanted| wanted > self.observed.replicas) {
            true => &self.spec.horizontal.scale_up,
            false => &self.spec.horizontal.scale_down,
        }
    }

    fn gate(&self, scale: &ScaleType, last: Option<Timestamp>) -> Result<(), Blocked> {
        if scale.update_mode == UpdateMode::MaintenanceWindow
            && let Some(window) =
                self.spec.maintenance_time_window.filter(|window| !window.contains(self.now))
        {
            return Err((Why::MaintenanceWindow, Some(window.next_begin(self.now))));
        }
        match cooling(self.now, last, scale.stabilization_seconds) {
            Some(until) => Err((Why::StabilizationWindow, Some(until))),
            None => Ok(()),
        }
    }

    fn pair_is_new(&self) -> bool {
        let Some(pair) = &self.memory.last_processed else { return true };
        let newer = |usable: bool, sampled_at: Option<Timestamp>| {
            !usable || sampled_at.is_some_and(|at| at > pair.at)
        };
        let horizontal_usable = self.spec.horizontal.deployed && self.horizontal.wanted.is_some();
        let vertical_usable = !self.vertical.targets.is_empty();
        if newer(horizontal_usable, self.horizontal.sampled_at)
            && newer(vertical_usable, self.vertical.sampled_at)
        {
            return true;
        }
        let differs = |old: f64, new: f64| (new - old).abs() > self.spec.tolerance * old.abs();
        let replicas_differ = match (pair.horizontal, self.horizontal.told) {
            (Some(old), Some(new)) => differs(old.into(), new.into()),
            // Nothing was heard of it then or now: that is not news.
            _ => false,
        };
        let sizes_differ = self.vertical.targets.iter().any(|(name, new)| {
            let old = pair.vertical.get(name).copied().unwrap_or_default();
            let fields: [fn(&Resources) -> Option<u64>; 2] = [|sizes| sizes.cpu, |sizes| sizes.memory];
            fields.iter().any(|field| match (field(&old), field(new)) {
                (Some(old), Some(new)) => differs(old as f64, new as f64),
                (None, new) => new.is_some(),
                (Some(_), None) => false,
            })
        });
        replicas_differ || sizes_differ
    }
}

/// Whether a recommendation was made before the last change. One that does not say when it was sampled is news if its value
/// differs from what it was then.
pub fn is_consumed(memory: &Memory, sampled_at: Option<Timestamp>, value_changed: bool) -> bool {
    memory.last_scaling.is_some_and(|last| match sampled_at {
        Some(at) => at <= last,
        None => !value_changed,
    })
}

/// Whether the targets differ from those at the last change.
pub fn targets_changed(memory: &Memory, vertical: &View) -> bool {
    memory.last_processed.as_ref().is_none_or(|pair| pair.vertical != vertical.targets)
}

// === impl Why, Hold ===

impl Why {
    /// Held back by what the mode is, not by a gate in its way.
    pub fn is_the_modes(self) -> bool {
        matches!(self, Why::SizesFirst | Why::NotExhausted | Why::HorizontalUnknown)
    }
}

impl Hold {
    pub fn new(axis: Axis, why: Why) -> Hold {
        Hold { axis, only_downs: false, only_ups: false, part: None, why, until: None }
    }

    /// Something of its axis goes on.
    pub fn is_part(&self) -> bool {
        self.only_downs || self.only_ups || self.part.is_some()
    }
}
