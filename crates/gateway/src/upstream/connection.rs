//! One HTTP/1.1 connection to a pod, and the answer that comes through it.

use std::{
    fmt,
    future::poll_fn,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
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
        let (send, driver) =
            http1::Builder::new().handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let driver: Driver = Box::pin(driver.with_upgrades());
        Ok(Connection(Box::new(Parts { send, driver: Some(driver) })))
    }

    /// Whether it can take a call now; false once the pod has closed it.
    pub(crate) fn is_ready(&mut self) -> bool {
        self.drive(&mut quiet());
        self.0.driver.is_some() && self.0.send.is_ready()
    }

    pub(crate) async fn exchange(mut self, request: Box<Request<Outgoing>>) -> Result<Exchange, Failure> {
        let answer = {
            let mut answer = pin!(self.0.send.try_send_request(*request));
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
        if let Some(driver) = &mut self.0.driver
            && driver.as_mut().poll(cx).is_ready()
        {
            self.0.driver = None;
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
        let this = &mut *self;
        let mut frame = Pin::new(&mut this.incoming).poll_frame(&mut quiet());
        if frame.is_pending()
            && let Some(connection) = &mut this.connection
        {
            connection.drive(cx);
            frame = Pin::new(&mut this.incoming).poll_frame(&mut quiet());
        }
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
