//! A container that makes any number of messages of each one: a map, or the transformer of a source.

use std::{sync::Arc, time::Duration};

use numaflow::proto::{map, nack_options::NackOptions, source_transformer as transform};
use prost_types::Timestamp;
use tokio::sync::Mutex;

use super::{
    Error, MAX_MESSAGE_BYTES, Mode, Socket,
    calls::{Calls, Part, Reply},
};
use crate::message::Message;

/// What came of one message.
pub enum Outcome {
    Messages(Vec<Message>),
    /// It is to be delivered again after so long.
    Nack(Duration),
}

/// One result, whichever container it came from.
pub struct Made {
    message: Message,
    nack: Option<NackOptions>,
}

pub struct Map {
    socket: Socket,
    mode: Mode,
    calls: Mutex<Option<Arc<Calls<map::MapRequest, Made>>>>,
    /// Held while a batch is sent.
    batch: Mutex<()>,
}

pub struct Transform {
    socket: Socket,
    calls: Mutex<Option<Arc<Calls<transform::SourceTransformRequest, Made>>>>,
}

impl Map {
    pub fn new(socket: Socket, mode: Mode) -> Self {
        Map { socket, mode, calls: Mutex::default(), batch: Mutex::default() }
    }

    /// Each message's answer goes to `reply`, with the message's index, as soon as it is there.
    pub async fn send(&self, messages: &[(usize, Message)], reply: &Reply<Made>) {
        let calls = match self.calls().await {
            Ok(calls) => calls,
            Err(error) => {
                for (index, _) in messages {
                    let _ = reply.send((*index, Err(error.clone())));
                }
                return;
            }
        };
        let is_batch = self.mode == Mode::Batch;
        let _batch = if is_batch { Some(self.batch.lock().await) } else { None };
        for (index, message) in messages {
            calls.call(*index, reply, |id| map_request(message, id)).await;
        }
        if is_batch {
            let status = Some(map::TransmissionStatus { eot: true });
            calls.send(map::MapRequest { status, ..Default::default() }).await;
        }
    }

    /// A new stream after the container was started again.
    async fn calls(&self) -> Result<Arc<Calls<map::MapRequest, Made>>, Error> {
        let mut calls = self.calls.lock().await;
        if let Some(calls) = calls.as_ref().filter(|calls| !calls.is_over()) {
            return Ok(calls.clone());
        }
        let channel = self.socket.connect().await?;
        let mut client = map::map_client::MapClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let handshake =
            map::MapRequest { handshake: Some(map::Handshake { sot: true }), ..Default::default() };
        let mode = self.mode;
        let part = move |answer: map::MapResponse| {
            if answer.handshake.is_some() {
                return Part::Nothing;
            }
            let is_over = answer.status.is_some_and(|status| status.eot);
            let results = answer.results.into_iter().map(made).collect();
            match mode {
                // the end of a batch belongs to no message
                _ if answer.id.is_empty() => Part::Nothing,
                Mode::Stream if !is_over => Part::Some(answer.id, results),
                _ => Part::Last(answer.id, results),
            }
        };
        let started = Calls::start(
            self.socket.clone(),
            handshake,
            |requests| async move { client.map_fn(requests).await },
            part,
        )
        .await?;
        Ok(calls.insert(Arc::new(started)).clone())
    }

    pub async fn is_ready(&self) -> bool {
        self.calls().await.is_ok()
    }
}

impl Transform {
    pub fn new(socket: Socket) -> Self {
        Transform { socket, calls: Mutex::default() }
    }

    pub async fn send(&self, messages: &[(usize, Message)], reply: &Reply<Made>) {
        match self.calls().await {
            Ok(calls) => {
                for (index, message) in messages {
                    calls.call(*index, reply, |id| transform_request(message, id)).await;
                }
            }
            Err(error) => {
                for (index, _) in messages {
                    let _ = reply.send((*index, Err(error.clone())));
                }
            }
        }
    }

    async fn calls(&self) -> Result<Arc<Calls<transform::SourceTransformRequest, Made>>, Error> {
        let mut calls = self.calls.lock().await;
        if let Some(calls) = calls.as_ref().filter(|calls| !calls.is_over()) {
            return Ok(calls.clone());
        }
        let channel = self.socket.connect().await?;
        let mut client = transform::source_transform_client::SourceTransformClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let handshake = Some(transform::Handshake { sot: true });
        let handshake = transform::SourceTransformRequest { request: None, handshake };
        let part = |answer: transform::SourceTransformResponse| match answer.handshake {
            Some(_) => Part::Nothing,
            None => Part::Last(answer.id, answer.results.into_iter().map(transformed).collect()),
        };
        let open = |requests| async move { client.source_transform_fn(requests).await };
        let started = Calls::start(self.socket.clone(), handshake, open, part).await?;
        Ok(calls.insert(Arc::new(started)).clone())
    }

    pub async fn is_ready(&self) -> bool {
        self.calls().await.is_ok()
    }
}

impl Outcome {
    /// What came of `parent`: its headers, and its time unless a transformer gave another, stay.
    pub fn of(parent: &Message, made: Vec<Made>) -> Self {
        let mut messages = Vec::with_capacity(made.len());
        for (index, Made { mut message, nack }) in made.into_iter().enumerate() {
            if let Some(nack) = nack {
                return Outcome::Nack(Duration::from_millis(nack.delay.unwrap_or(0)));
            }
            message.id = parent.id.clone();
            // one that came of one that came of another: told apart by both
            message.id.index = parent.id.index.saturating_mul(1 << 12).saturating_add(index as i32);
            message.headers.clone_from(&parent.headers);
            message.event_time = message.event_time.or(parent.event_time);
            messages.push(message);
        }
        Outcome::Messages(messages)
    }
}

fn map_request(message: &Message, id: String) -> map::MapRequest {
    let request = map::map_request::Request {
        keys: message.keys.clone(),
        value: message.value.to_vec(),
        event_time: message.event_time,
        watermark: Some(Timestamp { seconds: -1, nanos: 0 }),
        headers: message.headers.clone(),
        metadata: message.metadata.clone(),
    };
    map::MapRequest { request: Some(request), id, ..Default::default() }
}

fn transform_request(message: &Message, id: String) -> transform::SourceTransformRequest {
    let request = transform::source_transform_request::Request {
        keys: message.keys.clone(),
        value: message.value.to_vec(),
        event_time: message.event_time,
        watermark: Some(Timestamp { seconds: -1, nanos: 0 }),
        headers: message.headers.clone(),
        id,
        metadata: message.metadata.clone(),
    };
    transform::SourceTransformRequest { request: Some(request), handshake: None }
}

fn made(result: map::map_response::Result) -> Made {
    let map::map_response::Result { keys, value, tags, metadata, nack_options } = result;
    let message = Message { keys, value: value.into(), tags, metadata, ..Message::default() };
    Made { message, nack: nack_options }
}

fn transformed(result: transform::source_transform_response::Result) -> Made {
    let transform::source_transform_response::Result {
        keys,
        value,
        event_time,
        tags,
        metadata,
        nack_options,
    } = result;
    let message = Message { keys, value: value.into(), event_time, tags, metadata, ..Message::default() };
    Made { message, nack: nack_options }
}
