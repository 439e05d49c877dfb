//! One function: its pods as they are now, and who waits for one.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use ondemand::{Function, FunctionActivity};
use tokio::sync::watch;

use crate::{metrics::FunctionMetrics, upstream::pod::Pod};

#[derive(Debug)]
pub(crate) struct Upstream {
    pub name: Arc<str>,
    pub metrics: Arc<FunctionMetrics>,
    pub activity: FunctionActivity,
    state: watch::Sender<Arc<State>>,
    /// Where the search for the least loaded begins, so that equals take turns.
    turn: AtomicUsize,
}

#[derive(Debug)]
pub(crate) struct State {
    pub function: Arc<Function>,
    /// Those that can be asked.
    pub pods: Vec<Arc<Pod>>,
    /// The function is no longer in the catalog.
    pub gone: bool,
}

impl Upstream {
    pub(crate) fn new(
        name: Arc<str>,
        metrics: Arc<FunctionMetrics>,
        activity: FunctionActivity,
        state: State,
    ) -> Self {
        let (state, turn) = (watch::Sender::new(Arc::new(state)), AtomicUsize::new(0));
        Upstream { name, metrics, activity, state, turn }
    }

    pub(crate) fn state(&self) -> Arc<State> {
        self.state.borrow().clone()
    }

    /// Tells of every change after this call.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<State>> {
        self.state.subscribe()
    }

    pub(crate) fn publish(&self, state: State) {
        self.state.send_replace(Arc::new(state));
    }

    /// The least loaded of `pods` that `is_wanted`; equals take turns.
    pub(crate) fn pick<'a>(
        &self,
        pods: &'a [Arc<Pod>],
        is_wanted: impl Fn(&Arc<Pod>) -> bool,
    ) -> Option<&'a Arc<Pod>> {
        if let [only] = pods {
            return is_wanted(only).then_some(only);
        }
        let first = self.turn.fetch_add(1, Ordering::Relaxed).checked_rem(pods.len())?;
        let (before, after) = pods.split_at(first);
        after.iter().chain(before).filter(|pod| is_wanted(pod)).min_by_key(|pod| pod.load())
    }
}
