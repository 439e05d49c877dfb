//! Queries on threads of their own, a few at a time, each cut off when its time is over or nobody waits for it.
//!
//! Nothing of what a query does (reading its text, evaluating it, writing its result) happens on a thread that other
//! requests need, and none of it holds a lock: it reads a view of the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use metrics::scrape::Clock;
use metrics::{Database, Millis, View};
use promql::Budget;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::exposed::{Family, Kind};
use crate::operator::Limits;

/// Room for a query as deeply nested as the parser allows, in a build without optimization.
const STACK: usize = 4 << 20;

pub(crate) struct Runner {
    database: Database,
    clock: Arc<dyn Clock>,
    limits: Limits,
    turns: Arc<Semaphore>,
    n_waiting: AtomicUsize,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    failed: AtomicU64,
    cut_off: AtomicU64,
    turned_away: AtomicU64,
}

/// What a query on its thread may use.
pub(crate) struct Turn<'a> {
    pub(crate) view: &'a View,
    pub(crate) budget: &'a Budget<'a>,
    /// How long it waited for its turn.
    pub(crate) waited: Millis,
}

#[derive(Debug)]
pub(crate) enum Failure {
    Query(promql::Error),
    /// No thread became free in time.
    Busy {
        concurrency: usize,
    },
    /// The thread ended without an answer.
    Lost(String),
}

/// Set when the future that waits for a query is dropped: its client is gone.
struct Abandoned(Arc<AtomicBool>);

// === impl Failure ===

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Query(error) => error.fmt(f),
            Self::Busy { concurrency } => write!(
                f,
                "all {concurrency} threads for queries are busy: ask again later, with narrower selectors, a shorter \
                 range or longer steps"
            ),
            Self::Lost(why) => f.write_str(why),
        }
    }
}

// === impl Runner ===

impl Runner {
    pub(crate) fn new(database: Database, clock: Arc<dyn Clock>, limits: Limits) -> Self {
        let turns = Arc::new(Semaphore::new(limits.concurrency.max(1)));
        let n_waiting = AtomicUsize::new(0);
        Self { database, clock, limits, turns, n_waiting, counts: Counts::default() }
    }

    /// Runs `work` with a view of the store. It is handed the time that is left, `timeout` at most.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        timeout: Option<Millis>,
        work: impl FnOnce(Turn<'_>) -> promql::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let result = self.wait_and_run(timeout, work).await;
        self.count(&result);
        result
    }

    async fn wait_and_run<T: Send + 'static>(
        &self,
        timeout: Option<Millis>,
        work: impl FnOnce(Turn<'_>) -> promql::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let allowed = millis(self.limits.time);
        let asked = self.clock.now();
        let deadline = asked.saturating_add(timeout.map_or(allowed, |t| t.clamp(0, allowed)));
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let _abandoned = Abandoned(is_abandoned.clone());
        let turn = self.turn().await?;
        let waited = self.clock.now() - asked;
        let (database, clock) = (self.database.clone(), self.clock.clone());
        let Limits { samples, memory, .. } = self.limits;
        let (answer, answered) = oneshot::channel();
        let on_thread = move || {
            let _turn = turn;
            let interrupted = || clock.now() >= deadline || is_abandoned.load(Ordering::Relaxed);
            let limits = promql::Limits {
                samples,
                memory,
                interrupted: Some(&interrupted),
                ..promql::Limits::default()
            };
            let budget = Budget::new(limits);
            let result = budget.check_time().and_then(|()| {
                let view = database.view();
                work(Turn { view: &view, budget: &budget, waited })
            });
            let _ = answer.send(result);
        };
        let started = std::thread::Builder::new().name("query".into()).stack_size(STACK).spawn(on_thread);
        if let Err(error) = started {
            return Err(Failure::Lost(format!("a thread for the query was not started: {error}")));
        }
        match answered.await {
            Ok(result) => result.map_err(Failure::Query),
            Err(_) => Err(Failure::Lost("the query's thread ended without an answer".into())),
        }
    }

    /// Waits for a free thread, but neither for ever nor with everybody else.
    async fn turn(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let busy = || Failure::Busy { concurrency: self.limits.concurrency.max(1) };
        if let Ok(turn) = self.turns.clone().try_acquire_owned() {
            return Ok(turn);
        }
        let _waiting = Waiting::new(&self.n_waiting, self.limits.waiting).ok_or_else(busy)?;
        match tokio::time::timeout(self.limits.wait, self.turns.clone().acquire_owned()).await {
            Ok(turn) => turn.map_err(|closed| Failure::Lost(closed.to_string())),
            Err(_) => Err(busy()),
        }
    }

    fn count<T>(&self, result: &Result<T, Failure>) {
        use promql::Error::{Interrupted, Limit};
        let counter = match result {
            Ok(_) => &self.counts.answered,
            Err(Failure::Query(Limit { .. } | Interrupted)) => &self.counts.cut_off,
            Err(Failure::Busy { .. }) => &self.counts.turned_away,
            Err(_) => &self.counts.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn families(&self) -> [Family; 1] {
        let Counts { answered, failed, cut_off, turned_away } = &self.counts;
        let family =
            Family::new("ballast_queries_total", "Queries over HTTP by how they ended.", Kind::Counter);
        let counted =
            [("answered", answered), ("failed", failed), ("cut_off", cut_off), ("turned_away", turned_away)];
        [counted.into_iter().fold(family, |family, (outcome, n)| {
            family.with(&[("outcome", outcome)], n.load(Ordering::Relaxed) as f64)
        })]
    }
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One of those who wait.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(n_waiting: &'a AtomicUsize, most: usize) -> Option<Self> {
        let waiting = Self(n_waiting);
        (n_waiting.fetch_add(1, Ordering::Relaxed) < most).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
