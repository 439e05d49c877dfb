//! Queries on threads of their own, a few at a time, each cut off when its time is over or nobody waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use metrics::scrape::Clock;
use metrics::{Database, Millis, Store};
use tokio::sync::Semaphore;

use crate::exposed::{Family, Kind};
use crate::operator::Limits;

pub(crate) struct Runner {
    database: Database,
    clock: Arc<dyn Clock>,
    limits: Limits,
    turns: Arc<Semaphore>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    failed: AtomicU64,
    cut_off: AtomicU64,
}

/// What a query on its thread may use.
pub(crate) struct Turn<'a> {
    pub(crate) store: &'a Store,
    pub(crate) limits: promql::Limits<'a>,
    /// How long it waited for its turn.
    pub(crate) waited: Millis,
}

#[derive(Debug)]
pub(crate) enum Failure {
    Query(promql::Error),
    /// The thread was torn down.
    Lost(String),
}

/// Set when the future that waits for a query is dropped: its client is gone.
struct Abandoned(Arc<AtomicBool>);

// === impl Runner ===

impl Runner {
    pub(crate) fn new(database: Database, clock: Arc<dyn Clock>, limits: Limits) -> Self {
        let turns = Arc::new(Semaphore::new(limits.concurrency.max(1)));
        Self { database, clock, limits, turns, counts: Counts::default() }
    }

    /// Runs `work` with the store. It is handed the time that is left, `timeout` at most.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        timeout: Option<Millis>,
        work: impl FnOnce(Turn<'_>) -> promql::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let allowed = Millis::try_from(self.limits.time.as_millis()).unwrap_or(Millis::MAX);
        let asked = self.clock.now();
        let deadline = asked.saturating_add(timeout.map_or(allowed, |t| t.clamp(0, allowed)));
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let _abandoned = Abandoned(is_abandoned.clone());
        // Nobody closes the semaphore.
        let turn = self.turns.clone().acquire_owned().await.map_err(|e| Failure::Lost(e.to_string()))?;
        let waited = self.clock.now() - asked;
        let (database, clock, samples) = (self.database.clone(), self.clock.clone(), self.limits.samples);
        let on_thread = move || {
            let _turn = turn;
            let interrupted = || clock.now() >= deadline || is_abandoned.load(Ordering::Relaxed);
            if interrupted() {
                return Err(promql::Error::Interrupted);
            }
            let store = database.store();
            let limits =
                promql::Limits { samples, interrupted: Some(&interrupted), ..promql::Limits::default() };
            work(Turn { store: &store, limits, waited })
        };
        let result = match tokio::task::spawn_blocking(on_thread).await {
            Ok(result) => result.map_err(Failure::Query),
            Err(error) => Err(Failure::Lost(error.to_string())),
        };
        self.count(&result);
        result
    }

    fn count<T>(&self, result: &Result<T, Failure>) {
        use promql::Error::{Interrupted, Limit};
        let counter = match result {
            Ok(_) => &self.counts.answered,
            Err(Failure::Query(Limit { .. } | Interrupted)) => &self.counts.cut_off,
            Err(_) => &self.counts.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn families(&self) -> [Family; 1] {
        let Counts { answered, failed, cut_off } = &self.counts;
        let family =
            Family::new("ballast_queries_total", "Queries over HTTP by how they ended.", Kind::Counter);
        let counted = [("answered", answered), ("failed", failed), ("cut_off", cut_off)];
        [counted.into_iter().fold(family, |family, (outcome, n)| {
            family.with(&[("outcome", outcome)], n.load(Ordering::Relaxed) as f64)
        })]
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
