//! Which target is due when.
//!
//! Each target has a fixed place within its interval, given by its name: requests spread evenly, and a restart or a
//! change of the other targets moves nobody.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::Target;
use crate::Millis;

/// Shorter intervals are lengthened to this: the store keeps 30 minutes of it.
const MIN_INTERVAL: Millis = 1_000;

#[derive(Debug)]
pub struct Schedule {
    interval: Millis,
    entries: HashMap<Arc<str>, Entry>,
    queue: BTreeSet<(Millis, Arc<str>)>,
    n_skipped: u64,
}

#[derive(Debug)]
struct Entry {
    target: Arc<Target>,
    due: Millis,
    is_running: bool,
}

impl Schedule {
    pub fn new(interval: Duration) -> Self {
        Self { interval: millis(interval), entries: HashMap::new(), queue: BTreeSet::new(), n_skipped: 0 }
    }

    /// Takes a new list of targets; returns the keys of those that are gone.
    pub fn replace(&mut self, targets: &[Target], now: Millis) -> Vec<Arc<str>> {
        let keys: std::collections::HashSet<&Arc<str>> = targets.iter().map(Target::key).collect();
        let gone: Vec<Arc<str>> = self.entries.keys().filter(|k| !keys.contains(k)).cloned().collect();
        for key in &gone {
            if let Some(entry) = self.entries.remove(key) {
                self.queue.remove(&(entry.due, key.clone()));
            }
        }
        for target in targets {
            let key = target.key().clone();
            let known = self.entries.get(&key);
            if known.is_some_and(|e| *e.target == *target) {
                continue;
            }
            let is_running = known.is_some_and(|e| e.is_running);
            if let Some(entry) = known {
                self.queue.remove(&(entry.due, key.clone()));
            }
            let due = next_slot(&key, self.interval_of(target), now);
            self.queue.insert((due, key.clone()));
            self.entries.insert(key, Entry { target: Arc::new(target.clone()), due, is_running });
        }
        gone
    }

    pub fn next_due(&self) -> Option<Millis> {
        self.queue.first().map(|(due, _)| *due)
    }

    /// Up to `room` targets that are due; they count as running until `finished`. A target that is still running misses
    /// its turn.
    pub fn take_due(&mut self, now: Millis, room: usize) -> Vec<Arc<Target>> {
        let mut taken = Vec::new();
        while taken.len() < room {
            let Some((_, key)) = self.queue.first().filter(|(due, _)| *due <= now).cloned() else { break };
            self.queue.pop_first();
            let default = self.interval;
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            entry.due = next_slot(&key, entry.target.interval.map_or(default, millis), now);
            self.queue.insert((entry.due, key));
            if entry.is_running {
                self.n_skipped += 1;
            } else {
                entry.is_running = true;
                taken.push(entry.target.clone());
            }
        }
        taken
    }

    /// False if the target was removed while it was running.
    pub fn finished(&mut self, key: &str) -> bool {
        self.entries.get_mut(key).map(|entry| entry.is_running = false).is_some()
    }

    /// Turns that were missed because the request before had not ended.
    pub fn n_skipped(&self) -> u64 {
        self.n_skipped
    }

    fn interval_of(&self, target: &Target) -> Millis {
        target.interval.map_or(self.interval, millis)
    }
}

fn millis(interval: Duration) -> Millis {
    Millis::try_from(interval.as_millis()).unwrap_or(Millis::MAX).clamp(MIN_INTERVAL, 24 * 3_600_000)
}

/// The first time after `now` that is the target's place in an interval.
fn next_slot(key: &str, interval: Millis, now: Millis) -> Millis {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let place = (hasher.finish() % interval as u64) as Millis;
    let wait = (place - now.rem_euclid(interval)).rem_euclid(interval);
    now.saturating_add(if wait == 0 { interval } else { wait })
}

#[cfg(test)]
mod tests {
    use promql::Labels;

    use super::*;

    fn targets(n: u32) -> Vec<Target> {
        (0..n)
            .map(|i| {
                let address = format!("10.0.{}.{}:80", i / 250, i % 250 + 1).parse().unwrap();
                Target::new(address, "/metrics", &Labels::empty(), "f")
            })
            .collect()
    }

    #[test]
    fn targets_are_spread_over_the_interval_and_due_once_in_it() {
        let mut schedule = Schedule::new(Duration::from_secs(5));
        assert!(schedule.replace(&targets(1000), 60_000).is_empty());
        let mut per_second = Vec::new();
        for second in 60..65 {
            let mut n = 0;
            for now in (second * 1000..(second + 1) * 1000).map(|t| t + 1) {
                for target in schedule.take_due(now, usize::MAX) {
                    n += 1;
                    assert!(schedule.finished(target.key()));
                }
            }
            per_second.push(n);
        }
        assert_eq!(per_second.iter().sum::<u32>(), 1000);
        assert!(per_second.iter().all(|n| (150..250).contains(n)), "{per_second:?}");
        let next = schedule.next_due().unwrap();
        assert!((65_000..65_100).contains(&next), "{next}");
    }

    #[test]
    fn a_running_target_misses_its_turn_and_a_removed_one_is_gone() {
        let mut schedule = Schedule::new(Duration::from_secs(5));
        let two = targets(2);
        schedule.replace(&two, 0);
        assert_eq!(schedule.take_due(5_000, 1).len(), 1, "no more than there is room for");
        assert_eq!(schedule.take_due(5_000, 9).len(), 1);
        assert_eq!(schedule.take_due(10_000, 9).len(), 0);
        assert_eq!(schedule.n_skipped(), 2);
        assert!(schedule.finished(two[0].key()));
        assert_eq!(schedule.take_due(15_000, 9).len(), 1);

        let slower = [two[1].clone().every(Some(Duration::from_secs(60)))];
        assert_eq!(schedule.replace(&slower, 15_000), [two[0].key().clone()]);
        assert!(!schedule.finished(two[0].key()));
        assert_eq!(schedule.take_due(75_000, 9).len(), 0, "still running from before");
        assert!(schedule.finished(two[1].key()));
        assert_eq!(schedule.take_due(135_000, 9)[0].interval, Some(Duration::from_secs(60)));
    }
}
