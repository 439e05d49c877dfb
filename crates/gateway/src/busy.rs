//! Whether a connection that carries many calls at once has anything to do.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::body::{Body, BoxError};

/// Counts the calls of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Busy(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    active: AtomicUsize,
    begun: AtomicU64,
}

/// A call, until dropped.
#[derive(Debug)]
pub(crate) struct Active(Busy);

/// The body of an answer, and the call that ends with it.
#[derive(Debug)]
pub(crate) struct WithCall {
    body: Body,
    _call: Active,
}

impl Busy {
    pub(crate) fn begin(&self) -> Active {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        self.0.active.fetch_add(1, Ordering::Relaxed);
        Active(self.clone())
    }

    /// Ends after so long without a call, or a little later.
    pub(crate) async fn idle(&self, limit: Duration) {
        loop {
            let begun = self.0.begun.load(Ordering::Relaxed);
            tokio::time::sleep(limit).await;
            let is_idle = self.0.active.load(Ordering::Relaxed) == 0;
            if is_idle && self.0.begun.load(Ordering::Relaxed) == begun {
                return;
            }
        }
    }
}

impl Active {
    pub(crate) fn until_sent(self, body: Body) -> WithCall {
        WithCall { body, _call: self }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

impl http_body::Body for WithCall {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
