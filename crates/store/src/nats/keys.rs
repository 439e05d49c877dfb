//! Keys, in a key-value bucket that `nats kv` can read.

use std::time::Duration;

use async_nats::{
    HeaderMap,
    header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_TTL},
    jetstream::{
        consumer::push::{Ordered, OrderedConfig},
        kv, stream,
        stream::LastRawMessageErrorKind,
    },
};
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};

use super::{
    server::{Outgoing, Refused, Server, unavailable},
    subject,
    trouble::Trouble,
};
use crate::{Bound, Change, Entry, Error, Expect, Result, queue};

/// The server counts in seconds; this says to the millisecond when a value is over.
const EXPIRES: &str = "Ballast-Expires";
/// How long the server remembers that a key is gone, for those who watch.
const MARKER_TTL: Duration = Duration::from_secs(60);

pub struct Keys {
    client: async_nats::Client,
    stream: stream::Stream,
    /// Of the subjects, with the dot.
    prefix: String,
}

/// A key's last message.
struct Last {
    sequence: u64,
    /// None if it says that the key is gone.
    value: Option<Bytes>,
}

impl Keys {
    pub async fn open(server: &Server, name: &str, replicas: usize) -> Result<Self, Trouble> {
        let bucket = kv::Config {
            bucket: format!("{name}-keys"),
            description: "shared state of Ballast".to_owned(),
            history: 1,
            storage: stream::StorageType::File,
            num_replicas: replicas,
            limit_markers: Some(MARKER_TTL),
            ..Default::default()
        };
        let bucket = server.context.create_or_update_key_value(bucket).await;
        let bucket = bucket.map_err(|error| Trouble::of_creation(&error, replicas))?;
        Ok(Keys {
            client: server.client.clone(),
            prefix: format!("$KV.{}.", bucket.name),
            stream: bucket.stream,
        })
    }

    /// A bucket of results: the server throws away the oldest beyond the bound, which buckets cannot be made to do by the
    /// usual way.
    pub async fn open_results(
        server: &Server,
        name: &str,
        replicas: usize,
        bound: Bound,
    ) -> Result<Self, Trouble> {
        let bucket = format!("{name}-results");
        let config = stream::Config {
            name: format!("KV_{bucket}"),
            description: Some("results of asynchronous calls of Ballast".to_owned()),
            subjects: vec![format!("$KV.{bucket}.>")],
            max_messages_per_subject: 1,
            max_messages: i64::try_from(bound.items).unwrap_or(-1),
            max_bytes: i64::try_from(bound.bytes).unwrap_or(-1),
            discard: stream::DiscardPolicy::Old,
            storage: stream::StorageType::File,
            num_replicas: replicas,
            allow_direct: true,
            allow_rollup: true,
            deny_delete: true,
            allow_message_ttl: true,
            subject_delete_marker_ttl: Some(MARKER_TTL),
            ..Default::default()
        };
        let stream = server.stream(config, replicas).await?;
        Ok(Keys { client: server.client.clone(), prefix: format!("$KV.{bucket}."), stream })
    }

    pub async fn get(&self, server: &Server, key: &str) -> Result<Option<Entry>> {
        let last = self.last(server, key).await?;
        Ok(last.and_then(|last| Some(Entry { value: last.value?, revision: last.sequence })))
    }

    pub async fn put(
        &self,
        server: &Server,
        key: &str,
        value: Bytes,
        expect: Expect,
        ttl: Option<Duration>,
    ) -> Result<u64> {
        let mut headers = HeaderMap::new();
        if let Some(ttl) = ttl {
            // rounded up: the exact end is in our own header
            headers.insert(NATS_MESSAGE_TTL, (ttl.as_millis().div_ceil(1000).max(1)).to_string());
            headers.insert(EXPIRES, queue::after(queue::now(), ttl).to_string());
        }
        self.write(server, key, headers, value, expect).await
    }

    pub async fn delete(&self, server: &Server, key: &str, expect: Expect) -> Result<()> {
        if expect == Expect::Nothing {
            let there = self.get(server, key).await?;
            return if there.is_some() { Err(conflict(key)) } else { Ok(()) };
        }
        if expect == Expect::Anything && self.get(server, key).await?.is_none() {
            return Ok(());
        }
        let mut headers = HeaderMap::new();
        headers.insert("KV-Operation", "DEL");
        // or the names of all keys that ever were would pile up
        headers.insert(NATS_MESSAGE_TTL, MARKER_TTL.as_secs().to_string());
        self.write(server, key, headers, Bytes::new(), expect).await.map(|_| ())
    }

    async fn write(
        &self,
        server: &Server,
        key: &str,
        mut headers: HeaderMap,
        value: Bytes,
        expect: Expect,
    ) -> Result<u64> {
        loop {
            let expected = match expect {
                Expect::Anything => None,
                Expect::Nothing => match self.last(server, key).await? {
                    Some(Last { value: Some(_), .. }) => return Err(conflict(key)),
                    last => Some(last.map_or(0, |last| last.sequence)),
                },
                Expect::Revision(revision) => {
                    let last = self.last(server, key).await?;
                    if !last.is_some_and(|last| last.sequence == revision && last.value.is_some()) {
                        return Err(conflict(key));
                    }
                    Some(revision)
                }
            };
            if let Some(expected) = expected {
                headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected.to_string());
            }
            let (headers, payload) = (headers.clone(), value.clone());
            match server.publish(Outgoing { subject: self.subject(key), headers, payload }).await {
                Ok(revision) => return Ok(revision),
                Err(Refused::Error(error)) => return Err(error),
                // perhaps only the remembrance of the key expired: look again, which ends with a conflict if it did not
                Err(Refused::Outrun) => {}
            }
        }
    }

    pub async fn list(&self, prefix: &str) -> Result<Vec<(String, Entry)>> {
        let (mut messages, mut pending) = self.follow(prefix).await?;
        let mut found = std::collections::BTreeMap::new();
        while pending > 0 {
            let message = messages.next().await.ok_or_else(|| unavailable("the list of keys ended early"))?;
            let message = message.map_err(unavailable)?;
            let info = message.info().map_err(unavailable)?;
            pending = info.pending;
            if let Some(change) = self.change(&message, info.stream_sequence, prefix) {
                match change.entry {
                    Some(entry) => found.insert(change.key, entry),
                    None => found.remove(&change.key),
                };
            }
        }
        Ok(found.into_iter().collect())
    }

    pub async fn watch(self: std::sync::Arc<Self>, prefix: &str) -> Result<BoxStream<'static, Change>> {
        let (messages, _) = self.follow(prefix).await?;
        let prefix = prefix.to_owned();
        let changes = messages.take_while(|message| std::future::ready(message.is_ok()));
        let changes = changes.filter_map(move |message| {
            let change = message.ok().and_then(|message| {
                let sequence = message.info().ok()?.stream_sequence;
                self.change(&message, sequence, &prefix)
            });
            std::future::ready(change)
        });
        Ok(changes.boxed())
    }

    /// Every key's last message, then each new one; and how many are the last ones.
    async fn follow(&self, prefix: &str) -> Result<(Ordered, u64)> {
        let config = OrderedConfig {
            deliver_subject: self.client.new_inbox(),
            filter_subject: format!("{}{}", self.prefix, subject::filter(prefix)),
            ..Default::default()
        };
        let consumer = self.stream.create_consumer(config).await.map_err(unavailable)?;
        let pending = consumer.cached_info().num_pending;
        Ok((consumer.messages().await.map_err(unavailable)?, pending))
    }

    fn change(&self, message: &async_nats::Message, revision: u64, prefix: &str) -> Option<Change> {
        let key = subject::decode_key(message.subject.strip_prefix(&self.prefix)?)?;
        if !key.starts_with(prefix) {
            return None;
        }
        let value = value(message.headers.as_ref(), &message.payload);
        Some(Change { key, entry: value.map(|value| Entry { value, revision }) })
    }

    /// Asks the leader, so that whoever wrote reads what it wrote.
    async fn last(&self, server: &Server, key: &str) -> Result<Option<Last>> {
        server.check()?;
        match self.stream.get_last_raw_message_by_subject(&self.subject(key)).await {
            Ok(message) => Ok(Some(Last {
                sequence: message.sequence,
                value: value(Some(&message.headers), &message.payload),
            })),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(unavailable(error)),
        }
    }

    fn subject(&self, key: &str) -> String {
        format!("{}{}", self.prefix, subject::encode_key(key))
    }
}

fn value(headers: Option<&HeaderMap>, payload: &Bytes) -> Option<Bytes> {
    let header = |name: &str| headers.and_then(|headers| headers.get(name));
    let is_marker = header("KV-Operation").is_some() || header("Nats-Marker-Reason").is_some();
    let expires = header(EXPIRES).and_then(|expires| expires.as_str().parse::<queue::Millis>().ok());
    let is_over = is_marker || expires.is_some_and(|expires| expires <= queue::now());
    (!is_over).then(|| payload.clone())
}

fn conflict(key: &str) -> Error {
    Error::Conflict { key: key.to_owned() }
}
