//! The planning problem on plain values. An instance is known by its rank by age: 0 is the oldest.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstanceOrd(pub usize);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub replicas: usize,
    pub max_concurrent_updated: usize,
    pub max_creations: usize,
    /// Oldest first; those that are going away are not among them.
    pub instances: Vec<Instance>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Carries the newest template.
    pub is_current: bool,
    pub is_ready: bool,
    /// Existed before its last change: only these take update slots. Were new instances counted too, a slow
    /// scale-up would stop a rollout.
    pub was_updated: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Solution {
    /// Newest first.
    pub delete: Vec<InstanceOrd>,
    pub create: usize,
    /// Oldest first.
    pub update: Vec<InstanceOrd>,
}

impl Problem {
    /// Those that stay: deletion takes from the new end.
    pub fn survivors(&self, solution: &Solution) -> &[Instance] {
        &self.instances[..self.instances.len().saturating_sub(solution.delete.len())]
    }

    /// Instances that an update, to this template or to an earlier one, has touched and that are not ready since.
    pub fn in_flight_after(&self, solution: &Solution) -> usize {
        self.survivors(solution).iter().filter(|one| one.is_in_flight()).count()
    }

    pub fn outdated_after(&self, solution: &Solution) -> usize {
        self.survivors(solution).iter().filter(|one| !one.is_current).count()
    }

    /// What every solution must hold to, whatever the problem. The error names the broken promise.
    pub fn check(&self, solution: &Solution) -> Result<(), &'static str> {
        let ensure = |holds: bool, promise: &'static str| if holds { Ok(()) } else { Err(promise) };
        let n = self.instances.len();
        let expected_victims = (0..n).rev().map(InstanceOrd).take(n.saturating_sub(self.replicas));
        ensure(
            solution.delete.iter().copied().eq(expected_victims),
            "exactly the surplus is deleted, newest first",
        )?;
        ensure(solution.create == 0 || solution.delete.is_empty(), "never creates and deletes in one pass")?;
        ensure(
            solution.create == self.replicas.saturating_sub(n).min(self.max_creations),
            "creates what is missing, up to the cap",
        )?;
        let survivors = self.survivors(solution);
        let outdated = |in_flight: bool| {
            let ords = (0..survivors.len())
                .filter(move |&idx| !survivors[idx].is_current && survivors[idx].is_in_flight() == in_flight);
            ords.map(InstanceOrd)
        };
        let n_down = outdated(true).count();
        let n_up = outdated(false).count();
        ensure(
            outdated(true)
                .chain(outdated(false))
                .take(solution.update.len())
                .eq(solution.update.iter().copied()),
            "updates those in flight first, then the oldest outdated instances, and none that is deleted",
        )?;
        let in_flight = self.in_flight_after(solution);
        let newly_down = solution.update.len().saturating_sub(n_down);
        ensure(
            newly_down == 0 || in_flight + newly_down <= self.max_concurrent_updated,
            "never more than maxConcurrentUpdated are unready because of updates",
        )?;
        ensure(
            solution.update.len() == n_down + n_up.min(self.max_concurrent_updated.saturating_sub(in_flight)),
            "reaches all that are in flight, and uses every free slot",
        )
    }
}

impl Instance {
    /// Whichever template it was updated to: one that a newer template has made outdated is still down.
    pub fn is_in_flight(&self) -> bool {
        self.was_updated && !self.is_ready
    }
}
