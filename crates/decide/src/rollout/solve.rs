use super::model::{InstanceOrd, Problem, Solution};

/// Scale down, then up, then update. A template that changes in the middle of a rollout makes those in flight outdated
/// again: they are down anyway, so a fix reaches them first and takes no new slot, and the others wait for the slots
/// that those in flight leave.
pub fn solve(problem: &Problem) -> Solution {
    let n = problem.instances.len();
    let mut solution = Solution {
        delete: (0..n).rev().map(InstanceOrd).take(n.saturating_sub(problem.replicas)).collect(),
        create: problem.replicas.saturating_sub(n).min(problem.max_creations),
        update: Vec::new(),
    };
    let slots = problem.max_concurrent_updated.saturating_sub(problem.in_flight_after(&solution));
    let outdated = problem.survivors(&solution).iter().enumerate().filter(|(_, one)| !one.is_current);
    let (down, up): (Vec<_>, Vec<_>) = outdated.partition(|(_, one)| one.is_in_flight());
    let update = down.into_iter().chain(up.into_iter().take(slots));
    let update = update.map(|(idx, _)| InstanceOrd(idx)).collect();
    solution.update = update;
    debug_assert_eq!(problem.check(&solution), Ok(()));
    solution
}

/// Batch sizes for `n` calls of the same kind: 1, 2, 4, …. If the first is refused (quota, webhook), one call was
/// wasted and not five hundred.
pub fn slow_start(n: usize) -> impl Iterator<Item = usize> {
    let mut left = n;
    let mut batch = 1usize;
    std::iter::from_fn(move || {
        let size = batch.min(left);
        left -= size;
        batch = batch.saturating_mul(2);
        (size > 0).then_some(size)
    })
}
