//! Runs one controller: takes keys from its queue, plans, executes, and remembers own writes until the caches show them.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::api::ListParams;
use tokio::{sync::OnceCell, task::JoinSet, time::Instant};
use tracing::{debug, warn};

use crate::{
    cache::{Key, Reflects, Write, WriteChange, version_number},
    effect::{Effect, Plan},
    execute::{Executor, Failure},
    insist,
    kind::Kind,
    queue::Queue,
};

const WORKERS: usize = 4;
const OWN_WRITE_POLL: Duration = Duration::from_millis(10);
/// By then an event that must come is taken for lost, and the kind is listed again.
const OWN_WRITE_PATIENCE: Duration = Duration::from_secs(3);
/// So many conflicts in a row are no coincidence: the cache has missed something.
const CONFLICTS_BELIEVED: u32 = 3;

/// A controller, seen from its runner.
pub trait Reconcile: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// The kind whose objects the keys name, if they name objects.
    fn kind(&self) -> Option<Kind>;

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
pub struct PlanError(pub String);

impl From<kube::Error> for PlanError {
    fn from(error: kube::Error) -> Self {
        Self(error.to_string())
    }
}

/// Knows of kinds that have no cache of their own here.
pub trait OtherKinds: Send + Sync {
    /// For when what was decided on a kind's objects keeps being outdated.
    fn request_relist(&self, kind: &Kind);
}

/// There are none.
impl OtherKinds for () {
    fn request_relist(&self, _: &Kind) {}
}

pub(crate) struct Runner {
    pub executor: Executor,
    pub caches: Arc<HashMap<Kind, Arc<dyn Reflects>>>,
    pub others: Arc<dyn OtherKinds>,
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

/// Of a key's object, at the time its plan was made.
struct Shown {
    kind: Kind,
    cache_version: u64,
    /// uid and version; nothing if the cache does not know the object.
    object_version: Option<(String, u64)>,
}

struct Work {
    controller: Arc<dyn Reconcile>,
    queue: Arc<Queue<Key>>,
    executor: Executor,
    caches: Arc<HashMap<Kind, Arc<dyn Reflects>>>,
    others: Arc<dyn OtherKinds>,
    memory: Mutex<HashMap<Key, Memory>>,
    /// Where the API was when this life began. A cache that has come so far shows no state from before it.
    begun_at: OnceCell<u64>,
    confirmed: Mutex<HashSet<Key>>,
}

impl Runner {
    /// Begins when all caches are filled: a controller that sees a part takes the rest for missing.
    pub fn start(&self, controller: Arc<dyn Reconcile>, queue: Arc<Queue<Key>>, tasks: &mut JoinSet<()>) {
        let work = Arc::new(Work {
            controller,
            queue,
            executor: self.executor.clone(),
            caches: self.caches.clone(),
            others: self.others.clone(),
            memory: Mutex::default(),
            begun_at: OnceCell::new(),
            confirmed: Mutex::default(),
        });
        for _ in 0..WORKERS {
            let work = work.clone();
            tasks.spawn(async move {
                for cache in work.caches.values() {
                    cache.filled().await;
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
        let shown = self.shown(key);
        let plan = match self.controller.plan(key, failure.as_ref(), now).await {
            Ok(plan) => plan,
            Err(error) => {
                warn!(controller = name, %key, %error, "cannot decide yet, retrying");
                self.queue.retry(key.clone());
                return;
            }
        };
        let writes = plan.effects.iter().any(|effect| !matches!(effect, Effect::Event(_)));
        if writes && !self.is_confirmed(key, shown).await {
            return;
        }
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
            None => self.others.request_relist(kind),
        }
    }

    /// What the cache holds of the key's object.
    fn shown(&self, key: &Key) -> Option<Shown> {
        let kind = self.controller.kind()?;
        let cache = self.caches.get(&kind)?;
        // the version first: what is read after it is at least as new
        Some(Shown { cache_version: cache.version(), object_version: cache.version_of(key), kind })
    }

    /// Whether the plan was made from the present: a list from before the last crash looks like a wish to go back.
    /// If it was not, the key comes again when the cache has caught up.
    async fn is_confirmed(&self, key: &Key, shown: Option<Shown>) -> bool {
        let Some(Shown { kind, cache_version, object_version }) = shown else { return true };
        let confirmed = || self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        if cache_version >= *self.begun_at.get_or_init(|| self.live_version(&kind)).await
            || confirmed().contains(key)
        {
            return true;
        }
        let namespace = (!key.namespace.is_empty()).then_some(key.namespace.as_str());
        let change = match self.executor.api(&kind, namespace).get_metadata_opt(&key.name).await {
            Ok(Some(live)) => {
                let version = version_number(live.metadata.resource_version.as_deref());
                if object_version.as_ref().is_some_and(|(_, shown)| *shown >= version) {
                    confirmed().insert(key.clone());
                    return true;
                }
                WriteChange::Applied { version }
            }
            Ok(None) if object_version.is_none() => return true,
            Ok(None) => WriteChange::Deleted,
            Err(error) => {
                warn!(controller = self.controller.name(), %key, %error, "cannot confirm the object, retrying");
                self.queue.retry(key.clone());
                return false;
            }
        };
        debug!(controller = self.controller.name(), %key, "the cache is behind, waiting for it");
        let uid = object_version.map(|(uid, _)| uid).unwrap_or_default();
        let awaited = (kind, Write { key: key.clone(), uid, change });
        let memory = Memory { writes: vec![awaited], written: Some(Instant::now()), ..Memory::default() };
        self.memory().insert(key.clone(), memory);
        self.queue.add_after(key.clone(), OWN_WRITE_POLL);
        false
    }

    async fn live_version(&self, kind: &Kind) -> u64 {
        let api = self.executor.api(kind, None);
        let one = ListParams::default().limit(1);
        match insist(|| api.list_metadata(&one)).await {
            Ok(list) => version_number(list.metadata.resource_version.as_deref()),
            // then each object is confirmed on its own
            Err(_) => u64::MAX,
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
