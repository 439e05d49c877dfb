//! Takes calls out of one function's queue whenever there is room for them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use store::{Counts, Take};
use tokio::{sync::Notify, time::Instant};

use super::{attempt::attempt, gauges::QueueGauges, places::Places};
use crate::gateway::Gateway;

/// Before the store is asked again that could not answer.
const PAUSE: Duration = Duration::from_millis(500);

pub(crate) struct Pump {
    pub gateway: Gateway,
    pub function: Arc<str>,
    pub holder: String,
    pub gauges: QueueGauges,
    pub places: Places,
    pub signal: Arc<Signal>,
}

/// Tells a pump that something may have changed.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    news: Notify,
    is_empty: AtomicBool,
}

impl Signal {
    pub(crate) fn queue_changed(&self) {
        self.news.notify_one();
    }

    /// A queue without anything in it does not care.
    pub(crate) fn pods_changed(&self) {
        if !self.is_empty.load(Ordering::Acquire) {
            self.news.notify_one();
        }
    }
}

impl Pump {
    /// Until it is dropped.
    pub(crate) async fn run(self) {
        // Work that waits keeps the function awake, and wakes it.
        let mut awake = None;
        loop {
            let counts = match self.pump().await {
                Ok(counts) => counts,
                Err(error) => {
                    tracing::warn!(function = %self.function, %error, "cannot take asynchronous calls");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let is_busy = counts.ready + counts.in_flight + counts.retry_pending > 0;
            if !is_busy {
                awake = None;
            } else if awake.is_none() {
                awake = Some(self.gateway.activity().begin(&self.function));
            }
            self.gauges.set(&self.function, counts);
            self.signal.is_empty.store(!is_busy, Ordering::Release);
            tokio::select! {
                () = self.signal.news.notified() => {}
                () = self.places.freed() => {}
            }
        }
    }

    /// Takes as long as there is room, and counts what is left.
    async fn pump(&self) -> store::Result<Counts> {
        let store = self.gateway.store();
        while let Some(upstream) = self.gateway.table().get(&self.function) {
            let state = upstream.state();
            let (now, in_flight) = self.places.room(&state);
            if now == 0 {
                break;
            }
            let leased = Instant::now();
            let lease = self.gateway.options().async_lease;
            let take = Take { holder: self.holder.clone(), in_flight, now, lease };
            let taken = store.take(&self.function, take).await?;
            if taken.is_empty() {
                break;
            }
            for taken in taken {
                // `room` counted it, and only this task takes places
                let Some(place) = self.places.take(&upstream, &state) else { continue };
                let attempt = attempt(self.gateway.clone(), upstream.clone(), taken, place, leased);
                self.gateway.tasks().spawn(attempt);
            }
        }
        store.counts(&self.function).await
    }
}
