//! Keys that want work. One key is worked on once at a time; what arrives meanwhile is done afterwards, once.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet, VecDeque},
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

const FIRST_RETRY: Duration = Duration::from_millis(10);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

pub struct Queue<T> {
    state: Mutex<State<T>>,
    wake: Notify,
}

struct State<T> {
    ready: VecDeque<T>,
    /// Wanted: in `ready`, or arrived while being worked on.
    dirty: HashSet<T>,
    working: HashSet<T>,
    later: BinaryHeap<Reverse<(Instant, T)>>,
    /// The earliest time of each key in `later`; other entries of the key are void. Whoever works on the key then asks
    /// again for what comes later.
    earliest: HashMap<T, Instant>,
    failures: HashMap<T, u32>,
}

impl<T: Clone + Eq + Hash + Ord> Default for Queue<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                ready: VecDeque::new(),
                dirty: HashSet::new(),
                working: HashSet::new(),
                later: BinaryHeap::new(),
                earliest: HashMap::new(),
                failures: HashMap::new(),
            }),
            wake: Notify::new(),
        }
    }
}

impl<T: Clone + Eq + Hash + Ord> Queue<T> {
    pub fn add(&self, item: T) {
        self.state().add(item);
        self.wake.notify_one();
    }

    pub fn add_after(&self, item: T, delay: Duration) {
        if delay.is_zero() {
            return self.add(item);
        }
        let Some(at) = Instant::now().checked_add(delay) else { return };
        {
            let mut state = self.state();
            if state.earliest.get(&item).is_some_and(|earliest| *earliest <= at) {
                return;
            }
            state.earliest.insert(item.clone(), at);
            state.later.push(Reverse((at, item)));
        }
        self.wake.notify_one();
    }

    /// Comes back after a pause that doubles with every failure in a row.
    pub fn retry(&self, item: T) {
        let delay = {
            let mut state = self.state();
            let n_failures = state.failures.entry(item.clone()).or_insert(0);
            let delay = pause_after(*n_failures);
            *n_failures += 1;
            delay
        };
        self.add_after(item, delay);
    }

    pub fn forget_failures(&self, item: &T) {
        self.state().failures.remove(item);
    }

    /// The next key; call [`Queue::done`] when finished with it.
    pub async fn next(&self) -> T {
        loop {
            let until = {
                let mut state = self.state();
                state.release_due(Instant::now());
                if let Some(item) = state.take() {
                    if !state.ready.is_empty() {
                        self.wake.notify_one();
                    }
                    return item;
                }
                state.later.peek().map(|Reverse((at, _))| *at)
            };
            match until {
                Some(at) => tokio::select! {
                    () = self.wake.notified() => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => self.wake.notified().await,
            }
        }
    }

    pub fn done(&self, item: &T) {
        let mut state = self.state();
        state.working.remove(item);
        if state.dirty.contains(item) {
            state.ready.push_back(item.clone());
            drop(state);
            self.wake.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pause_after(n_failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << n_failures.min(16)).min(LONGEST_RETRY)
}

impl<T: Clone + Eq + Hash + Ord> State<T> {
    fn add(&mut self, item: T) {
        if self.dirty.insert(item.clone()) && !self.working.contains(&item) {
            self.ready.push_back(item);
        }
    }

    fn take(&mut self) -> Option<T> {
        let item = self.ready.pop_front()?;
        self.dirty.remove(&item);
        self.working.insert(item.clone());
        Some(item)
    }

    fn release_due(&mut self, now: Instant) {
        while self.later.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            let Some(Reverse((at, item))) = self.later.pop() else { return };
            if self.earliest.get(&item) == Some(&at) {
                self.earliest.remove(&item);
                self.add(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_key_is_worked_on_once_at_a_time_and_never_lost() {
        let queue = Queue::default();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.next().await, "a");
        queue.add("a"); // arrives during the work
        assert_eq!(queue.next().await, "b");
        assert!(futures::FutureExt::now_or_never(queue.next()).is_none(), "a is still being worked on");
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
    }

    #[test]
    fn retries_come_later_and_later() {
        let pauses: Vec<u128> = (0..14).map(|n| pause_after(n).as_millis()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240, 20480, 30000, 30000]);
        assert_eq!(pause_after(u32::MAX), LONGEST_RETRY);
    }

    #[tokio::test]
    async fn of_several_times_the_earliest_counts() {
        let queue = Queue::default();
        queue.add_after("a", Duration::from_secs(3600));
        queue.add_after("a", Duration::from_millis(1));
        queue.add_after("a", Duration::from_secs(60));
        assert_eq!(queue.next().await, "a");
        queue.done(&"a");
        assert!(queue.state().earliest.is_empty(), "the later times are void");
    }
}
