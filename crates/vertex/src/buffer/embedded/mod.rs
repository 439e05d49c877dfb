//! The buffers of `ballast up`: one redb file in the main process, which serves them to its pods.
//!
//! ```text
//! publish, ack ──jobs──▶ writer thread ──one fsynced transaction a group──▶ file
//! fetch ◀── Line (what waits, what is delivered) ◀── after the commit ──┘
//! ```
//!
//! What is acknowledged is removed. What is delivered and not acknowledged is known in memory alone: after a restart it
//! waits again.

mod line;
mod tables;
mod writer;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use bytes::Bytes;
use redb::{Database, ReadableDatabase};
use ring::{hmac, rand::SecureRandom};
use tokio::sync::{Notify, mpsc, oneshot};

use self::{
    line::{Line, Millis},
    writer::{Job, Writer},
};
use super::{
    Buffer, Delivery, Error, Info, MAX_BATCH, MAX_FETCH_BYTES, NewMessage, Published, Result, Service,
    Settings, Ticket, check_size,
};

/// Jobs that wait for the writer; beyond it callers wait to hand theirs in.
const MAX_WAITING: usize = 256;

#[derive(Clone)]
pub struct Embedded {
    jobs: mpsc::Sender<Job>,
    shared: Arc<Shared>,
}

struct EmbeddedBuffer {
    buffers: Embedded,
    name: String,
    ack_wait: Duration,
}

type Rows = HashMap<String, Row>;
/// Its sequence, and how often it was delivered.
type Taken = (u64, u64);

struct Row {
    number: u64,
    settings: Settings,
    line: Line,
}

struct Shared {
    path: PathBuf,
    rows: Mutex<Rows>,
    /// While it can be used; otherwise why it cannot.
    database: Mutex<Result<Arc<Database>, String>>,
    /// Something may have become ready.
    news: Notify,
    secret: Vec<u8>,
}

impl Embedded {
    /// The file is made if it is not there. One process at a time.
    ///
    /// # Errors
    /// When it cannot be opened or read.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let database = store::open_database(&path).map_err(Error::Refused)?;
        let mut fresh = [0; 32];
        let drawn = ring::rand::SystemRandom::new().fill(&mut fresh);
        drawn.map_err(|_| Error::Refused("the system gives no random numbers".to_owned()))?;
        let (rows, secret) = tables::load(&database, &fresh).map_err(|error| {
            Error::Refused(format!("cannot read the buffers: {}", store::explain(&path, &error)))
        })?;
        let shared = Arc::new(Shared {
            path,
            rows: Mutex::new(rows),
            database: Mutex::new(Ok(Arc::new(database))),
            news: Notify::new(),
            secret,
        });
        let (jobs, waiting) = mpsc::channel(MAX_WAITING);
        let writer = Writer { shared: shared.clone(), failure: None };
        std::thread::Builder::new()
            .name("buffers".into())
            .spawn(move || writer.run(waiting))
            .map_err(|error| Error::Refused(format!("cannot start the writer of the buffers: {error}")))?;
        Ok(Embedded { jobs, shared })
    }

    /// What a pod shows to use the buffers of its pipeline, `namespace/name`. The same after a restart.
    pub fn token(&self, owner: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.shared.secret);
        let mac: String =
            hmac::sign(&key, owner.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{owner}:{mac}")
    }

    /// Whether whoever shows this token may use the buffer.
    pub(super) fn allows(&self, token: &str, name: &str) -> bool {
        let Some((owner, mac)) = token.rsplit_once(':') else { return false };
        // one writing for each token: the last byte must not be left over
        if !mac.len().is_multiple_of(2) {
            return false;
        }
        let mac: Option<Vec<u8>> = (0..mac.len() / 2)
            .map(|at| mac.get(at * 2..at * 2 + 2).and_then(|byte| u8::from_str_radix(byte, 16).ok()))
            .collect();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.shared.secret);
        let is_signed = mac.is_some_and(|mac| hmac::verify(&key, owner.as_bytes(), &mac).is_ok());
        is_signed && self.shared.rows().get(name).is_some_and(|row| row.settings.owner == owner)
    }

    async fn job<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T> {
        let gone = || Error::Unavailable(self.shared.trouble());
        let (reply, answer) = oneshot::channel();
        self.jobs.send(job(reply)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }

    fn buffer(&self, name: &str) -> Result<EmbeddedBuffer> {
        let ack_wait = self.shared.with(name, |row| row.settings.ack_wait)?;
        Ok(EmbeddedBuffer { buffers: self.clone(), name: name.to_owned(), ack_wait })
    }
}

#[async_trait]
impl Service for Embedded {
    async fn create(&self, name: &str, settings: &Settings) -> Result<()> {
        self.job(|reply| Job::Create(name.to_owned(), settings.clone(), reply)).await?
    }

    async fn delete(&self, name: &str) -> Result<()> {
        self.job(|reply| Job::Delete(name.to_owned(), reply)).await?
    }

    async fn open(&self, name: &str) -> Result<super::Shared> {
        Ok(Arc::new(self.buffer(name)?))
    }

    async fn info(&self, name: &str) -> Result<Info> {
        self.shared.with(name, |row| row.line.info())
    }
}

#[async_trait]
impl Buffer for EmbeddedBuffer {
    fn name(&self) -> &str {
        &self.name
    }

    async fn publish(&self, messages: Vec<NewMessage>) -> Vec<Result<Published>> {
        let n_messages = messages.len();
        if let Some(error) = messages.iter().find_map(|message| check_size(&self.name, message).err()) {
            return vec![Err(error); n_messages];
        }
        let done = self.buffers.job(|reply| Job::Publish(self.name.clone(), messages, reply)).await;
        done.unwrap_or_else(|error| vec![Err(error); n_messages])
    }

    async fn fetch(&self, max: usize, wait: Duration) -> Result<Vec<Delivery>> {
        let until = tokio::time::Instant::now() + wait;
        loop {
            let news = self.buffers.shared.news.notified();
            tokio::pin!(news);
            // heard from here on: nothing comes between the look and the wait
            news.as_mut().enable();
            let (taken, next) = self.take(max)?;
            if !taken.is_empty() || max == 0 {
                return self.read(taken).await;
            }
            let again = next.map(|at| Duration::from_millis(at.saturating_sub(now())));
            let again = again.map_or(until, |again| until.min(tokio::time::Instant::now() + again));
            let heard = tokio::time::timeout_at(again, news).await;
            if heard.is_err() && tokio::time::Instant::now() >= until {
                return Ok(Vec::new());
            }
        }
    }

    async fn ack(&self, tickets: &[Ticket]) -> Result<()> {
        let sequences = tickets.iter().map(Ticket::sequence).collect::<Result<_>>()?;
        self.buffers.job(|reply| Job::Ack(self.name.clone(), sequences, reply)).await?
    }

    async fn in_progress(&self, tickets: &[Ticket]) -> Result<()> {
        self.defer(tickets, self.ack_wait)
    }

    async fn nack(&self, tickets: &[Ticket], delay: Duration) -> Result<()> {
        self.defer(tickets, delay)?;
        self.buffers.shared.news.notify_waiters();
        Ok(())
    }

    async fn info(&self) -> Result<Info> {
        self.buffers.info(&self.name).await
    }

    fn ack_wait(&self) -> Duration {
        self.ack_wait
    }
}

impl EmbeddedBuffer {
    /// What is ready, or when something will be.
    fn take(&self, max: usize) -> Result<(Vec<Taken>, Option<Millis>)> {
        self.buffers.shared.with(&self.name, |row| {
            let now = now();
            row.line.advance(now);
            let deadline = now.saturating_add(millis(row.settings.ack_wait));
            let taken = row.line.deliver(max.min(MAX_BATCH), row.settings.max_ack_pending, deadline);
            (taken, row.line.next_deadline())
        })
    }

    /// What does not fit into the answer is ready again at once.
    async fn read(&self, taken: Vec<Taken>) -> Result<Vec<Delivery>> {
        let number = self.buffers.shared.with(&self.name, |row| row.number)?;
        let database = self.buffers.shared.database().map_err(Error::Unavailable)?;
        let path = self.buffers.shared.path.clone();
        let read = tokio::task::spawn_blocking(move || {
            let messages = database.begin_read()?.open_table(tables::MESSAGES)?;
            let (mut deliveries, mut bytes) = (Vec::with_capacity(taken.len()), 0);
            let mut rest = Vec::new();
            for (sequence, attempt) in taken {
                // gone if somebody who had it before acknowledged it just now
                let Some(payload) = messages.get((number, sequence))? else { continue };
                let payload = Bytes::copy_from_slice(payload.value());
                bytes += payload.len();
                if bytes > MAX_FETCH_BYTES {
                    rest.push(Ticket::of(sequence));
                    continue;
                }
                deliveries.push(Delivery { sequence, attempt, payload, ticket: Ticket::of(sequence) });
            }
            Ok::<_, redb::Error>((deliveries, rest))
        });
        let read = read.await.map_err(|error| Error::Unavailable(error.to_string()))?;
        let (deliveries, rest) = read.map_err(|error| Error::Unavailable(store::explain(&path, &error)))?;
        self.defer(&rest, Duration::ZERO)?;
        Ok(deliveries)
    }

    fn defer(&self, tickets: &[Ticket], by: Duration) -> Result<()> {
        let deadline = now().saturating_add(millis(by));
        self.buffers.shared.with(&self.name, |row| {
            for ticket in tickets {
                row.line.defer(ticket.sequence()?, deadline);
            }
            Ok(())
        })?
    }
}

impl Shared {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, name: &str, look: impl FnOnce(&mut Row) -> T) -> Result<T> {
        let mut rows = self.rows();
        let row = rows.get_mut(name).ok_or_else(|| Error::NotFound(name.to_owned()))?;
        Ok(look(row))
    }

    fn database(&self) -> Result<Arc<Database>, String> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn close(&self, why: &str) {
        *self.database.lock().unwrap_or_else(PoisonError::into_inner) = Err(why.to_owned());
    }

    /// After a failed write everything is read from the file anew.
    fn database_or_reopen(&self) -> Result<Arc<Database>, String> {
        let mut database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(database) = &*database {
            return Ok(database.clone());
        }
        let opened = store::open_database(&self.path)?;
        let (rows, _) =
            tables::load(&opened, &self.secret).map_err(|error| store::explain(&self.path, &error))?;
        *self.rows() = rows;
        let opened = Arc::new(opened);
        *database = Ok(opened.clone());
        Ok(opened)
    }

    fn trouble(&self) -> String {
        self.database().err().unwrap_or_else(|| "the writer of the buffers has ended; see the log".to_owned())
    }
}

impl Ticket {
    pub(crate) fn of(sequence: u64) -> Self {
        Ticket(Bytes::copy_from_slice(&sequence.to_be_bytes()))
    }

    pub(crate) fn sequence(&self) -> Result<u64> {
        let bytes = self.0.as_ref().try_into();
        let bytes = bytes.map_err(|_| Error::Refused("not a ticket of an embedded buffer".to_owned()))?;
        Ok(u64::from_be_bytes(bytes))
    }
}

fn now() -> Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
