//! The connection, and the few things asked of JetStream.

use std::{path::Path, time::Duration};

use async_nats::{
    Client, ConnectOptions, HeaderMap,
    connection::State,
    jetstream::{
        self, Context,
        context::{PublishError, PublishErrorKind},
        message::PublishMessage,
        stream::{self, Stream},
    },
};
use bytes::Bytes;
use tokio::sync::Mutex;

use super::trouble::Trouble;
use crate::{Address, Error, NatsAccount, Result};

pub struct Server {
    pub client: Client,
    pub context: Context,
    pub patience: Duration,
    /// For messages.
    pub address: Address,
    /// Held while the messages of a batch are sent: the server keeps only so many unfinished ones.
    batches: Mutex<u64>,
    /// Names the batches of this process.
    name: String,
}

/// Why a write was not done.
#[derive(Debug)]
pub enum Refused {
    /// Somebody wrote the same subject in between.
    Outrun,
    Error(Error),
}

pub struct Outgoing {
    pub subject: String,
    pub headers: HeaderMap,
    pub payload: Bytes,
}

impl Server {
    pub async fn connect(addresses: &str, patience: Duration, account: &NatsAccount) -> Result<Self> {
        let servers: Vec<String> = addresses.split(',').map(|address| address.trim().to_owned()).collect();
        let Ok(address) = addresses.parse::<Address>();
        let options = ConnectOptions::new()
            .name("ballast")
            .connection_timeout(patience)
            .request_timeout(Some(patience))
            .reconnect_delay_callback(|attempts| Duration::from_millis((attempts as u64 * 50).min(1000)));
        let client = present(options, account).await?.connect(servers).await.map_err(|error| {
            match Trouble::of_connection(&error) {
                Trouble::Temporary(why) | Trouble::Doubtful(why) => {
                    Error::Unavailable(format!("NATS at {address} cannot be reached: {why}"))
                }
                Trouble::Lasting(why) => Error::Open(format!("NATS at {address} lets us not in: {why}")),
            }
        })?;
        let context = jetstream::ContextBuilder::new().timeout(patience).build(client.clone());
        let name = client.new_inbox().replace('.', "-");
        Ok(Server { client, context, patience, address, batches: Mutex::new(0), name })
    }

    /// The stream, made if it is not there.
    pub async fn stream(&self, config: stream::Config, replicas: usize) -> Result<Stream, Trouble> {
        let made = self.context.create_or_update_stream(config).await;
        let info = made.map_err(|error| Trouble::of_creation(&error, replicas))?;
        // made a moment ago: what is in the way now will pass
        let stream = self.context.get_stream(&info.config.name).await;
        stream.map_err(|error| Trouble::Temporary(error.to_string()))
    }

    /// Fails at once while there is no connection, rather than after all patience.
    pub fn check(&self) -> Result<()> {
        match self.client.connection_state() {
            State::Connected => Ok(()),
            state => Err(Error::Unavailable(format!("NATS is {state}"))),
        }
    }

    /// The stream's sequence, once the message is kept.
    pub async fn publish(&self, message: Outgoing) -> Result<u64, Refused> {
        self.check()?;
        let publish = PublishMessage::build().payload(message.payload).headers(message.headers);
        let ack = self.context.send_publish(message.subject, publish).await?.await?;
        Ok(ack.sequence)
    }

    /// All or none; the sequence is that of the last.
    pub async fn publish_all(&self, messages: Vec<Outgoing>) -> Result<u64, Refused> {
        self.check()?;
        let count = messages.len();
        let ack = {
            let mut batch = self.batches.lock().await;
            *batch += 1;
            let id = format!("{}{batch}", self.name);
            let mut sent = None;
            for (index, mut message) in messages.into_iter().enumerate() {
                message.headers.insert("Nats-Batch-Id", id.as_str());
                message.headers.insert("Nats-Batch-Sequence", (index + 1).to_string());
                if index + 1 == count {
                    message.headers.insert("Nats-Batch-Commit", "1");
                    let publish = PublishMessage::build().payload(message.payload).headers(message.headers);
                    sent = Some(self.context.send_publish(message.subject, publish).await?);
                } else {
                    let publish =
                        self.client.publish_with_headers(message.subject, message.headers, message.payload);
                    publish.await.map_err(unavailable)?;
                }
            }
            sent
        };
        match ack {
            Some(ack) => Ok(ack.await?.sequence),
            None => Ok(0),
        }
    }
}

/// Says who we are, and whom we believe.
async fn present(mut options: ConnectOptions, account: &NatsAccount) -> Result<ConnectOptions> {
    let unreadable = |path: &Path, error: std::io::Error| {
        Error::Open(format!("cannot read {} for NATS: {error}", path.display()))
    };
    let there = [account.ca.as_ref(), account.certificate.as_ref().map(|(certificate, _)| certificate)];
    for path in there.into_iter().flatten().chain(account.certificate.as_ref().map(|(_, key)| key)) {
        // or the connection would only say that TLS failed
        std::fs::File::open(path).map_err(|error| unreadable(path, error))?;
    }
    if let Some(path) = &account.credentials {
        options = options.credentials_file(path).await.map_err(|error| unreadable(path, error))?;
    }
    if let Some(path) = &account.nkey {
        let seed = tokio::fs::read_to_string(path).await.map_err(|error| unreadable(path, error))?;
        options = options.nkey(seed.trim().to_owned());
    }
    if let Some(path) = &account.ca {
        options = options.add_root_certificates(path.clone()).require_tls(true);
    }
    if let Some((certificate, key)) = &account.certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone()).require_tls(true);
    }
    Ok(options)
}

pub fn unavailable(error: impl std::fmt::Display) -> Error {
    Error::Unavailable(format!("NATS: {error}"))
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused::Error(error)
    }
}

impl From<PublishError> for Refused {
    fn from(error: PublishError) -> Self {
        match error.kind() {
            PublishErrorKind::WrongLastSequence => Refused::Outrun,
            PublishErrorKind::MaxPayloadExceeded => {
                Refused::Error(Error::TooLarge(format!("{error}: raise max_payload of the NATS servers")))
            }
            _ => Refused::Error(unavailable(error)),
        }
    }
}
