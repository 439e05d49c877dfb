//! What the parts of a node share: the store and the registry, each behind its lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use promql::{Labels, MetricNames};
use serde::Serialize;

use crate::ingest::{self, Limits};
use crate::registry::{Asked, Registry, Wanted};
use crate::store::{self, Batch, Counters, Figures, SeriesRef, Store, View};
use crate::text::{self, Format, SeriesCache};
use crate::{Millis, snapshot};

/// A handle; clones share one store and one registry.
#[derive(Debug, Clone, Default)]
pub struct Database(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    store: RwLock<Store>,
    /// How often the store was written to.
    version: AtomicU64,
    /// The last view that was made, as long as somebody reads it, and of which version it is.
    view: Mutex<(u64, Weak<View>)>,
    registry: RwLock<Registry>,
}

/// A figure of our own that needs no HTTP to be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauge {
    pub name: String,
    pub labels: Vec<(String, String)>,
    pub value: f64,
}

/// One scraped body.
#[derive(Debug, Clone, Copy)]
pub struct Scraped<'a> {
    /// What the store calls the target.
    pub target: &'a str,
    pub labels: &'a Labels,
    pub time: Millis,
    pub body: &'a [u8],
    pub format: Format,
}

/// `GET /debug/store`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub requested_metric_names: Vec<String>,
    #[serde(flatten)]
    pub figures: Figures,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Text(#[from] text::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Database {
    pub fn new(options: store::Options) -> Self {
        Self(Arc::new(Inner { store: RwLock::new(Store::new(options)), ..Inner::default() }))
    }

    /// What the store holds at this moment, for queries. Scrapes do not wait for whoever reads it. Making one takes a
    /// millisecond for 10,000 series; those who ask between two scrapes share one.
    pub fn view(&self) -> Arc<View> {
        let mut last = self.0.view.lock().unwrap_or_else(PoisonError::into_inner);
        let store = self.store();
        // No scrape is written while the store is held.
        let version = self.0.version.load(Ordering::Relaxed);
        if let Some(view) = last.1.upgrade().filter(|_| last.0 == version) {
            return view;
        }
        let view = Arc::new(store.view());
        *last = (version, Arc::downgrade(&view));
        view
    }

    pub fn options(&self) -> store::Options {
        self.store().options()
    }

    fn store(&self) -> RwLockReadGuard<'_, Store> {
        self.0.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn store_mut(&self) -> RwLockWriteGuard<'_, Store> {
        let store = self.0.store.write().unwrap_or_else(PoisonError::into_inner);
        self.0.version.fetch_add(1, Ordering::Relaxed);
        store
    }

    fn registry(&self) -> RwLockReadGuard<'_, Registry> {
        self.0.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn registry_mut(&self) -> RwLockWriteGuard<'_, Registry> {
        self.0.registry.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a query reads these metrics: from the next scrape on they are stored.
    pub fn ask(&self, names: &MetricNames, now: Millis) {
        self.registry_mut().ask(names, now);
    }

    pub fn wanted(&self) -> Arc<Wanted> {
        self.registry().wanted()
    }

    /// What other nodes should hear of our registry.
    pub fn asked(&self) -> Asked {
        self.registry().asked().clone()
    }

    pub fn merge_asked(&self, other: &Asked) {
        self.registry_mut().merge(other);
    }

    /// Forgets old samples, and names nobody asked for during the retention.
    pub fn expire(&self, now: Millis) {
        let retention = self.options().retention;
        self.registry_mut().forget_before(now.saturating_sub(retention));
        self.store_mut().expire(now);
    }

    /// Reads and stores one scrape together with `own` figures about it. Returns how many samples were stored.
    pub fn ingest(
        &self,
        scraped: Scraped<'_>,
        own: &[Gauge],
        cache: &mut SeriesCache<SeriesRef>,
        limits: Limits,
    ) -> Result<usize, Error> {
        let wanted = self.wanted();
        // The second turn is for a cache that is older than the store.
        for is_last in [false, true] {
            let Scraped { target, labels, time, body, format } = scraped;
            let mut batch = ingest::read(body, format, &wanted, labels, cache, limits)?;
            push_own(&mut batch, own, &wanted, labels);
            let result = self.store_mut().commit(target, time, batch);
            match result {
                Ok(committed) => {
                    cache.finish(committed.learned);
                    return Ok(committed.n_samples);
                }
                Err(store::Error::Gone) if !is_last => cache.clear(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(0)
    }

    /// Stores figures that need no reading: all that the target has, what is missing ends. No gauges at all is how a
    /// failed scrape or a vanished target is told.
    pub fn feed(
        &self,
        target: &str,
        labels: &Labels,
        time: Millis,
        gauges: &[Gauge],
    ) -> Result<usize, Error> {
        let mut batch = Batch::new();
        push_own(&mut batch, gauges, &self.wanted(), labels);
        Ok(self.store_mut().commit(target, time, batch)?.n_samples)
    }

    pub fn summary(&self) -> Summary {
        let requested_metric_names = self.registry().names();
        Summary { requested_metric_names, figures: self.view().figures() }
    }

    pub fn counters(&self) -> Counters {
        self.store().counters()
    }

    /// The store as bytes, for the other nodes.
    pub fn snapshot(&self) -> Vec<u8> {
        snapshot::encode(&self.view())
    }

    /// Replaces the store by a snapshot; what cannot be read changes nothing.
    pub fn restore(&self, bytes: &[u8]) -> Result<(), snapshot::Error> {
        let restored = snapshot::decode(bytes, self.options())?;
        let replaced = std::mem::replace(&mut *self.store_mut(), restored);
        // Freeing it takes as long as reading the other did: nobody should wait for that.
        drop(replaced);
        Ok(())
    }
}

fn push_own(batch: &mut Batch, gauges: &[Gauge], wanted: &Wanted, target: &Labels) {
    for gauge in gauges.iter().filter(|g| wanted.contains(&g.name)) {
        let labels: Vec<text::Label<'_>> = gauge
            .labels
            .iter()
            .map(|(name, value)| text::Label { name: name.into(), value: value.into() })
            .collect();
        batch.push_fresh(ingest::series_labels(&gauge.name, &labels, target), gauge.value, None);
    }
}
