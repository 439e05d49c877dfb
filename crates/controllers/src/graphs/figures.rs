//! What the controllers of graphs show on pages of metrics.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use decide::rollout::Counts;
use engine::Key;
use metrics::Gauge;

/// A handle; clones count together.
#[derive(Clone, Default)]
pub struct Figures(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// How often plans were made, and how long that took in all, by controller.
    plans: BTreeMap<&'static str, (u64, Duration)>,
    /// By kind and name.
    sets: HashMap<(String, Key), Set>,
    definitions: BTreeMap<String, bool>,
}

/// One Set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Set {
    pub desired: u32,
    pub counts: Counts,
    pub is_rolling_out: bool,
}

impl Figures {
    pub(super) fn planned(&self, controller: &'static str, took: Duration) {
        let mut state = self.lock();
        let (count, total) = state.plans.entry(controller).or_default();
        *count += 1;
        *total += took;
    }

    pub(super) fn set(&self, kind: &str, key: &Key, set: Option<Set>) {
        let place = (kind.to_owned(), key.clone());
        let mut state = self.lock();
        match set {
            Some(set) => drop(state.sets.insert(place, set)),
            None => drop(state.sets.remove(&place)),
        }
    }

    pub(super) fn definition(&self, name: &str, is_active: Option<bool>) {
        let mut state = self.lock();
        match is_active {
            Some(is_active) => drop(state.definitions.insert(name.to_owned(), is_active)),
            None => drop(state.definitions.remove(name)),
        }
    }

    pub fn gauges(&self) -> Vec<Gauge> {
        let state = self.lock();
        let gauge = |name: &str, labels: &[(&str, &str)], value: f64| Gauge {
            name: name.to_owned(),
            labels: labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            value,
        };
        let mut gauges = Vec::new();
        for (controller, (count, total)) in &state.plans {
            let labels = [("controller", *controller)];
            gauges.push(gauge("ballast_graph_plans_count", &labels, *count as f64));
            gauges.push(gauge("ballast_graph_plans_seconds_sum", &labels, total.as_secs_f64()));
        }
        let n_active = state.definitions.values().filter(|is_active| **is_active).count();
        gauges.push(gauge("ballast_graph_definitions", &[("state", "Active")], n_active as f64));
        let n_inactive = state.definitions.len() - n_active;
        gauges.push(gauge("ballast_graph_definitions", &[("state", "Inactive")], n_inactive as f64));
        let mut kinds: BTreeMap<&str, (usize, u32, Counts)> = BTreeMap::new();
        for ((kind, _), set) in &state.sets {
            let (n_rolling, desired, counts) = kinds.entry(kind).or_default();
            *n_rolling += usize::from(set.is_rolling_out);
            *desired = desired.saturating_add(set.desired);
            counts.ready_replicas += set.counts.ready_replicas;
            counts.updated_replicas += set.counts.updated_replicas;
        }
        for (kind, (n_rolling, desired, counts)) in kinds {
            let labels = [("kind", kind)];
            gauges.push(gauge("ballast_set_rollouts_in_progress", &labels, n_rolling as f64));
            gauges.push(gauge("ballast_set_replicas_desired", &labels, f64::from(desired)));
            gauges.push(gauge("ballast_set_replicas_ready", &labels, counts.ready_replicas as f64));
            gauges.push(gauge("ballast_set_replicas_updated", &labels, counts.updated_replicas as f64));
        }
        gauges
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
