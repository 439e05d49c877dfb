//! Buffers as Numaflow lays them out on NATS: a stream, its one subject and its one durable consumer, all named as the
//! buffer.

use std::{sync::Arc, time::Duration};

use async_nats::{
    Client, ConnectOptions, HeaderMap, Subject,
    connection::State,
    header::NATS_MESSAGE_ID,
    jetstream::{
        self, AckKind, Context, ErrorCode,
        consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull},
        context::{ConsumerInfoErrorKind, PublishAckFuture, PublishErrorKind},
        message::PublishMessage,
        stream::{self, DiscardPolicy, RetentionPolicy, StorageType},
    },
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream::iter};

use super::{
    Buffer, Delivery, Error, Info, MAX_BATCH, MAX_FETCH_BYTES, NewMessage, Published, Result, Retention,
    Service, Settings, Shared, Ticket, check_size,
};

/// A request that does not wait is held by the server all the same while [`Settings::max_ack_pending`] is reached.
const BLOCKED: Duration = Duration::from_millis(500);
/// Acknowledgements that are confirmed one by one after a reconnect.
const MAX_CONFIRMATIONS: usize = 64;
const STREAM_NOT_FOUND: ErrorCode = ErrorCode::STREAM_NOT_FOUND;

/// As whom to speak to NATS.
#[derive(Clone, Default)]
pub struct Account {
    /// Name and password.
    pub user: Option<(String, String)>,
    /// Whoever answers is believed: the servers of an InterStepBufferService sign their own certificates.
    pub tls: bool,
}

impl std::fmt::Debug for Account {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let user = self.user.as_ref().map(|(user, _)| user);
        f.debug_struct("Account").field("user", &user).field("tls", &self.tls).finish()
    }
}

#[derive(Clone)]
pub struct JetStream {
    client: Client,
    context: Context,
}

struct JetStreamBuffer {
    server: JetStream,
    name: String,
    consumer: PullConsumer,
}

impl JetStream {
    /// `addresses`: `nats://HOST:PORT`, several with commas. A server that does not answer within `patience` counts as
    /// gone; what was asked of it may still happen.
    ///
    /// # Errors
    /// When no server lets us in.
    pub async fn connect(addresses: &str, account: &Account, patience: Duration) -> Result<Self> {
        let servers: Vec<String> = addresses.split(',').map(|address| address.trim().to_owned()).collect();
        let Ok(shown) = addresses.parse::<store::Address>();
        let mut options = ConnectOptions::new()
            .name("ballast-vertex")
            .connection_timeout(patience)
            .request_timeout(Some(patience))
            .reconnect_delay_callback(|attempts| Duration::from_millis((attempts as u64 * 50).min(1000)));
        if let Some((user, password)) = &account.user {
            options = options.user_and_password(user.clone(), password.clone());
        }
        if account.tls {
            options = options.require_tls(true).tls_client_config((*tls::trusting_anybody()).clone());
        }
        let client = options.connect(servers).await;
        let client = client
            .map_err(|error| Error::Unavailable(format!("NATS at {shown} cannot be reached: {error}")))?;
        let context = jetstream::ContextBuilder::new().timeout(patience).build(client.clone());
        Ok(JetStream { client, context })
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Fails at once while there is no connection, rather than after all patience.
    pub fn check(&self) -> Result<()> {
        match self.client.connection_state() {
            State::Connected => Ok(()),
            state => Err(Error::Unavailable(format!("NATS is {state}"))),
        }
    }

    /// Confirmed by the server: it treats what one connection sends to one consumer in its order, so the last answer stands
    /// for those before it, unless the connection was another one by then.
    pub async fn ack(&self, tickets: &[Ticket]) -> Result<()> {
        let Some((last, others)) = tickets.split_last() else { return Ok(()) };
        self.check()?;
        let connects = || self.client.statistics().connects.load(std::sync::atomic::Ordering::SeqCst);
        let before = connects();
        self.send(others, AckKind::Ack).await?;
        self.confirm(last).await?;
        if connects() == before {
            return Ok(());
        }
        iter(others.to_vec())
            .map(|ticket| Ok(async move { self.confirm(&ticket).await }))
            .try_buffer_unordered(MAX_CONFIRMATIONS)
            .try_collect::<()>()
            .await
    }

    async fn confirm(&self, ticket: &Ticket) -> Result<()> {
        let asked = self.client.request(ticket.subject()?, AckKind::Ack.into());
        asked.await.map(|_| ()).map_err(unavailable)
    }

    /// Without waiting for an answer: what gets lost is delivered again.
    pub async fn send(&self, tickets: &[Ticket], kind: AckKind) -> Result<()> {
        self.check()?;
        let payload: Bytes = kind.into();
        for ticket in tickets {
            self.client.publish(ticket.subject()?, payload.clone()).await.map_err(unavailable)?;
        }
        Ok(())
    }

    pub async fn flush(&self) -> Result<()> {
        self.client.flush().await.map_err(unavailable)
    }

    async fn consumer(&self, name: &str) -> Result<PullConsumer> {
        self.check()?;
        let stream = self.context.get_stream_no_info(name).await.map_err(unavailable)?;
        stream.get_consumer(name).await.map_err(|error| not_found(name, &*error))
    }
}

#[async_trait]
impl Service for JetStream {
    async fn create(&self, name: &str, settings: &Settings) -> Result<()> {
        self.check()?;
        let discard = match settings.retention {
            Retention::Limits => DiscardPolicy::Old,
            Retention::WorkQueue | Retention::Interest => DiscardPolicy::New,
        };
        let retention = match settings.retention {
            Retention::Limits => RetentionPolicy::Limits,
            Retention::WorkQueue => RetentionPolicy::WorkQueue,
            Retention::Interest => RetentionPolicy::Interest,
        };
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let config = stream::Config {
            name: name.to_owned(),
            subjects: vec![name.to_owned()],
            retention,
            discard,
            max_messages: signed(settings.max_messages),
            max_bytes: settings.max_bytes.map_or(-1, signed),
            max_age: settings.max_age,
            storage: StorageType::File,
            num_replicas: settings.replicas,
            duplicate_window: settings.duplicates,
            ..Default::default()
        };
        let refused =
            |error: &dyn std::fmt::Display| Error::Unavailable(format!("NATS does not make {name}: {error}"));
        let stream = match self.context.get_stream(name).await {
            Ok(stream) => stream,
            Err(_) => self.context.create_stream(config).await.map_err(|error| refused(&error))?,
        };
        let consumer = pull::Config {
            durable_name: Some(name.to_owned()),
            deliver_policy: DeliverPolicy::All,
            ack_policy: AckPolicy::Explicit,
            ack_wait: settings.ack_wait,
            max_ack_pending: signed(settings.max_ack_pending),
            filter_subject: name.to_owned(),
            ..Default::default()
        };
        stream.get_or_create_consumer(name, consumer).await.map_err(|error| refused(&error))?;
        Ok(())
    }

    async fn delete(&self, name: &str) -> Result<()> {
        self.check()?;
        match self.context.delete_stream(name).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let kind = error.kind();
                match kind {
                    jetstream::context::DeleteStreamErrorKind::JetStream(refusal)
                        if refusal.error_code() == STREAM_NOT_FOUND =>
                    {
                        Ok(())
                    }
                    _ => Err(unavailable(error)),
                }
            }
        }
    }

    async fn open(&self, name: &str) -> Result<Shared> {
        let consumer = self.consumer(name).await?;
        Ok(Arc::new(JetStreamBuffer { server: self.clone(), name: name.to_owned(), consumer }))
    }

    /// The consumer alone tells both figures. A stream with retention by limits keeps what was acknowledged, so its own
    /// count says nothing; the others hold what the consumer has before it.
    async fn info(&self, name: &str) -> Result<Info> {
        let consumer = self.consumer(name).await?;
        Ok(of_consumer(consumer.cached_info()))
    }
}

#[async_trait]
impl Buffer for JetStreamBuffer {
    fn name(&self) -> &str {
        &self.name
    }

    async fn publish(&self, messages: Vec<NewMessage>) -> Vec<Result<Published>> {
        if let Err(error) = self.server.check() {
            return messages.iter().map(|_| Err(error.clone())).collect();
        }
        let mut sent: Vec<Result<PublishAckFuture>> = Vec::with_capacity(messages.len());
        let subject = Subject::from(self.name.as_str());
        for message in messages {
            if let Err(error) = check_size(&self.name, &message) {
                sent.push(Err(error));
                continue;
            }
            let mut publish = PublishMessage::build().payload(message.payload);
            if let Some(id) = &message.id {
                let mut headers = HeaderMap::new();
                headers.insert(NATS_MESSAGE_ID, id.as_str());
                publish = publish.headers(headers);
            }
            let future = self.server.context.send_publish(subject.clone(), publish).await;
            sent.push(future.map_err(|error| self.publish_error(&error)));
        }
        let mut answers = Vec::with_capacity(sent.len());
        for future in sent {
            answers.push(match future {
                Ok(future) => match future.await {
                    Ok(ack) => Ok(Published { is_duplicate: ack.duplicate }),
                    Err(error) => Err(self.publish_error(&error)),
                },
                Err(error) => Err(error),
            });
        }
        answers
    }

    async fn fetch(&self, max: usize, wait: Duration) -> Result<Vec<Delivery>> {
        self.server.check()?;
        take(&self.consumer, max, wait).await?.into_iter().map(delivery).collect()
    }

    async fn ack(&self, tickets: &[Ticket]) -> Result<()> {
        self.server.ack(tickets).await
    }

    async fn in_progress(&self, tickets: &[Ticket]) -> Result<()> {
        self.server.send(tickets, AckKind::Progress).await
    }

    async fn nack(&self, tickets: &[Ticket], delay: Duration) -> Result<()> {
        let delay = Some(delay).filter(|delay| !delay.is_zero());
        self.server.send(tickets, AckKind::Nak(delay)).await?;
        // whoever gives back is often about to go
        self.server.flush().await
    }

    async fn info(&self) -> Result<Info> {
        self.server.check()?;
        let info = self.consumer.get_info().await.map_err(|error| match error.kind() {
            ConsumerInfoErrorKind::NotFound => Error::NotFound(self.name.clone()),
            _ => unavailable(error),
        })?;
        Ok(of_consumer(&info))
    }

    fn ack_wait(&self) -> Duration {
        self.consumer.cached_info().config.ack_wait
    }
}

impl JetStreamBuffer {
    fn publish_error(&self, error: &jetstream::context::PublishError) -> Error {
        match error.kind() {
            PublishErrorKind::StreamNotFound => Error::NotFound(self.name.clone()),
            PublishErrorKind::MaxPayloadExceeded => Error::Refused(format!(
                "a message is too large for buffer {}: raise max_payload of the NATS servers",
                self.name
            )),
            _ if error.to_string().contains("exceeded") => Error::Full(self.name.clone()),
            _ => unavailable(error),
        }
    }
}

impl Ticket {
    fn subject(&self) -> Result<Subject> {
        Subject::from_utf8(self.0.clone()).map_err(|_| Error::Refused("not a ticket of NATS".to_owned()))
    }

    pub(crate) fn of_message(message: &jetstream::Message) -> Result<Self> {
        let reply = message.reply.as_ref().ok_or_else(|| unavailable("a message without a reply subject"))?;
        Ok(Ticket(Bytes::copy_from_slice(reply.as_bytes())))
    }
}

/// What is there is taken without waiting. Only where nothing is does a second request wait, for one message: a larger one
/// would come back late, or leave messages under way to nobody.
pub(crate) async fn take(
    consumer: &PullConsumer,
    max: usize,
    wait: Duration,
) -> Result<Vec<jetstream::Message>> {
    let max = max.min(MAX_BATCH);
    let mut messages = take_now(consumer, max).await?;
    if messages.is_empty() && max > 0 && !wait.is_zero() {
        let first = consumer.batch().max_messages(1).expires(wait).messages();
        let mut first = first.await.map_err(unavailable)?;
        if let Some(message) = first.next().await {
            messages.push(message.map_err(unavailable)?);
            // the first is ours, whatever becomes of the others
            messages.extend(take_now(consumer, max - 1).await.unwrap_or_default());
        }
    }
    Ok(messages)
}

async fn take_now(consumer: &PullConsumer, max: usize) -> Result<Vec<jetstream::Message>> {
    if max == 0 {
        return Ok(Vec::new());
    }
    let batch = consumer.fetch().max_messages(max).max_bytes(MAX_FETCH_BYTES).expires(BLOCKED).messages();
    let mut batch = batch.await.map_err(unavailable)?;
    let mut messages = Vec::new();
    while let Some(message) = batch.next().await {
        match message {
            Ok(message) => messages.push(message),
            // what came is ours now, whatever ended the batch: the limit of bytes, or a server that went away
            Err(error) if messages.is_empty() => return Err(unavailable(error)),
            Err(_) => break,
        }
    }
    Ok(messages)
}

fn delivery(message: jetstream::Message) -> Result<Delivery> {
    let ticket = Ticket::of_message(&message)?;
    let info = message.info().map_err(unavailable)?;
    let (sequence, attempt) = (info.stream_sequence, u64::try_from(info.delivered).unwrap_or(1));
    Ok(Delivery { sequence, attempt, payload: message.message.payload, ticket })
}

fn of_consumer(info: &jetstream::consumer::Info) -> Info {
    Info { pending: info.num_pending, ack_pending: info.num_ack_pending as u64 }
}

fn not_found(name: &str, error: &(dyn std::error::Error + Send + Sync)) -> Error {
    let words = error.to_string();
    if words.contains("not found") { Error::NotFound(name.to_owned()) } else { unavailable(words) }
}

pub(crate) fn unavailable(error: impl std::fmt::Display) -> Error {
    Error::Unavailable(format!("NATS: {error}"))
}
