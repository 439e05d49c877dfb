//! After a change of protocol (WebSocket) the gateway only carries bytes.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{
    admission::Place,
    gateway::Gateway,
    upstream::{Connection, Taken},
};

/// A client that asked for another protocol. Its connection counts as long as it lasts, whatever it speaks.
pub(crate) struct Upgrading {
    pub client: OnUpgrade,
    pub place: Place,
}

/// Counts what moves in either direction.
struct Moving<T> {
    stream: T,
    moved: Arc<AtomicU64>,
}

/// Carries bytes both ways until both sides have ended, nothing has moved for too long, or the gateway ends. The call
/// lasts as long.
pub(crate) fn bridge(
    gateway: &Gateway,
    client: Upgrading,
    pod: OnUpgrade,
    connection: Connection,
    taken: Taken,
) {
    let ended = gateway.ending().ended().clone();
    let limit = gateway.options().body_idle_timeout;
    let Upgrading { client, place } = client;
    gateway.tasks().spawn(async move {
        let moved = Arc::<AtomicU64>::default();
        let carried = async {
            let ((), pod, client) = tokio::join!(connection.finish(), pod, client);
            let (mut pod, client) = match (pod, client) {
                (Ok(pod), Ok(client)) => (TokioIo::new(pod), TokioIo::new(client)),
                (pod, client) => {
                    tracing::debug!(?pod, ?client, "a change of protocol failed");
                    return;
                }
            };
            // All that moves passes the client's side.
            let mut client = Moving { stream: client, moved: moved.clone() };
            // An error is how most such connections end: one side just goes.
            if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut pod).await {
                tracing::debug!(%error, "a connection with changed protocol ended");
            }
        };
        tokio::select! {
            () = carried => {}
            () = stands_still(&moved, limit) => tracing::debug!("a connection with changed protocol stood still"),
            () = ended.cancelled() => {}
        }
        drop((taken, place));
    });
}

/// Ends once nothing moved for so long, or a little later.
async fn stands_still(moved: &AtomicU64, limit: Duration) {
    loop {
        let before = moved.load(Ordering::Relaxed);
        tokio::time::sleep(limit).await;
        if moved.load(Ordering::Relaxed) == before {
            return;
        }
    }
}

impl<T> Moving<T> {
    fn count(&self, n: usize) {
        self.moved.fetch_add(n as u64, Ordering::Relaxed);
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Moving<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.count(buffer.filled().len() - before);
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Moving<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(n)) = written {
            self.count(n);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
