//! What has to wait, and until when. Waiting does not hand the turn to the other side: a change that is merely late
//! is still the mode's choice.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Axis, HorizontalView, Memory, Mode, Observed, Processed, ScaleType, Spec, UpdateMode,
    modes::{Pick, Verdict},
    vertical::View,
};
use crate::{recommender::amount::Resources, window::cooling};

#[derive(Clone, Copy, Debug)]
pub struct Gates<'a> {
    pub now: Timestamp,
    pub spec: &'a Spec,
    pub observed: &'a Observed,
    pub memory: &'a Memory,
    pub horizontal: &'a HorizontalView,
    pub vertical: &'a View,
}

/// A change that is held back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    pub axis: Axis,
    /// Only shrinking is held back, growing goes on.
    #[serde(default)]
    pub only_downs: bool,
    pub why: Why,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
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
}

pub struct Held {
    pub holds: Vec<Hold>,
    /// The pair of recommendations differs from the one last acted on.
    pub pair_is_new: bool,
}

type Blocked = (Why, Option<Timestamp>);

impl Gates<'_> {
    /// Lets the horizontal side go first when the vertical one has kept it waiting for too long. Gives the pick, and
    /// since and until when something is suppressed.
    pub fn suppress(&self, pick: Pick) -> (Pick, (Option<Timestamp>, Option<Timestamp>)) {
        let Mode::VpaBiased { max_suppression_seconds } = &self.spec.mode else {
            return (pick, (None, None));
        };
        if pick.verdict != Verdict::VerticalPreferred || self.vertical_gate().is_ok() {
            return (pick, (None, None));
        }
        let since = self.memory.suppressed_since.map_or(self.now, |since| since.min(self.now));
        let length = max_suppression_seconds.unwrap_or(self.vertical_scale().stabilization_seconds);
        match cooling(self.now, Some(since), length) {
            Some(until) => (pick, (Some(since), Some(until))),
            None => (Pick::horizontal(Verdict::SuppressionEnded), (Some(since), None)),
        }
    }

    pub fn hold(&self, pick: &Pick, resizes: bool) -> Held {
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
                self.gate(self.horizontal_scale(), self.horizontal.sampled_at)
            };
            if let Err((why, until)) = blocked {
                holds.push(Hold { axis: Axis::Horizontal, only_downs: false, why, until });
            }
        }
        if pick.is_vertical() {
            let no_share = |weights: super::modes::Weights| {
                (!pick.ups || weights.up <= 0.0) && (!pick.downs || weights.down <= 0.0)
            };
            let blocked = if pick.weights.is_some_and(no_share) {
                Err((Why::Weight, None))
            } else if share_applied(|pair| pair.applied_vertical) {
                Err((Why::Consumed, None))
            } else if !resizes {
                Err((Why::MinChange, None))
            } else {
                self.vertical_gate()
            };
            let downs_too = pick.ups && pick.downs;
            match blocked {
                Err((why, until)) => holds.push(Hold { axis: Axis::Vertical, only_downs: false, why, until }),
                Ok(()) if downs_too => {
                    if let Err((why, until)) =
                        self.gate(&self.spec.vertical.scale_down, self.vertical.sampled_at)
                    {
                        holds.push(Hold { axis: Axis::Vertical, only_downs: true, why, until });
                    }
                }
                Ok(()) => {}
            }
        }
        Held { holds, pair_is_new }
    }

    fn vertical_gate(&self) -> Result<(), Blocked> {
        if self.observed.rollout_in_progress {
            return Err((Why::RollingUpdate, None));
        }
        self.gate(self.vertical_scale(), self.vertical.sampled_at)
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

    fn gate(&self, scale: &ScaleType, sampled_at: Option<Timestamp>) -> Result<(), Blocked> {
        if scale.update_mode == UpdateMode::MaintenanceWindow
            && let Some(window) =
                self.spec.maintenance_time_window.filter(|window| !window.contains(self.now))
        {
            return Err((Why::MaintenanceWindow, Some(window.next_begin(self.now))));
        }
        if let Some(until) = cooling(self.now, self.memory.last_scaling, scale.stabilization_seconds) {
            return Err((Why::StabilizationWindow, Some(until)));
        }
        match self.memory.last_scaling {
            Some(last) if sampled_at.unwrap_or(self.now) <= last => Err((Why::Consumed, None)),
            _ => Ok(()),
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
        let replicas_differ = match (pair.horizontal, self.horizontal.wanted) {
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
