//! How many asynchronous calls each pod of a function has.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::upstream::{Pod, State, Upstream};

#[derive(Clone, Debug, Default)]
pub(crate) struct Places(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    taken: Mutex<HashMap<SocketAddr, usize>>,
    /// That a place became free.
    freed: Notify,
}

/// Calls that other nodes make, as the leases in the store tell.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Others {
    on: HashMap<SocketAddr, usize>,
    /// Those on pods that are gone included.
    all: usize,
}

/// What this node could make of more calls.
pub(crate) struct Offer {
    /// One for each.
    pub pods: Vec<Arc<Pod>>,
    /// How many may be under way on all pods and by all nodes.
    pub in_flight: usize,
}

/// One call on one pod, until dropped.
pub(crate) struct PodPlace {
    places: Places,
    pub pod: Arc<Pod>,
}

impl Places {
    /// Pods for at most `wanted` more calls, as far as they have room, the least loaded first.
    pub(crate) fn offer(&self, upstream: &Upstream, state: &State, others: &Others, wanted: usize) -> Offer {
        let settings = &state.function.settings;
        let per_pod = settings.parallel_per_pod as usize;
        let in_flight = (settings.parallel as usize).min(state.pods.len().saturating_mul(per_pod));
        let mut load = self.taken().clone();
        // calls on pods that are gone count too
        let under_way = load.values().sum::<usize>() + others.all;
        for (address, count) in &others.on {
            *load.entry(*address).or_default() += count;
        }
        let mut pods = Vec::new();
        while pods.len() < wanted.min(in_flight.saturating_sub(under_way)) {
            let has_room = |pod: &Arc<Pod>| load.get(&pod.address).is_none_or(|count| *count < per_pod);
            let Some(pod) = upstream.pick(&state.pods, has_room) else { break };
            *load.entry(pod.address).or_default() += 1;
            pods.push(pod.clone());
        }
        Offer { pods, in_flight }
    }

    pub(crate) fn take(&self, pod: Arc<Pod>) -> PodPlace {
        *self.taken().entry(pod.address).or_default() += 1;
        PodPlace { places: self.clone(), pod }
    }

    /// What is leased beyond the calls of this node.
    pub(crate) fn others(&self, leased: &HashMap<Arc<str>, usize>) -> Others {
        let taken = self.taken();
        let mut others = Others::default();
        for (spot, count) in leased {
            let address = spot.parse().ok();
            let ours = address.and_then(|address| taken.get(&address)).copied().unwrap_or(0);
            let theirs = count.saturating_sub(ours);
            others.all += theirs;
            others.on.extend(address.map(|address| (address, theirs)));
        }
        others
    }

    pub(crate) async fn freed(&self) {
        self.0.freed.notified().await;
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<SocketAddr, usize>> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PodPlace {
    fn drop(&mut self) {
        {
            let mut taken = self.places.taken();
            if let Some(count) = taken.get_mut(&self.pod.address) {
                *count -= 1;
                if *count == 0 {
                    taken.remove(&self.pod.address);
                }
            }
        }
        self.places.0.freed.notify_one();
    }
}
