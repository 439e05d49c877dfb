//! Where a vertex reads: a partition of its buffer, or outside.

mod generator;
mod http;
mod jetstream;

use std::time::Duration;

use async_trait::async_trait;

pub use self::{generator::Generator, http::Http, jetstream::JetStream};
use crate::{
    buffer::{self, Shared, Ticket},
    message::{Message, Read},
    user,
};

#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

pub type Result<T> = std::result::Result<T, Error>;

#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Waits up to `wait` for the first message. Not to be cancelled.
    async fn read(&self, max: usize, wait: Duration) -> Result<Vec<Read>>;
    async fn ack(&self, tickets: &[Ticket]) -> Result<()>;
    async fn nack(&self, tickets: &[Ticket], delay: Duration) -> Result<()>;
    async fn in_progress(&self, _tickets: &[Ticket]) -> Result<()> {
        Ok(())
    }
    /// How often to say so; never if absent.
    fn progress_every(&self) -> Option<Duration> {
        None
    }
    /// None if it cannot be told.
    async fn pending(&self) -> Option<i64> {
        None
    }
}

/// One partition of a vertex that is no source.
pub struct Partition {
    buffer: Shared,
    vertex: String,
    index: usize,
}

impl Partition {
    pub fn new(buffer: Shared, vertex: String, index: usize) -> Self {
        Partition { buffer, vertex, index }
    }
}

#[async_trait]
impl Source for Partition {
    async fn read(&self, max: usize, wait: Duration) -> Result<Vec<Read>> {
        let deliveries = self.buffer.fetch(max, wait).await?;
        let mut read = Vec::with_capacity(deliveries.len());
        let mut unusable = Vec::new();
        for delivery in deliveries {
            let offset = format!("{}-{}", delivery.sequence, self.index);
            match Message::decode(delivery.payload, &self.vertex, offset) {
                Ok(Some(message)) => read.push(Read { message, ticket: delivery.ticket }),
                Ok(None) => unusable.push(delivery.ticket),
                Err(error) => {
                    let (buffer, sequence) = (self.buffer.name(), delivery.sequence);
                    tracing::error!(buffer, sequence, %error, "left out what is no message of a pipeline");
                    unusable.push(delivery.ticket);
                }
            }
        }
        if !unusable.is_empty() {
            self.buffer.ack(&unusable).await?;
        }
        Ok(read)
    }

    async fn ack(&self, tickets: &[Ticket]) -> Result<()> {
        Ok(self.buffer.ack(tickets).await?)
    }

    async fn nack(&self, tickets: &[Ticket], delay: Duration) -> Result<()> {
        Ok(self.buffer.nack(tickets, delay).await?)
    }

    async fn in_progress(&self, tickets: &[Ticket]) -> Result<()> {
        Ok(self.buffer.in_progress(tickets).await?)
    }

    fn progress_every(&self) -> Option<Duration> {
        Some(self.buffer.ack_wait() / 3)
    }

    async fn pending(&self) -> Option<i64> {
        let info = self.buffer.info().await.ok()?;
        i64::try_from(info.total()).ok()
    }
}

#[async_trait]
impl Source for user::Source {
    async fn read(&self, max: usize, wait: Duration) -> Result<Vec<Read>> {
        Ok(user::Source::read(self, max, wait).await?)
    }

    async fn ack(&self, tickets: &[Ticket]) -> Result<()> {
        Ok(user::Source::ack(self, tickets).await?)
    }

    async fn nack(&self, tickets: &[Ticket], _: Duration) -> Result<()> {
        Ok(user::Source::nack(self, tickets).await?)
    }

    async fn in_progress(&self, _: &[Ticket]) -> Result<()> {
        Ok(())
    }

    fn progress_every(&self) -> Option<Duration> {
        None
    }

    async fn pending(&self) -> Option<i64> {
        user::Source::pending(self).await.ok().flatten()
    }
}

impl From<buffer::Error> for Error {
    fn from(error: buffer::Error) -> Self {
        Error(error.to_string())
    }
}

impl From<user::Error> for Error {
    fn from(error: user::Error) -> Self {
        Error(error.to_string())
    }
}

/// Of the wall clock.
pub(crate) fn now() -> prost_types::Timestamp {
    std::time::SystemTime::now().into()
}
