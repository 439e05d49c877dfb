//! From an address to a store.

use std::{sync::Arc, time::Duration};

use crate::{Embedded, Error, Nats, Result, Shared};

/// What a store does not keep, so that one caller cannot use up what all share.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Of a value, or of an item's head and body.
    pub item_bytes: usize,
    /// Of one queue, dead letters included: nothing that was accepted is thrown away to make room.
    pub queue_items: usize,
    pub queue_bytes: u64,
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
}

impl Default for Limits {
    fn default() -> Self {
        Limits { item_bytes: 16 << 20, queue_items: 100_000, queue_bytes: 1 << 30 }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            limits: Limits::default(),
            replicas: 1,
            name: "ballast".to_owned(),
            patience: Duration::from_secs(5),
        }
    }
}

/// `memory:`, `redb:PATH`, or `nats://HOST:PORT,HOST:PORT`.
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
    Err(Error::Open(format!(
        "cannot tell what store {address:?} is: write redb:PATH, nats://HOST:PORT or memory:"
    )))
}

impl Limits {
    pub(crate) fn check_size(&self, what: &str, bytes: usize) -> Result<()> {
        if bytes <= self.item_bytes {
            return Ok(());
        }
        Err(Error::TooLarge(format!("{what}: {bytes} bytes are more than the {} allowed", self.item_bytes)))
    }

    pub(crate) fn check_room(&self, queue: &str, items: usize, bytes: u64, more: usize) -> Result<()> {
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
