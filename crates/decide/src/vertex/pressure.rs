//! Back pressure: which buffers lie downstream, and whether one of them is full.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An edge of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Edge {
    pub from: String,
    pub to: String,
    #[serde(default)]
    pub on_full: OnFull,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnFull {
    #[default]
    RetryUntilSuccess,
    /// What does not fit is dropped, so nothing is held back.
    DiscardLatest,
}

/// A vertex's buffer, one for each of its partitions.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Pending and ack-pending over the lookback; none if unknown.
    pub pending: Option<i64>,
    /// Messages that it may hold.
    pub usable: i64,
    /// When it was seen; none is as good as now.
    pub at: Option<Timestamp>,
}

/// A vertex further down, with its buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Downstream {
    pub vertex: Arc<str>,
    pub direct: bool,
    pub buffers: Vec<Buffer>,
}

/// Everything that `vertex` feeds through edges that hold back, nearest first.
///
/// A vertex fed both directly and over others counts as direct; one reached only over a discarding edge at its end does not
/// count, but what lies behind it does.
pub fn downstream(vertex: &str, edges: &[Edge], buffers: &HashMap<&str, Vec<Buffer>>) -> Vec<Downstream> {
    let mut seen = vec![vertex];
    let mut found: Vec<Downstream> = Vec::new();
    let mut next = 0;
    while let Some(&from) = seen.get(next) {
        next += 1;
        for edge in edges.iter().filter(|edge| edge.from == from) {
            let known = found.iter().any(|known| *known.vertex == *edge.to);
            if edge.on_full == OnFull::RetryUntilSuccess && !known {
                found.push(Downstream {
                    vertex: edge.to.as_str().into(),
                    direct: from == vertex,
                    buffers: buffers.get(edge.to.as_str()).cloned().unwrap_or_default(),
                });
            }
            if !seen.contains(&edge.to.as_str()) {
                seen.push(&edge.to);
            }
        }
    }
    found
}

/// The vertex that pushes back hardest: a direct one before others, then the fullest. One full partition is enough, as
/// it stops whoever writes to it.
pub(super) fn strongest(
    all: &[Downstream],
    threshold: f64,
    oldest: Timestamp,
) -> Option<(&Downstream, &Buffer)> {
    let share = |buffer: &Buffer| match buffer.pending {
        Some(pending) if buffer.usable > 0 => pending.max(0) as f64 / buffer.usable as f64,
        _ => 0.0,
    };
    let full = all
        .iter()
        .flat_map(|vertex| vertex.buffers.iter().map(move |buffer| (vertex, buffer)))
        .filter(|(_, buffer)| {
            buffer.at.is_none_or(|at| at >= oldest) && buffer.pending.is_some() && share(buffer) >= threshold
        });
    full.max_by(|(vertex, buffer), (other, other_buffer)| {
        let by_name = || other.vertex.cmp(&vertex.vertex);
        let by_share = || share(buffer).total_cmp(&share(other_buffer));
        vertex.direct.cmp(&other.direct).then_with(by_share).then_with(by_name)
    })
}
