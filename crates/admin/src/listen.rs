//! A port of its own.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::Operator;

/// A client that does not finish its request's head, or asks nothing more, is hung up on.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// More wait until others end.
const CONNECTIONS: usize = 256;

/// Serves HTTP/1.1 until `shutdown` is ready, then lets running requests end.
pub async fn listen(listener: TcpListener, operator: Operator, shutdown: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    tokio::pin!(shutdown);
    loop {
        let accept = async {
            // Nobody closes the semaphore.
            let place = room.clone().acquire_owned().await.map_err(std::io::Error::other)?;
            listener.accept().await.map(|(stream, _)| (stream, place))
        };
        let (stream, place) = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: others must be closed first.
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let operator = operator.clone();
        let service = service_fn(move |request| {
            let operator = operator.clone();
            async move { Ok::<_, Infallible>(operator.handle(request).await) }
        });
        let connection = graceful.watch(server.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
            }
            drop(place);
        });
    }
    drop(listener);
    graceful.shutdown().await;
}
