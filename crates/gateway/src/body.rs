//! Bodies: what the gateway answers with, and what it sends on to pods.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::{timer::Timer, upstream::Answer};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of an answer.
#[derive(Debug)]
pub struct Body(Kind);

#[derive(Debug)]
enum Kind {
    Whole(Bytes),
    Answer(Answer),
    Other(UnsyncBoxBody<Bytes, BoxError>),
}

/// The body of a request to a pod.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Whole(Bytes),
    /// Boxed: most calls have none, and none should carry the room for it.
    Upload(Box<Upload>),
}

/// The body of a client's request on its way to a pod.
#[derive(Debug)]
pub(crate) struct Upload {
    /// Read while the call was held. In one buffer: a frame costs 128 bytes and more, and a client may send frames of one.
    early: Vec<u8>,
    trailers: Option<HeaderMap>,
    rest: Incoming,
    /// Bytes that may still come.
    left: u64,
    idle: Idle,
    /// Taken by what was read early.
    room: Option<Room>,
}

/// Bytes of memory for bodies, of those that all calls share.
type Room = OwnedSemaphorePermit;

/// What was read early, on its way. Its room is free when the last of it is gone.
struct Kept {
    bytes: Vec<u8>,
    _room: Option<Room>,
}

/// The buffer of a body of unknown length begins with so much, and grows by no more than this at once.
const FIRST_ROOM: usize = 4 << 10;
const MOST_ROOM: usize = 256 << 10;

/// How much of a body that is refused is read, and for how long.
const DISCARDED: usize = 256 << 10;
const DISCARDING: Duration = Duration::from_secs(1);

/// Notices a body that stands still.
///
/// The timer is moved only when it fires: a body that flows costs one reading of the clock a frame.
#[derive(Debug)]
pub(crate) struct Idle {
    limit: Duration,
    since: Option<Instant>,
    timer: Option<Timer>,
}

/// Why a client's body ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    #[error("the body is longer than this gateway allows")]
    TooLarge,
    #[error("no more of the body came for {0:?}")]
    Idle(Duration),
    #[error("the client did not send its whole body: {0}")]
    Client(hyper::Error),
}

// === impl Body ===

impl Body {
    pub fn empty() -> Self {
        Body(Kind::Whole(Bytes::new()))
    }

    pub fn new<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Body(Kind::Other(body.map_err(Into::into).boxed_unsync()))
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(whole: T) -> Self {
        Body(Kind::Whole(whole.into()))
    }
}

impl From<Answer> for Body {
    fn from(answer: Answer) -> Self {
        Body(Kind::Answer(answer))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Kind::Whole(whole) => Poll::Ready(take_whole(whole)),
            Kind::Answer(answer) => Pin::new(answer).poll_frame(cx),
            Kind::Other(other) => Pin::new(other).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(whole) => whole.is_empty(),
            Kind::Answer(answer) => answer.is_end_stream(),
            Kind::Other(other) => other.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(whole) => SizeHint::with_exact(whole.len() as u64),
            Kind::Answer(answer) => answer.size_hint(),
            Kind::Other(other) => other.size_hint(),
        }
    }
}

fn take_whole<E>(whole: &mut Bytes) -> Option<Result<Frame<Bytes>, E>> {
    (!whole.is_empty()).then(|| Ok(Frame::data(std::mem::take(whole))))
}

// === impl Outgoing ===

impl Outgoing {
    pub(crate) fn empty() -> Self {
        Outgoing::Whole(Bytes::new())
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = UploadError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        match &mut *self {
            Outgoing::Whole(whole) => Poll::Ready(take_whole(whole)),
            Outgoing::Upload(upload) => upload.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outgoing::Whole(whole) => whole.is_empty(),
            Outgoing::Upload(upload) => {
                upload.early.is_empty() && upload.trailers.is_none() && upload.rest.is_end_stream()
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Whole(whole) => SizeHint::with_exact(whole.len() as u64),
            Outgoing::Upload(upload) => upload.size_hint(),
        }
    }
}

// === impl Upload ===

impl Upload {
    pub(crate) fn new(body: Incoming, limit: u64, idle: Duration) -> Self {
        Upload {
            early: Vec::new(),
            trailers: None,
            rest: body,
            left: limit,
            idle: Idle::new(idle),
            room: None,
        }
    }

    /// Only a server that reads notices that the client is gone, so a call that waits reads what there is room for. Ends
    /// only if something is wrong with the body.
    pub(crate) async fn read_ahead(&mut self, most: usize, memory: &Arc<Semaphore>) -> UploadError {
        match self.fill(most, memory).await {
            Ok(_) => std::future::pending().await,
            Err(error) => error,
        }
    }

    /// Reads as long as there are less than `most` bytes and there is memory; says whether that was all.
    pub(crate) async fn fill(&mut self, most: usize, memory: &Arc<Semaphore>) -> Result<bool, UploadError> {
        while !self.rest.is_end_stream() {
            // Room first: what is not read stays with the client.
            if self.early.len() >= most || !self.make_room(memory) {
                return Ok(false);
            }
            let Some(frame) = poll_fn(|cx| self.poll_rest(cx)).await.transpose()? else { break };
            match frame.into_data() {
                Ok(data) => {
                    let missing = data.len().saturating_sub(self.early.capacity() - self.early.len());
                    let has_room = self.grow(missing, memory);
                    self.early.extend_from_slice(&data);
                    if !has_room {
                        return Ok(false);
                    }
                }
                Err(frame) => {
                    self.trailers = frame.into_trailers().ok();
                    let cost = self.trailers.iter().flatten().map(|(_, value)| 128 + value.len()).sum();
                    if !self.take(cost, memory) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Reads a little of what there is no room for, and forgets it. A connection that is closed while the client writes
    /// would take the answer with it.
    pub(crate) async fn discard(&mut self) {
        let discarding = async {
            let mut left = DISCARDED;
            while let Some(Ok(frame)) = poll_fn(|cx| self.poll_rest(cx)).await {
                left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len).max(1));
                if left == 0 {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(DISCARDING, discarding).await;
    }

    /// For at least one more byte.
    fn make_room(&mut self, memory: &Arc<Semaphore>) -> bool {
        if self.early.capacity() > self.early.len() {
            return true;
        }
        let doubled = self.early.len().max(FIRST_ROOM);
        let left = self.rest.size_hint().upper().and_then(|left| usize::try_from(left).ok());
        self.grow(left.unwrap_or(doubled).clamp(1, MOST_ROOM), memory)
    }

    fn grow(&mut self, more: usize, memory: &Arc<Semaphore>) -> bool {
        if more > 0 && self.take(more, memory) {
            let spare = self.early.capacity() - self.early.len();
            self.early.reserve_exact(spare + more);
            return true;
        }
        more == 0
    }

    fn take(&mut self, bytes: usize, memory: &Arc<Semaphore>) -> bool {
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let Ok(room) = memory.clone().try_acquire_many_owned(permits) else { return false };
        match &mut self.room {
            Some(all) => all.merge(room),
            none => *none = Some(room),
        }
        true
    }

    /// All that was read.
    pub(crate) fn into_whole(mut self) -> Bytes {
        self.take_early()
    }

    fn take_early(&mut self) -> Bytes {
        let (bytes, room) = (std::mem::take(&mut self.early), self.room.take());
        if bytes.is_empty() { Bytes::new() } else { Bytes::from_owner(Kept { bytes, _room: room }) }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        if !self.early.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(self.take_early()))));
        }
        match self.trailers.take() {
            Some(trailers) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            None => self.poll_rest(cx),
        }
    }

    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.rest).poll_frame(cx) else {
            ready!(self.idle.poll(cx));
            return Poll::Ready(Some(Err(UploadError::Idle(self.idle.limit))));
        };
        self.idle.moved();
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, Bytes::len) as u64;
                match self.left.checked_sub(length) {
                    Some(left) => {
                        self.left = left;
                        Some(Ok(frame))
                    }
                    None => Some(Err(UploadError::TooLarge)),
                }
            }
            Some(Err(error)) => Some(Err(UploadError::Client(error))),
            None => None,
        })
    }

    fn size_hint(&self) -> SizeHint {
        let (early, rest) = (self.early.len() as u64, self.rest.size_hint());
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + early);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + early);
        }
        hint
    }
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

// === impl Idle ===

impl Idle {
    pub(crate) fn new(limit: Duration) -> Self {
        Idle { limit, since: None, timer: None }
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    pub(crate) fn moved(&mut self) {
        self.since = None;
    }

    /// Ready once nothing moved for too long.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let timer = self.timer.get_or_insert_with(|| Timer::new(since, self.limit));
        timer.set(since + self.limit);
        timer.poll(cx)
    }
}
