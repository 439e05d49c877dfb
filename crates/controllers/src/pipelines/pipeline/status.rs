//! What is said about a Pipeline.

use api::numaflow::{VertexType, phases};
use engine::{
    effect::Effect,
    object::{name, time},
};
use jiff::Timestamp;

use super::{plan::Observed, stage::Stage};
use crate::{
    condition::ConditionState,
    pipelines::{PIPELINE, vertex::set_conditions},
};

/// Nothing if it says what it said before. Without a stage the spec cannot be carried out.
pub(super) fn effect(observed: &Observed, stage: Option<Stage>, now: Timestamp) -> Option<Effect> {
    let pipeline = &observed.pipeline;
    let stored = pipeline.status.as_ref();
    let mut status = stored.cloned().unwrap_or_default();
    status.observed_generation = pipeline.metadata.generation;
    let kinds: Vec<VertexType> = pipeline.spec.vertices.iter().map(|vertex| vertex.vertex_type()).collect();
    let count =
        |wanted: &[VertexType]| i32::try_from(kinds.iter().filter(|kind| wanted.contains(kind)).count()).ok();
    status.vertex_count = i32::try_from(kinds.len()).ok();
    status.source_count = count(&[VertexType::Source]);
    status.sink_count = count(&[VertexType::Sink]);
    status.udf_count = count(&[VertexType::MapUdf, VertexType::ReduceUdf]);
    status.map_udf_count = count(&[VertexType::MapUdf]);
    status.reduce_udf_count = count(&[VertexType::ReduceUdf]);
    status.buffers.clone_from(&observed.buffers);
    status.buffers.sort();

    let problem = observed.problem.as_ref();
    let of = |condition: &str| problem.filter(|problem| problem.condition == condition);
    let configured = match of("Configured") {
        Some(problem) => ConditionState::new("False", problem.reason, problem.message.clone()),
        None => ConditionState::new("True", "Successful", "the spec is valid"),
    };
    let deployed = match (of("Deployed"), &observed.failure) {
        (Some(problem), _) => ConditionState::new("False", problem.reason, problem.message.clone()),
        (None, Some(failure)) => {
            let message = format!("{} {}: {}", failure.kind, failure.name, failure.message);
            ConditionState::new("False", "CreateVerticesFailed", message)
        }
        (None, None) if problem.is_some() => {
            let stored = stored.and_then(|status| status.conditions.as_ref());
            let is_deployed =
                stored.into_iter().flatten().any(|one| one.type_ == "Deployed" && one.status == "True");
            match is_deployed {
                true => ConditionState::new("True", "Successful", "what was valid before goes on"),
                false => ConditionState::new(
                    "Unknown",
                    "InvalidSpec",
                    "nothing is made from a spec that is not valid",
                ),
            }
        }
        (None, None) => {
            ConditionState::new("True", "Successful", "buffers and vertices are as they should be")
        }
    };
    let healthy = vertices_healthy(observed);
    let first_bad = [&configured, &deployed].into_iter().find(|says| says.status == "False");
    status.message = match (first_bad, healthy.status) {
        (Some(says), _) => Some(says.message.clone()),
        (None, "False") => Some(format!("Degraded: {}", healthy.message)),
        _ => None,
    };
    status.phase = match (first_bad, stage) {
        (None, Some(stage)) => stage.phase(),
        (Some(_), Some(Stage::Draining | Stage::Ending)) => phases::DELETING,
        _ => phases::FAILED,
    }
    .to_owned();
    status.drained_on_pause = match stage {
        Some(Stage::Running) => None,
        Some(Stage::Paused) => status.drained_on_pause.or(Some(observed.drained == Some(true))),
        _ => status.drained_on_pause,
    };
    let all = [("Configured", configured), ("Deployed", deployed), ("VerticesHealthy", healthy)];
    set_conditions(&mut status.conditions, &all, now);
    if stored == Some(&status) {
        return None;
    }
    status.last_updated = Some(time(now));
    Some(Effect::status(&PIPELINE, &pipeline.metadata, stored, &status))
}

fn vertices_healthy(observed: &Observed) -> ConditionState {
    let is_deleted = observed.pipeline.metadata.deletion_timestamp.is_some();
    if observed.vertices.len() < observed.pipeline.spec.vertices.len() && !is_deleted {
        return ConditionState::new("Unknown", "Progressing", "vertices are being created");
    }
    for vertex in &observed.vertices {
        let status = vertex.status.clone().unwrap_or_default();
        let name = name(&vertex.metadata);
        if status.phase.is_empty() {
            return ConditionState::new(
                "Unknown",
                "Progressing",
                format!("Vertex {name} has not been looked at yet"),
            );
        }
        let conditions = status.conditions.iter().flatten();
        if let Some(bad) = conditions.into_iter().find(|condition| condition.status == "False") {
            return ConditionState::new(
                "False",
                "VertexUnhealthy",
                format!("Vertex {name}: {}", bad.message),
            );
        }
    }
    ConditionState::new("True", "Successful", "all vertices are healthy")
}
