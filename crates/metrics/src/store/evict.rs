//! Forgetting: what is too old, and what must make room.

use std::collections::HashSet;
use std::sync::Arc;

use super::Store;
use super::target::ByText;
use crate::Millis;

impl Store {
    pub(super) fn expire_target(&mut self, name: &str, now: Millis) {
        let oldest = now.saturating_sub(self.options.retention);
        let Some(target) = self.targets.get_mut(name) else { return };
        let mut max_rows = self.options.max_rows;
        if self.n_points > self.options.max_points {
            max_rows = max_rows.min(target.times.visible().len().saturating_sub(1)).max(2);
        }
        let Some(first_row) = target.times.expire(oldest, max_rows) else { return };
        let is_over = target.times.visible().is_empty();
        let mut gone = Vec::new();
        for &slot in &target.slots {
            let series = self.slots.get_mut(slot as usize).and_then(|s| s.series.as_mut());
            let Some(series) = series else { continue };
            if series.first_row >= first_row {
                continue;
            }
            let series = Arc::make_mut(series);
            self.n_points -= series.cut_before(first_row);
            if series.column.is_empty() {
                gone.push(slot);
            }
        }
        self.remove(name, &gone);
        if is_over {
            self.targets.remove(name);
        }
    }

    /// Evicts half of the ended series of the target that has most of them, oldest first: a target that keeps
    /// inventing series pays for it itself. False if every series is alive.
    pub(super) fn make_room(&mut self) -> bool {
        let ended = |name: &str| -> Vec<(Millis, u32)> {
            let Some(target) = self.targets.get(name) else { return Vec::new() };
            let slots = target.slots.iter().filter_map(|&slot| Some((slot, self.series(slot)?)));
            // A series without values was made a moment ago, for the scrape that is being stored.
            let ended = slots.filter(|(_, s)| s.is_ended() && !s.column.is_empty());
            ended
                .map(|(slot, s)| (target.times.of(s).0.last().copied().unwrap_or(Millis::MIN), slot))
                .collect()
        };
        let most = self.targets.keys().map(|name| (name.clone(), ended(name))).max_by_key(|(_, e)| e.len());
        let Some((name, mut ended)) = most.filter(|(_, e)| !e.is_empty()) else { return false };
        ended.sort_unstable();
        ended.truncate(ended.len().div_ceil(2));
        let slots: Vec<u32> = ended.into_iter().map(|(_, slot)| slot).collect();
        self.counters.evicted += slots.len() as u64;
        self.remove(&name, &slots);
        true
    }

    fn remove(&mut self, target: &str, slots: &[u32]) {
        if slots.is_empty() {
            return;
        }
        let gone: HashSet<u32> = slots.iter().copied().collect();
        let mut labels = Vec::with_capacity(slots.len());
        for &slot in slots {
            let Some(entry) = self.slots.get_mut(slot as usize) else { continue };
            if let Some(series) = entry.series.take() {
                entry.generation = entry.generation.wrapping_add(1);
                self.free.push(slot);
                self.n_points -= series.column.len();
                labels.push(series.labels.clone());
            }
        }
        Arc::make_mut(&mut self.index).remove(&labels, &gone);
        if let Some(target) = self.targets.get_mut(target) {
            target.slots.retain(|slot| !gone.contains(slot));
            for labels in labels {
                target.by_labels.remove(&ByText(labels));
            }
        }
    }
}
