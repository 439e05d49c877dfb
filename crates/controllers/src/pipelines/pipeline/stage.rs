//! Where in its life a pipeline is.

use api::numaflow::{PAUSE_TIMESTAMP, Pipeline, phases};
use engine::object::annotation;
use jiff::{SignedDuration, Timestamp};

use super::plan::Observed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Running,
    /// Sources have stopped, and the rest works off what is in the buffers.
    Pausing,
    Paused,
    /// As pausing, with the end in sight.
    Draining,
    /// Everything stops, then the buffers go.
    Ending,
}

/// Whether it matters if the buffers are empty.
pub fn is_stopping(pipeline: &Pipeline) -> bool {
    let phase = pipeline.status.as_ref().map(|status| status.phase.as_str()).unwrap_or_default();
    let pauses = pipeline.spec.lifecycle.desired_phase == phases::PAUSED && phase != phases::PAUSED;
    pipeline.metadata.deletion_timestamp.is_some() || pauses
}

pub fn stage(observed: &Observed, now: Timestamp) -> Stage {
    let pipeline = &observed.pipeline;
    let is_over = |since: Option<Timestamp>, grace: i64| {
        since.is_some_and(|since| now.duration_since(since) >= SignedDuration::from_secs(grace))
    };
    let is_drained = observed.sources_have_stopped() && observed.drained == Some(true);
    if let Some(deleted) = &pipeline.metadata.deletion_timestamp {
        let is_over = is_over(Some(deleted.0), pipeline.spec.deletion_grace_seconds());
        return if is_drained || is_over { Stage::Ending } else { Stage::Draining };
    }
    if pipeline.spec.lifecycle.desired_phase != phases::PAUSED {
        return Stage::Running;
    }
    let phase = pipeline.status.as_ref().map(|status| status.phase.as_str()).unwrap_or_default();
    let is_over = is_over(paused_at(pipeline), pipeline.spec.pause_grace_seconds());
    match phase == phases::PAUSED || is_drained || is_over {
        true => Stage::Paused,
        false => Stage::Pausing,
    }
}

pub fn paused_at(pipeline: &Pipeline) -> Option<Timestamp> {
    annotation(&pipeline.metadata, PAUSE_TIMESTAMP)?.parse().ok()
}

impl Stage {
    pub fn phase(self) -> &'static str {
        match self {
            Self::Running => phases::RUNNING,
            Self::Pausing => phases::PAUSING,
            Self::Paused => phases::PAUSED,
            Self::Draining | Self::Ending => phases::DELETING,
        }
    }

    /// Whether a vertex runs.
    pub fn runs(self, is_source: bool) -> bool {
        match self {
            Self::Running => true,
            Self::Pausing | Self::Draining => !is_source,
            Self::Paused | Self::Ending => false,
        }
    }
}
