//! Makes the calls that wait. One node does so at a time: the master.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use ondemand::Snapshot;
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;

use super::{
    callback,
    gauges::QueueGauges,
    places::Places,
    pump::{Pump, Signal},
};
use crate::gateway::Gateway;

/// Before the store is asked again that could not tell of changes.
const PAUSE: Duration = Duration::from_millis(500);

pub struct Dispatcher {
    gateway: Gateway,
    holder: String,
    may_work: watch::Receiver<bool>,
    gauges: QueueGauges,
    /// They outlive a loss of mastership: calls under way go on, and take up room.
    places: HashMap<String, Places>,
}

/// The pumps of one time as master; dropping it stops them at once.
#[derive(Default)]
struct Pumps {
    tasks: JoinSet<()>,
    signals: HashMap<String, (Arc<Signal>, AbortHandle)>,
}

impl Dispatcher {
    /// `holder` names this node in the store; `may_work` is true while it is the master.
    pub fn new(gateway: Gateway, holder: impl Into<String>, may_work: watch::Receiver<bool>) -> Self {
        let (gauges, places) = (QueueGauges::default(), HashMap::new());
        Dispatcher { gateway, holder: holder.into(), may_work, gauges, places }
    }

    pub fn gauges(&self) -> QueueGauges {
        self.gauges.clone()
    }

    /// Calls that are under way when this ends go on in the gateway's tasks.
    pub async fn run(mut self, stop: CancellationToken) {
        let (mut may_work, ending) = (self.may_work.clone(), self.gateway.ending().begun().clone());
        let work = async {
            while may_work.wait_for(|may| *may).await.is_ok() {
                self.gauges.switch(true);
                let mut mastership = may_work.clone();
                tokio::select! {
                    () = self.work() => {}
                    _ = mastership.wait_for(|may| !*may) => {}
                }
                self.gauges.switch(false);
            }
        };
        // a gateway that ends waits for its calls: there must be no new ones
        stop.run_until_cancelled(ending.run_until_cancelled(work)).await;
    }

    /// Forever.
    async fn work(&mut self) {
        let mut pumps = Pumps::default();
        let mut catalog = self.gateway.catalog().subscribe();
        let mut known = catalog.borrow().clone();
        let store = self.gateway.store().clone();
        let mut queues = always(store.clone(), |store| async move { store.queue_changes().await });
        let mut callbacks = always(store, |store| async move { store.watch(callback::PREFIX).await });
        loop {
            tokio::select! {
                queue = queues.next() => {
                    let Some(queue) = queue else { return };
                    self.pump(&mut pumps, queue).queue_changed();
                }
                change = callbacks.next() => {
                    let Some(change) = change else { return };
                    self.gateway.callbacks().tell(&change.key);
                }
                changed = catalog.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let before = std::mem::replace(&mut known, catalog.borrow_and_update().clone());
                    for changed in Snapshot::differences(&before, &known) {
                        if let Some((signal, _)) = pumps.signals.get(&**changed.key) {
                            signal.pods_changed();
                        }
                    }
                }
            }
        }
    }

    fn pump<'a>(&mut self, pumps: &'a mut Pumps, queue: String) -> &'a Signal {
        let places = self.places.entry(queue.clone()).or_default();
        let (signal, _) = pumps.signals.entry(queue).or_insert_with_key(|queue| {
            let signal = Arc::new(Signal::default());
            let pump = Pump {
                gateway: self.gateway.clone(),
                function: queue.as_str().into(),
                holder: self.holder.clone(),
                gauges: self.gauges.clone(),
                places: places.clone(),
                signal: signal.clone(),
            };
            (signal, pumps.tasks.spawn(pump.run()))
        });
        signal
    }
}

/// Begins again whenever the store can no longer tell.
fn always<T, F>(
    store: store::Shared,
    open: impl Fn(store::Shared) -> F + Send + Sync + 'static,
) -> BoxStream<'static, T>
where
    T: Send + 'static,
    F: Future<Output = store::Result<BoxStream<'static, T>>> + Send + 'static,
{
    let again = futures::stream::unfold((store, Arc::new(open)), |(store, open)| async move {
        loop {
            match open(store.clone()).await {
                Ok(stream) => return Some((stream, (store, open))),
                Err(error) => {
                    tracing::warn!(%error, "the store does not tell of changes");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    });
    again.flatten().boxed()
}
