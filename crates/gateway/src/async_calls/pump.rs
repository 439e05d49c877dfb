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

use super::{
    attempt::attempt,
    gauges::QueueGauges,
    places::{Offer, Others, Places},
};
use crate::{gateway::Gateway, options::Options};

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
    ///
    /// Another node may have been the master until now, and its calls go on. The store knows on which pods, and gives
    /// out none beyond what a pod may have; this node asks for their whereabouts once less was given out than it
    /// offered to make.
    async fn pump(&self) -> store::Result<Counts> {
        let store = self.gateway.store();
        let mut others = Others::default();
        loop {
            let counts = store.counts(&self.function).await?;
            let Some(upstream) = self.gateway.table().get(&self.function) else { return Ok(counts) };
            let state = upstream.state();
            let Offer { pods, in_flight } = self.places.offer(&upstream, &state, &others, counts.ready);
            if pods.is_empty() {
                return Ok(counts);
            }
            let Options { async_body_limit, head_limit, async_lease, .. } = *self.gateway.options();
            // A head is kept as JSON, which may double it.
            let mut room = self.gateway.async_memory().batch(async_body_limit + 2 * head_limit).await;
            let take = Take {
                holder: self.holder.clone(),
                in_flight,
                spots: pods.iter().map(|pod| pod.address.to_string().into()).collect(),
                per_spot: state.function.settings.parallel_per_pod as usize,
                bytes: room.bytes() as u64,
                lease: async_lease,
            };
            let leased = Instant::now();
            let taken = store.take(&self.function, take).await?;
            let (given, offered) = (taken.len(), pods.len());
            for taken in taken {
                let place = self.places.take(pods[taken.spot].clone());
                let room = room.split(taken.head.len() + taken.body.len());
                let attempt = attempt(self.gateway.clone(), upstream.clone(), taken, room, place, leased);
                self.gateway.tasks().spawn(attempt);
            }
            if given < offered {
                let known =
                    std::mem::replace(&mut others, self.places.others(&store.spots(&self.function).await?));
                if given == 0 && others == known {
                    return Ok(counts);
                }
            }
        }
    }
}
