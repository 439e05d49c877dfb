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

/// One call on one pod, until dropped.
pub(crate) struct PodPlace {
    places: Places,
    pub pod: Arc<Pod>,
}

impl Places {
    /// How many more this node may call now, and how many all nodes together.
    pub(crate) fn room(&self, state: &State) -> (usize, usize) {
        let settings = &state.function.settings;
        let per_pod = settings.parallel_per_pod as usize;
        let all = (settings.parallel as usize).min(state.pods.len().saturating_mul(per_pod));
        let taken = self.taken();
        let free_on = |pod: &Arc<Pod>| per_pod.saturating_sub(taken.get(&pod.address).copied().unwrap_or(0));
        let free: usize = state.pods.iter().map(free_on).sum();
        // calls on pods that are gone count too
        (all.saturating_sub(taken.values().sum()).min(free), all)
    }

    /// The least loaded pod that has room.
    pub(crate) fn take(&self, upstream: &Upstream, state: &State) -> Option<PodPlace> {
        let per_pod = state.function.settings.parallel_per_pod as usize;
        let mut taken = self.taken();
        let has_room = |pod: &Arc<Pod>| taken.get(&pod.address).is_none_or(|taken| *taken < per_pod);
        let pod = upstream.pick(&state.pods, has_room)?.clone();
        *taken.entry(pod.address).or_default() += 1;
        Some(PodPlace { places: self.clone(), pod })
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
