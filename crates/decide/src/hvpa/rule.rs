use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Axis, ContainerSize, Plan, Unusable, Verdict,
    gates::{Hold, Why},
};
use crate::decision::{Role, Weight};

/// One rule of the decision, with its input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", content = "input", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Rule {
    Paused,
    /// A count outside the bounds is brought back before anything else is asked.
    Bounds {
        min: i32,
        max: i32,
    },
    Horizontal {
        desired: i32,
        clamped: i32,
    },
    Vertical {
        containers: Vec<ContainerSize>,
    },
    Unusable {
        axis: Axis,
        why: Unusable,
    },
    /// Something that the mode would choose and that has to wait.
    Hold {
        hold: Hold,
    },
    /// What the mode makes of both, without what has to wait.
    Choice {
        verdict: Verdict,
        plan: Plan,
    },
    OutOfMemory {
        containers: Vec<ContainerSize>,
    },
}

impl crate::decision::Rule for Rule {
    type Value = Plan;

    fn name(&self) -> &'static str {
        match self {
            Rule::Paused => "paused",
            Rule::Bounds { .. } => "bounds",
            Rule::Horizontal { .. } => "horizontal",
            Rule::Vertical { .. } => "vertical",
            Rule::Unusable { .. } => "unusable",
            Rule::Choice { .. } => "choice",
            Rule::Hold { .. } => "hold",
            Rule::OutOfMemory { .. } => "outOfMemory",
        }
    }

    fn role(&self) -> Role {
        match self {
            Rule::Horizontal { .. } | Rule::Vertical { .. } | Rule::Unusable { .. } => Role::Proposal,
            _ => Role::Link,
        }
    }

    fn weight(&self, _before: &Plan, _after: &Plan) -> Weight {
        match self {
            Rule::Hold { .. } => Weight::Holds,
            _ => Weight::Plain,
        }
    }

    fn apply(&self, before: &Plan) -> Plan {
        let with_replicas = |replicas: i32| Plan { replicas, ..before.clone() };
        let with_containers =
            |containers: &[ContainerSize]| Plan { containers: containers.to_vec(), ..before.clone() };
        match self {
            Rule::Paused | Rule::Unusable { .. } | Rule::Hold { .. } => before.clone(),
            Rule::Bounds { min, max } => with_replicas(before.replicas.max(*min).min(*max)),
            Rule::Horizontal { clamped, .. } => with_replicas(*clamped),
            Rule::Vertical { containers } | Rule::OutOfMemory { containers } => with_containers(containers),
            Rule::Choice { plan, .. } => plan.clone(),
        }
    }

    fn code(&self, _before: &Plan, _after: &Plan) -> &'static str {
        match self {
            Rule::Paused => "Paused",
            Rule::Bounds { .. } => "OutsideBounds",
            Rule::Horizontal { .. } => "HorizontalRecommendation",
            Rule::Vertical { .. } => "VerticalRecommendation",
            Rule::Unusable { axis: Axis::Horizontal, .. } => "HorizontalUnusable",
            Rule::Unusable { axis: Axis::Vertical, .. } => "VerticalUnusable",
            Rule::Choice { verdict, .. } => verdict.code(),
            Rule::Hold { hold } => match hold.why {
                Why::Consumed => "RecommendationConsumed",
                Why::RollingUpdate => "RollingUpdate",
                Why::MaintenanceWindow => "MaintenanceWindow",
                Why::StabilizationWindow => "StabilizationWindow",
                Why::Weight => "Weight",
                Why::MinChange => "MinChange",
            },
            Rule::OutOfMemory { .. } => "OutOfMemory",
        }
    }

    fn words(&self, before: &Plan, after: &Plan, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Paused => out.write_str("0 replicas mean paused: nothing is scaled"),
            Rule::Bounds { min, max } => {
                write!(out, "{} replicas lie outside {min} to {max}", before.replicas)
            }
            Rule::Horizontal { desired, clamped } if desired == clamped => {
                write!(out, "the horizontal side wants {desired}")
            }
            Rule::Horizontal { desired, clamped } => {
                write!(out, "the horizontal side wants {desired}, {clamped} is possible")
            }
            Rule::Vertical { .. } if before == after => out.write_str("the vertical side wants no change"),
            Rule::Vertical { .. } => out.write_str("the vertical side wants other sizes"),
            Rule::Unusable { axis, why } => write!(out, "the {} recommendation {}", axis.word(), why.words()),
            Rule::Choice { verdict, .. } => verdict.words(out),
            Rule::Hold { hold } => hold.words(out),
            Rule::OutOfMemory { .. } => out
                .write_str("a container was killed for memory: it gets more now, whatever else has to wait"),
        }
    }
}

// === impl Verdict ===

impl Verdict {
    fn code(self) -> &'static str {
        match self {
            Verdict::NothingRecommended => "NothingRecommended",
            Verdict::HorizontalRecommended => "HorizontalRecommended",
            Verdict::HorizontalPreferred => "HorizontalPreferred",
            Verdict::OnlyVertical => "VerticalRecommended",
            Verdict::VerticalPreferred => "VerticalPreferred",
            Verdict::HorizontalExhausted => "HorizontalExhausted",
            Verdict::HorizontalNotExhausted => "HorizontalNotExhausted",
            Verdict::HorizontalUnknown => "HorizontalUnknown",
            Verdict::SuppressionEnded => "SuppressionEnded",
            Verdict::AboveThreshold { axis: Axis::Horizontal } => "HorizontalAboveThreshold",
            Verdict::AboveThreshold { axis: Axis::Vertical } => "VerticalAboveThreshold",
            Verdict::BelowThresholds => "MinChange",
            Verdict::Weighted(_) => "Weighted",
        }
    }

    fn words(self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Verdict::NothingRecommended => "neither side wants a change that is large enough",
            Verdict::HorizontalRecommended => "the replicas change",
            Verdict::HorizontalPreferred => "both sides want a change, the mode prefers the replicas",
            Verdict::OnlyVertical => "only the vertical side wants a change",
            Verdict::VerticalPreferred => "both sides want a change, the mode prefers the sizes",
            Verdict::HorizontalExhausted => "the replicas can go no further, so the sizes change",
            Verdict::HorizontalNotExhausted => "sizes change only when the replicas can go no further",
            Verdict::HorizontalUnknown => "sizes change only when the replicas are known to go no further",
            Verdict::SuppressionEnded => "a waiting size change has held the replicas back for long enough",
            Verdict::AboveThreshold { axis } => {
                return write!(out, "both sides want a change, only the {} one is large enough", axis.word());
            }
            Verdict::BelowThresholds => "both sides want a change, neither is large enough",
            Verdict::Weighted(weights) => {
                write!(out, "{:.0} % horizontal", 100.0 - weights.base)?;
                let vertical = weights.up.max(weights.down);
                return write!(out, ", {vertical:.0} % vertical");
            }
        })
    }
}

// === impl Hold ===

impl Hold {
    fn words(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.axis, self.only_downs) {
            (Axis::Horizontal, _) => out.write_str("the replicas wait: ")?,
            (Axis::Vertical, false) => out.write_str("the sizes wait: ")?,
            (Axis::Vertical, true) => out.write_str("smaller sizes wait: ")?,
        }
        out.write_str(match self.why {
            Why::Consumed => "this recommendation was acted on already",
            Why::RollingUpdate => "a rollout is in progress",
            Why::MaintenanceWindow => "outside the maintenance window",
            Why::StabilizationWindow => "too soon after the last change",
            Why::Weight => "the other side's share is everything",
            Why::MinChange => "the share to be applied is less than the minimum change",
        })?;
        self.until.map_or(Ok(()), |until| write!(out, ", until {until}"))
    }
}

// === impl Unusable, Axis ===

impl Unusable {
    fn words(self) -> &'static str {
        match self {
            Unusable::Missing => "is missing",
            Unusable::Inactive => "is not active: its metrics are not known",
            Unusable::Stale => "is too old",
            Unusable::Absurd => "makes no sense",
            Unusable::NotProvided => "is not provided yet",
            Unusable::LowConfidence => "has too little history",
            Unusable::ConfigUnsupported => "is not supported for this target",
        }
    }
}

impl Axis {
    fn word(self) -> &'static str {
        match self {
            Axis::Horizontal => "horizontal",
            Axis::Vertical => "vertical",
        }
    }
}
