//! The store of several nodes: NATS with JetStream, 2.12 or newer.
//!
//! Keys are a key-value bucket, queues one stream that every process follows (see [`view`]). A lease is a time of the
//! wall clock, so the clocks of nodes must agree better than the part of a lease that its holder leaves unused.

mod follow;
mod keys;
mod queues;
mod server;
mod subject;
mod trouble;
mod view;

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use self::{
    keys::Keys,
    queues::Queues,
    server::{Server, unavailable},
    trouble::Trouble,
};
use crate::{
    Change, Counts, DeadPage, Dropped, Entry, Error, Expect, NewItem, Options, Page, Place, RESULTS, Result,
    Settle, Store, Take, Taken,
    queue::{Next, State},
};

/// A cluster that just started has no leader yet.
const START: Duration = Duration::from_secs(30);

pub struct Nats {
    server: Arc<Server>,
    keys: Arc<Keys>,
    results: Keys,
    queues: Queues,
    options: Options,
}

impl Nats {
    /// `addresses`: `nats://HOST:PORT`, several with commas.
    ///
    /// # Errors
    /// [`Error::Unavailable`] for what passes by itself: try again. Anything else will not change.
    pub async fn connect(addresses: &str, options: Options) -> Result<Self> {
        let server = Arc::new(Server::connect(addresses, options.patience, &options.account).await?);
        let began = tokio::time::Instant::now();
        loop {
            let opened = async {
                let keys = Keys::open(&server, &options.name, options.replicas).await?;
                let limits = options.limits.clone();
                let results =
                    Keys::open_results(&server, &options.name, options.replicas, limits.results).await?;
                let queues = Queues::open(server.clone(), &options.name, options.replicas, limits).await?;
                Ok::<_, Trouble>((keys, results, queues))
            };
            let trouble = match opened.await {
                Ok((keys, results, queues)) => {
                    return Ok(Nats { server, keys: Arc::new(keys), results, queues, options });
                }
                Err(trouble) => trouble,
            };
            let is_late = began.elapsed() > START;
            let version = server.client.server_info().version;
            let at = format!("NATS {version} at {}", server.address);
            match trouble {
                Trouble::Lasting(why) => return Err(Error::Open(format!("{at} cannot be used: {why}"))),
                Trouble::Doubtful(why) if is_late => {
                    return Err(Error::Open(format!("{at} cannot be used: {why}")));
                }
                Trouble::Temporary(why) if is_late => {
                    return Err(Error::Unavailable(format!("{at} is not ready: {why}")));
                }
                Trouble::Temporary(why) | Trouble::Doubtful(why) => {
                    tracing::debug!(why, "NATS is not ready");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }
}

impl Nats {
    /// Where the key is kept. Results are neither listed nor watched.
    fn bucket(&self, key: &str) -> &Keys {
        if key.starts_with(RESULTS) { &self.results } else { &self.keys }
    }
}

#[async_trait]
impl Store for Nats {
    async fn get(&self, key: &str) -> Result<Option<Entry>> {
        self.bucket(key).get(&self.server, key).await
    }

    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<u64> {
        self.options.limits.check_size(key, value.len())?;
        self.bucket(key).put(&self.server, key, value, expect, ttl).await
    }

    async fn delete(&self, key: &str, expect: Expect) -> Result<()> {
        self.bucket(key).delete(&self.server, key, expect).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, Entry)>> {
        self.server.check()?;
        let list = tokio::time::timeout(self.options.patience, self.keys.list(prefix)).await;
        list.map_err(unavailable)?
    }

    async fn watch(&self, prefix: &str) -> Result<BoxStream<'static, Change>> {
        self.server.check()?;
        self.keys.clone().watch(prefix).await
    }

    async fn enqueue(&self, queue: &str, item: NewItem) -> Result<()> {
        self.queues.enqueue(queue, item).await
    }

    async fn take(&self, queue: &str, take: Take) -> Result<Vec<Taken>> {
        self.queues.take(queue, take).await
    }

    async fn settle(&self, queue: &str, id: &str, ticket: u64, settle: Settle) -> Result<()> {
        self.queues.settle(queue, id, ticket, settle).await
    }

    async fn find(&self, queue: &str, id: &str) -> Result<Option<Place>> {
        self.queues.find(queue, id).await
    }

    async fn counts(&self, queue: &str) -> Result<Counts> {
        self.queues.counts(queue).await
    }

    async fn spots(&self, queue: &str) -> Result<HashMap<Arc<str>, usize>> {
        self.queues.spots(queue).await
    }

    async fn queues(&self) -> Result<Vec<String>> {
        self.queues.queues().await
    }

    async fn queue_changes(&self) -> Result<BoxStream<'static, String>> {
        self.queues.changes().await
    }

    async fn head(&self, queue: &str, id: &str) -> Result<Option<Bytes>> {
        self.queues.head(queue, id).await
    }

    async fn dead(&self, queue: &str, page: Page) -> Result<DeadPage> {
        self.queues.dead(queue, page).await
    }

    fn dropped(&self) -> Dropped {
        Dropped { dead_letters: self.queues.dropped(), results: 0 }
    }

    async fn replay(&self, queue: &str, id: &str) -> Result<bool> {
        self.queues.raise(queue, id, Next::Stays { attempts: 0, state: State::Ready }).await
    }

    async fn bury(&self, queue: &str, id: &str) -> Result<bool> {
        self.queues.raise(queue, id, Next::Gone).await
    }

    async fn ready(&self) -> Result<()> {
        self.queues.catch_up().await?;
        self.server.context.query_account().await.map(|_| ()).map_err(unavailable)
    }
}
