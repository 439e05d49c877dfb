//! Connections of clients: HTTP/1.1 and HTTP/2 without TLS on one port, bounded, and drained at the end.

use std::{convert::Infallible, io, net::SocketAddr, pin::pin, time::Duration};

use futures::FutureExt as _;
use http::Request;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    admission::{Admission, Admitted, Place},
    busy::Busy,
    caller::Peer,
    client_stream::ClientStream,
    gateway::Gateway,
    operators::Viewer,
    reply::Refusal,
    route::Route,
    timer::Timers,
    workers::Workers,
};

/// After a failed accept, as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
const KEEP_ALIVE: Duration = Duration::from_secs(60);
const STREAMS_PER_CONNECTION: u32 = 128;
/// What a client may send ahead of those who read it, on one stream and on all of a connection.
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 512 << 10;
/// What waits for a client to take it, on one stream.
const SEND_BUFFER: usize = 64 << 10;
/// For a request on a connection beyond the bounds.
const HEARING: Duration = Duration::from_secs(10);
/// With this HTTP/2 begins; no method does.
const HTTP2: &[u8; 3] = b"PRI";

impl Gateway {
    /// Serves on `address` until `shutdown`; the task ends when the last call has ended, or the grace period.
    pub async fn listen(
        &self,
        address: SocketAddr,
        shutdown: CancellationToken,
    ) -> io::Result<(SocketAddr, JoinHandle<()>)> {
        let listener = TcpListener::bind(address).await.map_err(|error| {
            io::Error::new(error.kind(), format!("the gateway cannot listen on {address}: {error}"))
        })?;
        let address = listener.local_addr()?;
        let workers = Workers::start(self)?;
        Ok((address, tokio::spawn(run(self.clone(), listener, workers, shutdown))))
    }
}

async fn run(gateway: Gateway, listener: TcpListener, workers: Workers, shutdown: CancellationToken) {
    let _ends = Ends(gateway.clone());
    let options = gateway.options();
    let per_address = options.connections_per_address.unwrap_or(options.connections.div_ceil(2));
    let admission = Admission::new(options.connections, per_address, gateway.metrics().clone());
    let mut over = pin!(async {
        shutdown.cancelled().await;
        gateway.ending().announce();
        tokio::time::sleep(gateway.options().linger).await;
    });
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut over => break,
            accepted = accept(&listener) => accepted,
        };
        let served = accepted.and_then(|(stream, peer)| {
            let is_proxy = Peer::is_proxy(peer.ip(), &gateway.options().trusted_proxies);
            workers.serve(&gateway, stream, peer, admission.admit(peer.ip(), is_proxy))
        });
        if let Err(error) = served {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(PAUSE).await;
        }
    }
    drop((listener, workers));
    drain(&gateway).await;
}

/// Whatever becomes of the task that accepts, what it accepted does not outlive it.
struct Ends(Gateway);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.ending().end();
        self.0.tasks().close();
    }
}

async fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    // Who has vanished without a word must not keep a function awake for ever by a connection that only waits.
    SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE))?;
    Ok((stream, peer))
}

async fn drain(gateway: &Gateway) {
    gateway.ending().begin();
    gateway.tasks().close();
    if tokio::time::timeout(gateway.options().grace, gateway.tasks().wait()).await.is_err() {
        tracing::warn!(calls = gateway.tasks().len(), "calls are cut off at the end of the grace period");
        gateway.ending().end();
        gateway.tasks().wait().await;
    }
}

pub(crate) async fn serve(gateway: Gateway, stream: TcpStream, peer: SocketAddr, admitted: Admitted) {
    match admitted {
        Admitted::Served(place) => serve_all(gateway, stream, peer, place).await,
        Admitted::HeardOut(until) => {
            let hearing = hear_out(&gateway, stream);
            let hearing = tokio::time::timeout(HEARING.min(gateway.options().head_timeout), hearing);
            let _ = until.run_until_cancelled(hearing).await;
            until.cancel();
        }
    }
}

/// One request, and no more than how the gateway does: those who look after it must not take it for dead because
/// others keep it busy.
async fn hear_out(gateway: &Gateway, stream: TcpStream) {
    let service = service_fn(|request: Request<Incoming>| async move {
        Ok::<_, Infallible>(match Route::of(request.uri().path()) {
            Route::Health | Route::Ready => {
                gateway.operate(Viewer::Caller(None), request.method(), request.uri()).await
            }
            _ => Refusal::TooManyConnections
                .reply("there are too many connections, or too many of your address"),
        })
    });
    let connection = pin!(
        http1::Builder::new()
            .keep_alive(false)
            .timer(Timers(gateway.options().head_timeout))
            .header_read_timeout(gateway.options().head_timeout)
            .max_buf_size(8192)
            .serve_connection(TokioIo::new(stream), service)
    );
    let _ = gateway.ending().govern(connection, |connection| connection.graceful_shutdown()).await;
}

async fn serve_all(gateway: Gateway, stream: TcpStream, peer: SocketAddr, place: Place) {
    let options = gateway.options();
    // A client that says nothing is not waited for; one that says too little to tell speaks HTTP/1.1.
    let mut first = [0; HTTP2.len()];
    match tokio::time::timeout(options.head_timeout, stream.peek(&mut first)).await {
        Ok(Ok(n)) if n > 0 => {}
        _ => return,
    }
    let peer = Peer::new(peer.ip(), &options.trusted_proxies, place);
    let io = TokioIo::new(ClientStream::new(stream, options.body_idle_timeout));
    let result = if first == *HTTP2 {
        // Boxed: it is much larger than the other, and seldom.
        Box::pin(serve_http2(&gateway, io, peer)).await
    } else {
        let service = {
            let gateway = gateway.clone();
            service_fn(move |request: Request<Incoming>| {
                gateway.serve(&peer, request).map(Ok::<_, Infallible>)
            })
        };
        let connection = pin!(
            http1::Builder::new()
                .timer(Timers(options.head_timeout))
                .header_read_timeout(options.head_timeout)
                .max_header_size(options.head_limit)
                .max_buf_size(options.head_limit.max(8192))
                .serve_connection(io, service)
                .with_upgrades()
        );
        gateway.ending().govern(connection, |connection| connection.graceful_shutdown()).await
    };
    if let Some(Err(error)) = result {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// A connection without a call, be it that it never said more than that it is HTTP/2, has as long as one that is
/// silent in HTTP/1.1.
async fn serve_http2(
    gateway: &Gateway,
    io: TokioIo<ClientStream>,
    peer: Peer,
) -> Option<Result<(), hyper::Error>> {
    let (options, busy) = (gateway.options(), Busy::default());
    let service = {
        let (gateway, busy) = (gateway.clone(), busy.clone());
        service_fn(move |request: Request<Incoming>| {
            let call = busy.begin();
            let answer = gateway.serve(&peer, request);
            answer.map(|response| Ok::<_, Infallible>(response.map(|body| call.until_sent(body))))
        })
    };
    let mut connection = pin!(
        http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_PER_CONNECTION)
            .max_header_list_size(u32::try_from(options.head_limit).unwrap_or(u32::MAX))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .keep_alive_interval(options.head_timeout)
            .serve_connection(io, service)
    );
    let ending = gateway.ending();
    tokio::select! {
        result = ending.govern(connection.as_mut(), |connection| connection.graceful_shutdown()) => return result,
        () = busy.idle(options.head_timeout) => {}
    }
    connection.as_mut().graceful_shutdown();
    let last = ending.govern(connection, |connection| connection.graceful_shutdown());
    tokio::time::timeout(options.head_timeout, last).await.unwrap_or_default()
}
