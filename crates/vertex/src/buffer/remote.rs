//! Embedded buffers as a pod sees them, see [`serve`](super::serve).

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, StatusCode, Uri, header::AUTHORIZATION};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use prost::Message;

use super::{
    Buffer, Delivery, Error, Info, MAX_BATCH, MAX_MESSAGE_BYTES, NewMessage, Published, Result, Service,
    Settings, Shared, Ticket, check_size, serve::MAX_BODY, wire,
};

#[derive(Clone)]
pub struct Remote {
    client: Client<HttpConnector, Full<Bytes>>,
    /// `http://127.0.0.1:PORT`.
    url: String,
    token: String,
    /// An answer that takes longer is not waited for.
    patience: Duration,
}

struct RemoteBuffer {
    server: Remote,
    name: String,
    ack_wait: Duration,
}

impl Remote {
    /// `url`: `http://HOST:PORT`; the token is that of the pipeline, see [`Embedded::token`](super::Embedded::token).
    ///
    /// # Errors
    /// When the URL is none.
    pub fn new(url: &str, token: String, patience: Duration) -> Result<Self> {
        let parsed: Option<Uri> = url.parse().ok().filter(|uri: &Uri| uri.host().is_some());
        if parsed.is_none() {
            return Err(Error::Refused(format!("{url:?} is no URL of buffers: write http://HOST:PORT")));
        }
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(patience));
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .http2_only(true)
            .http2_initial_stream_window_size(MAX_BODY as u32)
            .http2_initial_connection_window_size(MAX_BODY as u32)
            .build(connector);
        Ok(Remote { client, url: url.trim_end_matches('/').to_owned(), token, patience })
    }

    async fn ask(&self, name: &str, verb: &str, body: Vec<u8>, wait: Duration) -> Result<Bytes> {
        let request = Request::post(format!("{}/buffers/{name}/{verb}", self.url))
            .header(AUTHORIZATION, format!("Bearer {}", self.token))
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Error::Refused(format!("buffer {name:?} cannot be asked for: {error}")))?;
        let unavailable = |words: String| Error::Unavailable(format!("{}: {words}", self.url));
        let asked = async {
            let response = self.client.request(request).await.map_err(|error| {
                let why = std::error::Error::source(&error).map(|why| format!(": {why}")).unwrap_or_default();
                unavailable(format!("{error}{why}"))
            })?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
            Ok::<_, Error>((status, body.map_err(|error| unavailable(error.to_string()))?.to_bytes()))
        };
        let (status, body) = tokio::time::timeout(self.patience + wait, asked)
            .await
            .map_err(|_| unavailable(format!("no answer within {:?}", self.patience)))??;
        match status {
            StatusCode::OK => Ok(body),
            StatusCode::UNPROCESSABLE_ENTITY => Err(read::<wire::Failure>(body)?.into()),
            StatusCode::FORBIDDEN => {
                Err(Error::Refused(format!("there is no buffer {name} that this pipeline's token may use")))
            }
            status => Err(unavailable(format!("answered {status}"))),
        }
    }

    async fn look(&self, name: &str) -> Result<wire::Info> {
        read(self.ask(name, "info", Vec::new(), Duration::ZERO).await?)
    }
}

#[async_trait]
impl Service for Remote {
    async fn create(&self, name: &str, _: &Settings) -> Result<()> {
        Err(Error::Refused(format!("buffer {name} is made by the process that has it, not by a pod")))
    }

    async fn delete(&self, name: &str) -> Result<()> {
        Err(Error::Refused(format!("buffer {name} is deleted by the process that has it, not by a pod")))
    }

    async fn open(&self, name: &str) -> Result<Shared> {
        let ack_wait = Duration::from_millis(self.look(name).await?.ack_wait_ms);
        Ok(Arc::new(RemoteBuffer { server: self.clone(), name: name.to_owned(), ack_wait }))
    }

    async fn info(&self, name: &str) -> Result<Info> {
        let info = self.look(name).await?;
        Ok(Info { pending: info.pending, ack_pending: info.ack_pending })
    }
}

#[async_trait]
impl Buffer for RemoteBuffer {
    fn name(&self) -> &str {
        &self.name
    }

    async fn publish(&self, messages: Vec<NewMessage>) -> Vec<Result<Published>> {
        let n_messages = messages.len();
        if let Some(error) = messages.iter().find_map(|message| check_size(&self.name, message).err()) {
            return vec![Err(error); n_messages];
        }
        let mut answers = Vec::with_capacity(n_messages);
        let (mut part, mut bytes) = (wire::Publish::default(), 0);
        for message in messages {
            bytes += message.payload.len() + message.id.as_ref().map_or(0, String::len) + 32;
            part.messages.push(wire::PublishOne { id: message.id, payload: message.payload });
            // the next one may be as large as they come
            if bytes + MAX_MESSAGE_BYTES + 64 > MAX_BODY || part.messages.len() >= MAX_BATCH {
                answers.extend(self.publish_part(std::mem::take(&mut part)).await);
                bytes = 0;
            }
        }
        if !part.messages.is_empty() {
            answers.extend(self.publish_part(part).await);
        }
        answers
    }

    async fn fetch(&self, max: usize, wait: Duration) -> Result<Vec<Delivery>> {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let request = wire::Fetch { max: max as u64, wait_ms };
        let fetched: wire::Fetched =
            read(self.server.ask(&self.name, "fetch", request.encode_to_vec(), wait).await?)?;
        let deliveries = fetched.deliveries.into_iter();
        let deliveries = deliveries.map(|delivery| Delivery {
            sequence: delivery.sequence,
            attempt: delivery.attempt,
            payload: delivery.payload,
            ticket: Ticket::of(delivery.sequence),
        });
        Ok(deliveries.collect())
    }

    async fn ack(&self, tickets: &[Ticket]) -> Result<()> {
        self.settle("ack", tickets, Duration::ZERO).await
    }

    async fn in_progress(&self, tickets: &[Ticket]) -> Result<()> {
        self.settle("progress", tickets, Duration::ZERO).await
    }

    async fn nack(&self, tickets: &[Ticket], delay: Duration) -> Result<()> {
        self.settle("nack", tickets, delay).await
    }

    async fn info(&self) -> Result<Info> {
        self.server.info(&self.name).await
    }

    fn ack_wait(&self) -> Duration {
        self.ack_wait
    }
}

impl RemoteBuffer {
    async fn publish_part(&self, part: wire::Publish) -> Vec<Result<Published>> {
        let n_messages = part.messages.len();
        let asked = self.server.ask(&self.name, "publish", part.encode_to_vec(), Duration::ZERO).await;
        let published: Result<wire::Published> = asked.and_then(read);
        match published {
            Ok(published) if published.answers.len() == n_messages => {
                let answers = published.answers.into_iter().map(|answer| match answer.failure {
                    None => Ok(Published { is_duplicate: answer.is_duplicate }),
                    Some(failure) => Err(failure.into()),
                });
                answers.collect()
            }
            Ok(_) => {
                let error = Error::Unavailable("the buffers answered for another number of messages".into());
                vec![Err(error); n_messages]
            }
            Err(error) => vec![Err(error); n_messages],
        }
    }

    async fn settle(&self, verb: &str, tickets: &[Ticket], delay: Duration) -> Result<()> {
        if tickets.is_empty() {
            return Ok(());
        }
        let sequences = tickets.iter().map(Ticket::sequence).collect::<Result<_>>()?;
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let request = wire::Settle { sequences, delay_ms };
        self.server.ask(&self.name, verb, request.encode_to_vec(), Duration::ZERO).await.map(|_| ())
    }
}

fn read<M: Message + Default>(body: Bytes) -> Result<M> {
    M::decode(body)
        .map_err(|error| Error::Unavailable(format!("cannot read the answer of the buffers: {error}")))
}
