//! What outlives a process and is shared by nodes: keys with values, and queues of work.
//!
//! One trait, three places: memory and one redb file (`Embedded`) for a single node, NATS JetStream (`Nats`) for
//! several. One suite of tests holds all of them to the same promises:
//!
//! - What a call answered with success is there after `kill -9` of this process (memory excepted).
//! - An item is given out to one holder at a time, and never to more than the limits allow.
//! - An item that nobody settles in time is given out again: at least once, never lost.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod address;
mod embedded;
mod mailbox;
mod nats;
mod open;
mod packed;
mod queue;

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

pub use address::Address;
pub use embedded::{Embedded, explain, open_database};
pub use nats::Nats;
pub use open::{Bound, Limits, NatsAccount, Options, open};

pub type Shared = Arc<dyn Store>;
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else wrote the key, or settled the item, in between.
    #[error("{key}: changed by somebody else")]
    Conflict { key: String },
    /// More than can ever be kept; trying the same again is pointless.
    #[error("{0}")]
    TooLarge(String),
    #[error("queue {queue} is full: it holds {limit}")]
    Full { queue: String, limit: String },
    /// The address or the options make no sense, or what is there is not ours.
    #[error("{0}")]
    Open(String),
    /// The place cannot be reached or refuses to write now. What was asked may have happened or not.
    #[error("the store is not available: {0}")]
    Unavailable(String),
}

/// A value and the revision to name when replacing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub value: Bytes,
    pub revision: u64,
}

/// What a writer expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Anything,
    Nothing,
    Revision(u64),
}

/// A key as it is now; without an entry it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub key: String,
    pub entry: Option<Entry>,
}

/// Work as it is handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewItem {
    /// Chosen by the caller, unique in its queue: handing in the same twice adds one.
    pub id: String,
    /// What the queue's user needs to know of it, small.
    pub head: Bytes,
    pub body: Bytes,
}

/// Work as it is given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub id: String,
    pub head: Bytes,
    pub body: Bytes,
    /// How often it was given out, this time included.
    pub attempt: u32,
    /// Names this time of giving out: whoever settles with an older one is refused.
    pub ticket: u64,
    pub enqueued_unix_ms: i64,
    /// Which of [`Take::spots`] it is for.
    pub spot: usize,
}

/// How much may be given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Take {
    /// Who takes, for people who look into the store.
    pub holder: String,
    /// Of the whole queue, those given out before included.
    pub in_flight: usize,
    /// Where the work is to be done: at most one item for each entry, none where there is no room. Names mean nothing
    /// to the store.
    pub spots: Vec<Arc<str>>,
    /// At one spot, those given out before included, whoever took them.
    pub per_spot: usize,
    /// Heads and bodies, those given out now together. The first is given out however large it is.
    pub bytes: u64,
    /// Given out again after so long, unless settled or extended.
    pub lease: Duration,
}

/// What becomes of an item that was given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settle {
    Done,
    /// Given out again after so long.
    Retry(Duration),
    /// Kept apart, with the reason, until somebody replays or deletes it.
    Dead(String),
    /// Keep it for so long from now; refused once the time is over.
    Extend(Duration),
}

/// Where an item is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Ready, or waiting for its next time, after so many attempts.
    Waiting {
        attempts: u32,
    },
    /// Given out; whoever knows the ticket may settle it, not only who took it.
    InFlight {
        attempt: u32,
        ticket: u64,
    },
    Dead {
        attempts: u32,
        reason: String,
        died_unix_ms: i64,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub ready: usize,
    pub in_flight: usize,
    pub retry_pending: usize,
    pub dead: usize,
    /// When the oldest item that is ready was handed in.
    pub oldest_unix_ms: Option<i64>,
}

/// Work that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dead {
    pub id: String,
    pub head: Bytes,
    pub attempts: u32,
    pub reason: String,
    pub died_unix_ms: i64,
}

/// A part of a list, in the order in which its items were handed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// It may be cut shorter than this, so that it stays small.
    pub limit: usize,
    /// Begins behind this one: [`DeadPage::next`] of the page before.
    pub after: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadPage {
    pub letters: Vec<Dead>,
    /// None if nothing follows.
    pub next: Option<u64>,
}

/// What this process threw away to stay within [`Limits`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    pub dead_letters: u64,
    /// Not those that a server of NATS threw away by itself.
    pub results: u64,
}

/// Keys under this prefix are bounded in all ([`Limits::results`]).
pub const RESULTS: &str = "async-result/";

/// A page has no more bytes of heads than this, but one letter at least.
const PAGE_BYTES: usize = 1 << 20;

#[async_trait]
pub trait Store: Send + Sync + 'static {
    async fn get(&self, key: &str) -> Result<Option<Entry>>;
    /// The new revision. A key with a `ttl` is gone after it, unless written again.
    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<u64>;
    async fn delete(&self, key: &str, expect: Expect) -> Result<()>;
    /// In the order of keys.
    async fn list(&self, prefix: &str) -> Result<Vec<(String, Entry)>>;
    /// What is there now, then every change. Of several changes of one key in a row only the last is promised. The
    /// stream ends if the store can no longer tell; whoever watches begins again.
    async fn watch(&self, prefix: &str) -> Result<BoxStream<'static, Change>>;

    /// Answers once the item is durable.
    async fn enqueue(&self, queue: &str, item: NewItem) -> Result<()>;
    /// First in, first out; retries when their time has come. Empty if there is nothing or no room.
    async fn take(&self, queue: &str, take: Take) -> Result<Vec<Taken>>;
    /// Refused as a conflict if the item was given out again, or settled, in between. An item whose time is over is
    /// still its holder's until it is given out again.
    async fn settle(&self, queue: &str, id: &str, ticket: u64, settle: Settle) -> Result<()>;
    /// None if it was never handed in, is done or was buried.
    async fn find(&self, queue: &str, id: &str) -> Result<Option<Place>>;
    async fn counts(&self, queue: &str) -> Result<Counts>;
    /// How many are given out at each spot.
    async fn spots(&self, queue: &str) -> Result<HashMap<Arc<str>, usize>>;
    /// Those that hold anything, in the order of names.
    async fn queues(&self) -> Result<Vec<String>>;
    /// Names of queues in which something may have become possible: an item came, was settled, or its time came. All
    /// that hold anything come first; of several changes in a row one may be told. The stream ends if the store can no
    /// longer tell; whoever listens begins again.
    async fn queue_changes(&self) -> Result<BoxStream<'static, String>>;
    /// What an item was handed in with, beside its body.
    async fn head(&self, queue: &str, id: &str) -> Result<Option<Bytes>>;
    /// Without bodies, and without making those wait who write.
    async fn dead(&self, queue: &str, page: Page) -> Result<DeadPage>;
    fn dropped(&self) -> Dropped;
    /// From the dead back into the queue, with its attempts forgotten; false if there is no such item.
    async fn replay(&self, queue: &str, id: &str) -> Result<bool>;
    /// False if there is no such dead item.
    async fn bury(&self, queue: &str, id: &str) -> Result<bool>;

    /// Fails with the reason while writes cannot be kept.
    async fn ready(&self) -> Result<()>;
}
