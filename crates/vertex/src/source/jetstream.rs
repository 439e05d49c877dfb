//! A stream of a NATS server, read by a durable consumer that the pods of the vertex share.

use std::time::Duration;

use async_nats::jetstream::{
    AckKind,
    consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull},
};
use async_trait::async_trait;

use super::{Error, Result, Source};
use crate::{
    buffer::{self, Ticket},
    config::{self, Deliver},
    message::{Id, Message, Read},
};

const ACK_WAIT: Duration = Duration::from_secs(60);
const MAX_ACK_PENDING: i64 = 25_000;

pub struct JetStream {
    server: buffer::JetStream,
    consumer: PullConsumer,
    vertex: String,
}

impl JetStream {
    /// # Errors
    /// When there is no such stream or consumer, or the server cannot be reached.
    pub async fn open(config: &config::JetStream, vertex: String, patience: Duration) -> Result<Self> {
        let server = buffer::JetStream::connect(&config.url, &config.account, patience).await?;
        let failed = |what: &str, error: &dyn std::fmt::Display| Error(format!("{what}: {error}"));
        let stream = server.context().get_stream(&config.stream).await;
        let stream = stream.map_err(|error| failed(&format!("stream {}", config.stream), &error))?;
        let consumer = match &config.consumer {
            Some(name) => stream
                .get_consumer(name)
                .await
                .map_err(|error| failed(&format!("consumer {name} of stream {}", config.stream), &error))?,
            None => {
                let wanted = pull::Config {
                    durable_name: Some(config.durable.clone()),
                    deliver_policy: match config.deliver {
                        Deliver::All => DeliverPolicy::All,
                        Deliver::New => DeliverPolicy::New,
                        Deliver::Last => DeliverPolicy::Last,
                        Deliver::LastPerSubject => DeliverPolicy::LastPerSubject,
                    },
                    ack_policy: AckPolicy::Explicit,
                    ack_wait: ACK_WAIT,
                    max_ack_pending: MAX_ACK_PENDING,
                    filter_subjects: config.filters.clone(),
                    ..Default::default()
                };
                stream.get_or_create_consumer(&config.durable, wanted).await.map_err(|error| {
                    failed(&format!("consumer {} of stream {}", config.durable, config.stream), &error)
                })?
            }
        };
        Ok(JetStream { server, consumer, vertex })
    }

    fn read_one(&self, message: async_nats::jetstream::Message) -> Result<Read> {
        let ticket = Ticket::of_message(&message)?;
        let info = message.info().map_err(|error| Error(format!("NATS: {error}")))?;
        let offset = info.stream_sequence.to_string();
        let time = info.published;
        let event_time = prost_types::Timestamp {
            seconds: time.unix_timestamp(),
            nanos: i32::try_from(time.nanosecond()).unwrap_or(0),
        };
        let mut headers = std::collections::HashMap::new();
        for (name, values) in message.headers.iter().flat_map(|headers| headers.iter()) {
            let values: Vec<&str> = values.iter().map(|value| value.as_str()).collect();
            headers.insert(name.to_string(), values.join(","));
        }
        let message = Message {
            id: Id { vertex: self.vertex.clone(), offset, index: 0 },
            value: message.message.payload,
            event_time: Some(event_time),
            headers,
            ..Message::default()
        };
        Ok(Read { message, ticket })
    }
}

#[async_trait]
impl Source for JetStream {
    async fn read(&self, max: usize, wait: Duration) -> Result<Vec<Read>> {
        self.server.check()?;
        let messages = buffer::take(&self.consumer, max, wait).await?;
        messages.into_iter().map(|message| self.read_one(message)).collect()
    }

    async fn ack(&self, tickets: &[Ticket]) -> Result<()> {
        Ok(self.server.ack(tickets).await?)
    }

    async fn nack(&self, tickets: &[Ticket], delay: Duration) -> Result<()> {
        let delay = Some(delay).filter(|delay| !delay.is_zero());
        self.server.send(tickets, AckKind::Nak(delay)).await?;
        Ok(self.server.flush().await?)
    }

    async fn in_progress(&self, tickets: &[Ticket]) -> Result<()> {
        Ok(self.server.send(tickets, AckKind::Progress).await?)
    }

    fn progress_every(&self) -> Option<Duration> {
        Some(self.consumer.cached_info().config.ack_wait / 3)
    }

    async fn pending(&self) -> Option<i64> {
        let info = self.consumer.get_info().await.ok()?;
        i64::try_from(info.num_pending + info.num_ack_pending as u64).ok()
    }
}
