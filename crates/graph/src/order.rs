//! What has to be there before what.

use std::{cmp::Reverse, collections::BinaryHeap};

/// An order in which each node comes after those it depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    /// Nodes by number, in the order of their declaration where nothing else decides.
    pub sorted: Vec<usize>,
    /// How many steps have to be made before a node's turn: nodes of one level can be made at the same time.
    pub level: Vec<usize>,
    /// From 1; nodes that nothing depends on have the highest and are deleted first.
    pub apply_order: Vec<usize>,
}

/// `dependencies[n]` are the nodes that `n` needs. `Err` is a circle: each node needs the next, the last is the first.
pub(crate) fn order(dependencies: &[Vec<usize>]) -> Result<Order, Vec<usize>> {
    let n_nodes = dependencies.len();
    let mut dependents = vec![Vec::new(); n_nodes];
    let mut n_missing = vec![0; n_nodes];
    for (node, needed) in dependencies.iter().enumerate() {
        n_missing[node] = needed.len();
        for other in needed {
            dependents[*other].push(node);
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..n_nodes).filter(|node| n_missing[*node] == 0).map(Reverse).collect();
    let mut order = Order { level: vec![0; n_nodes], apply_order: vec![0; n_nodes], ..Order::default() };
    while let Some(Reverse(node)) = ready.pop() {
        order.sorted.push(node);
        for dependent in &dependents[node] {
            order.level[*dependent] = order.level[*dependent].max(order.level[node] + 1);
            n_missing[*dependent] -= 1;
            if n_missing[*dependent] == 0 {
                ready.push(Reverse(*dependent));
            }
        }
    }
    if order.sorted.len() < n_nodes {
        return Err(circle(dependencies, &n_missing));
    }
    // steps from a node to one that nothing depends on
    let mut height = vec![0; n_nodes];
    for node in order.sorted.iter().rev() {
        height[*node] = dependents[*node].iter().map(|other| height[*other] + 1).max().unwrap_or(0);
    }
    let n_layers = height.iter().max().map_or(0, |highest| highest + 1);
    order.apply_order = height.iter().map(|height| n_layers - height).collect();
    Ok(order)
}

/// Every node that is left needs another that is left: following them leads round.
fn circle(dependencies: &[Vec<usize>], n_missing: &[usize]) -> Vec<usize> {
    let is_left = |node: &usize| n_missing[*node] > 0;
    let Some(start) = (0..dependencies.len()).find(is_left) else { return Vec::new() };
    let mut path = vec![start];
    let mut seen_at = vec![None; dependencies.len()];
    loop {
        let last = path[path.len() - 1];
        seen_at[last] = Some(path.len() - 1);
        let Some(next) = dependencies[last].iter().copied().find(is_left) else { return path };
        path.push(next);
        if let Some(first) = seen_at[next] {
            return path.split_off(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(dependencies: &[&[usize]], expected: &str) {
        let dependencies: Vec<Vec<usize>> = dependencies.iter().map(|needed| needed.to_vec()).collect();
        let found = match order(&dependencies) {
            Ok(order) => format!("{:?} level {:?} apply {:?}", order.sorted, order.level, order.apply_order),
            Err(circle) => format!("circle {circle:?}"),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn order_and_levels() {
        check(&[], "[] level [] apply []");
        check(&[&[], &[], &[]], "[0, 1, 2] level [0, 0, 0] apply [1, 1, 1]");
        check(&[&[1], &[2], &[]], "[2, 1, 0] level [2, 1, 0] apply [3, 2, 1]");
        // a diamond, and one on its own: what nothing depends on is deleted first
        check(
            &[&[1, 2], &[3], &[3], &[], &[]],
            "[3, 1, 2, 0, 4] level [2, 1, 1, 0, 0] apply [3, 2, 2, 1, 3]",
        );
    }

    #[test]
    fn circles_are_shown() {
        check(&[&[0]], "circle [0, 0]");
        check(&[&[1], &[0]], "circle [0, 1, 0]");
        check(&[&[1], &[2], &[3], &[1]], "circle [1, 2, 3, 1]");
        let long: Vec<Vec<usize>> = (0..100_000).map(|n| vec![(n + 1) % 100_000]).collect();
        assert_eq!(order(&long).unwrap_err().len(), 100_001);
    }
}
