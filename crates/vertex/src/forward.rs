//! Reads, has containers work, hands on, acknowledges.
//!
//! ```text
//! source ──batch──▶ transformer ──▶ map ──as answers come──▶ edges or sink ──all of them done──▶ ack
//!                     └──────────── fails, or told to stop ──────────────▶ again, or given back
//! ```

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    buffer::Ticket,
    config::Sink,
    message::{Message, Read},
    metrics::Figures,
    source::Source,
    user::{self, Map, Outcome, Transform, Verdict},
    writer::{Stopped, Writer},
};

/// What failed is tried again after this.
const RETRY: Duration = Duration::from_millis(100);
const PENDING_EVERY: Duration = Duration::from_secs(5);

pub enum Output {
    Edges(Writer),
    Sink(Sink, Option<Box<user::Sink>>),
}

/// What all partitions of a pod share.
pub struct Stages {
    pub transform: Option<Transform>,
    pub map: Option<Map>,
    pub output: Output,
    pub batch: usize,
    pub read_timeout: Duration,
    /// Messages that may be under way.
    pub room: Arc<Semaphore>,
}

/// Reads are over with `reading`; what is under way then is given back with `working`.
#[derive(Clone, Default)]
pub struct Stop {
    pub reading: CancellationToken,
    pub working: CancellationToken,
}

/// Runs until it is told to stop and nothing is under way any more.
pub async fn forward(stages: Arc<Stages>, source: Arc<dyn Source>, figures: Arc<Figures>, stop: Stop) {
    let _pending = AbortOnDropHandle::new(tokio::spawn(tell_pending(source.clone(), figures.clone())));
    let mut batches = JoinSet::new();
    let mut told = false;
    while !stop.reading.is_cancelled() {
        while let Some(done) = batches.try_join_next() {
            report(done);
        }
        let first = tokio::select! {
            first = stages.room.clone().acquire_owned() => first,
            () = stop.reading.cancelled() => break,
        };
        let Ok(mut places) = first else { break };
        let more = stages.room.available_permits().min(stages.batch.saturating_sub(1));
        // others may take some at the same time
        if let Ok(more) = stages.room.clone().try_acquire_many_owned(u32::try_from(more).unwrap_or(0)) {
            places.merge(more);
        }
        let read = match source.read(places.num_permits(), stages.read_timeout).await {
            Ok(read) => read,
            Err(error) => {
                if !told {
                    tracing::warn!(from = figures.name, %error, "cannot read; trying again");
                    told = true;
                }
                tokio::time::sleep(RETRY).await;
                continue;
            }
        };
        told = false;
        if read.is_empty() {
            continue;
        }
        // what was not read is for others
        drop(places.split(places.num_permits().saturating_sub(read.len())));
        Figures::add(&figures.read, read.len());
        Figures::add(&figures.read_bytes, read.iter().map(|read| read.message.value.len()).sum());
        let batch = Batch::new(stages.clone(), source.clone(), figures.clone(), stop.working.clone());
        batches.spawn(async move {
            batch.run(read).await;
            drop(places);
        });
    }
    while let Some(done) = batches.join_next().await {
        report(done);
    }
}

fn report(done: Result<(), tokio::task::JoinError>) {
    if let Err(error) = done {
        // what it had is delivered again after its time
        tracing::error!(%error, "a batch was not finished");
    }
}

async fn tell_pending(source: Arc<dyn Source>, figures: Arc<Figures>) {
    loop {
        let pending = source.pending().await.unwrap_or(-1);
        figures.pending.store(pending, std::sync::atomic::Ordering::Relaxed);
        tokio::time::sleep(PENDING_EVERY).await;
    }
}

#[derive(Clone, Copy)]
enum Container<'a> {
    Map(&'a Map),
    Transform(&'a Transform),
}

/// Messages that were read together. They are acknowledged as they get done, not together.
struct Batch {
    stages: Arc<Stages>,
    source: Arc<dyn Source>,
    figures: Arc<Figures>,
    stop: CancellationToken,
    /// Neither acknowledged nor given back, by index.
    open: Arc<Mutex<HashMap<usize, Ticket>>>,
}

impl Batch {
    fn new(
        stages: Arc<Stages>,
        source: Arc<dyn Source>,
        figures: Arc<Figures>,
        stop: CancellationToken,
    ) -> Self {
        Batch { stages, source, figures, stop, open: Arc::default() }
    }

    async fn run(&self, read: Vec<Read>) {
        let mut messages = Vec::with_capacity(read.len());
        for (index, Read { message, ticket }) in read.into_iter().enumerate() {
            self.open().insert(index, ticket);
            messages.push((index, message));
        }
        let progress = self.source.progress_every().map(|every| {
            let (source, open) = (self.source.clone(), self.open.clone());
            AbortOnDropHandle::new(tokio::spawn(keep(source, open, every)))
        });
        let worked = self.stop.run_until_cancelled(self.work(messages)).await;
        drop(progress);
        if !matches!(worked, Some(Ok(()))) {
            self.give_back_rest().await;
        }
    }

    async fn work(&self, messages: Vec<(usize, Message)>) -> Result<(), Stopped> {
        let messages = match &self.stages.transform {
            None => messages.into_iter().map(|(index, message)| (index, vec![message])).collect(),
            Some(transform) => {
                let owners: Vec<usize> = (0..messages.len()).collect();
                let (done, mut all) = mpsc::unbounded_channel();
                self.call(Container::Transform(transform), messages, &owners, done).await;
                let mut transformed = Vec::with_capacity(owners.len());
                while let Some(some) = all.recv().await {
                    transformed.extend(some);
                }
                transformed
            }
        };
        match &self.stages.map {
            None => self.hand_on(messages).await,
            Some(map) => self.map(map, messages).await,
        }
    }

    /// What came of one message may be several, or nothing: each is mapped on its own, and all are waited for before the
    /// one is acknowledged.
    async fn map(&self, map: &Map, messages: Vec<(usize, Vec<Message>)>) -> Result<(), Stopped> {
        let mut parents: HashMap<usize, (usize, Vec<Message>)> = HashMap::new();
        let (mut flat, mut owners, mut empty) = (Vec::new(), Vec::new(), Vec::new());
        for (index, made) in messages {
            if made.iter().all(Message::is_dropped) {
                empty.push((index, made));
                continue;
            }
            let before = flat.len();
            for message in made.into_iter().filter(|message| !message.is_dropped()) {
                owners.push(index);
                flat.push((flat.len(), message));
            }
            parents.insert(index, (flat.len() - before, Vec::new()));
        }
        self.hand_on(empty).await?;
        let (done, mut answers) = mpsc::unbounded_channel();
        let receiving = async {
            while let Some(some) = answers.recv().await {
                let mut whole = Vec::new();
                for (position, made) in some {
                    let index: usize = owners[position];
                    let Some((left, so_far)) = parents.get_mut(&index) else { continue };
                    so_far.extend(made);
                    *left -= 1;
                    if *left == 0
                        && let Some((_, all)) = parents.remove(&index)
                    {
                        whole.push((index, all));
                    }
                }
                self.hand_on(whole).await?;
            }
            Ok(())
        };
        let ((), received) = tokio::join!(self.call(Container::Map(map), flat, &owners, done), receiving);
        received
    }

    /// Sends until each message is answered for, and passes the answers on as they come. `owners` tells which message that
    /// was read each of these came of.
    async fn call(
        &self,
        container: Container<'_>,
        mut messages: Vec<(usize, Message)>,
        owners: &[usize],
        done: mpsc::UnboundedSender<Vec<(usize, Vec<Message>)>>,
    ) {
        let mut told = false;
        while !messages.is_empty() {
            let by_index: HashMap<usize, &Message> =
                messages.iter().map(|(index, message)| (*index, message)).collect();
            let (reply, mut answers) = mpsc::unbounded_channel();
            let mut again = HashSet::new();
            let mut failure = None;
            let sending = async {
                match container {
                    Container::Map(map) => map.send(&messages, &reply).await,
                    Container::Transform(transform) => transform.send(&messages, &reply).await,
                }
                drop(reply);
            };
            let receiving = async {
                let mut some = Vec::new();
                while answers.recv_many(&mut some, self.stages.batch).await > 0 {
                    let mut good = Vec::with_capacity(some.len());
                    for (index, answer) in some.drain(..) {
                        let Some(parent) = by_index.get(&index) else { continue };
                        match answer.map(|made| Outcome::of(parent, made)) {
                            Ok(Outcome::Messages(made)) => good.push((index, made)),
                            Ok(Outcome::Nack(delay)) => self.give_back(&[owners[index]], delay).await,
                            Err(error) => {
                                failure = Some(error);
                                again.insert(index);
                            }
                        }
                    }
                    let _ = done.send(good);
                }
            };
            tokio::join!(sending, receiving);
            messages.retain(|(index, _)| again.contains(index));
            Figures::add(&self.figures.retried, messages.len());
            if let Some(error) = failure {
                if !told {
                    tracing::warn!(%error, n = messages.len(), "a container failed; its messages are sent again");
                    told = true;
                }
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// To where they go, then acknowledges those that they came of.
    async fn hand_on(&self, done: Vec<(usize, Vec<Message>)>) -> Result<(), Stopped> {
        if done.is_empty() {
            return Ok(());
        }
        let (mut indexes, mut messages, mut owners) =
            (Vec::with_capacity(done.len()), Vec::new(), Vec::new());
        for (index, made) in done {
            indexes.push(index);
            for message in made {
                if message.is_dropped() {
                    Figures::add(&self.figures.dropped, 1);
                    continue;
                }
                owners.push(index);
                messages.push(message);
            }
        }
        match &self.stages.output {
            Output::Edges(writer) => writer.write(&messages, &self.figures, &self.stop).await?,
            Output::Sink(Sink::Blackhole, _) => Figures::add(&self.figures.written, messages.len()),
            Output::Sink(Sink::Log, _) => {
                for message in &messages {
                    let value = String::from_utf8_lossy(&message.value);
                    tracing::info!(id = %message.id, keys = message.keys.join(","), %value, "message");
                }
                Figures::add(&self.figures.written, messages.len());
            }
            Output::Sink(Sink::User, sink) => {
                if let Some(sink) = sink {
                    self.sink(sink, messages, owners).await?;
                }
            }
        }
        self.acknowledge(&indexes).await
    }

    async fn sink(
        &self,
        sink: &user::Sink,
        mut messages: Vec<Message>,
        mut owners: Vec<usize>,
    ) -> Result<(), Stopped> {
        let mut told = false;
        while !messages.is_empty() {
            if self.stop.is_cancelled() {
                return Err(Stopped);
            }
            let verdicts = match sink.write(&messages).await {
                Ok(verdicts) => verdicts,
                Err(error) => {
                    if !told {
                        tracing::warn!(%error, "the sink failed; its messages are sent again");
                        told = true;
                    }
                    vec![Verdict::Failed(error.words); messages.len()]
                }
            };
            let (mut again, mut again_owners) = (Vec::new(), Vec::new());
            for ((message, owner), verdict) in messages.into_iter().zip(owners).zip(verdicts) {
                match verdict {
                    Verdict::Done => Figures::add(&self.figures.written, 1),
                    Verdict::Nack(delay) => self.give_back(&[owner], delay).await,
                    Verdict::Failed(words) => {
                        if !told {
                            tracing::warn!(id = %message.id, "the sink refuses, and is asked again: {words}");
                            told = true;
                        }
                        again.push(message);
                        again_owners.push(owner);
                    }
                }
            }
            Figures::add(&self.figures.retried, again.len());
            if !again.is_empty() {
                tokio::time::sleep(RETRY).await;
            }
            (messages, owners) = (again, again_owners);
        }
        Ok(())
    }

    async fn acknowledge(&self, indexes: &[usize]) -> Result<(), Stopped> {
        let tickets: Vec<Ticket> = {
            let open = self.open();
            indexes.iter().filter_map(|index| open.get(index).cloned()).collect()
        };
        if tickets.is_empty() {
            return Ok(());
        }
        while let Err(error) = self.source.ack(&tickets).await {
            if self.stop.is_cancelled() {
                return Err(Stopped);
            }
            tracing::debug!(%error, "cannot acknowledge; trying again");
            tokio::time::sleep(RETRY).await;
        }
        Figures::add(&self.figures.acknowledged, tickets.len());
        let mut open = self.open();
        indexes.iter().for_each(|index| drop(open.remove(index)));
        Ok(())
    }

    async fn give_back(&self, indexes: &[usize], delay: Duration) {
        let tickets: Vec<Ticket> = {
            let mut open = self.open();
            indexes.iter().filter_map(|index| open.remove(index)).collect()
        };
        if tickets.is_empty() {
            return;
        }
        Figures::add(&self.figures.given_back, tickets.len());
        if let Err(error) = self.source.nack(&tickets, delay).await {
            tracing::warn!(%error, n = tickets.len(), "cannot give back; delivered again after their time");
        }
    }

    async fn give_back_rest(&self) {
        let rest: Vec<usize> = self.open().keys().copied().collect();
        self.give_back(&rest, Duration::ZERO).await;
    }

    fn open(&self) -> MutexGuard<'_, HashMap<usize, Ticket>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says in time that the messages are still under way.
async fn keep(source: Arc<dyn Source>, open: Arc<Mutex<HashMap<usize, Ticket>>>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let tickets: Vec<Ticket> =
            open.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        if let Err(error) = source.in_progress(&tickets).await {
            tracing::debug!(%error, "cannot say that messages are under way");
        }
    }
}
