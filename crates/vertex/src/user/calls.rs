//! Many calls on one stream: requests carry an id, answers come in any order.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::{Error, MAX_WAITING, Socket};

/// What an answer says of the call with this id.
pub enum Part<T> {
    /// Some results, and more to come.
    Some(String, Vec<T>),
    /// The last results.
    Last(String, Vec<T>),
    /// Of no call: the handshake, the end of a batch.
    Nothing,
}

/// The index of the call in its batch, and its results.
pub type Reply<T> = mpsc::UnboundedSender<(usize, Result<Vec<T>, Error>)>;

pub struct Calls<Q, T> {
    requests: mpsc::Sender<Q>,
    waiting: Arc<Mutex<Waiting<T>>>,
    next_id: AtomicU64,
    socket: Socket,
}

struct Waiting<T> {
    calls: HashMap<String, Call<T>>,
    /// Why no more answers come.
    ended: Option<Error>,
}

struct Call<T> {
    index: usize,
    results: Vec<T>,
    reply: Reply<T>,
}

impl<Q: Send + 'static, T: Send + 'static> Calls<Q, T> {
    /// `handshake` goes first, and is answered before this returns.
    pub async fn start<A, F>(
        socket: Socket,
        handshake: Q,
        open: impl FnOnce(tokio_stream::wrappers::ReceiverStream<Q>) -> F,
        part: impl Fn(A) -> Part<T> + Send + 'static,
    ) -> Result<Self, Error>
    where
        A: Send + 'static,
        F: Future<Output = Result<tonic::Response<Streaming<A>>, Status>>,
    {
        let (requests, receiver) = mpsc::channel(MAX_WAITING);
        requests.send(handshake).await.map_err(|_| socket.error("the stream ended"))?;
        let answers = open(tokio_stream::wrappers::ReceiverStream::new(receiver)).await;
        let mut answers = answers.map_err(|status| socket.status(&status))?.into_inner();
        answers
            .next()
            .await
            .ok_or_else(|| socket.error("the stream ended before the handshake"))?
            .map_err(|status| socket.status(&status))?;
        let waiting = Arc::new(Mutex::new(Waiting { calls: HashMap::new(), ended: None }));
        tokio::spawn(receive(waiting.clone(), socket.clone(), answers, part));
        Ok(Calls { requests, waiting, next_id: AtomicU64::new(0), socket })
    }

    /// The answer goes to `reply`, whatever happens.
    pub async fn call(&self, index: usize, reply: &Reply<T>, request: impl FnOnce(String) -> Q) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed).to_string();
        {
            let mut waiting = lock(&self.waiting);
            if let Some(ended) = &waiting.ended {
                let _ = reply.send((index, Err(ended.clone())));
                return;
            }
            let call = Call { index, results: Vec::new(), reply: reply.clone() };
            waiting.calls.insert(id.clone(), call);
        }
        if self.requests.send(request(id.clone())).await.is_err()
            && let Some(call) = lock(&self.waiting).calls.remove(&id)
        {
            let _ = call.reply.send((call.index, Err(self.socket.error("the stream ended"))));
        }
    }

    pub async fn send(&self, request: Q) {
        // calls that are not answered are told by the end of the answers
        let _ = self.requests.send(request).await;
    }

    pub fn is_over(&self) -> bool {
        lock(&self.waiting).ended.is_some()
    }
}

async fn receive<A, T>(
    waiting: Arc<Mutex<Waiting<T>>>,
    socket: Socket,
    mut answers: impl Stream<Item = Result<A, Status>> + Unpin,
    part: impl Fn(A) -> Part<T>,
) {
    let why = loop {
        let answer = match answers.next().await {
            Some(Ok(answer)) => answer,
            Some(Err(status)) => break socket.status(&status),
            None => break socket.error("the container closed the stream"),
        };
        match part(answer) {
            Part::Nothing => {}
            Part::Some(id, results) => {
                if let Some(call) = lock(&waiting).calls.get_mut(&id) {
                    call.results.extend(results);
                }
            }
            Part::Last(id, results) => {
                let call = lock(&waiting).calls.remove(&id);
                if let Some(mut call) = call {
                    call.results.extend(results);
                    let _ = call.reply.send((call.index, Ok(call.results)));
                }
            }
        }
    };
    let mut waiting = lock(&waiting);
    for (_, call) in waiting.calls.drain() {
        let _ = call.reply.send((call.index, Err(why.clone())));
    }
    waiting.ended = Some(why);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
