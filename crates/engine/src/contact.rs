//! When the API was last heard of: a cluster where nothing happens looks just like a watch that stands still.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Of one cache with the API. A handle; clones tell the same.
#[derive(Clone, Debug, Default)]
pub struct Contact(Arc<Mutex<State>>);

#[derive(Clone, Copy, Debug, Default)]
struct State {
    heard: Option<Instant>,
    failing_since: Option<Instant>,
}

impl Contact {
    /// How long ago the last list, event or bookmark came; none before the first.
    pub fn heard_ago(&self, now: Instant) -> Option<Duration> {
        self.lock().heard.map(|at| now.saturating_duration_since(at))
    }

    /// For how long every attempt has failed; none if the last one has not.
    pub fn failing_for(&self, now: Instant) -> Option<Duration> {
        self.lock().failing_since.map(|at| now.saturating_duration_since(at))
    }

    pub fn heard(&self, now: Instant) {
        *self.lock() = State { heard: Some(now), failing_since: None };
    }

    pub fn failed(&self, now: Instant) {
        self.lock().failing_since.get_or_insert(now);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
