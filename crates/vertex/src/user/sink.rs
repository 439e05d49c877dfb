//! A container that takes messages and says of each what became of it.

use std::{collections::HashMap, time::Duration};

use numaflow::proto::sink::{
    Handshake, SinkRequest, SinkResponse, Status, TransmissionStatus, sink_client::SinkClient, sink_request,
};
use prost_types::Timestamp;
use tokio::sync::{Mutex, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::{Error, MAX_MESSAGE_BYTES, MAX_WAITING, Socket};
use crate::message::Message;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Done,
    /// Try it again.
    Failed(String),
    /// Deliver it again after so long.
    Nack(Duration),
}

pub struct Sink {
    socket: Socket,
    stream: Mutex<Option<Open>>,
}

struct Open {
    requests: mpsc::Sender<SinkRequest>,
    answers: Streaming<SinkResponse>,
}

impl Sink {
    pub fn new(socket: Socket) -> Self {
        Sink { socket, stream: Mutex::default() }
    }

    /// One verdict for each message. After an error nobody knows what became of them.
    pub async fn write(&self, messages: &[Message]) -> Result<Vec<Verdict>, Error> {
        let mut stream = self.stream.lock().await;
        let mut open = match stream.take() {
            Some(open) => open,
            None => self.open().await?,
        };
        let verdicts = self.exchange(&mut open, messages).await?;
        // only a stream that is in step is used again
        *stream = Some(open);
        Ok(verdicts)
    }

    pub async fn is_ready(&self) -> bool {
        let mut stream = self.stream.lock().await;
        if stream.is_none() {
            *stream = self.open().await.ok();
        }
        stream.is_some()
    }

    async fn open(&self) -> Result<Open, Error> {
        let mut client = SinkClient::new(self.socket.connect().await?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let (requests, receiver) = mpsc::channel(MAX_WAITING);
        let handshake = SinkRequest { handshake: Some(Handshake { sot: true }), ..Default::default() };
        requests.send(handshake).await.map_err(|_| self.socket.error("the stream ended"))?;
        let answers = client.sink_fn(ReceiverStream::new(receiver)).await;
        let mut open =
            Open { requests, answers: answers.map_err(|status| self.socket.status(&status))?.into_inner() };
        self.next(&mut open).await?;
        Ok(open)
    }

    async fn next(&self, open: &mut Open) -> Result<SinkResponse, Error> {
        let answer = open.answers.message().await.map_err(|status| self.socket.status(&status))?;
        answer.ok_or_else(|| self.socket.error("the container closed the stream"))
    }

    async fn exchange(&self, open: &mut Open, messages: &[Message]) -> Result<Vec<Verdict>, Error> {
        let Open { requests, answers } = open;
        let send = async {
            for (index, message) in messages.iter().enumerate() {
                requests
                    .send(request(message, index))
                    .await
                    .map_err(|_| self.socket.error("the stream ended"))?;
            }
            let status = Some(TransmissionStatus { eot: true });
            let end = SinkRequest { status, ..Default::default() };
            requests.send(end).await.map_err(|_| self.socket.error("the stream ended"))
        };
        // the container may answer while it is still being sent to
        let receive = async {
            let mut verdicts: HashMap<usize, Verdict> = HashMap::new();
            loop {
                let answer = answers.message().await.map_err(|status| self.socket.status(&status))?;
                let answer = answer.ok_or_else(|| self.socket.error("the container closed the stream"))?;
                for result in answer.results {
                    let verdict = match result.status() {
                        Status::Failure => Verdict::Failed(result.err_msg),
                        Status::Fallback => {
                            Verdict::Failed("the sink asks for a fallback, and there is none".to_owned())
                        }
                        Status::Nack => {
                            let delay = result.nack_options.and_then(|options| options.delay).unwrap_or(0);
                            Verdict::Nack(Duration::from_millis(delay))
                        }
                        Status::Success | Status::Serve | Status::OnSuccess => Verdict::Done,
                    };
                    if let Ok(index) = result.id.parse() {
                        verdicts.insert(index, verdict);
                    }
                }
                if answer.status.is_some_and(|status| status.eot) {
                    return Ok(verdicts);
                }
            }
        };
        let ((), mut verdicts) = tokio::try_join!(send, receive)?;
        let missing = || Verdict::Failed("the sink did not answer for this message".to_owned());
        Ok((0..messages.len()).map(|index| verdicts.remove(&index).unwrap_or_else(missing)).collect())
    }
}

fn request(message: &Message, index: usize) -> SinkRequest {
    let request = sink_request::Request {
        keys: message.keys.clone(),
        value: message.value.to_vec(),
        event_time: message.event_time,
        watermark: Some(Timestamp { seconds: -1, nanos: 0 }),
        id: index.to_string(),
        headers: message.headers.clone(),
        metadata: message.metadata.clone(),
    };
    SinkRequest { request: Some(request), ..Default::default() }
}
