//! Scaling in the middle of a rollout: all sets grow or shrink in proportion, so that scaling does not hasten a
//! rollout that may be going wrong.

use super::rollout::{DESIRED_REPLICAS, MAX_REPLICAS, Rollout};

impl Rollout<'_> {
    /// Whether the Deployment's size changed since its sets were last resized.
    pub fn wants_scaling(&self) -> bool {
        self.sets
            .iter()
            .filter(|set| set.size() > 0)
            .any(|set| set.number(DESIRED_REPLICAS).is_some_and(|desired| desired != self.replicas))
    }

    pub fn scale_in_proportion(&mut self) {
        let active: Vec<usize> = (0..self.sets.len()).filter(|index| self.sets[*index].size() > 0).collect();
        match active.as_slice() {
            [] => {
                // none is active: the new one, or else the latest
                if let Some(index) = self.new.or(self.sets.len().checked_sub(1)) {
                    self.resize(index, self.replicas);
                }
            }
            [only] => {
                self.resize(*only, self.replicas);
            }
            several if self.new_is_saturated() => {
                for index in several {
                    if Some(*index) != self.new {
                        self.resize(*index, 0);
                    }
                }
            }
            several if !self.is_recreate() => self.share_out(several),
            _ => {}
        }
    }

    fn share_out(&mut self, active: &[usize]) {
        let allowed = if self.replicas > 0 { self.replicas + self.max_surge } else { 0 };
        let total: i32 = active.iter().map(|index| self.sets[*index].size()).sum();
        let to_add = allowed - total;
        let mut order = active.to_vec();
        // Largest first; among equals the newer grows first and the older shrinks first. `sets` is oldest first.
        order.sort_by_key(|index| {
            let age = i64::try_from(*index).unwrap_or(0);
            (-self.sets[*index].size(), if to_add > 0 { -age } else { age })
        });
        let mut sizes: Vec<i32> = Vec::new();
        let mut added = 0;
        for index in &order {
            let share = self.share(*index, to_add, added);
            added += share;
            sizes.push(self.sets[*index].size() + share);
        }
        // What rounding left over goes to the largest.
        if let Some(largest) = sizes.first_mut() {
            *largest = (*largest + to_add - added).max(0);
        }
        for (index, size) in order.into_iter().zip(sizes) {
            self.resize(index, size);
            self.note_desired(index);
        }
    }

    /// What one set gets of the `to_add` replicas, of which `added` are given away already.
    fn share(&self, index: usize, to_add: i32, added: i32) -> i32 {
        let size = self.sets[index].size();
        if to_add == added {
            return 0;
        }
        let fraction = if self.replicas == 0 {
            -size
        } else {
            let running = self.deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
            let max_before = self.sets[index].number(MAX_REPLICAS).filter(|n| *n > 0).unwrap_or(running);
            if max_before == 0 {
                return 0;
            }
            let max_now = self.replicas + self.max_surge;
            let scaled = f64::from(size) * f64::from(max_now) / f64::from(max_before);
            // halves are rounded away from zero; the sizes fit, being bounded by max_now
            scaled.round() as i32 - size
        };
        if to_add > 0 { fraction.min(to_add - added) } else { fraction.max(to_add - added) }
    }

    fn new_is_saturated(&self) -> bool {
        self.new.is_some_and(|new| {
            let set = &self.sets[new];
            set.size() == self.replicas
                && set.number(DESIRED_REPLICAS) == Some(self.replicas)
                && set.available() == self.replicas
        })
    }
}
