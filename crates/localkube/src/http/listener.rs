//! The server on a socket: TLS, HTTP/1.1 and HTTP/2, a bearer token.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{Response, User, certs, kubeconfig, status};
use crate::{ApiServer, error::ApiError};

/// Watches never end by themselves; this is how long other requests may take to finish at the end.
const DRAIN: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Port 0 takes a free one.
    pub addr: SocketAddr,
    /// Certificates, the token and the kubeconfig live here.
    pub data_dir: PathBuf,
}

/// A listening server. It stops when this is dropped or, more politely, by [`Listener::shutdown`].
pub struct Listener {
    pub addr: SocketAddr,
    pub kubeconfig_path: PathBuf,
    pub token: String,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot listen on {addr}: {source}; choose another port")]
    Bind { addr: SocketAddr, source: io::Error },
    #[error("cannot use {}: {source}", path.display())]
    Files { path: PathBuf, source: io::Error },
    #[error("cannot make certificates: {0}")]
    Certificates(rcgen::Error),
    #[error("{what} in {} cannot be used; delete it and start again", dir.display())]
    Unusable { what: String, dir: PathBuf },
}

// === impl Listener ===

impl Listener {
    pub(crate) async fn start(server: ApiServer, options: ListenOptions) -> Result<Self, ListenError> {
        let ListenOptions { addr, data_dir } = options;
        let files = |path: &Path| {
            let path = path.to_owned();
            move |source| ListenError::Files { path, source }
        };
        std::fs::create_dir_all(&data_dir).map_err(files(&data_dir))?;
        let socket = TcpListener::bind(addr).await.map_err(|source| ListenError::Bind { addr, source })?;
        let addr = socket.local_addr().map_err(|source| ListenError::Bind { addr, source })?;
        let certs = certs::load(&data_dir, addr.ip())?;
        let token = token(&data_dir.join("token")).map_err(files(&data_dir.join("token")))?;
        server.admit_token(&token, User::admin(), None);
        server.set_address(addr);
        let kubeconfig_path = data_dir.join("kubeconfig");
        let rendered = kubeconfig::render(addr, &certs.ca_pem, &token);
        disk::write_private(&kubeconfig_path, rendered.as_bytes()).map_err(files(&kubeconfig_path))?;

        let stop = CancellationToken::new();
        let task = tokio::spawn(accept(server, socket, TlsAcceptor::from(certs.server), stop.clone()));
        Ok(Self { addr, kubeconfig_path, token, stop, task })
    }

    /// Stops taking connections, lets short requests finish, ends the rest.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        if let Err(error) = (&mut self.task).await {
            tracing::warn!(%error, "the listener did not end well");
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The token of an earlier start, so that copies of the kubeconfig stay good.
fn token(path: &Path) -> io::Result<String> {
    match std::fs::read_to_string(path) {
        Ok(token) if !token.trim().is_empty() => {
            disk::private_file(path)?;
            Ok(token.trim().to_owned())
        }
        _ => {
            let token = crate::new_token();
            disk::write_private(path, token.as_bytes())?;
            Ok(token)
        }
    }
}

async fn accept(server: ApiServer, socket: TcpListener, tls: TlsAcceptor, stop: CancellationToken) {
    let graceful = GracefulShutdown::new();
    let connections = tokio_util::task::TaskTracker::new();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file descriptors, most likely: others may be closed meanwhile.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let (server, tls, watcher) = (server.clone(), tls.clone(), graceful.watcher());
        let stop = stop.clone();
        connections.spawn(async move {
            let serve = serve(server, stream, tls, watcher);
            tokio::select! {
                () = serve => {}
                () = async { stop.cancelled().await; tokio::time::sleep(DRAIN).await } => {}
            }
        });
    }
    connections.close();
    drop(socket);
    tokio::join!(graceful.shutdown(), connections.wait());
}

async fn serve(
    server: ApiServer,
    stream: TcpStream,
    tls: TlsAcceptor,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // Small answers must not wait for large ones to fill a packet.
    let _ = stream.set_nodelay(true);
    let stream = match tls.accept(stream).await {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!(%error, "a TLS handshake failed");
            return;
        }
    };
    let service = tower::service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
        let mut server = server.clone();
        async move {
            match authenticate(&server, &request) {
                Some(user) => {
                    request.extensions_mut().insert(user);
                    tower::Service::call(&mut server, request).await
                }
                None => Ok::<Response, _>(status(&ApiError::unauthorized())),
            }
        }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let connection =
        builder.serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(service));
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "a connection ended");
    }
}

fn authenticate(server: &ApiServer, request: &http::Request<hyper::body::Incoming>) -> Option<User> {
    if matches!(request.uri().path(), "/healthz" | "/livez" | "/readyz" | "/version") {
        return Some(User {
            name: "system:anonymous".into(),
            groups: ["system:unauthenticated".to_owned()].into(),
        });
    }
    let header = request.headers().get(http::header::AUTHORIZATION)?.to_str().ok()?;
    let token = header.strip_prefix("Bearer ").or_else(|| header.strip_prefix("bearer "))?;
    server.user_of(token.trim())
}
