//! How the gateway ends: first no more is accepted and calls under way go on, then nothing does.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::atomic::{AtomicBool, Ordering},
    task::Poll,
};

use tokio_util::sync::CancellationToken;

#[derive(Debug, Default)]
pub(crate) struct Ending {
    is_announced: AtomicBool,
    /// Set before either token is cancelled.
    has_begun: AtomicBool,
    begun: CancellationToken,
    ended: CancellationToken,
}

impl Ending {
    /// Nothing ends yet, but nobody should come here any more.
    pub(crate) fn announce(&self) {
        self.is_announced.store(true, Ordering::Release);
    }

    pub(crate) fn is_announced(&self) -> bool {
        self.is_announced.load(Ordering::Acquire)
    }

    pub(crate) fn begin(&self) {
        self.announce();
        self.has_begun.store(true, Ordering::Release);
        self.begun.cancel();
    }

    /// The grace period is over.
    pub(crate) fn end(&self) {
        self.begin();
        self.ended.cancel();
    }

    pub(crate) fn begun(&self) -> &CancellationToken {
        &self.begun
    }

    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Polls a connection to its end; once the gateway is ending, after telling it to `finish`. None if the gateway has
    /// ended before.
    ///
    /// The tokens are polled at first, so that they wake this task, and then only once there is something to see: a
    /// connection is polled several times for each call, and all share the tokens' locks.
    pub(crate) async fn govern<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        finish: impl Fn(Pin<&mut C>),
    ) -> Option<C::Output> {
        let (mut begun, mut ended) = (pin!(self.begun.cancelled()), pin!(self.ended.cancelled()));
        let (mut is_first, mut is_told) = (true, false);
        poll_fn(|cx| {
            if std::mem::take(&mut is_first) || self.has_begun.load(Ordering::Acquire) {
                if ended.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                if !is_told && begun.as_mut().poll(cx).is_ready() {
                    is_told = true;
                    finish(connection.as_mut());
                }
            }
            connection.as_mut().poll(cx).map(Some)
        })
        .await
    }
}
