use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Axis, ContainerSize, Need, Plan, Unusable, Verdict,
    gates::{Hold, Why},
};
use crate::decision::{Role, Weight};

/// One rule of the decision, with its input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", content = "input", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Rule {
    Paused,
    /// The object cannot be scaled at all.
    Refused {
        why: String,
    },
    /// A count outside the bounds is brought back before anything else is asked.
    Bounds {
        min: i32,
        max: i32,
    },
    Horizontal {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
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
    /// What both sides together say is needed of the resources that they both follow.
    Need {
        parts: Vec<Need>,
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
    /// Requests outside their policy's bounds go to the nearer bound, whatever the mode.
    Allowed {
        containers: Vec<ContainerSize>,
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
            Rule::Refused { .. } => "refused",
            Rule::Bounds { .. } => "bounds",
            Rule::Horizontal { .. } => "horizontal",
            Rule::Vertical { .. } => "vertical",
            Rule::Unusable { .. } => "unusable",
            Rule::Need { .. } => "need",
            Rule::Choice { .. } => "choice",
            Rule::Allowed { .. } => "allowed",
            Rule::Hold { .. } => "hold",
            Rule::OutOfMemory { .. } => "outOfMemory",
        }
    }

    fn role(&self) -> Role {
        match self {
            Rule::Horizontal { .. } | Rule::Vertical { .. } | Rule::Unusable { .. } | Rule::Need { .. } => {
                Role::Proposal
            }
            // What the mode's own rules leave out is told, but the verdict stays the reason.
            Rule::Hold { hold } if hold.why.is_the_modes() => Role::Proposal,
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
            Rule::Paused
            | Rule::Refused { .. }
            | Rule::Unusable { .. }
            | Rule::Need { .. }
            | Rule::Hold { .. } => before.clone(),
            Rule::Bounds { min, max } => with_replicas(before.replicas.max(*min).min(*max)),
            Rule::Horizontal { clamped, .. } => with_replicas(*clamped),
            Rule::Vertical { containers }
            | Rule::Allowed { containers }
            | Rule::OutOfMemory { containers } => with_containers(containers),
            Rule::Choice { plan, .. } => plan.clone(),
        }
    }

    fn code(&self, _before: &Plan, _after: &Plan) -> &'static str {
        match self {
            Rule::Paused => "Paused",
            Rule::Refused { .. } => "NotScaled",
            Rule::Bounds { .. } => "OutsideBounds",
            Rule::Horizontal { .. } => "HorizontalRecommendation",
            Rule::Vertical { .. } => "VerticalRecommendation",
            Rule::Unusable { axis: Axis::Horizontal, .. } => "HorizontalUnusable",
            Rule::Unusable { axis: Axis::Vertical, .. } => "VerticalUnusable",
            Rule::Need { .. } => "Need",
            Rule::Choice { verdict, .. } => verdict.code(),
            Rule::Allowed { .. } => "OutsideAllowed",
            Rule::Hold { hold } => match hold.why {
                Why::Consumed => "RecommendationConsumed",
                Why::RollingUpdate => "RollingUpdate",
                Why::MaintenanceWindow => "MaintenanceWindow",
                Why::StabilizationWindow => "StabilizationWindow",
                Why::Weight => "Weight",
                Why::MinChange => "MinChange",
                Why::SizesFirst => "VerticalFirst",
                Why::SizesWait => "VerticalWaits",
                Why::PodsStart => "PodsStarting",
                Why::NotExhausted => "HorizontalNotExhausted",
                Why::HorizontalUnknown => "HorizontalUnknown",
            },
            Rule::OutOfMemory { .. } => "OutOfMemory",
        }
    }

    fn words(&self, before: &Plan, after: &Plan, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Paused => out.write_str("0 replicas mean paused: nothing is scaled"),
            Rule::Refused { why } => out.write_str(why),
            Rule::Bounds { min, max } => {
                write!(out, "{} replicas lie outside {min} to {max}", before.replicas)
            }
            Rule::Horizontal { by, desired, clamped } => {
                let by = by.as_deref().unwrap_or("the horizontal side");
                write!(out, "{by} wants {desired}")?;
                if desired == clamped { Ok(()) } else { write!(out, ", {clamped} is possible") }
            }
            Rule::Vertical { .. } if before == after => out.write_str("the vertical side wants no change"),
            Rule::Vertical { .. } => out.write_str("the vertical side wants other sizes"),
            Rule::Unusable { axis, why } => write!(out, "the {} recommendation {}", axis.word(), why.words()),
            Rule::Need { parts } => {
                for (idx, part) in parts.iter().enumerate() {
                    out.write_str(if idx == 0 { "" } else { "; " })?;
                    part.words(out)?;
                }
                Ok(())
            }
            Rule::Choice { verdict, .. } => verdict.words(out),
            Rule::Allowed { .. } => {
                out.write_str("a request outside its policy's bounds goes to the nearer one")
            }
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
            Verdict::OnPath { .. } => "OnPath",
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
            Verdict::OnPath { replicas } => {
                return write!(out, "the ratio puts this need at {replicas:.1} replicas");
            }
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
        match (self.axis, &self.part) {
            (Axis::Horizontal, _) => out.write_str("the replicas wait: ")?,
            (Axis::Vertical, Some(part)) => write!(out, "{} of {} waits: ", part.resource, part.container)?,
            (Axis::Vertical, None) if self.only_downs => out.write_str("smaller sizes wait: ")?,
            (Axis::Vertical, None) if self.only_ups => out.write_str("larger sizes wait: ")?,
            (Axis::Vertical, None) => out.write_str("the sizes wait: ")?,
        }
        out.write_str(match self.why {
            Why::Consumed => "this recommendation was acted on already",
            Why::RollingUpdate => "a rollout is in progress",
            Why::MaintenanceWindow => "outside the maintenance window",
            Why::StabilizationWindow => "too soon after the last change",
            Why::Weight => "the other side's share is everything",
            Why::MinChange => "the share to be applied is less than the minimum change",
            Why::SizesFirst => "the mode prefers sizes, and they have to wait",
            Why::SizesWait => "fewer pods would have to be larger, and the sizes wait",
            Why::PodsStart => "more pods have to run first",
            Why::NotExhausted => "the replicas can still go that way",
            Why::HorizontalUnknown => "how many pods there should be is not known",
        })?;
        self.until.map_or(Ok(()), |until| write!(out, ", until {until}"))
    }
}

// === impl Need ===

impl Need {
    fn words(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |amount: u64| self.resource.words(amount);
        let Need { container, resource, held, horizontal, vertical, stale, need } = self;
        write!(out, "{resource} of {container}: {} needed, {} held", words(*need), words(*held))?;
        for (axis, side) in [(Axis::Horizontal, horizontal), (Axis::Vertical, vertical)] {
            match side {
                Some(amount) => write!(out, ", {} says {}", axis.word(), words(*amount))?,
                None => write!(out, ", {} says nothing", axis.word())?,
            }
            if stale.contains(&axis) {
                out.write_str(" as before the last change")?;
            }
        }
        Ok(())
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
