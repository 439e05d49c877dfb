//! Runs one controller: takes keys from its queue, plans, executes, and remembers own writes until the caches show them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::{task::JoinSet, time::Instant};
use tracing::{debug, warn};

use super::{
    cache::{Key, Reflects, Write},
    execute::{Executor, Failure},
    queue::Queue,
};
use crate::{effect::Plan, kind::Kind, start::Synced, universe::Universe};

const WORKERS: usize = 4;
const OWN_WRITE_POLL: Duration = Duration::from_millis(10);
/// By then an event that must come is taken for lost, and the kind is listed again.
const OWN_WRITE_PATIENCE: Duration = Duration::from_secs(3);
/// So many conflicts in a row are no coincidence: the cache has missed something.
const CONFLICTS_BELIEVED: u32 = 3;

/// A controller, seen from its runner.
pub(crate) trait Reconcile: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// What to do for `key` now. `failure` is why the previous plan for it ended early.
    fn plan<'a>(
        &'a self,
        key: &'a Key,
        failure: Option<&'a Failure>,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Plan, PlanError>>;
}

/// Data that a plan needs could not be had.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct PlanError(pub String);

impl From<kube::Error> for PlanError {
    fn from(error: kube::Error) -> Self {
        Self(error.to_string())
    }
}

pub(crate) struct Runner {
    pub executor: Executor,
    pub caches: Arc<HashMap<Kind, Arc<dyn Reflects>>>,
    pub universe: Arc<Universe>,
}

/// What is remembered of a key between its turns.
#[derive(Default)]
struct Memory {
    writes: Vec<(Kind, Write)>,
    written: Option<Instant>,
    relisted: bool,
    failure: Option<Failure>,
    n_conflicts: u32,
}

struct Work {
    controller: Arc<dyn Reconcile>,
    queue: Arc<Queue<Key>>,
    executor: Executor,
    caches: Arc<HashMap<Kind, Arc<dyn Reflects>>>,
    universe: Arc<Universe>,
    memory: Mutex<HashMap<Key, Memory>>,
}

impl Runner {
    /// Begins when all `caches` are filled: a controller that sees a part takes the rest for missing.
    pub fn start(
        &self,
        controller: Arc<dyn Reconcile>,
        queue: Arc<Queue<Key>>,
        caches: Vec<Arc<dyn Synced>>,
        tasks: &mut JoinSet<()>,
    ) {
        let work = Arc::new(Work {
            controller,
            queue,
            executor: self.executor.clone(),
            caches: self.caches.clone(),
            universe: self.universe.clone(),
            memory: Mutex::default(),
        });
        for _ in 0..WORKERS {
            let (work, caches) = (work.clone(), caches.clone());
            tasks.spawn(async move {
                for cache in caches {
                    cache.synced().await;
                }
                loop {
                    let key = work.queue.next().await;
                    work.turn(&key).await;
                    work.queue.done(&key);
                }
            });
        }
    }
}

impl Work {
    async fn turn(&self, key: &Key) {
        if self.must_wait(key) {
            self.queue.add_after(key.clone(), OWN_WRITE_POLL);
            return;
        }
        let name = self.controller.name();
        let failure = self.memory().get(key).and_then(|memory| memory.failure.clone());
        let now = Timestamp::now();
        let plan = match self.controller.plan(key, failure.as_ref(), now).await {
            Ok(plan) => plan,
            Err(error) => {
                warn!(controller = name, %key, %error, "cannot decide yet, retrying");
                self.queue.retry(key.clone());
                return;
            }
        };
        let outcome = self.executor.execute(plan.effects).await;
        if let Some(at) = plan.next {
            // Up to the next millisecond, so as not to wake just before the time.
            let wait =
                Duration::try_from(at.duration_since(now)).unwrap_or_default() + Duration::from_millis(1);
            self.queue.add_after(key.clone(), wait);
        }
        match &outcome.failure {
            None => self.queue.forget_failures(key),
            Some(failure) => {
                if failure.conflict {
                    debug!(controller = name, %key, message = failure.message, "outdated, planning again");
                } else {
                    warn!(controller = name, %key, message = failure.message, "failed, retrying");
                }
                self.queue.retry(key.clone());
            }
        }
        let mut all = self.memory();
        let (conflict, failure) = match outcome.failure {
            Some(failure) if failure.conflict => (Some(failure), None),
            failure => (None, failure),
        };
        let mut n_conflicts = 0;
        if let Some(conflict) = &conflict {
            n_conflicts = all.get(key).map_or(0, |memory| memory.n_conflicts) + 1;
            if n_conflicts % CONFLICTS_BELIEVED == 0 {
                self.relist(&conflict.kind);
            }
        }
        if outcome.writes.is_empty() && failure.is_none() && conflict.is_none() {
            all.remove(key);
        } else {
            let written = (!outcome.writes.is_empty()).then(Instant::now);
            let writes = outcome.writes;
            all.insert(key.clone(), Memory { writes, written, relisted: false, failure, n_conflicts });
        }
    }

    fn relist(&self, kind: &Kind) {
        match self.caches.get(kind) {
            Some(cache) => cache.request_relist(),
            None => self.universe.request_relist(kind),
        }
    }

    /// Whether the caches have yet to show what the last turn wrote.
    fn must_wait(&self, key: &Key) -> bool {
        let mut all = self.memory();
        let Some(memory) = all.get_mut(key) else { return false };
        memory
            .writes
            .retain(|(kind, write)| self.caches.get(kind).is_some_and(|cache| !cache.reflects(write)));
        if memory.writes.is_empty() {
            return false;
        }
        let waited = memory.written.map_or(Duration::ZERO, |written| written.elapsed());
        if waited > 4 * OWN_WRITE_PATIENCE {
            // The fresh list does not show it either: somebody undid it. Deciding anew is all that is left.
            memory.writes.clear();
            return false;
        }
        if waited > OWN_WRITE_PATIENCE && !memory.relisted {
            memory.relisted = true;
            for (kind, write) in &memory.writes {
                warn!(kind = %kind, object = %write.key, "own write not seen, listing again");
                self.relist(kind);
            }
        }
        true
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<Key, Memory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
