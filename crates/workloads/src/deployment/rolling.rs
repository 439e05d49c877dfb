//! One step of a rolling update: first the new set grows as far as it may, then the old ones shrink.

use engine::effect::Effect;

use super::rollout::{COMPONENT, DESIRED_REPLICAS, MAX_REPLICAS, Rollout};
use crate::object::name;

impl Rollout<'_> {
    /// True if the new set changed its size.
    pub fn grow_new(&mut self) -> bool {
        let Some(new) = self.new else { return false };
        let size = self.sets[new].size();
        let wanted = if size >= self.replicas {
            self.replicas
        } else {
            let room = self.replicas + self.max_surge - self.total_size();
            size + room.max(0).min(self.replicas - size)
        };
        self.resize(new, wanted)
    }

    pub fn resize_new(&mut self, size: i32) {
        if let Some(new) = self.new {
            self.resize(new, size);
        }
    }

    /// Shrinks old sets by what availability allows. Pods of the new set that are not available count as missing, so
    /// a broken new version never costs the old one more than `maxUnavailable`.
    ///
    /// E.g. 10 replicas, maxUnavailable 2, maxSurge 3, 8 old and 5 new that never become available: 13 - 8 - 5 = 0.
    pub fn shrink_old(&mut self) -> bool {
        let Some(new) = self.new else { return false };
        let old: Vec<usize> = self.old_indexes().filter(|index| self.sets[*index].size() > 0).collect();
        let min_available = self.replicas - self.max_unavailable;
        let new_missing = self.sets[new].size() - self.sets[new].counted();
        let budget = self.total_size() - min_available - new_missing;
        if old.is_empty() || budget <= 0 {
            return false;
        }
        let cleaned = self.drop_unhealthy(&old, budget);
        let shrunk = self.drop_available(&old, min_available);
        cleaned || shrunk
    }

    /// Old pods that are not available are worth nothing: they go first.
    fn drop_unhealthy(&mut self, old: &[usize], budget: i32) -> bool {
        let mut left = budget;
        for index in old {
            let set = &self.sets[*index];
            let unhealthy = (set.size() - set.counted()).min(left);
            if unhealthy > 0 {
                left -= unhealthy;
                self.resize(*index, self.sets[*index].size() - unhealthy);
            }
        }
        left < budget
    }

    fn drop_available(&mut self, old: &[usize], min_available: i32) -> bool {
        let mut left = self.total_counted() - min_available;
        let mut changed = false;
        for index in old {
            let size = self.sets[*index].size();
            if left > 0 && size > 0 {
                let n = size.min(left);
                left -= n;
                changed |= self.resize(*index, size - n);
            }
        }
        changed
    }

    pub fn shrink_old_to_nothing(&mut self) -> bool {
        let old: Vec<usize> = self.old_indexes().collect();
        let mut changed = false;
        for index in old {
            changed |= self.resize(index, 0);
        }
        changed
    }

    /// Sets the size, notes what it was decided from, and tells people. True if the size changed.
    pub fn resize(&mut self, index: usize, size: i32) -> bool {
        let before = self.sets[index].size();
        if before == size {
            return false;
        }
        self.sets[index].resize(size);
        self.note_desired(index);
        let direction = if before < size { "up" } else { "down" };
        let set_name = name(&self.sets[index].object.metadata);
        let note = format!("Scaled {direction} replica set {set_name} from {before} to {size}");
        self.events.push(Effect::event(self.target(), COMPONENT, "ScalingReplicaSet", note));
        true
    }

    /// The Deployment's size at this decision. A later difference is how a scaling is told from a rollout.
    pub fn note_desired(&mut self, index: usize) {
        let (desired, max) = (self.replicas.to_string(), (self.replicas + self.max_surge).to_string());
        self.sets[index].annotate(DESIRED_REPLICAS, &desired);
        self.sets[index].annotate(MAX_REPLICAS, &max);
    }
}
