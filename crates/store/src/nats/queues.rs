//! Queues on one stream. Whatever decides over an item names the state it saw; of two at once one is refused and looks
//! again.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use async_nats::{
    HeaderMap,
    header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_TTL},
    jetstream::{
        message::StreamMessage,
        stream::{LastRawMessageErrorKind, Stream},
    },
};
use bytes::Bytes;
use futures::stream::BoxStream;

use super::{
    follow::{self, Guard},
    server::{Outgoing, Refused, Server, unavailable},
    trouble::Trouble,
    view::{ITEM, ItemHeader, Line, STATE, StateHeader, Subject},
};
use crate::{
    Counts, DeadPage, Error, Limits, NewItem, PAGE_BYTES, Page, Place, Result, Settle, Take, Taken, packed,
    queue::{self, Item, Next, State},
};

/// How long the stream remembers that an item is gone: longer than any process takes to notice.
const GONE_SECONDS: u64 = 600;
/// Closer to the limit than this, what was written and not yet seen counts.
const NEAR_ITEMS: usize = 4096;
const NEAR_BYTES: u64 = 64 << 20;
/// The server takes batches of up to 1000 messages.
const MAX_BATCH: usize = 500;

pub struct Queues {
    server: Arc<Server>,
    stream: Stream,
    name: String,
    limits: Limits,
    following: Guard,
    /// The last sequence written by this process: it reads at least that.
    written: AtomicU64,
    /// Takers of one process stand in line rather than refuse each other.
    takers: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Dead letters, by this process.
    dropped: AtomicU64,
}

impl Queues {
    pub async fn open(
        server: Arc<Server>,
        name: &str,
        replicas: usize,
        limits: Limits,
    ) -> Result<Self, Trouble> {
        let stream = server.stream(follow::config(name, replicas), replicas).await?;
        let following = follow::start(server.clone(), stream.clone(), name.to_owned());
        Ok(Queues {
            server,
            stream,
            name: name.to_owned(),
            limits,
            following,
            written: AtomicU64::new(0),
            takers: Mutex::default(),
            dropped: AtomicU64::new(0),
        })
    }

    pub async fn enqueue(&self, queue: &str, item: NewItem) -> Result<()> {
        let payload = packed::pack(&item.head, &item.body);
        self.limits.check_size(&item.id, payload.len())?;
        self.check_room(queue, payload.len()).await?;
        let header = ItemHeader { bytes: payload.len() as u64, enqueued: queue::now() };
        let subject = Subject::Item { queue: queue.to_owned(), id: item.id };
        let mut expected = 0;
        loop {
            let mut headers = HeaderMap::new();
            headers.insert(ITEM, json(&header));
            let message = self.message(&subject, headers, payload.clone(), expected);
            match self.server.publish(message).await {
                Ok(sequence) => {
                    self.wrote(sequence);
                    return Ok(());
                }
                Err(Refused::Error(error)) => return Err(error),
                // somebody handed in the same, or it was here once and is gone
                Err(Refused::Outrun) => match self.last(&subject).await? {
                    Some(message) if message.headers.get(ITEM).is_some() => return Ok(()),
                    last => expected = last.map_or(0, |message| message.sequence),
                },
            }
        }
    }

    /// Far from the limit what this process saw last is good enough.
    async fn check_room(&self, queue: &str, more: usize) -> Result<()> {
        let load = || {
            let view = self.following.view();
            view.lines.get(queue).map_or((0, 0), |line| line.queue.load())
        };
        let (items, bytes) = load();
        if items + NEAR_ITEMS >= self.limits.queue_items || bytes + NEAR_BYTES >= self.limits.queue_bytes {
            self.catch_up().await?;
        }
        self.limits.check_room(queue, load(), more)
    }

    pub async fn take(&self, queue: &str, take: Take) -> Result<Vec<Taken>> {
        let turn = {
            let mut takers = self.takers.lock().unwrap_or_else(PoisonError::into_inner);
            takers.entry(queue.to_owned()).or_default().clone()
        };
        let _turn = turn.lock().await;
        loop {
            self.catch_up().await?;
            let (messages, chosen) = self.claim(queue, &take);
            if messages.is_empty() {
                return Ok(Vec::new());
            }
            match self.server.publish_all(messages).await {
                Ok(sequence) => self.wrote(sequence),
                Err(Refused::Error(error)) => return Err(error),
                Err(Refused::Outrun) => {
                    self.catch_up_with_all().await?;
                    continue;
                }
            }
            if chosen.is_empty() {
                // it was only made known that leases are over: now there is room
                continue;
            }
            return self.with_bodies(chosen).await;
        }
    }

    /// What to write in order to take, and what is taken then, without head and body.
    fn claim(&self, name: &str, take: &Take) -> (Vec<Outgoing>, Vec<(u64, Taken)>) {
        let now = queue::now();
        let mut view = self.following.view();
        let line = view.line(name);
        line.queue.advance(now);
        let mut chosen = line.queue.choose(take);
        chosen.truncate(MAX_BATCH);
        if chosen.is_empty() {
            return (Vec::new(), Vec::new());
        }
        // Every take has a gate of its own, so its number names the take.
        let ticket = line.gate + 1;
        let gate = Subject::Gate { queue: name.to_owned() };
        let mut messages = vec![self.message(&gate, HeaderMap::new(), Bytes::new(), line.gate)];
        // Their holders may be about to extend them: that is refused from here on, or room would be given out twice.
        let set: HashSet<u64> = chosen.iter().map(|(place, _)| *place).collect();
        let lapsed: Vec<u64> = line.queue.lapsed().filter(|place| !set.contains(place)).collect();
        let lapsed_only = lapsed.len() > MAX_BATCH - 1;
        for place in lapsed.into_iter().take(MAX_BATCH - 1) {
            if let Some(item) = line.queue.get(place) {
                messages.push(self.state(name, line, place, item.attempts, Some(State::Ready)));
            }
        }
        if lapsed_only {
            return (messages, Vec::new());
        }
        let mut taken = Vec::with_capacity(chosen.len());
        for (place, spot) in chosen {
            let Some(item) = line.queue.get(place) else { continue };
            let (attempt, state) = item.taken(take, spot, ticket, now);
            messages.push(self.state(name, line, place, attempt, Some(state)));
            let (head, body) = (Bytes::new(), Bytes::new());
            let (id, enqueued_unix_ms) = (item.id.to_string(), item.enqueued);
            taken.push((place, Taken { id, head, body, attempt, ticket, enqueued_unix_ms, spot }));
        }
        (messages, taken)
    }

    async fn with_bodies(&self, taken: Vec<(u64, Taken)>) -> Result<Vec<Taken>> {
        let fetches = taken.into_iter().map(|(place, item)| async move {
            let (head, body) = self.body(place).await?;
            Ok(Taken { head, body, ..item })
        });
        futures::future::try_join_all(fetches).await
    }

    pub async fn settle(&self, queue: &str, id: &str, ticket: u64, settle: Settle) -> Result<()> {
        let settled =
            self.change(queue, id, |item| item.settled(ticket, settle.clone(), queue::now())).await?;
        if !settled {
            return Err(Error::Conflict { key: format!("{queue}/{id}") });
        }
        if matches!(settle, Settle::Dead(_)) {
            self.catch_up().await?;
            // It is settled, whatever becomes of older ones.
            if let Err(error) = self.drop_dead().await {
                tracing::warn!(%error, "dead letters that are too many could not be dropped");
            }
        }
        Ok(())
    }

    pub async fn raise(&self, queue: &str, id: &str, next: Next) -> Result<bool> {
        self.change(queue, id, |item| matches!(item.state, State::Dead { .. }).then(|| next.clone())).await
    }

    /// Makes of an item what `next` says, if it says anything of its present state.
    async fn change(&self, name: &str, id: &str, next: impl Fn(&Item) -> Option<Next>) -> Result<bool> {
        let mut is_certain = false;
        loop {
            self.catch_up().await?;
            let messages = {
                let mut view = self.following.view();
                let line = view.line(name);
                let place = line.queue.place(id);
                let next = place.and_then(|place| Some((place, next(line.queue.get(place)?)?)));
                next.map(|(place, next)| match next {
                    Next::Stays { attempts, state } => {
                        vec![self.state(name, line, place, attempts, Some(state))]
                    }
                    Next::Gone => {
                        let item = Subject::Item { queue: name.to_owned(), id: id.to_owned() };
                        let mut gone = self.message(&item, HeaderMap::new(), Bytes::new(), place);
                        gone.headers.insert(NATS_MESSAGE_TTL, GONE_SECONDS.to_string());
                        vec![gone, self.state(name, line, place, 0, None)]
                    }
                })
            };
            let Some(mut messages) = messages else {
                if is_certain {
                    return Ok(false);
                }
                // another process may have written what is not here yet
                self.catch_up_with_all().await?;
                is_certain = true;
                continue;
            };
            let published = match messages.pop() {
                Some(only) if messages.is_empty() => self.server.publish(only).await,
                last => {
                    messages.extend(last);
                    self.server.publish_all(messages).await
                }
            };
            match published {
                Ok(sequence) => {
                    self.wrote(sequence);
                    return Ok(true);
                }
                Err(Refused::Error(error)) => return Err(error),
                Err(Refused::Outrun) => {
                    self.catch_up_with_all().await?;
                    is_certain = true;
                }
            }
        }
    }

    pub async fn find(&self, queue: &str, id: &str) -> Result<Option<Place>> {
        self.catch_up_with_all().await?;
        let mut view = self.following.view();
        let line = view.line(queue);
        let item = line.queue.place(id).and_then(|place| line.queue.get(place));
        Ok(item.map(|item| item.place(queue::now())))
    }

    pub async fn counts(&self, queue: &str) -> Result<Counts> {
        self.catch_up().await?;
        let mut view = self.following.view();
        let line = view.line(queue);
        line.queue.advance(queue::now());
        Ok(line.queue.counts())
    }

    pub async fn spots(&self, queue: &str) -> Result<HashMap<Arc<str>, usize>> {
        self.catch_up().await?;
        let mut view = self.following.view();
        let line = view.line(queue);
        line.queue.advance(queue::now());
        Ok(line.queue.spots().clone())
    }

    pub async fn queues(&self) -> Result<Vec<String>> {
        self.catch_up().await?;
        let view = self.following.view();
        let filled = view.lines.iter().filter(|(_, line)| !line.queue.is_empty());
        Ok(filled.map(|(name, _)| name.clone()).collect())
    }

    pub async fn changes(&self) -> Result<BoxStream<'static, String>> {
        self.catch_up().await?;
        Ok(self.following.changes())
    }

    pub async fn head(&self, queue: &str, id: &str) -> Result<Option<Bytes>> {
        self.catch_up_with_all().await?;
        let place = self.following.view().line(queue).queue.place(id);
        match place {
            Some(place) => self.head_at(place).await.map(Some),
            None => Ok(None),
        }
    }

    pub async fn dead(&self, queue: &str, page: Page) -> Result<DeadPage> {
        self.catch_up().await?;
        self.drop_dead().await?;
        // one more, to know whether anything follows
        let dead: Vec<(u64, Item)> = {
            let mut view = self.following.view();
            let dead = view.line(queue).queue.dead_after(page.after).take(page.limit.saturating_add(1));
            dead.map(|(place, item)| (place, item.clone())).collect()
        };
        let (mut found, mut bytes, mut last) = (DeadPage::default(), 0, None);
        for (place, item) in dead {
            if found.letters.len() >= page.limit || bytes >= PAGE_BYTES {
                found.next = last;
                break;
            }
            let head = self.head_at(place).await?;
            bytes += head.len();
            found.letters.extend(item.as_dead(head));
            last = Some(place);
        }
        Ok(found)
    }

    /// Throws away the dead letters that are too old or too many. Of several processes that do so at once, one does.
    async fn drop_dead(&self) -> Result<()> {
        loop {
            let excess: Vec<(String, Arc<str>)> = {
                let view = self.following.view();
                let queues = view.lines.iter().map(|(name, line)| (name.as_str(), &line.queue));
                let excess = queue::excess(queues, &self.limits, queue::now());
                let known = excess.into_iter().filter_map(|(name, place)| {
                    let id = view.lines[name].queue.get(place)?.id.clone();
                    Some((name.to_owned(), id))
                });
                known.take(MAX_BATCH).collect()
            };
            if excess.is_empty() {
                return Ok(());
            }
            for (name, id) in excess {
                if self.raise(&name, &id, Next::Gone).await? {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(queue = name, %id, "a dead letter is dropped: too old, or too many");
                }
            }
            self.catch_up().await?;
        }
    }

    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Until this process sees what it wrote itself.
    pub async fn catch_up(&self) -> Result<()> {
        self.server.check()?;
        self.following.reach(self.written.load(Ordering::Acquire)).await
    }

    /// Until it sees what anybody wrote before now.
    async fn catch_up_with_all(&self) -> Result<()> {
        self.server.check()?;
        let info = self.stream.get_info().await.map_err(unavailable)?;
        self.following.reach(info.state.last_sequence).await
    }

    fn wrote(&self, sequence: u64) {
        self.written.fetch_max(sequence, Ordering::AcqRel);
    }

    /// Only the head is kept in memory: a slice of the message would keep the body too.
    async fn head_at(&self, place: u64) -> Result<Bytes> {
        let (head, _) = self.body(place).await?;
        Ok(Bytes::copy_from_slice(&head))
    }

    async fn body(&self, place: u64) -> Result<(Bytes, Bytes)> {
        // of the leader: a follower may not have it yet
        let message = self.stream.get_raw_message(place).await.map_err(unavailable)?;
        Ok(packed::unpack(message.payload))
    }

    async fn last(&self, subject: &Subject) -> Result<Option<StreamMessage>> {
        match self.stream.get_last_raw_message_by_subject(&subject.write(&self.name)).await {
            Ok(message) => Ok(Some(message)),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(unavailable(error)),
        }
    }

    fn state(&self, queue: &str, line: &Line, place: u64, attempts: u32, state: Option<State>) -> Outgoing {
        let mut headers = HeaderMap::new();
        if state.is_none() {
            headers.insert(NATS_MESSAGE_TTL, GONE_SECONDS.to_string());
        }
        headers.insert(STATE, json(&StateHeader { attempts, state }));
        let subject = Subject::State { queue: queue.to_owned(), place };
        self.message(&subject, headers, Bytes::new(), line.state_sequence(place))
    }

    fn message(&self, subject: &Subject, mut headers: HeaderMap, payload: Bytes, expected: u64) -> Outgoing {
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected.to_string());
        Outgoing { subject: subject.write(&self.name), headers, payload }
    }
}

/// These types always have a JSON form.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
