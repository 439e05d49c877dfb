//! What waits in the queues, as gauges. Only the master has them, so that a sum over all nodes counts nothing twice.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use ondemand::Catalog;
use store::Counts;

use crate::metrics::{Family, Kind, Sample};

/// A handle to the latest counts.
#[derive(Clone, Debug, Default)]
pub struct QueueGauges(Arc<Mutex<Option<BTreeMap<String, Counts>>>>);

impl QueueGauges {
    /// Of every function of the catalog, called or not; empty on nodes that do not dispatch.
    pub fn read(&self, catalog: &Catalog) -> BTreeMap<String, Counts> {
        let Some(mut counts) = self.lock().clone() else { return BTreeMap::new() };
        let snapshot = catalog.current();
        counts.retain(|name, _| snapshot.functions.contains_key(name.as_str()));
        for name in snapshot.functions.keys() {
            counts.entry(name.to_string()).or_default();
        }
        counts
    }

    /// Of one function; none on nodes that do not dispatch.
    pub fn of(&self, function: &str) -> Option<Counts> {
        self.lock().as_ref().map(|counts| counts.get(function).copied().unwrap_or_default())
    }

    pub fn families(&self, catalog: &Catalog, now: Timestamp) -> Vec<Family> {
        let counts = self.read(catalog);
        let gauge = |name, help, value: &dyn Fn(&Counts) -> f64| {
            let samples = counts.iter().map(|(function, counts)| Sample {
                suffix: "",
                labels: vec![("function", function.clone())],
                value: value(counts),
            });
            Family { name, help, kind: Kind::Gauge, samples: samples.collect() }
        };
        let age = |counts: &Counts| {
            let oldest = counts.oldest_unix_ms.unwrap_or_else(|| now.as_millisecond());
            (now.as_millisecond() - oldest).max(0) as f64 / 1000.0
        };
        vec![
            gauge(
                "slimfaas_function_queue_ready_items",
                "Asynchronous calls that wait for their turn.",
                &|counts| counts.ready as f64,
            ),
            gauge("slimfaas_function_queue_in_flight_items", "Asynchronous calls under way.", &|counts| {
                counts.in_flight as f64
            }),
            gauge(
                "slimfaas_function_queue_retry_pending_items",
                "Asynchronous calls that wait for their next attempt.",
                &|counts| counts.retry_pending as f64,
            ),
            gauge("ballast_function_queue_dead_items", "Asynchronous calls that were given up.", &|counts| {
                counts.dead as f64
            }),
            gauge(
                "ballast_function_queue_oldest_seconds",
                "How long the oldest of those waits that wait for their turn.",
                &age,
            ),
        ]
    }

    pub(crate) fn set(&self, function: &str, counts: Counts) {
        self.lock().get_or_insert_default().insert(function.to_owned(), counts);
    }

    /// From now on it is for this node to tell, or no longer.
    pub(crate) fn switch(&self, is_on: bool) {
        *self.lock() = is_on.then(BTreeMap::new);
    }

    fn lock(&self) -> MutexGuard<'_, Option<BTreeMap<String, Counts>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
