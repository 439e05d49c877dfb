//! Connections of clients: HTTP/1.1 and HTTP/2 without TLS on one port, bounded, and drained at the end.

use std::{
    convert::Infallible,
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Request;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{caller::Peer, gateway::Gateway};

/// After a failed accept, as for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
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
        Ok((address, tokio::spawn(run(self.clone(), listener, shutdown))))
    }
}

async fn run(gateway: Gateway, listener: TcpListener, shutdown: CancellationToken) {
    let room = Arc::new(Semaphore::new(gateway.options().connections));
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &room) => accepted,
        };
        match accepted {
            Ok((stream, peer, place)) => {
                let gateway_of_task = gateway.clone();
                gateway.tasks().spawn(async move {
                    serve(gateway_of_task, stream, peer).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    drain(&gateway).await;
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, impl Send + use<>)> {
    let place = room.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer, place))
}

async fn drain(gateway: &Gateway) {
    gateway.ending().cancel();
    gateway.tasks().close();
    if tokio::time::timeout(gateway.options().grace, gateway.tasks().wait()).await.is_err() {
        tracing::warn!(calls = gateway.tasks().len(), "calls are cut off at the end of the grace period");
        gateway.ended().cancel();
        gateway.tasks().wait().await;
    }
}

async fn serve(gateway: Gateway, stream: TcpStream, peer: SocketAddr) {
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
        service_fn(move |request: Request<Incoming>| {
            let (gateway, peer) = (gateway.clone(), peer.clone());
            async move { Ok::<_, Infallible>(gateway.serve(&peer, request).await) }
        })
    };
    let io = TokioIo::new(stream);
    let result = if first == *HTTP2 {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_PER_CONNECTION)
            .max_header_list_size(u32::try_from(options.head_limit).unwrap_or(u32::MAX))
            .keep_alive_interval(options.head_timeout)
            .serve_connection(io, service);
        // Boxed: it is much larger than the other, and seldom.
        let mut connection = Box::pin(connection);
        until_ended(&gateway, |cx, is_ending| {
            if is_ending {
                connection.as_mut().graceful_shutdown();
            }
            connection.as_mut().poll(cx)
        })
        .await
    } else {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(options.head_timeout)
            .max_header_size(options.head_limit)
            .max_buf_size(options.head_limit.max(8192))
            .serve_connection(io, service)
            .with_upgrades();
        let mut connection = pin!(connection);
        until_ended(&gateway, |cx, is_ending| {
            if is_ending {
                connection.as_mut().graceful_shutdown();
            }
            connection.as_mut().poll(cx)
        })
        .await
    };
    if let Some(Err(error)) = result {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Polls a connection to its end; once the gateway is ending, with a request to finish. None if the gateway has ended
/// before.
async fn until_ended<T>(
    gateway: &Gateway,
    mut poll: impl FnMut(&mut Context<'_>, bool) -> Poll<T>,
) -> Option<T> {
    // Tokens of its own: connections must not wait for one another at each poll.
    let (ending, ended) = (gateway.ending().child_token(), gateway.ended().child_token());
    tokio::select! {
        biased;
        done = poll_fn(|cx| poll(cx, false)) => return Some(done),
        () = ended.cancelled() => return None,
        () = ending.cancelled() => {}
    }
    let mut is_told = false;
    tokio::select! {
        biased;
        done = poll_fn(|cx| poll(cx, !std::mem::replace(&mut is_told, true))) => Some(done),
        () = ended.cancelled() => None,
    }
}
