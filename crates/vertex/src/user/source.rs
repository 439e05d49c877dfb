//! A container that gives messages and is told what became of them.

use std::time::Duration;

use numaflow::proto::source::{
    AckRequest, AckResponse, Handshake, NackRequest, Offset, ReadRequest, ReadResponse, ack_request,
    nack_request, read_request, read_response, source_client::SourceClient,
};
use prost::Message as _;
use tokio::sync::{Mutex, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};

use super::{Error, MAX_MESSAGE_BYTES, MAX_WAITING, Socket};
use crate::{
    buffer::Ticket,
    message::{Id, Message, Read},
};

pub struct Source {
    socket: Socket,
    vertex: String,
    open: Mutex<Option<Open>>,
    client: Mutex<Option<SourceClient<Channel>>>,
}

/// One at a time: an acknowledgement waits for a read that waits, which is no longer than the read timeout.
struct Open {
    reads: (mpsc::Sender<ReadRequest>, Streaming<ReadResponse>),
    acks: (mpsc::Sender<AckRequest>, Streaming<AckResponse>),
}

impl Source {
    pub fn new(socket: Socket, vertex: String) -> Self {
        Source { socket, vertex, open: Mutex::default(), client: Mutex::default() }
    }

    pub async fn is_ready(&self) -> bool {
        let mut slot = self.open.lock().await;
        if slot.is_none() {
            *slot = self.open().await.ok();
        }
        slot.is_some()
    }

    pub async fn read(&self, max: usize, wait: Duration) -> Result<Vec<Read>, Error> {
        let mut slot = self.open.lock().await;
        let mut open = self.taken(&mut slot).await?;
        let timeout_in_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        let request = Some(read_request::Request { num_records: max as u64, timeout_in_ms });
        let (requests, answers) = &mut open.reads;
        self.send(requests, ReadRequest { request, handshake: None }).await?;
        let mut read = Vec::new();
        loop {
            let answer = self.next(answers).await?;
            read.extend(answer.result.map(|result| self.message(result)));
            if answer.status.is_some_and(|status| status.eot) {
                break;
            }
        }
        *slot = Some(open);
        Ok(read)
    }

    pub async fn ack(&self, tickets: &[Ticket]) -> Result<(), Error> {
        let offsets = self.offsets(tickets)?;
        let mut slot = self.open.lock().await;
        let mut open = self.taken(&mut slot).await?;
        let request = Some(ack_request::Request { offsets });
        let (requests, answers) = &mut open.acks;
        self.send(requests, AckRequest { request, handshake: None }).await?;
        self.next(answers).await?;
        *slot = Some(open);
        Ok(())
    }

    pub async fn nack(&self, tickets: &[Ticket]) -> Result<(), Error> {
        let offsets = self.offsets(tickets)?;
        let mut client = self.client().await?;
        let request = vec![nack_request::Request { offsets, nack_options: None }];
        let nacked = client.nack_fn(NackRequest { request }).await;
        nacked.map(|_| ()).map_err(|status| self.socket.status(&status))
    }

    /// None if the source cannot tell.
    pub async fn pending(&self) -> Result<Option<i64>, Error> {
        let pending = self.client().await?.pending_fn(()).await;
        let pending = pending.map_err(|status| self.socket.status(&status))?;
        let count = pending.into_inner().result.map(|result| result.count);
        Ok(count.filter(|count| *count >= 0))
    }

    fn message(&self, result: read_response::Result) -> Read {
        let offset = result.offset.unwrap_or_default();
        let name = format!("{}-{}", String::from_utf8_lossy(&offset.offset), offset.partition_id);
        let message = Message {
            id: Id { vertex: self.vertex.clone(), offset: name, index: 0 },
            keys: result.keys,
            value: result.payload.into(),
            event_time: result.event_time,
            headers: result.headers,
            metadata: result.metadata,
            tags: Vec::new(),
        };
        Read { message, ticket: Ticket::of_bytes(offset.encode_to_vec().into()) }
    }

    /// Put back only after everything went well: after an error the streams may be out of step, and are opened anew.
    async fn taken(&self, slot: &mut Option<Open>) -> Result<Open, Error> {
        match slot.take() {
            Some(open) => Ok(open),
            None => self.open().await,
        }
    }

    /// For calls of their own, which wait for no read.
    async fn client(&self) -> Result<SourceClient<Channel>, Error> {
        let mut client = self.client.lock().await;
        if let Some(client) = client.as_ref() {
            return Ok(client.clone());
        }
        Ok(client.insert(SourceClient::new(self.socket.connect().await?)).clone())
    }

    async fn open(&self) -> Result<Open, Error> {
        let mut client = SourceClient::new(self.socket.connect().await?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let handshake = Some(Handshake { sot: true });
        let (reads, receiver) = mpsc::channel(MAX_WAITING);
        self.send(&reads, ReadRequest { request: None, handshake }).await?;
        let answers = client.read_fn(ReceiverStream::new(receiver)).await;
        let mut read_answers = answers.map_err(|status| self.socket.status(&status))?.into_inner();
        self.next(&mut read_answers).await?;
        let (acks, receiver) = mpsc::channel(MAX_WAITING);
        self.send(&acks, AckRequest { request: None, handshake }).await?;
        let answers = client.ack_fn(ReceiverStream::new(receiver)).await;
        let mut ack_answers = answers.map_err(|status| self.socket.status(&status))?.into_inner();
        self.next(&mut ack_answers).await?;
        Ok(Open { reads: (reads, read_answers), acks: (acks, ack_answers) })
    }

    async fn send<Q>(&self, requests: &mpsc::Sender<Q>, request: Q) -> Result<(), Error> {
        requests.send(request).await.map_err(|_| self.socket.error("the stream ended"))
    }

    async fn next<A>(&self, answers: &mut Streaming<A>) -> Result<A, Error> {
        let answer = answers.message().await.map_err(|status| self.socket.status(&status))?;
        answer.ok_or_else(|| self.socket.error("the container closed the stream"))
    }

    fn offsets(&self, tickets: &[Ticket]) -> Result<Vec<Offset>, Error> {
        let offsets = tickets.iter().map(|ticket| Offset::decode(ticket.bytes()));
        offsets.collect::<Result<_, _>>().map_err(|error| self.socket.error(error))
    }
}
