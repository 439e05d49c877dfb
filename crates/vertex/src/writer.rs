//! Hands messages on along the edges, into buffers that may be full.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    buffer::{Error, NewMessage, Service, Shared},
    config::Edge,
    message::Message,
    metrics::Figures,
    route::partition,
};

/// How often a buffer is asked how full it is, and how often while it is full.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_WHEN_FULL: Duration = Duration::from_millis(100);
const RETRY: Duration = Duration::from_millis(10);
const RETRY_WHEN_AWAY: Duration = Duration::from_millis(100);

pub struct Writer {
    edges: Vec<Outgoing>,
}

struct Outgoing {
    edge: Edge,
    partitions: Vec<Target>,
}

struct Target {
    buffer: Shared,
    /// How many more may be written before somebody looks again. Full until then.
    room: Arc<AtomicI64>,
    _looking: AbortOnDropHandle<()>,
}

/// It was told to stop before everything was written.
#[derive(Debug)]
pub struct Stopped;

impl Writer {
    /// # Errors
    /// When a buffer cannot be opened.
    pub async fn open(service: &dyn Service, edges: Vec<Edge>) -> Result<Self, Error> {
        let mut outgoing = Vec::with_capacity(edges.len());
        for edge in edges {
            let mut partitions = Vec::with_capacity(edge.buffers.len());
            for name in &edge.buffers {
                partitions.push(Target::new(service.open(name).await?, &edge));
            }
            outgoing.push(Outgoing { edge, partitions });
        }
        Ok(Writer { edges: outgoing })
    }

    /// Returns once every message is in every buffer it belongs to, or was discarded because the edge says so.
    pub async fn write(
        &self,
        messages: &[Message],
        figures: &Figures,
        stop: &CancellationToken,
    ) -> Result<(), Stopped> {
        let mut writes = Vec::new();
        for Outgoing { edge, partitions } in &self.edges {
            let mut parts: Vec<Vec<NewMessage>> = vec![Vec::new(); partitions.len()];
            for message in messages.iter().filter(|message| edge.condition.allows(message)) {
                let part = partition(message, partitions.len(), edge.by_keys);
                let (id, payload) = message.clone().encode();
                parts[part].push(NewMessage { id: Some(id), payload });
            }
            for (target, part) in partitions.iter().zip(parts) {
                if !part.is_empty() {
                    writes.push(target.write(part, edge.discards_when_full, figures, stop));
                }
            }
        }
        futures::future::try_join_all(writes).await.map(|_| ())
    }
}

impl Target {
    fn new(buffer: Shared, edge: &Edge) -> Self {
        let room = Arc::new(AtomicI64::new(0));
        let looking = look(buffer.clone(), edge.limits.usable(), room.clone());
        Target { buffer, room, _looking: AbortOnDropHandle::new(tokio::spawn(looking)) }
    }

    async fn write(
        &self,
        mut messages: Vec<NewMessage>,
        discards: bool,
        figures: &Figures,
        stop: &CancellationToken,
    ) -> Result<(), Stopped> {
        let mut told = false;
        while !messages.is_empty() {
            if stop.is_cancelled() {
                return Err(Stopped);
            }
            let room = usize::try_from(self.room.load(Ordering::Relaxed)).unwrap_or(0);
            if room == 0 {
                if discards && !self.is_unknown() {
                    Figures::add(&figures.dropped, messages.len());
                    return Ok(());
                }
                tokio::time::sleep(RETRY).await;
                continue;
            }
            let rest = messages.split_off(room.min(messages.len()));
            self.room.fetch_sub(messages.len() as i64, Ordering::Relaxed);
            let answers = self.buffer.publish(messages.clone()).await;
            let mut again = Vec::new();
            let mut trouble = None;
            for (message, answer) in messages.into_iter().zip(answers) {
                match answer {
                    Ok(_) => Figures::add(&figures.written, 1),
                    Err(Error::Refused(words)) => {
                        // it would be refused for ever, and all behind it would wait
                        tracing::error!(
                            buffer = self.buffer.name(),
                            id = message.id,
                            "message dropped: {words}"
                        );
                        Figures::add(&figures.dropped, 1);
                    }
                    Err(Error::Full(_)) => {
                        self.room.store(0, Ordering::Relaxed);
                        again.push(message);
                    }
                    Err(error) => {
                        trouble = Some(error);
                        again.push(message);
                    }
                }
            }
            Figures::add(&figures.retried, again.len());
            if let Some(error) = trouble {
                if !told {
                    tracing::warn!(buffer = self.buffer.name(), %error, "trying to write again");
                    told = true;
                }
                tokio::time::sleep(RETRY_WHEN_AWAY).await;
            }
            again.extend(rest);
            messages = again;
        }
        Ok(())
    }

    /// Before the first look, and while the buffer does not answer: then a message waits even where it may be discarded.
    fn is_unknown(&self) -> bool {
        self.room.load(Ordering::Relaxed) == UNKNOWN
    }
}

/// No room, and nobody knows why.
const UNKNOWN: i64 = i64::MIN;

async fn look(buffer: Shared, usable: u64, room: Arc<AtomicI64>) {
    room.store(UNKNOWN, Ordering::Relaxed);
    loop {
        let seen = match buffer.info().await {
            Ok(info) => {
                i64::try_from(usable).unwrap_or(i64::MAX) - i64::try_from(info.total()).unwrap_or(i64::MAX)
            }
            Err(error) => {
                tracing::debug!(buffer = buffer.name(), %error, "cannot tell how full it is");
                UNKNOWN
            }
        };
        room.store(if seen == UNKNOWN { UNKNOWN } else { seen.max(0) }, Ordering::Relaxed);
        // a full buffer, and one that was filled meanwhile, is looked at again soon
        let began = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(LOOK_WHEN_FULL).await;
            if began.elapsed() >= LOOK || room.load(Ordering::Relaxed) <= 0 {
                break;
            }
        }
    }
}
