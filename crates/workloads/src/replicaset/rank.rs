//! Which pods go first when there are too many.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use crate::object::{annotation, created, pods, uid};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The `n` pods whose loss costs least, in that order.
pub(crate) fn first_to_go(
    active: &[Arc<Pod>],
    related: &[Arc<Pod>],
    n: usize,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    let mut n_by_node: HashMap<&str, usize> = HashMap::new();
    for pod in related.iter().filter(|pod| pods::active(pod)) {
        *n_by_node.entry(node(pod)).or_default() += 1;
    }
    let mut ranked = active.to_vec();
    // A stable order of equals keeps plans the same from one turn to the next.
    ranked.sort_by(|a, b| uid(&a.metadata).cmp(uid(&b.metadata)));
    ranked.sort_by(|a, b| order(a, b, &n_by_node, now));
    ranked.truncate(n);
    ranked
}

fn order(a: &Pod, b: &Pod, n_by_node: &HashMap<&str, usize>, now: Timestamp) -> Ordering {
    let crowd = |pod| n_by_node.get(node(pod)).copied().unwrap_or(0);
    (!node(a).is_empty())
        .cmp(&!node(b).is_empty())
        .then_with(|| phase_rank(a).cmp(&phase_rank(b)))
        .then_with(|| pods::ready(a).cmp(&pods::ready(b)))
        .then_with(|| deletion_cost(a).cmp(&deletion_cost(b)))
        .then_with(|| crowd(b).cmp(&crowd(a)))
        .then_with(|| match (pods::ready_since(a), pods::ready_since(b)) {
            (Some(since_a), Some(since_b)) => magnitude(since_a, now).cmp(&magnitude(since_b, now)),
            _ => Ordering::Equal,
        })
        .then_with(|| restarts(b).cmp(&restarts(a)))
        .then_with(|| {
            magnitude(created(&a.metadata, now), now).cmp(&magnitude(created(&b.metadata, now), now))
        })
}

fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

fn phase_rank(pod: &Pod) -> u8 {
    match pods::phase(pod) {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    }
}

fn deletion_cost(pod: &Pod) -> i32 {
    annotation(&pod.metadata, DELETION_COST).and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

/// Restarts of the containers, then of the sidecars, each of the most restless one.
fn restarts(pod: &Pod) -> (i32, i32) {
    let Some(status) = &pod.status else { return (0, 0) };
    let containers = status.container_statuses.iter().flatten().map(|c| c.restart_count).max().unwrap_or(0);
    let init = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref());
    let is_sidecar = |name: &str| {
        init.into_iter()
            .flatten()
            .any(|container| container.name == name && container.restart_policy.as_deref() == Some("Always"))
    };
    let sidecars = status.init_container_statuses.iter().flatten().filter(|c| is_sidecar(&c.name));
    (containers, sidecars.map(|c| c.restart_count).max().unwrap_or(0))
}

/// Ages of one power of two count as equal: among pods of 60 and 100 minutes the choice is arbitrary, so that
/// pods do not all come to be of the same age.
fn magnitude(since: Timestamp, now: Timestamp) -> i64 {
    let age = now.duration_since(since).as_nanos();
    u128::try_from(age).ok().and_then(u128::checked_ilog2).map_or(-1, i64::from)
}
