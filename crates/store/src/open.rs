//! From an address to a store.

use std::{path::PathBuf, sync::Arc, time::Duration};

use crate::{Address, Embedded, Error, Nats, Result, Shared};

/// What a store does not keep, so that one caller cannot use up what all share.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Of a value, or of an item's head and body.
    pub item_bytes: usize,
    /// Of one queue, without its dead letters: nothing that was accepted is thrown away to make room.
    pub queue_items: usize,
    pub queue_bytes: u64,
    /// Of the dead letters of all queues: beyond it the oldest are thrown away.
    pub dead: Bound,
    /// Dead letters are kept no longer.
    pub dead_age: Duration,
    /// Of all keys under [`RESULTS`](crate::RESULTS): beyond it the oldest are thrown away.
    pub results: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    pub items: usize,
    pub bytes: u64,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub limits: Limits,
    /// Copies of everything, 1 or 3; NATS only.
    pub replicas: usize,
    /// Of what is ours on a shared server: letters, digits, `-` and `_`; NATS only.
    pub name: String,
    /// A server that does not answer in this time counts as gone; what was asked may still happen. NATS only.
    pub patience: Duration,
    /// NATS only.
    pub account: NatsAccount,
}

/// As whom to speak to NATS, and whom to believe there. Files, so that none of it stands in a command line; they are
/// read again with each connection attempt at the start.
#[derive(Clone, Debug, Default)]
pub struct NatsAccount {
    /// A user's JWT and seed, as `nsc` writes them.
    pub credentials: Option<PathBuf>,
    /// The seed of an nkey.
    pub nkey: Option<PathBuf>,
    /// Certificates of the authorities that may vouch for the servers, besides those of the system. With it, TLS is
    /// demanded.
    pub ca: Option<PathBuf>,
    /// Certificate and key that prove who we are.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            item_bytes: 16 << 20,
            queue_items: 100_000,
            queue_bytes: 1 << 30,
            dead: Bound { items: 10_000, bytes: 256 << 20 },
            dead_age: Duration::from_secs(7 * 24 * 3600),
            results: Bound { items: 20_000, bytes: 256 << 20 },
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            limits: Limits::default(),
            replicas: 1,
            name: "ballast".to_owned(),
            patience: Duration::from_secs(5),
            account: NatsAccount::default(),
        }
    }
}

/// `memory:`, `redb:PATH`, or `nats://HOST:PORT,HOST:PORT`.
///
/// # Errors
/// [`Error::Unavailable`] if it may be well a moment later, any other if it will not.
pub async fn open(address: &str, options: Options) -> Result<Shared> {
    if !matches!(options.replicas, 1 | 3) {
        return Err(Error::Open(format!(
            "{} copies of the store are not possible: choose 1 or 3",
            options.replicas
        )));
    }
    let fits = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
    if options.name.is_empty() || !options.name.chars().all(fits) {
        return Err(Error::Open(format!(
            "the store cannot be named {:?}: use letters, digits, '-' and '_'",
            options.name
        )));
    }
    if address == "memory:" {
        return Ok(Arc::new(Embedded::memory(options.limits)?));
    }
    if let Some(path) = address.strip_prefix("redb:").filter(|path| !path.is_empty()) {
        if options.replicas != 1 {
            return Err(Error::Open("a redb file has no copies: leave out the number of replicas".into()));
        }
        return Ok(Arc::new(Embedded::file(path, options.limits)?));
    }
    if address.starts_with("nats://") || address.starts_with("tls://") {
        return Ok(Arc::new(Nats::connect(address, options).await?));
    }
    let Ok(shown) = address.parse::<Address>();
    Err(Error::Open(format!(
        "cannot tell what store {shown:?} is: write redb:PATH, nats://HOST:PORT or memory:"
    )))
}

impl Bound {
    pub(crate) fn is_exceeded(&self, items: usize, bytes: u64) -> bool {
        items > self.items || bytes > self.bytes
    }
}

impl Limits {
    pub(crate) fn check_size(&self, what: &str, bytes: usize) -> Result<()> {
        if bytes <= self.item_bytes {
            return Ok(());
        }
        Err(Error::TooLarge(format!("{what}: {bytes} bytes are more than the {} allowed", self.item_bytes)))
    }

    /// `load` is what the queue holds.
    pub(crate) fn check_room(&self, queue: &str, load: (usize, u64), more: usize) -> Result<()> {
        let (items, bytes) = load;
        let full = |limit: String| Err(Error::Full { queue: queue.to_owned(), limit });
        if items >= self.queue_items {
            return full(format!("{items} items"));
        }
        if bytes + more as u64 > self.queue_bytes {
            return full(format!("{bytes} bytes, and {more} more would pass {}", self.queue_bytes));
        }
        Ok(())
    }
}
