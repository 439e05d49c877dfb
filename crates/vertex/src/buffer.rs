//! What lies between two vertices: messages that wait to be read, each read by one reader at a time until it says so.
//!
//! One trait, two places: NATS JetStream in the layout of Numaflow ([`JetStream`]), and one redb file ([`Embedded`]) that
//! the process of `ballast up` serves to its pods on loopback ([`serve`], [`Remote`]). One suite holds all to the same
//! promises:
//!
//! - What was answered with success is there after `kill -9` of any process.
//! - The same id published twice within the window of duplicates is kept once.
//! - A message that nobody acknowledges in time is delivered again: at least once, never lost.

mod embedded;
mod jetstream;
mod remote;
mod serve;
mod wire;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use embedded::Embedded;
pub(crate) use jetstream::take;
pub use jetstream::{Account, JetStream};
pub use remote::Remote;
pub use serve::serve;

pub type Result<T, E = Error> = std::result::Result<T, E>;
pub type Shared = Arc<dyn Buffer>;

/// Of one message; NATS servers refuse more than this by default.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Of one fetch, as far as messages have come together by then.
pub const MAX_FETCH_BYTES: usize = 8 << 20;
/// Of one fetch or publish.
pub const MAX_BATCH: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("there is no buffer {0}: it is made with its pipeline")]
    NotFound(String),
    /// The place itself refuses more. The limit that a vertex's writers keep is lower, see [`Limits`].
    #[error("buffer {0} takes no more messages: it holds as many as it may keep")]
    Full(String),
    /// Trying the same again is pointless.
    #[error("{0}")]
    Refused(String),
    /// Passes by itself. What was asked may have happened or not.
    #[error("the buffers are not available: {0}")]
    Unavailable(String),
}

/// How a buffer is made; the defaults are those of Numaflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// `namespace/pipeline`: whoever holds its token may use the buffer.
    pub owner: String,
    pub retention: Retention,
    pub max_messages: u64,
    /// Unlimited if absent.
    pub max_bytes: Option<u64>,
    pub max_age: Duration,
    /// Copies, NATS only.
    pub replicas: usize,
    /// The same id is kept once within this time.
    pub duplicates: Duration,
    /// Delivered again after this, unless acknowledged or in progress.
    pub ack_wait: Duration,
    /// No more are delivered while so many wait for their acknowledgement.
    pub max_ack_pending: u64,
}

/// What JetStream does with messages that were acknowledged, and with new ones when it is full. The embedded buffer removes
/// the former and refuses the latter, whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retention {
    /// Kept; the oldest goes when it is full.
    Limits,
    /// Removed; new ones are refused when it is full.
    WorkQueue,
    Interest,
}

/// How much of a buffer its writers fill: `bufferMaxLength` and `bufferUsageLimit` of the vertex that reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    pub max_length: u64,
    /// Between 0 and 1.
    pub usage_limit: f64,
}

/// How much is waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Not delivered yet.
    pub pending: u64,
    /// Delivered, and neither acknowledged nor given back.
    pub ack_pending: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMessage {
    /// Chosen by the writer; without one nothing is recognized as a duplicate.
    pub id: Option<String>,
    pub payload: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    pub is_duplicate: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Names the message in its buffer for ever.
    pub sequence: u64,
    /// How often it was delivered, this time included.
    pub attempt: u64,
    pub payload: Bytes,
    pub ticket: Ticket,
}

/// What to name when acknowledging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket(Bytes);

impl Ticket {
    pub(crate) fn of_bytes(bytes: Bytes) -> Self {
        Ticket(bytes)
    }

    pub(crate) fn bytes(&self) -> Bytes {
        self.0.clone()
    }
}

/// One partition of a vertex, as its writers and readers see it.
#[async_trait]
pub trait Buffer: Send + Sync + 'static {
    fn name(&self) -> &str;
    /// As many answers as messages, in their order, each once the message is durable.
    async fn publish(&self, messages: Vec<NewMessage>) -> Vec<Result<Published>>;
    /// Oldest first; waits up to `wait` for the first one. Cancelled, it may leave messages to be delivered again after
    /// [`Settings::ack_wait`].
    async fn fetch(&self, max: usize, wait: Duration) -> Result<Vec<Delivery>>;
    /// Answers once none of them is delivered again, unless a NATS server is killed in the next moment: it writes
    /// acknowledgements down a little later. What was acknowledged before is acknowledged.
    async fn ack(&self, tickets: &[Ticket]) -> Result<()>;
    /// Starts the time of [`Settings::ack_wait`] anew.
    async fn in_progress(&self, tickets: &[Ticket]) -> Result<()>;
    /// Gives them back, to be delivered again after the delay.
    async fn nack(&self, tickets: &[Ticket], delay: Duration) -> Result<()>;
    async fn info(&self) -> Result<Info>;
    /// How long a delivery is one's own, see [`Settings::ack_wait`].
    fn ack_wait(&self) -> Duration;
}

/// Where buffers are.
#[async_trait]
pub trait Service: Send + Sync + 'static {
    /// Made if it is not there; one that is there stays as it is.
    async fn create(&self, name: &str, settings: &Settings) -> Result<()>;
    /// With all that is in it; no error if it is not there.
    async fn delete(&self, name: &str) -> Result<()>;
    async fn open(&self, name: &str) -> Result<Shared>;
    /// One request.
    async fn info(&self, name: &str) -> Result<Info>;
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            owner: String::new(),
            retention: Retention::Limits,
            max_messages: 100_000,
            max_bytes: None,
            max_age: Duration::from_secs(72 * 3600),
            replicas: 3,
            duplicates: Duration::from_secs(60),
            ack_wait: Duration::from_secs(60),
            max_ack_pending: 25_000,
        }
    }
}

impl Info {
    /// What counts against [`Limits`].
    pub fn total(&self) -> u64 {
        self.pending.saturating_add(self.ack_pending)
    }
}

impl Limits {
    /// 30000 at 80 %: full with 24000.
    pub fn usable(&self) -> u64 {
        (self.max_length as f64 * self.usage_limit) as u64
    }

    pub fn is_full(&self, info: &Info) -> bool {
        info.total() >= self.usable()
    }
}

/// `{namespace}-{pipeline}-{vertex}-{partition}`, as Numaflow names streams and consumers.
pub fn name(namespace: &str, pipeline: &str, vertex: &str, partition: usize) -> String {
    format!("{namespace}-{pipeline}-{vertex}-{partition}")
}

fn check_size(name: &str, message: &NewMessage) -> Result<()> {
    let bytes = message.payload.len() + message.id.as_ref().map_or(0, String::len);
    if bytes <= MAX_MESSAGE_BYTES {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "a message of {bytes} bytes is too large for buffer {name}: {MAX_MESSAGE_BYTES} are allowed"
    )))
}
