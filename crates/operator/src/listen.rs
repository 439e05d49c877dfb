//! A port of its own.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::{conn::auto, graceful::GracefulShutdown};
use tokio::net::TcpListener;

use crate::Operator;

/// A client that does not finish its request's head is hung up on.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves until `shutdown` is ready, then lets running requests end.
pub async fn listen(listener: TcpListener, operator: Operator, shutdown: impl Future<Output = ()>) {
    let graceful = GracefulShutdown::new();
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    tokio::pin!(shutdown);
    loop {
        let stream = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
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
        let connection = graceful.watch(server.serve_connection(TokioIo::new(stream), service).into_owned());
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
    drop(listener);
    graceful.shutdown().await;
}
