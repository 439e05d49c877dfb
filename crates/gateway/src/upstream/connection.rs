//! One HTTP/1.1 connection to a pod, and the answer that comes through it.

use std::{
    cell::Cell,
    fmt,
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use bytes::Bytes;
use futures::task::AtomicWaker;
use http::{Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::{
    body::{BoxError, Idle, Outgoing},
    upstream::pod::Taken,
};

type Driver = Pin<Box<dyn Future<Output = Result<(), hyper::Error>> + Send>>;

/// Boxed once for its life, so that it moves cheaply between the pool and calls.
pub(crate) struct Connection(Box<Parts>);

struct Parts {
    send: SendRequest<Outgoing>,
    /// Gone once the connection has ended.
    driver: Option<Driver>,
    bell: Arc<Bell>,
    /// The same bell, as the driver rings it.
    waker: Waker,
}

/// Wakes the task that waits for the connection.
///
/// A task that sends a request, or asks for more of an answer, stirs the driver, which would wake that very task. It drives
/// the connection then anyway, so it mutes the bell: otherwise each call is looked at twice as often as something happened.
/// Only for its own thread, because what happens elsewhere at that moment is news.
#[derive(Default)]
struct Bell {
    task: AtomicWaker,
}

thread_local! {
    /// The address of the bell that this thread has muted.
    static MUTED: Cell<usize> = const { Cell::new(0) };
}

/// An answer whose body may still be on its way.
pub(crate) struct Exchange {
    pub response: Response<Incoming>,
    pub connection: Connection,
}

/// Why there is no answer.
pub(crate) enum Failure {
    /// The pod has not seen anything of it; here it is again.
    NotSent(Box<Request<Outgoing>>),
    /// The pod may have seen it.
    Broken(hyper::Error),
}

/// The body of a pod's answer. Once it is read to its end, the connection serves the next call.
pub(crate) struct Answer {
    incoming: Incoming,
    connection: Option<Connection>,
    /// Holds the place among the pod's calls, and whatever lasts as long as the call.
    taken: Taken,
    idle: Idle,
}

// === impl Connection ===

impl Connection {
    pub(crate) async fn open(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        // Most requests are but a head: there is nothing that could be gathered.
        let opening = http1::Builder::new().writev(false).handshake(TokioIo::new(stream));
        let (send, driver) = opening.await.map_err(io::Error::other)?;
        let driver: Driver = Box::pin(driver.with_upgrades());
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        Ok(Connection(Box::new(Parts { send, driver: Some(driver), bell, waker })))
    }

    /// The connection, if the last call has ended so that there can be another. That the pod has closed it in the meantime,
    /// the next exchange notices before it sends anything.
    pub(crate) fn freed(mut self) -> Option<Self> {
        if !self.0.send.is_ready() {
            self.drive(&mut quiet());
        }
        self.0.bell.task.take();
        (self.0.driver.is_some() && self.0.send.is_ready()).then_some(self)
    }

    pub(crate) async fn exchange(mut self, request: Box<Request<Outgoing>>) -> Result<Exchange, Failure> {
        let answer = {
            let Parts { send, bell, .. } = &mut *self.0;
            let mut answer = pin!(bell.muted(|| send.try_send_request(*request)));
            poll_fn(|cx| {
                // Only what is driven here can bring the answer, so the answer itself need not wake anybody.
                self.drive(cx);
                answer.as_mut().poll(&mut quiet())
            })
            .await
        };
        match answer {
            Ok(response) => Ok(Exchange { response, connection: self }),
            Err(mut failed) => Err(match failed.take_message() {
                Some(request) => Failure::NotSent(Box::new(request)),
                None => Failure::Broken(failed.into_error()),
            }),
        }
    }

    /// Goes on until the connection has ended, or was handed over to another protocol.
    pub(crate) async fn finish(mut self) {
        poll_fn(|cx| {
            self.drive(cx);
            if self.0.driver.is_none() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        let Parts { driver, bell, waker, .. } = &mut *self.0;
        bell.task.register(cx.waker());
        if let Some(running) = driver
            && running.as_mut().poll(&mut Context::from_waker(waker)).is_ready()
        {
            *driver = None;
        }
    }
}

impl Bell {
    fn muted<T>(self: &Arc<Self>, stir: impl FnOnce() -> T) -> T {
        let before = MUTED.replace(Arc::as_ptr(self).addr());
        let stirred = stir();
        MUTED.set(before);
        stirred
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if MUTED.get() != Arc::as_ptr(self).addr() {
            self.task.wake();
        }
    }
}

fn quiet() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("is_open", &self.0.driver.is_some()).finish()
    }
}

// === impl Exchange ===

impl Exchange {
    /// The answer with a body that returns the connection to `taken`'s pod at its end.
    pub(crate) fn into_response(self, taken: Taken, idle: Duration) -> Response<Answer> {
        let connection = self.connection;
        self.response.map(|incoming| {
            let mut answer = Answer { incoming, connection: Some(connection), taken, idle: Idle::new(idle) };
            answer.recycle();
            answer
        })
    }
}

// === impl Answer ===

impl Answer {
    /// Hands the connection back if the answer has come to its end.
    fn recycle(&mut self) {
        if self.incoming.is_end_stream()
            && let Some(connection) = self.connection.take()
        {
            self.taken.give_back(connection);
        }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Answer { incoming, connection, .. } = &mut *self;
        let mut more = || Pin::new(&mut *incoming).poll_frame(&mut quiet());
        let frame = match connection {
            None => more(),
            Some(connection) => match connection.0.bell.clone().muted(&mut more) {
                Poll::Pending => {
                    connection.drive(cx);
                    more()
                }
                frame => frame,
            },
        };
        let this = &mut *self;
        let Poll::Ready(frame) = frame else {
            if this.idle.poll(cx).is_pending() {
                return Poll::Pending;
            }
            let waited = this.idle.limit();
            return Poll::Ready(Some(Err(format!("the pod sent nothing for {waited:?}").into())));
        };
        this.idle.moved();
        if frame.is_none() {
            if let Some(connection) = this.connection.take() {
                this.taken.give_back(connection);
            }
        } else {
            this.recycle();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("pod", &self.taken.pod().name).finish()
    }
}
