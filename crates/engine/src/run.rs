//! Runs one controller: takes keys from its queue, plans, executes, and remembers own writes until the caches show them.

use std::{
    collections::{HashMap, HashSet},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use jiff::Timestamp;
use kube::api::ListParams;
use tokio::{sync::OnceCell, time::Instant};
use tracing::{debug, warn};

use crate::{
    cache::{Key, Reflects, Write, WriteChange, version_number},
    effect::{Effect, Plan},
    execute::{Executor, Failure},
    insist,
    kind::Kind,
    queue::Queue,
    selection::Selection,
    supervise::{Supervisor, Task, panic_message},
};

/// Keys that are worked on at a time. A key mostly waits for the API: 1,000 graph instances took 64.8 s with four, 49.7 s with sixteen.
const WORKERS: usize = 16;
const OWN_WRITE_POLL: Duration = Duration::from_millis(10);
/// By then an event that must come is taken for lost, and the kind is listed again.
const OWN_WRITE_PATIENCE: Duration = Duration::from_secs(3);
/// So many conflicts in a row are no coincidence: the cache has missed something.
const CONFLICTS_BELIEVED: u32 = 3;

/// A controller, seen from its runner.
pub trait Reconcile: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// The kind of the object that a key names, if it names one.
    fn kind(&self, key: &Key) -> Option<Kind>;

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
    pub caches: Vec<Read>,
    pub others: Arc<dyn OtherKinds>,
    pub supervisor: Supervisor,
}

/// A cache that the controller reads.
pub(crate) struct Read {
    pub kind: Kind,
    pub selection: Selection,
    pub cache: Arc<dyn Reflects>,
    /// Whether to begin without it if the API does not serve the kind.
    pub is_optional: bool,
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
struct Shown<'a> {
    read: &'a Read,
    cache_version: u64,
    /// uid and version; nothing if the cache does not know the object.
    object_version: Option<(String, u64)>,
}

struct Work {
    controller: Arc<dyn Reconcile>,
    queue: Arc<Queue<Key>>,
    runner: Runner,
    memory: Mutex<HashMap<Key, Memory>>,
    /// Where the API was when this life began, for each cache. One that has come so far shows no state from before it.
    begun_at: Vec<OnceCell<u64>>,
    confirmed: Mutex<HashSet<Key>>,
}

impl Runner {
    /// Begins when all caches are filled: a controller that sees a part takes the rest for missing.
    pub fn start(self, controller: Arc<dyn Reconcile>, queue: Arc<Queue<Key>>) -> Vec<Task> {
        let supervisor = self.supervisor.clone();
        let work = Arc::new(Work {
            controller,
            queue,
            memory: Mutex::default(),
            begun_at: self.caches.iter().map(|_| OnceCell::new()).collect(),
            confirmed: Mutex::default(),
            runner: self,
        });
        let name = work.controller.name();
        let start = |work: Arc<Work>| move || work.clone().run();
        (0..WORKERS).map(|_| supervisor.keep(name, start(work.clone()))).collect()
    }
}

impl Work {
    async fn run(self: Arc<Self>) {
        for read in &self.runner.caches {
            match read.is_optional {
                true => read.cache.settled().await,
                false => read.cache.filled().await,
            }
        }
        loop {
            let key = self.queue.next().await;
            // Whatever is wrong with this key is not wrong with the others, and may be right the next time.
            if let Err(panic) = AssertUnwindSafe(self.turn(&key)).catch_unwind().await {
                let message = format!("{key}: {}", panic_message(&*panic));
                self.runner.supervisor.panicked(self.controller.name(), &message);
                self.queue.retry(key.clone());
            }
            self.queue.done(&key);
        }
    }

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
            // What was seen before the first write is told all the same: whoever planned it takes it for told.
            let is_event = |effect: &Effect| matches!(effect, Effect::Event(_));
            let seen = plan.effects.into_iter().take_while(is_event).collect();
            self.runner.executor.execute(seen).await;
            return;
        }
        let outcome = self.runner.executor.execute(plan.effects).await;
        if let Some(at) = plan.next {
            // Up to the next millisecond, so as not to wake just before the time.
            let wait =
                Duration::try_from(at.duration_since(now)).unwrap_or_default() + Duration::from_millis(1);
            self.queue.add_after(key.clone(), wait);
        }
        match &outcome.failure {
            None if failure.is_none() => self.queue.forget_failures(key),
            // What the plan told of a failure that is over is taken back by the next one. Not at once: a plan that leaves out
            // what was refused succeeds, and the next one tries it again.
            None => self.queue.retry(key.clone()),
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
        let mut is_cached = false;
        for read in self.runner.caches.iter().filter(|read| read.kind == *kind) {
            read.cache.request_relist();
            is_cached = true;
        }
        if !is_cached {
            self.runner.others.request_relist(kind);
        }
    }

    /// The caches in which an object can be.
    fn reads<'a>(&'a self, kind: &'a Kind, key: &'a Key) -> impl Iterator<Item = &'a Read> {
        let reaches = |read: &&Read| read.kind == *kind && read.selection.reaches(&key.namespace);
        self.runner.caches.iter().filter(reaches)
    }

    /// What the cache holds of the key's object.
    fn shown(&self, key: &Key) -> Option<Shown<'_>> {
        let kind = self.controller.kind(key)?;
        let read = self
            .runner
            .caches
            .iter()
            .find(|read| read.kind == kind && read.selection.reaches(&key.namespace))?;
        // the version first: what is read after it is at least as new
        let cache = &read.cache;
        Some(Shown { cache_version: cache.version(), object_version: cache.version_of(key), read })
    }

    /// Whether the plan was made from the present: a list from before the last crash looks like a wish to go back.
    /// If it was not, the key comes again when the cache has caught up.
    async fn is_confirmed(&self, key: &Key, shown: Option<Shown<'_>>) -> bool {
        let Some(Shown { read, cache_version, object_version }) = shown else { return true };
        let confirmed = || self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        let begun_at = self.runner.caches.iter().zip(&self.begun_at);
        let Some((_, begun_at)) = begun_at.into_iter().find(|(known, _)| std::ptr::eq(*known, read)) else {
            return true;
        };
        if cache_version >= *begun_at.get_or_init(|| self.live_version(read)).await
            || confirmed().contains(key)
        {
            return true;
        }
        let kind = read.kind.clone();
        let namespace = (!key.namespace.is_empty()).then_some(key.namespace.as_str());
        // A list of one: who may list need not be allowed to get.
        let named = ListParams::default().fields(&format!("metadata.name={}", key.name));
        let live = self.runner.executor.api(&kind, namespace).list_metadata(&named).await;
        let change = match live.map(|list| list.items.into_iter().next()) {
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

    async fn live_version(&self, read: &Read) -> u64 {
        let api = self.runner.executor.api(&read.kind, read.selection.namespace.as_deref());
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
            .retain(|(kind, write)| self.reads(kind, &write.key).any(|read| !read.cache.reflects(write)));
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
