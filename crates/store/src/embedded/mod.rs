//! One node's store: a redb database, in a file or in memory.
//!
//! ```text
//! callers ──jobs──▶ writer thread ──one fsynced transaction a group──▶ file
//!    ▲                 │ state in memory: lines, leases, expiries
//!    └────answers──────┴──▶ listeners
//! ```
//!
//! What many ask for and nobody decides upon (a key, an item by its id, dead letters) is read from what is committed,
//! beside the writer.

mod source;
mod state;
mod tables;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use redb::{Database, ReadableDatabase, ReadableTable};
use tokio::sync::{mpsc, oneshot};

use self::{
    source::Source,
    state::Counters,
    tables::{Committed, KEYS, KeyRow},
    writer::{Answer, Group, Job, Listeners, Shared, Writer},
};
use crate::{
    Change, Counts, DeadPage, Dropped, Entry, Error, Expect, Limits, NewItem, Page, Place, Result, Settle,
    Store, Take, Taken, mailbox,
    queue::{self, Item, Next, State},
};

/// Jobs that wait for the writer; beyond it callers wait to hand theirs in.
const MAX_WAITING: usize = 1024;

/// A database in a file that only its owner may read, made if it is not there. One process at a time.
///
/// # Errors
/// In words that say what to do about it.
pub fn open_database(path: &Path) -> std::result::Result<Database, String> {
    Source::File(path.to_owned()).open()
}

/// Why a database in the file did not do what was asked of it, and what to do about it.
pub fn explain(path: &Path, error: &redb::Error) -> String {
    Source::File(path.to_owned()).explain(error)
}

pub struct Embedded {
    jobs: mpsc::Sender<Job>,
    shared: Shared,
    dropped: Arc<Counters>,
}

/// Why a job changed nothing.
enum Refused {
    Caller(Error),
    Database(redb::Error),
}

type Work<T> = std::result::Result<T, Refused>;

impl Embedded {
    /// Forgets everything when it is dropped.
    pub fn memory(limits: Limits) -> Result<Self> {
        Self::start(Source::Memory, limits)
    }

    /// The file is made if it is not there. One process at a time.
    pub fn file(path: impl Into<PathBuf>, limits: Limits) -> Result<Self> {
        Self::start(Source::File(path.into()), limits)
    }

    fn start(source: Source, limits: Limits) -> Result<Self> {
        let database = source.open().map_err(Error::Open)?;
        let state = tables::load(&database).map_err(|error| {
            Error::Open(format!("cannot read the store's file: {}", source.explain(&error)))
        })?;
        let shared: Shared = Arc::new(RwLock::new(Ok(Arc::new(database))));
        let (listeners, dropped) = (Listeners::default(), state.dropped.clone());
        let writer = Writer { source, shared: shared.clone(), state, listeners, limits, failure: None };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| Error::Open(format!("cannot start the writer: {error}")))?;
        let (jobs, waiting) = mpsc::channel(MAX_WAITING);
        std::thread::Builder::new()
            .name("store".into())
            .spawn(move || runtime.block_on(writer.run(waiting)))
            .map_err(|error| Error::Open(format!("cannot start the writer: {error}")))?;
        Ok(Embedded { jobs, shared, dropped })
    }

    /// Runs `work` in the next transaction and answers after its commit.
    async fn commit<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Group<'_, '_>) -> Work<T> + Send + 'static,
    {
        let gone = || {
            let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
            let why = shared.as_ref().err().filter(|why| !why.is_empty()).cloned();
            Error::Unavailable(why.unwrap_or_else(|| "the writer gave up; see the log".to_owned()))
        };
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |group| {
            let outcome = match work(group) {
                Ok(value) => Ok(value),
                Err(Refused::Caller(error)) => Err(error),
                Err(Refused::Database(error)) => return Err(error),
            };
            let answer: Answer = Box::new(move |committed| {
                // the caller may have given up
                let _ = reply.send(committed.and(outcome));
            });
            Ok(answer)
        });
        self.jobs.send(job).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Reads what is committed.
    async fn read<T, F>(&self, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Database) -> std::result::Result<T, redb::Error> + Send + 'static,
    {
        let database = self.shared.read().unwrap_or_else(PoisonError::into_inner).clone();
        let database = database.map_err(Error::Unavailable)?;
        let done = tokio::task::spawn_blocking(move || read(&database)).await;
        done.map_err(|error| Error::Unavailable(error.to_string()))?
            .map_err(|error| Error::Unavailable(error.to_string()))
    }
}

impl Embedded {
    /// At what is committed of the queues.
    async fn look<T, F>(&self, look: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Committed) -> std::result::Result<T, redb::Error> + Send + 'static,
    {
        self.read(move |database| look(&Committed::open(database)?)).await
    }
}

#[async_trait]
impl Store for Embedded {
    async fn get(&self, key: &str) -> Result<Option<Entry>> {
        let key = key.to_owned();
        self.read(move |database| {
            let keys = database.begin_read()?.open_table(KEYS)?;
            let row = keys.get(key.as_str())?.map(|row| KeyRow::decode(row.value()));
            Ok(row.filter(|row| !row.is_expired(queue::now())).map(|row| row.entry))
        })
        .await
    }

    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<u64> {
        let key = key.to_owned();
        self.commit(move |group| {
            group.limits.check_size(&key, value.len())?;
            group.expect(&key, expect)?;
            let revision = group.state.next_number();
            group.state.results.put(&key, revision, value.len());
            let expires = ttl.map(|ttl| queue::after(group.now, ttl));
            let row = KeyRow { entry: Entry { value, revision }, expires };
            group.tables.keys.insert(key.as_str(), row.encode().as_slice())?;
            group.state.expiries.extend(expires.map(|expires| (expires, key.clone())));
            group.key_changed(Change { key, entry: Some(row.entry) });
            group.drop_results()?;
            Ok(revision)
        })
        .await
    }

    async fn delete(&self, key: &str, expect: Expect) -> Result<()> {
        let key = key.to_owned();
        self.commit(move |group| {
            if group.expect(&key, expect)? {
                group.remove_key(key)?;
            }
            Ok(())
        })
        .await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, Entry)>> {
        let prefix = prefix.to_owned();
        self.read(move |database| {
            let keys = database.begin_read()?.open_table(KEYS)?;
            list(&keys, &prefix, queue::now())
        })
        .await
    }

    async fn watch(&self, prefix: &str) -> Result<BoxStream<'static, Change>> {
        let prefix = prefix.to_owned();
        let stream = self
            .commit(move |group| {
                let (mailbox, stream) = mailbox::new();
                for (key, entry) in list(&group.tables.keys, &prefix, group.now)? {
                    mailbox.tell(&key.clone(), Change { key, entry: Some(entry) });
                }
                group.listeners.keys.push((prefix, mailbox));
                Ok(stream)
            })
            .await?;
        Ok(stream.map(|(_, change)| change).boxed())
    }

    async fn enqueue(&self, queue: &str, item: NewItem) -> Result<()> {
        let name = queue.to_owned();
        self.commit(move |group| {
            let NewItem { id, head, body } = item;
            let bytes = head.len() + body.len();
            group.limits.check_size(&id, bytes)?;
            let queue = group.state.queue(&name);
            if queue.place(&id).is_some() {
                return Ok(());
            }
            group.limits.check_room(&name, queue.load(), bytes)?;
            let (id, bytes) = (id.into(), bytes as u64);
            let item = Item { id, bytes, enqueued: group.now, attempts: 0, state: State::Ready };
            let place = group.state.next_number();
            group.tables.put_new(&name, place, &item, &head, &body)?;
            group.state.queue(&name).insert(place, item);
            group.queue_changed(&name);
            Ok(())
        })
        .await
    }

    async fn take(&self, queue: &str, take: Take) -> Result<Vec<Taken>> {
        let name = queue.to_owned();
        self.commit(move |group| {
            let Some(queue) = group.state.queues.get_mut(&name) else { return Ok(Vec::new()) };
            queue.advance(group.now);
            let mut given = Vec::new();
            for (place, spot) in queue.choose(&take) {
                let ticket = group.state.next_number();
                let queue = group.state.queue(&name);
                let Some(item) = queue.get(place) else { continue };
                let (attempts, state) = item.taken(&take, spot, ticket, group.now);
                queue.set(place, attempts, state);
                let Some(item) = queue.get(place) else { continue };
                group.tables.put_item(&name, place, item)?;
                let (head, body) = group.tables.head_and_body(&name, place)?;
                given.push(Taken {
                    id: item.id.to_string(),
                    head,
                    body,
                    attempt: attempts,
                    ticket,
                    enqueued_unix_ms: item.enqueued,
                    spot,
                });
                group.queue_changed(&name);
            }
            Ok(given)
        })
        .await
    }

    async fn settle(&self, queue: &str, id: &str, ticket: u64, settle: Settle) -> Result<()> {
        let (name, id) = (queue.to_owned(), id.to_owned());
        self.commit(move |group| {
            let queue = group.state.queue(&name);
            let place = queue.place(&id);
            let next = place.and_then(|place| queue.get(place)?.settled(ticket, settle, group.now));
            match (place, next) {
                (Some(place), Some(next)) => Ok(group.apply(&name, place, next)?),
                _ => Err(Refused::Caller(Error::Conflict { key: format!("{name}/{id}") })),
            }
        })
        .await
    }

    async fn find(&self, queue: &str, id: &str) -> Result<Option<Place>> {
        let (queue, id) = (queue.to_owned(), id.to_owned());
        self.look(move |items| {
            let Some(place) = items.place(&queue, &id)? else { return Ok(None) };
            Ok(items.item(&queue, place)?.map(|item| item.place(queue::now())))
        })
        .await
    }

    async fn counts(&self, queue: &str) -> Result<Counts> {
        let name = queue.to_owned();
        self.commit(move |group| {
            let queue = group.state.queues.get_mut(&name);
            Ok(queue.map(|queue| queue.counts()).unwrap_or_default())
        })
        .await
    }

    async fn spots(&self, queue: &str) -> Result<HashMap<Arc<str>, usize>> {
        let name = queue.to_owned();
        self.commit(move |group| {
            Ok(group.state.queues.get(&name).map(|queue| queue.spots().clone()).unwrap_or_default())
        })
        .await
    }

    async fn queues(&self) -> Result<Vec<String>> {
        self.commit(|group| Ok(group.queues())).await
    }

    async fn queue_changes(&self) -> Result<BoxStream<'static, String>> {
        let stream = self
            .commit(|group| {
                let (mailbox, stream) = mailbox::new();
                for queue in group.queues() {
                    mailbox.tell(&queue, ());
                }
                group.listeners.queues.push(mailbox);
                Ok(stream)
            })
            .await?;
        Ok(stream.map(|(queue, ())| queue).boxed())
    }

    async fn head(&self, queue: &str, id: &str) -> Result<Option<Bytes>> {
        let (queue, id) = (queue.to_owned(), id.to_owned());
        self.look(move |items| {
            let Some(place) = items.place(&queue, &id)? else { return Ok(None) };
            items.head(&queue, place).map(Some)
        })
        .await
    }

    async fn dead(&self, queue: &str, page: Page) -> Result<DeadPage> {
        let queue = queue.to_owned();
        self.look(move |items| items.dead(&queue, page)).await
    }

    fn dropped(&self) -> Dropped {
        self.dropped.read()
    }

    async fn replay(&self, queue: &str, id: &str) -> Result<bool> {
        self.raise(queue, id, Next::Stays { attempts: 0, state: State::Ready }).await
    }

    async fn bury(&self, queue: &str, id: &str) -> Result<bool> {
        self.raise(queue, id, Next::Gone).await
    }

    async fn ready(&self) -> Result<()> {
        self.commit(|_| Ok(())).await
    }
}

impl Embedded {
    async fn raise(&self, queue: &str, id: &str, next: Next) -> Result<bool> {
        let (name, id) = (queue.to_owned(), id.to_owned());
        self.commit(move |group| {
            let queue = group.state.queue(&name);
            let place = queue.place(&id);
            let dead = place.filter(|place| {
                queue.get(*place).is_some_and(|item| matches!(item.state, State::Dead { .. }))
            });
            match dead {
                Some(place) => group.apply(&name, place, next).map(|()| true).map_err(Refused::Database),
                None => Ok(false),
            }
        })
        .await
    }
}

impl Group<'_, '_> {
    /// Whether the key is there, if it is as expected.
    fn expect(&self, key: &str, expect: Expect) -> Work<bool> {
        let revision = self.tables.key(key, self.now)?.map(|row| row.entry.revision);
        let fits = match expect {
            Expect::Anything => true,
            Expect::Nothing => revision.is_none(),
            Expect::Revision(expected) => revision == Some(expected),
        };
        if fits { Ok(revision.is_some()) } else { Err(Error::Conflict { key: key.to_owned() }.into()) }
    }

    fn apply(&mut self, name: &str, place: u64, next: Next) -> std::result::Result<(), redb::Error> {
        let queue = self.state.queue(name);
        match next {
            Next::Gone => {
                if let Some(item) = queue.remove(place) {
                    self.tables.remove_item(name, place, &item.id)?;
                }
            }
            Next::Stays { attempts, state } => {
                queue.set(place, attempts, state);
                if let Some(item) = queue.get(place) {
                    self.tables.put_item(name, place, item)?;
                }
            }
        }
        self.queue_changed(name);
        self.drop_dead()
    }

    /// Throws away the dead letters that are too old or too many.
    pub(super) fn drop_dead(&mut self) -> std::result::Result<(), redb::Error> {
        let queues = self.state.queues.iter().map(|(name, queue)| (name.as_str(), queue));
        let excess = queue::excess(queues, self.limits, self.now);
        let excess: Vec<_> = excess.into_iter().map(|(name, place)| (name.to_owned(), place)).collect();
        for (name, place) in excess {
            if let Some(item) = self.state.queue(&name).remove(place) {
                self.tables.remove_item(&name, place, &item.id)?;
                self.state.dropped.dead_letters.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(queue = name, id = %item.id, "a dead letter is dropped: too old, or too many");
                self.queue_changed(&name);
            }
        }
        Ok(())
    }

    fn drop_results(&mut self) -> std::result::Result<(), redb::Error> {
        while let Some(key) = self.state.results.pop_excess(self.limits) {
            self.state.dropped.results.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(key, "a result is dropped: there are too many");
            self.remove_key(key)?;
        }
        Ok(())
    }

    pub(super) fn remove_key(&mut self, key: String) -> std::result::Result<(), redb::Error> {
        self.tables.keys.remove(key.as_str())?;
        self.state.results.remove(&key);
        self.key_changed(Change { key, entry: None });
        Ok(())
    }

    fn queues(&self) -> Vec<String> {
        let filled = self.state.queues.iter().filter(|(_, queue)| !queue.is_empty());
        filled.map(|(name, _)| name.clone()).collect()
    }
}

fn list(
    keys: &impl ReadableTable<&'static str, &'static [u8]>,
    prefix: &str,
    now: queue::Millis,
) -> std::result::Result<Vec<(String, Entry)>, redb::Error> {
    let mut found = Vec::new();
    for row in keys.range(prefix..)? {
        let (key, row) = row?;
        if !key.value().starts_with(prefix) {
            break;
        }
        let row = KeyRow::decode(row.value());
        if !row.is_expired(now) {
            found.push((key.value().to_owned(), row.entry));
        }
    }
    Ok(found)
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused::Caller(error)
    }
}

impl From<redb::Error> for Refused {
    fn from(error: redb::Error) -> Self {
        Refused::Database(error)
    }
}

impl From<redb::StorageError> for Refused {
    fn from(error: redb::StorageError) -> Self {
        Refused::Database(error.into())
    }
}
