//! Back pressure: which buffers lie downstream, and whether one of them is full.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Observed, Pressure, Spec, older_than};
use crate::window::before;

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
/// count, but what lies behind it does. A vertex reached again through a cycle is not its own downstream.
pub fn downstream(vertex: &str, edges: &[Edge], buffers: &HashMap<&str, Vec<Buffer>>) -> Vec<Downstream> {
    let mut seen = vec![vertex];
    let mut found: Vec<Downstream> = Vec::new();
    let mut next = 0;
    while let Some(&from) = seen.get(next) {
        next += 1;
        for edge in edges.iter().filter(|edge| edge.from == from) {
            let known = edge.to == vertex || found.iter().any(|known| *known.vertex == *edge.to);
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
    let full = all
        .iter()
        .flat_map(|vertex| vertex.buffers.iter().map(move |buffer| (vertex, buffer)))
        .filter(|(_, buffer)| buffer.at.is_none_or(|at| at >= oldest) && buffer.presses(threshold));
    full.max_by(|(vertex, buffer), (other, other_buffer)| {
        let by_name = || other.vertex.cmp(&vertex.vertex);
        let by_share = || buffer.share().total_cmp(&other_buffer.share());
        vertex.direct.cmp(&other.direct).then_with(by_share).then_with(by_name)
    })
}

/// When time alone changes what back pressure makes of a vertex that would grow: a reading gets too old to count, its own
/// or one of the buffers further down, or the cooldown ends with no buffer left that presses.
pub(super) fn changes(
    pressure: &Pressure,
    spec: &Spec,
    observed: &Observed,
    now: Timestamp,
    up_until: Option<Timestamp>,
) -> Option<Timestamp> {
    let (threshold, lookback) = (spec.back_pressure_threshold, spec.scale.lookback_seconds());
    let unknown_from = observed
        .partitions
        .iter()
        .filter_map(|partition| partition.at)
        .map(|at| older_than(at, lookback))
        .min();
    let desired = |at: Timestamp| {
        if unknown_from.is_some_and(|unknown| at >= unknown) {
            return Some(pressure.current);
        }
        match strongest(&observed.downstream, threshold, before(at, lookback)) {
            Some((vertex, _)) => Some(Pressure { direct: vertex.direct, ..pressure.clone() }.apply()),
            None if up_until.is_some_and(|until| until > at) => Some(pressure.current),
            // It grows.
            None => None,
        }
    };
    let buffers = observed.downstream.iter().flat_map(|vertex| &vertex.buffers);
    let ageing = buffers.filter(|buffer| buffer.presses(threshold)).filter_map(|buffer| buffer.at);
    let mut moments: Vec<Timestamp> =
        ageing.map(|at| older_than(at, lookback)).chain(up_until).chain(unknown_from).collect();
    moments.sort();
    let before_then = desired(now);
    moments.into_iter().find(|at| *at > now && desired(*at) != before_then)
}

impl Buffer {
    fn share(&self) -> f64 {
        match self.pending {
            Some(pending) if self.usable > 0 => pending.max(0) as f64 / self.usable as f64,
            _ => 0.0,
        }
    }

    fn presses(&self, threshold: f64) -> bool {
        self.pending.is_some() && self.share() >= threshold
    }
}
