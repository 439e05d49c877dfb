//! Reads targets over HTTP, each at its interval, into a [`Database`].
//!
//! [`Scraper::run`] is the loop, [`Handle`] is how others talk to it. What is due is decided by [`Schedule`], which knows
//! no clock and no sockets. A target is asked by its IP, one request at a time; whatever it answers, it can only harm
//! its own series.

mod address;
mod annotations;
mod clock;
mod fetch;
mod schedule;
mod stats;
mod target;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};

use crate::database::{Gauge, Scraped};
use crate::ingest::Limits;
use crate::store::SeriesRef;
use crate::text::SeriesCache;
use crate::{Database, Millis};

pub use address::{Refused, check_address};
pub use annotations::{AnnotationError, Endpoint, Scheme};
pub use clock::{Clock, SystemClock};
pub use fetch::{Client, FetchLimits, Fetched};
pub use schedule::Schedule;
pub use stats::{Failure, Reason, Stats, TargetStatus};
pub use target::Target;

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub interval: Duration,
    /// For one request, from connecting to the last byte. A shorter interval shortens it.
    pub timeout: Duration,
    /// Bytes of one body.
    pub body: usize,
    /// Requests at once, over all targets.
    pub concurrency: usize,
    /// Whether targets may be on this machine's loopback, where pods of the process node live.
    pub loopback: bool,
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
            body: 8 << 20,
            concurrency: 64,
            loopback: false,
            limits: Limits::default(),
        }
    }
}

pub struct Scraper {
    context: Arc<Context>,
    targets: watch::Receiver<Arc<[Target]>>,
    done: watch::Sender<u64>,
}

/// How others talk to a scraper. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    targets: watch::Sender<Arc<[Target]>>,
    stats: Arc<Mutex<Stats>>,
    done: watch::Receiver<u64>,
}

/// What every request needs.
struct Context {
    database: Database,
    options: Options,
    clock: Arc<dyn Clock>,
    client: Client,
    stats: Arc<Mutex<Stats>>,
}

/// A finished request; the cache was lent to it.
struct Done {
    key: Arc<str>,
    cache: Cache,
}

type Cache = SeriesCache<SeriesRef>;

// === impl Handle ===

impl Handle {
    /// Replaces the targets. Series of targets that are gone end.
    pub fn set_targets(&self, targets: impl Into<Arc<[Target]>>) {
        let targets = targets.into();
        self.targets.send_if_modified(|known| {
            let is_new = !Arc::ptr_eq(known, &targets) && **known != *targets;
            *known = targets;
            is_new
        });
    }

    /// The state of each target, by name.
    pub fn status(&self) -> Vec<TargetStatus> {
        lock(&self.stats).status()
    }

    /// Figures about scraping itself.
    pub fn gauges(&self) -> Vec<Gauge> {
        lock(&self.stats).gauges()
    }

    /// Changes with every finished scrape and every change of targets: whoever decides on metrics need not poll.
    pub fn done(&self) -> watch::Receiver<u64> {
        self.done.clone()
    }
}

// === impl Scraper ===

impl Scraper {
    pub fn new(database: Database, options: Options, clock: Arc<dyn Clock>) -> (Self, Handle) {
        let (targets_sender, targets) = watch::channel(Arc::from([]));
        let (done, done_receiver) = watch::channel(0);
        let stats = Arc::new(Mutex::new(Stats::default()));
        let client = Client::new();
        let context = Arc::new(Context { database, options, clock, client, stats: stats.clone() });
        let handle = Handle { targets: targets_sender, stats, done: done_receiver };
        (Self { context, targets, done }, handle)
    }

    /// Scrapes until `shutdown` is ready or the last handle is gone.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        let context = self.context;
        let mut schedule = Schedule::new(context.options.interval);
        let mut caches: HashMap<Arc<str>, Cache> = HashMap::new();
        let mut running: JoinSet<Done> = JoinSet::new();
        let mut keys: HashMap<Id, Arc<str>> = HashMap::new();
        let expire_every = context.options.interval.as_millis() as Millis;
        let mut next_expiry = context.clock.now() + expire_every;
        tokio::pin!(shutdown);
        loop {
            let room = context.options.concurrency.saturating_sub(running.len());
            let due = schedule.next_due().filter(|_| room > 0);
            let wake = context.clock.sleep_until(due.map_or(next_expiry, |due| due.min(next_expiry)));
            tokio::select! {
                () = &mut shutdown => return,
                changed = self.targets.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let targets = self.targets.borrow_and_update().clone();
                    for gone in schedule.replace(&targets, context.clock.now()) {
                        caches.remove(&gone);
                        context.end(&gone);
                    }
                    self.done.send_modify(|n| *n += 1);
                }
                Some(joined) = running.join_next_with_id(), if !running.is_empty() => {
                    let Some(Done { key, cache }) = settle(joined, &mut keys) else { continue };
                    if schedule.finished(&key) {
                        caches.insert(key, cache);
                    } else {
                        context.end(&key);
                    }
                    self.done.send_modify(|n| *n += 1);
                }
                () = wake => {
                    let now = context.clock.now();
                    for target in schedule.take_due(now, room) {
                        let cache = caches.remove(target.key()).unwrap_or_default();
                        let key = target.key().clone();
                        let task = running.spawn(context.clone().scrape(target, cache));
                        keys.insert(task.id(), key);
                    }
                    if now >= next_expiry {
                        next_expiry = now + expire_every;
                        lock(&context.stats).set_skipped(schedule.n_skipped());
                        context.database.expire(now);
                    }
                }
            }
        }
    }
}

/// What a task leaves behind. One that was torn down leaves an empty cache.
fn settle(joined: Result<(Id, Done), JoinError>, keys: &mut HashMap<Id, Arc<str>>) -> Option<Done> {
    match joined {
        Ok((id, done)) => {
            keys.remove(&id);
            Some(done)
        }
        Err(error) => {
            let key = keys.remove(&error.id())?;
            tracing::error!(target = %key, %error, "a scrape was torn down");
            Some(Done { key, cache: Cache::default() })
        }
    }
}

// === impl Context ===

impl Context {
    async fn scrape(self: Arc<Self>, target: Arc<Target>, cache: Cache) -> Done {
        let start = self.clock.now();
        let (result, cache) = match self.fetch(&target).await {
            Ok(fetched) => self.clone().store(target.clone(), start, fetched, cache).await,
            Err(failure) => (Err(failure), cache),
        };
        let took = self.clock.now() - start;
        if let Err(failure) = &result {
            tracing::debug!(target = %target.key(), %failure, "scrape failed");
            let own = Self::about(0.0, took, 0);
            self.feed(target.key(), &target.labels, start, &own);
        }
        lock(&self.stats).record(&target, start, took, result);
        Done { key: target.key().clone(), cache }
    }

    async fn fetch(&self, target: &Target) -> Result<Fetched, Failure> {
        check_address(target.address.ip(), self.options.loopback)
            .map_err(|refused| Failure::new(Reason::AddressRefused, refused))?;
        let interval = target.interval.unwrap_or(self.options.interval);
        let limits = FetchLimits { body: self.options.body, timeout: self.options.timeout.min(interval) };
        self.client.fetch(target, limits).await
    }

    /// Reads and stores on a thread for such work: a body of megabytes takes tens of milliseconds, for which no call that
    /// is being held should wait.
    async fn store(
        self: Arc<Self>,
        target: Arc<Target>,
        start: Millis,
        fetched: Fetched,
        mut cache: Cache,
    ) -> (Result<usize, Failure>, Cache) {
        let work = move || {
            let scraped = Scraped {
                target: target.key(),
                labels: &target.labels,
                time: start,
                body: &fetched.body,
                format: fetched.format,
            };
            let own = Self::about(1.0, self.clock.now() - start, fetched.body.len());
            let stored = self.database.ingest(scraped, &own, &mut cache, self.options.limits);
            (stored.map_err(Failure::from), cache)
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|error| (Err(Failure::new(Reason::Store, error)), Cache::default()))
    }

    /// The series that Prometheus makes for every target.
    fn about(up: f64, took: Millis, n_bytes: usize) -> [Gauge; 3] {
        [
            ("up", up),
            ("scrape_duration_seconds", took as f64 / 1000.0),
            ("scrape_body_size_bytes", n_bytes as f64),
        ]
        .map(|(name, value)| Gauge { name: name.into(), labels: Vec::new(), value })
    }

    /// Ends all series of a target that is gone.
    fn end(&self, key: &Arc<str>) {
        self.feed(key, &promql::Labels::empty(), self.clock.now(), &[]);
        lock(&self.stats).remove(key);
    }

    fn feed(&self, key: &Arc<str>, labels: &promql::Labels, time: Millis, gauges: &[Gauge]) {
        if let Err(error) = self.database.feed(key, labels, time, gauges) {
            // The clock went backwards: the series end with the next scrape instead.
            tracing::debug!(target = %key, %error, "series were not ended");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
