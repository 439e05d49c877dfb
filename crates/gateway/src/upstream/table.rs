//! All functions with their pods, kept in step with the catalog.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, PoisonError, RwLock, Weak},
    time::Duration,
};

use ondemand::{Activity, Catalog, Difference, Function, Snapshot};
use tokio::time::{Instant, MissedTickBehavior};

use crate::{
    metrics::Metrics,
    upstream::{Pod, State, Upstream},
};

#[derive(Debug)]
pub(crate) struct Table {
    catalog: Catalog,
    metrics: Metrics,
    activity: Activity,
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// What the rest was made of.
    snapshot: Arc<Snapshot>,
    functions: HashMap<Arc<str>, Arc<Upstream>>,
}

const SWEEP: Duration = Duration::from_secs(2);

impl Table {
    pub(crate) fn new(catalog: Catalog, metrics: Metrics, activity: Activity) -> Arc<Self> {
        let table = Arc::new(Table { catalog, metrics, activity, known: RwLock::default() });
        table.follow();
        table
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Upstream>> {
        self.read(|known| known.functions.get(name).cloned())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Upstream>> {
        self.read(|known| known.functions.values().cloned().collect())
    }

    /// Takes over what the catalog says, if [`run`] has not come to it.
    pub(crate) fn catch_up(&self) {
        self.read(|_| ());
    }

    /// Whoever asks after a change of the catalog sees that change, whether or not [`run`] has come to it.
    fn read<T>(&self, reader: impl Fn(&Known) -> T) -> T {
        {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            if self.catalog.is_current(&known.snapshot) {
                return reader(&known);
            }
        }
        self.follow();
        reader(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over what the catalog says now, and tells those who wait for pods.
    fn follow(&self) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.catalog.current();
        if Arc::ptr_eq(&snapshot, &known.snapshot) {
            return;
        }
        let Known { snapshot: before, functions } = &mut *known;
        for Difference { key: name, after, .. } in Snapshot::differences(before, &snapshot) {
            match (functions.get(name), after) {
                (Some(upstream), Some(function)) => {
                    upstream.publish(State::of(function.clone(), &upstream.state().pods));
                }
                (None, Some(function)) => {
                    let state = State::of(function.clone(), &[]);
                    let (metrics, activity) = (self.metrics.of(name), self.activity.function(name));
                    let upstream = Upstream::new(name.clone(), metrics, activity, state);
                    functions.insert(name.clone(), Arc::new(upstream));
                }
                (_, None) => {
                    let Some(upstream) = functions.remove(name) else { continue };
                    let function = upstream.state().function.clone();
                    upstream.publish(State { function, pods: Vec::new(), gone: true });
                    self.metrics.forget(name);
                }
            }
        }
        known.snapshot = snapshot;
    }
}

/// Keeps the table in step and its connections fresh, until nobody uses it any more.
pub(crate) async fn run(table: Weak<Table>) {
    let Some(mut changes) = table.upgrade().map(|table| table.catalog.subscribe()) else { return };
    let mut sweep = tokio::time::interval(SWEEP);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let swept = tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
                None
            }
            now = sweep.tick() => Some(now),
        };
        let Some(table) = table.upgrade() else { return };
        table.follow();
        if let Some(now) = swept {
            table.sweep(now);
        }
    }
}

impl Table {
    fn sweep(&self, now: Instant) {
        for upstream in self.all() {
            for pod in &upstream.state().pods {
                pod.sweep(now);
            }
        }
    }
}

impl State {
    /// Pods known before keep their connections and counts.
    fn of(function: Arc<Function>, before: &[Arc<Pod>]) -> Self {
        let pods = function
            .ready()
            .filter_map(|pod| Some((&pod.name, SocketAddr::new(pod.ip?, pod.port?))))
            .map(|(name, address)| {
                let known = before.iter().find(|pod| pod.name == *name && pod.address == address);
                known.cloned().unwrap_or_else(|| Arc::new(Pod::new(name.clone(), address)))
            })
            .collect();
        State { function, pods, gone: false }
    }
}
