//! The roles of this node, and their end.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::Roles;

/// Until when each lasts, unless it is renewed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    pub master: Option<Instant>,
    pub scraper: Option<Instant>,
    /// When a lease of this node was last written.
    pub renewed: Option<Instant>,
}

/// Tells in time that a role has run out, also while the write that should have renewed it has no answer.
pub async fn lapse(held: &Mutex<Held>, roles: &watch::Sender<Roles>, look_every: Duration) {
    loop {
        let (now, Held { master, scraper, .. }) = (Instant::now(), *lock(held));
        roles.send_if_modified(|known| {
            let before = (known.master, known.scraper);
            known.master &= holds(master, now);
            known.scraper &= holds(scraper, now);
            let has_lapsed = before != (known.master, known.scraper);
            if has_lapsed {
                tracing::warn!(
                    master = known.master,
                    scraper = known.scraper,
                    "a role was not renewed in time"
                );
            }
            if before.0 && !known.master {
                known.master_name = None;
            }
            has_lapsed
        });
        let ends = [master, scraper].into_iter().flatten().filter(|until| *until > now).min();
        let next = ends.map_or(now + look_every, |ends| ends.min(now + look_every));
        tokio::time::sleep_until(next.into()).await;
    }
}

pub fn holds(until: Option<Instant>, now: Instant) -> bool {
    until.is_some_and(|until| now < until)
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
