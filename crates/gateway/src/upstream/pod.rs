//! One pod: where it is, how much it has to do, and the connections to it that are free.

use std::{
    fmt, io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{HeaderName, HeaderValue, Method, Request, Uri, uri::PathAndQuery};
use http_body::Body as _;
use tokio::{net::TcpStream, sync::Semaphore, time::Instant};

use crate::{
    body::Outgoing,
    metrics::{Active, Up},
    upstream::connection::{Connection, Exchange, Failure},
    workers,
};

pub(crate) struct Pod {
    pub name: Arc<str>,
    pub address: SocketAddr,
    /// What `Host` says to it.
    pub host: HeaderValue,
    in_flight: AtomicUsize,
    /// The last connection was refused: others are asked first.
    refused: AtomicBool,
    /// It took a connection once: it has started.
    started: AtomicBool,
    /// By the number of the worker that they belong to.
    free: Mutex<Vec<Vec<(Connection, Instant)>>>,
    /// When a pod has just come, all who waited for it want a connection: more than its queue of those to accept holds.
    connecting: Semaphore,
}

/// A place among the calls of a pod.
pub(crate) struct Taken {
    pod: Arc<Pod>,
    lasting: Option<Lasting>,
}

/// What lasts as long as a call: the function stays awake and is counted.
#[expect(dead_code, reason = "it is its end that counts")]
pub(crate) struct Lasting {
    pub call: ondemand::Call,
    pub active: Up<Active>,
}

/// Why a pod gave no answer.
pub(crate) enum SendError {
    /// It has seen nothing of the request, which is handed back.
    Refused { request: Box<Request<Outgoing>>, error: io::Error },
    /// It may have seen the request. What may be asked twice is there again.
    Broken { error: hyper::Error, again: Option<Box<Request<Outgoing>>> },
}

/// Connections that are being made at the same time.
const CONNECTING: usize = 32;
/// Free connections beyond this are closed at once.
const MOST_FREE: usize = 1024;
/// Shorter than servers usually keep theirs, so that seldom one is closed while a call is on its way into it.
const FREE_FOR: Duration = Duration::from_secs(4);

// === impl Pod ===

impl Pod {
    pub(crate) fn new(name: Arc<str>, address: SocketAddr) -> Self {
        #[expect(clippy::unwrap_used, reason = "an address is written in visible ASCII")]
        let host = HeaderValue::try_from(address.to_string()).unwrap();
        Pod {
            name,
            address,
            host,
            in_flight: AtomicUsize::new(0),
            refused: AtomicBool::new(false),
            started: AtomicBool::new(false),
            free: Mutex::default(),
            connecting: Semaphore::new(CONNECTING),
        }
    }

    /// What counts against asking it: it refused lately, then the calls under way.
    pub(crate) fn load(&self) -> (bool, usize) {
        (self.refused.load(Ordering::Relaxed), self.in_flight.load(Ordering::Relaxed))
    }

    pub(crate) fn has_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    pub(crate) fn take(self: &Arc<Self>) -> Taken {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Taken { pod: self.clone(), lasting: None }
    }

    /// Sends on a free connection or on a new one. A connection that turns out to be closed is no reason to fail, as
    /// long as the pod cannot have seen the request or does not mind seeing it twice. Not more often, so `repeated` is
    /// handed from pod to pod: the request may be what they die of.
    pub(crate) async fn send(
        &self,
        mut request: Box<Request<Outgoing>>,
        connect_timeout: Duration,
        repeated: &mut bool,
    ) -> Result<Exchange, SendError> {
        let place = loop {
            while !*repeated && let Some((connection, _)) = self.with_free(Vec::pop) {
                let again = Again::of(&request);
                request = match connection.exchange(request).await {
                    Ok(exchange) => return Ok(exchange),
                    Err(Failure::NotSent(request)) => request,
                    Err(Failure::Broken(error)) => match again.and_then(Again::into_request) {
                        Some(again) => {
                            *repeated = true;
                            again
                        }
                        None => return Err(SendError::Broken { error, again: None }),
                    },
                };
            }
            let place = self.connecting.acquire().await;
            // While this waited, a call may have ended and left its connection.
            if *repeated || self.with_free(|free| free.is_empty()) {
                break place;
            }
        };
        let connection = match self.connect(connect_timeout).await {
            Ok(connection) => connection,
            Err(error) => return Err(SendError::Refused { request, error }),
        };
        drop(place);
        let again = if *repeated { None } else { Again::of(&request) };
        connection.exchange(request).await.map_err(|failure| match failure {
            Failure::NotSent(request) => {
                let error = io::Error::new(io::ErrorKind::ConnectionReset, "closed before the call was sent");
                SendError::Refused { request, error }
            }
            Failure::Broken(error) => SendError::Broken { error, again: again.and_then(Again::into_request) },
        })
    }

    async fn connect(&self, timeout: Duration) -> io::Result<Connection> {
        let connected = match tokio::time::timeout(timeout, TcpStream::connect(self.address)).await {
            Ok(connected) => connected,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer for {timeout:?}"))),
        };
        self.refused.store(connected.is_err(), Ordering::Relaxed);
        if connected.is_ok() {
            self.started.store(true, Ordering::Relaxed);
        }
        Connection::open(connected?).await
    }

    /// Closes connections that were free for long.
    pub(crate) fn sweep(&self, now: Instant) {
        let old: Vec<_> = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let of_worker = |free: &mut Vec<(Connection, Instant)>| {
                // The last given back is the first taken, so the old ones are in front.
                let n_old = free.iter().take_while(|(_, since)| now - *since >= FREE_FOR).count();
                free.drain(..n_old).collect::<Vec<_>>()
            };
            free.iter_mut().map(of_worker).collect()
        };
        drop(old);
    }

    /// The free connections of this worker.
    fn with_free<T>(&self, use_them: impl FnOnce(&mut Vec<(Connection, Instant)>) -> T) -> T {
        let worker = workers::current();
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() <= worker {
            free.resize_with(worker + 1, Vec::new);
        }
        use_them(&mut free[worker])
    }
}

/// A request without a body and with a method that promises to change nothing: it may be sent twice.
///
/// It hardly ever is, so the copy is only text: what is asked for, and the headers, each in a line.
struct Again {
    method: Method,
    lines: Vec<u8>,
}

impl Again {
    fn of(request: &Request<Outgoing>) -> Option<Self> {
        if !request.method().is_safe() || !request.body().is_end_stream() {
            return None;
        }
        let mut lines = Vec::with_capacity(512);
        lines.extend_from_slice(request.uri().path_and_query().map_or("/", PathAndQuery::as_str).as_bytes());
        for (name, value) in request.headers() {
            lines.push(b'\n');
            lines.extend_from_slice(name.as_str().as_bytes());
            lines.push(b':');
            lines.extend_from_slice(value.as_bytes());
        }
        Some(Again { method: request.method().clone(), lines })
    }

    /// None cannot be: it was a request before.
    fn into_request(self) -> Option<Box<Request<Outgoing>>> {
        let mut request = Box::new(Request::new(Outgoing::empty()));
        let mut lines = self.lines.split(|byte| *byte == b'\n');
        *request.method_mut() = self.method;
        *request.uri_mut() = Uri::try_from(lines.next()?).ok()?;
        for line in lines {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = (HeaderName::from_bytes(&line[..colon]), &line[colon + 1..]);
            request.headers_mut().append(name.ok()?, HeaderValue::from_bytes(value).ok()?);
        }
        Some(request)
    }
}

// === impl Taken ===

impl Taken {
    pub(crate) fn pod(&self) -> &Arc<Pod> {
        &self.pod
    }

    #[must_use]
    pub(crate) fn with(mut self, lasting: Lasting) -> Self {
        self.lasting = Some(lasting);
        self
    }

    pub(crate) fn give_back(&self, connection: Connection) {
        let Some(connection) = connection.freed() else { return };
        self.pod.with_free(|free| {
            if free.len() < MOST_FREE {
                free.push((connection, Instant::now()));
            }
        });
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.pod.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pod")
            .field("name", &self.name)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
