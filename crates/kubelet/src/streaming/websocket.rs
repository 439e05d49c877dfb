//! Streams as numbered channels: every message of a WebSocket begins with the number of its channel.

use std::{collections::HashMap, future::ready, io};

use bytes::{BufMut, Bytes, BytesMut};
use futures::{Sink, SinkExt, Stream, StreamExt, TryStreamExt};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, WriteHalf},
    sync::mpsc,
    time,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};
use tokio_util::{
    io::{CopyToBytes, SinkWriter, StreamReader},
    sync::CancellationToken,
};

use super::link::{BUFFER, CHUNK, Link, PING_PERIOD, Pumps, QUEUE};

/// Clients send what they read at once, a few dozen KiB.
const LARGEST_MESSAGE: usize = 1 << 20;
/// "The channel that is named by the next byte gets no more", since v5.
const CLOSE: u8 = 255;

/// A channel with the bytes that it is to begin with.
pub struct Channel {
    pub number: u8,
    pub preface: Vec<u8>,
}

pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(io: S) -> WebSocketStream<S> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(LARGEST_MESSAGE))
        .max_frame_size(Some(LARGEST_MESSAGE))
        .read_buffer_size(BUFFER)
        .write_buffer_size(0)
        .max_write_buffer_size(LARGEST_MESSAGE);
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await
}

/// The node's ends of the channels, in the order in which they were asked for.
pub fn serve<S>(socket: WebSocketStream<S>, channels: Vec<Channel>) -> (Link, Vec<DuplexStream>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sink, stream) = socket.split();
    let pumps = Pumps::default();
    let (messages, queue) = mpsc::channel(QUEUE);
    let mut inputs = HashMap::new();
    let mut ends = Vec::new();
    for Channel { number, preface } in channels {
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        let (output, input) = tokio::io::split(ours);
        inputs.insert(number, input);
        pumps.spawn(pump(number, preface, output, messages.clone()));
        ends.push(theirs);
    }
    drop(messages);
    let read = async move {
        if let Err(error) = read(stream, inputs).await {
            tracing::debug!(%error, "a WebSocket ended");
        }
    };
    let write = |finishing| async move {
        if let Err(error) = write(queue, sink, finishing).await {
            tracing::debug!(%error, "a WebSocket cannot be written to");
        }
    };
    (Link::spawn(pumps, read, write), ends)
}

async fn read(
    mut stream: impl Stream<Item = Result<Message, Error>> + Unpin,
    mut inputs: HashMap<u8, WriteHalf<DuplexStream>>,
) -> Result<(), Error> {
    while let Some(message) = stream.try_next().await? {
        let bytes: Bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => text.into(),
            _ => continue,
        };
        match *bytes {
            [CLOSE, number, ..] => {
                if let Some(mut closed) = inputs.remove(&number) {
                    let _ = closed.shutdown().await;
                }
            }
            [number, ref data @ ..] => {
                if let Some(input) = inputs.get_mut(&number)
                    && input.write_all(data).await.is_err()
                {
                    // Nobody reads it any more.
                    inputs.remove(&number);
                }
            }
            [] => {}
        }
    }
    Ok(())
}

async fn pump(
    number: u8,
    preface: Vec<u8>,
    mut output: impl AsyncRead + Unpin,
    messages: mpsc::Sender<Bytes>,
) {
    if !preface.is_empty() && messages.send([&[number][..], &preface].concat().into()).await.is_err() {
        return;
    }
    loop {
        let mut message = BytesMut::with_capacity(1 + CHUNK);
        message.put_u8(number);
        let length = output.read_buf(&mut (&mut message).limit(CHUNK)).await.unwrap_or(0);
        if length == 0 || messages.send(message.freeze()).await.is_err() {
            return;
        }
    }
}

/// Writes messages, and a ping now and then: a client that is gone without a word is found out by writing to it.
async fn write(
    mut queue: mpsc::Receiver<Bytes>,
    mut sink: impl Sink<Message, Error = Error> + Unpin,
    finishing: CancellationToken,
) -> Result<(), Error> {
    let mut pings = time::interval_at(time::Instant::now() + PING_PERIOD, PING_PERIOD);
    let mut is_open = true;
    loop {
        tokio::select! {
            message = queue.recv(), if is_open => match message {
                Some(message) => sink.send(Message::Binary(message)).await?,
                None => is_open = false,
            },
            () = finishing.cancelled(), if !is_open => break,
            _ = pings.tick() => sink.send(Message::Ping(Bytes::new())).await?,
        }
    }
    let goodbye = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    sink.send(Message::Close(Some(goodbye))).await
}

/// A WebSocket as one stream of bytes, whatever messages they come in.
pub fn tunnel<S>(
    socket: WebSocketStream<S>,
) -> (impl AsyncRead + Send + Unpin, impl AsyncWrite + Send + Unpin)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sink, stream) = socket.split();
    let bytes = stream.map_err(io::Error::other).try_filter_map(|message| {
        ready(Ok(match message {
            Message::Binary(bytes) => Some(bytes),
            _ => None,
        }))
    });
    let sink = sink
        .sink_map_err(io::Error::other)
        .with(|bytes: Bytes| ready(Ok::<_, io::Error>(Message::Binary(bytes))));
    (StreamReader::new(Box::pin(bytes)), SinkWriter::new(CopyToBytes::new(sink)))
}
