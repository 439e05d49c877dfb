//! How many there are and which pods they are, for an instance whose status declares the scale without saying how to
//! compute it.

use serde_json::Value;

use super::nodes::{Outcome, by_number};
use crate::{Graph, selector};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Observation {
    pub replicas: Option<i64>,
    pub selector: Option<String>,
}

/// Replicas are those of the resources whose count follows the instance's; without such, the instance's own count once
/// it is ready. The selector is that of the one resource that follows.
pub(super) fn observe(graph: &Graph, instance: &Value, outcomes: &[Outcome], is_active: bool) -> Observation {
    let Some(scale) = &graph.scale else { return Observation::default() };
    let outcomes = by_number(outcomes);
    let found: Vec<&Value> = graph
        .scaled
        .iter()
        .filter_map(|node| outcomes.get(node))
        .flat_map(|outcome| outcome.found.iter())
        .collect();
    let replicas = if graph.scaled.is_empty() {
        let mut value = &instance["spec"];
        for name in &scale.spec {
            value = &value[name.as_str()];
        }
        value.as_i64().filter(|_| is_active)
    } else if found.is_empty() {
        None
    } else {
        // a resource whose status says nothing has none yet
        Some(found.iter().map(|object| object["status"]["replicas"].as_i64().unwrap_or(0)).sum())
    };
    let selector = match found.as_slice() {
        [one] => one["spec"].get("selector").and_then(|selector| selector::to_text(selector).ok()),
        _ => None,
    };
    Observation { replicas, selector: selector.filter(|text| !text.is_empty()) }
}
