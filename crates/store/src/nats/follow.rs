//! Keeps the [`View`] in step with the stream.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_nats::jetstream::{
    consumer::push::OrderedConfig,
    stream::{self, Stream},
};
use futures::{StreamExt, stream::BoxStream};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{
    server::{Server, unavailable},
    view::{Subject, View},
};
use crate::{
    Error, Result,
    mailbox::{self, Mailbox},
    queue,
};

/// A view that lags this long is read anew: the server that sent it may be gone.
const STALE: Duration = Duration::from_secs(1);

pub struct Following {
    view: Mutex<View>,
    /// How far the view is; none until it first caught up.
    applied: watch::Sender<Option<u64>>,
    listeners: Mutex<Vec<Mailbox<()>>>,
    restart: Notify,
    patience: Duration,
    stop: CancellationToken,
}

/// Stops to follow when dropped.
pub struct Guard(Arc<Following>);

pub fn start(server: Arc<Server>, stream: Stream, name: String) -> Guard {
    let following = Arc::new(Following {
        view: Mutex::default(),
        applied: watch::Sender::new(None),
        listeners: Mutex::default(),
        restart: Notify::new(),
        patience: server.patience,
        stop: CancellationToken::new(),
    });
    tokio::spawn(following.clone().run(server, stream, name));
    Guard(following)
}

impl std::ops::Deref for Guard {
    type Target = Following;

    fn deref(&self) -> &Following {
        &self.0
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.stop.cancel();
    }
}

impl Following {
    pub fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the view holds everything up to `sequence`.
    pub async fn reach(&self, sequence: u64) -> Result<()> {
        let mut applied = self.applied.subscribe();
        let wait = async {
            loop {
                let reached = applied.wait_for(|applied| applied.is_some_and(|applied| applied >= sequence));
                if tokio::time::timeout(STALE, reached).await.is_ok() {
                    return;
                }
                self.restart.notify_one();
            }
        };
        let late = |_| Error::Unavailable(format!("NATS does not tell of the queues up to {sequence}"));
        tokio::time::timeout(self.patience, wait).await.map_err(late)
    }

    /// All that hold anything, then those that change.
    pub fn changes(&self) -> BoxStream<'static, String> {
        let (mailbox, stream) = mailbox::new();
        let view = self.view();
        for (queue, line) in &view.lines {
            if !line.queue.is_empty() {
                mailbox.tell(queue, ());
            }
        }
        self.listeners().push(mailbox);
        drop(view);
        stream.map(|(queue, ())| queue).boxed()
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Mailbox<()>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, queue: &str) {
        self.listeners().retain(|mailbox| mailbox.tell(queue, ()));
    }

    async fn run(self: Arc<Self>, server: Arc<Server>, stream: Stream, name: String) {
        let stop = self.stop.clone();
        let follow = async {
            loop {
                if let Err(error) = self.follow(&server, &stream, &name).await {
                    tracing::debug!(%error, "reading the queues anew");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        };
        stop.run_until_cancelled(follow).await;
        self.listeners().clear();
    }

    /// Reads everything from the beginning and goes on until it cannot, or is told to begin again.
    async fn follow(&self, server: &Server, stream: &Stream, name: &str) -> Result<()> {
        // The last message may have expired: then it is never sent, and this number is all that tells of it.
        let last = stream.get_info().await.map_err(unavailable)?.state.last_sequence;
        let config = OrderedConfig {
            deliver_subject: server.client.new_inbox(),
            headers_only: true,
            ..Default::default()
        };
        let consumer = stream.create_consumer(config).await.map_err(unavailable)?;
        let mut pending = consumer.cached_info().num_pending;
        let mut messages = consumer.messages().await.map_err(unavailable)?;
        let mut fresh = View::default();
        while pending > 0 {
            let message = tokio::time::timeout(self.patience, messages.next()).await.map_err(unavailable)?;
            let message = message.ok_or_else(|| unavailable("the queues' stream ended"))?;
            let message = message.map_err(unavailable)?;
            let info = message.info().map_err(unavailable)?;
            pending = info.pending;
            if let Some(subject) = Subject::read(name, &message.subject) {
                fresh.apply(subject, info.stream_sequence, message.headers.as_ref());
            }
        }
        fresh.applied = fresh.applied.max(last);
        self.replace(fresh);
        loop {
            let due = self.view().next_due();
            let wait = due.map_or(Duration::MAX, |due| {
                Duration::from_millis(u64::try_from(due - queue::now()).unwrap_or(0))
            });
            tokio::select! {
                message = messages.next() => {
                    let message = message.ok_or_else(|| unavailable("the queues' stream ended"))?;
                    let message = message.map_err(unavailable)?;
                    let info = message.info().map_err(unavailable)?;
                    if let Some(subject) = Subject::read(name, &message.subject) {
                        let queue = self.view().apply(subject, info.stream_sequence, message.headers.as_ref());
                        self.tell(&queue);
                    }
                    self.applied.send_replace(Some(info.stream_sequence));
                }
                () = tokio::time::sleep(wait) => {
                    let due = self.view().advance(queue::now());
                    due.iter().for_each(|queue| self.tell(queue));
                }
                () = self.restart.notified() => return Ok(()),
            }
        }
    }

    fn replace(&self, fresh: View) {
        let applied = fresh.applied;
        let queues: Vec<String> = fresh.lines.keys().cloned().collect();
        *self.view() = fresh;
        self.applied.send_replace(Some(applied));
        queues.iter().for_each(|queue| self.tell(queue));
    }
}

/// What the stream is like.
pub fn config(name: &str, replicas: usize) -> stream::Config {
    stream::Config {
        name: format!("{name}-queues"),
        description: Some("queues of Ballast".to_owned()),
        subjects: vec![format!("{name}.item.*.*"), format!("{name}.state.*.*"), format!("{name}.gate.*")],
        max_messages_per_subject: 1,
        storage: stream::StorageType::File,
        num_replicas: replicas,
        allow_direct: true,
        allow_message_ttl: true,
        allow_atomic_publish: true,
        ..Default::default()
    }
}
