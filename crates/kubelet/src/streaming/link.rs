//! What the two ways to carry several streams over one connection have in common: a task that reads, a task that
//! writes, and one for each stream that leads out.

use std::time::Duration;

use tokio::{task::JoinHandle, time};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Of a stream, in each direction: a sender that is further ahead waits.
pub const BUFFER: usize = 32 << 10;
/// The most that one outgoing frame carries.
pub const CHUNK: usize = 16 << 10;
/// Outgoing frames that wait for the connection.
pub const QUEUE: usize = 4;
/// How often a silent client is written to, to learn whether it is still there.
pub const PING_PERIOD: Duration = Duration::from_secs(5);
/// How long a client has to hang up, once everything was said.
const FAREWELL: Duration = Duration::from_secs(5);

/// One client's connection. What is left of it ends when this is dropped.
pub struct Link {
    pumps: Pumps,
    /// Everything was said: the writer says goodbye after what is queued.
    finishing: CancellationToken,
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
}

/// The tasks that carry the node's side of each stream into the connection.
#[derive(Clone, Default)]
pub struct Pumps {
    tasks: TaskTracker,
    /// The client has hung up, or cannot be reached.
    gone: CancellationToken,
}

// === impl Pumps ===

impl Pumps {
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let gone = self.gone.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = work => {}
                () = gone.cancelled() => {}
            }
        });
    }
}

// === impl Link ===

impl Link {
    /// `write` is told when to say goodbye.
    pub fn spawn<R, W>(pumps: Pumps, read: R, write: impl FnOnce(CancellationToken) -> W) -> Self
    where
        R: Future<Output = ()> + Send + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        let finishing = CancellationToken::new();
        let write = write(finishing.clone());
        // The connection is gone as soon as it cannot be read or cannot be written.
        let (guard, other) = (pumps.gone.clone().drop_guard(), pumps.gone.clone().drop_guard());
        let reader = tokio::spawn(async move {
            let _guard = guard;
            read.await;
        });
        let writer = tokio::spawn(async move {
            let _guard = other;
            write.await;
        });
        Self { pumps, finishing, reader, writer }
    }

    /// Cancelled when the client is gone.
    pub fn gone(&self) -> CancellationToken {
        self.pumps.gone.clone()
    }

    /// Sends what the streams still hold, says goodbye, and waits for the client to hang up: to close a connection
    /// that has something unread would take back what was sent last. The streams' other ends have to be dropped before.
    pub async fn finish(mut self) {
        self.pumps.tasks.close();
        self.pumps.tasks.wait().await;
        self.finishing.cancel();
        let _ = (&mut self.writer).await;
        let _ = time::timeout(FAREWELL, &mut self.reader).await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.reader.abort();
        self.writer.abort();
        self.pumps.gone.cancel();
    }
}
