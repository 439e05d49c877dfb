//! Serves HTTP on a port of the pod, with a certificate that nobody vouches for: metrics, health, and the HTTP source.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Callers at once, of each port: one for each pod is usual.
const MAX_CONNECTIONS: usize = 1024;
/// A caller that takes longer to shake hands, or to send what it asks for, is left alone.
const HEAD: Duration = Duration::from_secs(10);

/// Binds, so that whoever cannot is told why.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))
}

/// With a key of its own, known to nobody.
pub fn acceptor() -> io::Result<TlsAcceptor> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(io::Error::other)?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .map_err(io::Error::other)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Those who connect, no more at a time than there is room for.
pub(crate) struct Connections {
    listener: TcpListener,
    room: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Connections {
    pub(crate) fn new(listener: TcpListener, stop: CancellationToken) -> Self {
        Connections { listener, room: Arc::new(Semaphore::new(MAX_CONNECTIONS)), stop }
    }

    /// The next one, with its place, which is to be kept as long as it is served; none once it is told to stop.
    pub(crate) async fn next(&self) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        let place = self.room.clone().acquire_owned().await.ok()?;
        loop {
            let accepted = self.stop.run_until_cancelled(self.listener.accept()).await?;
            if let Ok((connection, _)) = accepted {
                return Some((connection, place));
            }
            // out of descriptors, most likely: others have to close some first
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Runs until it is told to stop.
pub async fn serve<H, F>(listener: TcpListener, tls: Option<TlsAcceptor>, handler: H, stop: CancellationToken)
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let connections = Connections::new(listener, stop.clone());
    while let Some((connection, place)) = connections.next().await {
        let (tls, handler, stop) = (tls.clone(), handler.clone(), stop.clone());
        tokio::spawn(async move {
            let _place = place;
            let Some(tls) = tls else {
                let _ = stop.run_until_cancelled(converse(connection, handler)).await;
                return;
            };
            let shaken = tokio::time::timeout(HEAD, tls.accept(connection)).await;
            if let Ok(Ok(connection)) = shaken {
                let _ = stop.run_until_cancelled(converse(connection, handler)).await;
            }
        });
    }
}

async fn converse<H, F>(connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, handler: H)
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let service = service_fn(move |request| {
        let answer = handler(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(128).keep_alive_interval(HEAD);
    if let Err(error) = builder.serve_connection(TokioIo::new(connection), service).await {
        tracing::debug!(error, "a connection ended");
    }
}

pub fn reply(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response
}
