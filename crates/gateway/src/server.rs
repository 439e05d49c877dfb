//! Connections of clients: HTTP/1.1 and HTTP/2 without TLS on one port, bounded, and drained at the end.

use std::{convert::Infallible, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

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
    sync::Semaphore,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{caller::Peer, client_stream::ClientStream, gateway::Gateway, timer::Timers, workers::Workers};

/// After a failed accept, as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
const KEEP_ALIVE: Duration = Duration::from_secs(60);
const STREAMS_PER_CONNECTION: u32 = 256;
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
    let room = Arc::new(Semaphore::new(gateway.options().connections));
    let mut over = pin!(async {
        shutdown.cancelled().await;
        gateway.ending().announce();
        tokio::time::sleep(gateway.options().linger).await;
    });
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut over => break,
            accepted = accept(&listener, &room) => accepted,
        };
        let served = accepted.and_then(|(stream, peer, place)| workers.serve(&gateway, stream, peer, place));
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

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, impl Send + use<>)> {
    let place = room.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    // Who has vanished without a word must not keep a function awake for ever by a connection that only waits.
    SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE))?;
    Ok((stream, peer, place))
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

pub(crate) async fn serve(gateway: Gateway, stream: TcpStream, peer: SocketAddr) {
    let _counted = gateway.metrics().connection();
    let options = gateway.options();
    // A client that says nothing is not waited for; one that says too little to tell speaks HTTP/1.1.
    let mut first = [0; HTTP2.len()];
    match tokio::time::timeout(options.head_timeout, stream.peek(&mut first)).await {
        Ok(Ok(n)) if n > 0 => {}
        _ => return,
    }
    let peer = Peer::new(peer.ip(), &options.trusted_proxies);
    let service = {
        let gateway = gateway.clone();
        service_fn(move |request: Request<Incoming>| gateway.serve(&peer, request).map(Ok::<_, Infallible>))
    };
    let io = TokioIo::new(ClientStream::new(stream, options.body_idle_timeout));
    let result = if first == *HTTP2 {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_PER_CONNECTION)
            .max_header_list_size(u32::try_from(options.head_limit).unwrap_or(u32::MAX))
            .keep_alive_interval(options.head_timeout)
            .serve_connection(io, service);
        // Boxed: it is much larger than the other, and seldom.
        let mut connection = Box::pin(connection);
        gateway.ending().govern(connection.as_mut(), |connection| connection.graceful_shutdown()).await
    } else {
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
