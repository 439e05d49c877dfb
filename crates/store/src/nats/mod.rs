//! The store of several nodes: NATS with JetStream, 2.12 or newer.
//!
//! Keys are a key-value bucket, queues one stream that every process follows (see [`view`]). A lease is a time of the
//! wall clock, so the clocks of nodes must agree better than the part of a lease that its holder leaves unused.

mod follow;
mod keys;
mod queues;
mod server;
mod subject;
mod view;

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use self::{
    keys::Keys,
    queues::Queues,
    server::{Server, unavailable},
};
use crate::{
    Change, Counts, Dead, Entry, Error, Expect, NewItem, Options, Place, Result, Settle, Store, Take, Taken,
    queue::{Next, State},
};

/// A cluster that just started has no leader yet.
const START: Duration = Duration::from_secs(30);

pub struct Nats {
    server: Arc<Server>,
    keys: Arc<Keys>,
    queues: Queues,
    options: Options,
}

impl Nats {
    /// `addresses`: `nats://HOST:PORT`, several with commas.
    pub async fn connect(addresses: &str, options: Options) -> Result<Self> {
        let server = Arc::new(Server::connect(addresses, options.patience).await?);
        let began = tokio::time::Instant::now();
        let (keys, queues) = loop {
            let opened = async {
                let keys = Keys::open(&server, &options.name, options.replicas).await?;
                let limits = options.limits.clone();
                let queues = Queues::open(server.clone(), &options.name, options.replicas, limits).await?;
                Ok::<_, String>((keys, queues))
            };
            match opened.await {
                Ok(opened) => break opened,
                Err(error) if began.elapsed() > START => {
                    let version = server.client.server_info().version;
                    return Err(Error::Open(format!(
                        "NATS {version} at {addresses} cannot keep what Ballast needs with {} replicas: {error}; \
                         it must be 2.12 or newer, with JetStream (-js), and have as many servers as replicas",
                        options.replicas
                    )));
                }
                Err(error) => {
                    tracing::debug!(error, "NATS is not ready");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        };
        Ok(Nats { server, keys: Arc::new(keys), queues, options })
    }
}

#[async_trait]
impl Store for Nats {
    async fn get(&self, key: &str) -> Result<Option<Entry>> {
        self.keys.get(&self.server, key).await
    }

    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<u64> {
        self.options.limits.check_size(key, value.len())?;
        self.keys.put(&self.server, key, value, expect, ttl).await
    }

    async fn delete(&self, key: &str, expect: Expect) -> Result<()> {
        self.keys.delete(&self.server, key, expect).await
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

    async fn dead(&self, queue: &str) -> Result<Vec<Dead>> {
        self.queues.dead(queue).await
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
