//! The kubelet endpoint: what an API server asks a node for. Loopback only, TLS with a certificate of its own making.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use futures::TryStreamExt;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use jiff::Timestamp;
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::{
    Error, Shared,
    logs::{self, Query},
    registry::NoLog,
    streaming::{self, Kind, Place},
    usage::Usage,
};

pub type Body = UnsyncBoxBody<Bytes, std::io::Error>;

pub struct Listener {
    listener: TcpListener,
    tls: TlsAcceptor,
    pub port: u16,
}

pub async fn bind(address: SocketAddr) -> Result<Listener, Error> {
    let listening = async {
        let listener = TcpListener::bind(address).await?;
        let port = listener.local_addr()?.port();
        Ok((listener, port))
    };
    let (listener, port) = listening.await.map_err(|source| Error::Listen { address, source })?;
    let tls = TlsAcceptor::from(Arc::new(tls(address).map_err(Error::Certificate)?));
    Ok(Listener { listener, tls, port })
}

fn tls(address: SocketAddr) -> Result<ServerConfig, String> {
    let names = vec!["localhost".to_owned(), address.ip().to_string()];
    let own = rcgen::generate_simple_self_signed(names).map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Serves until dropped.
pub async fn serve(listener: Listener, shared: Arc<Shared>) {
    let usage = Arc::new(Usage::default());
    // Ends the connections with the server.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let stream = match listener.listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                // Out of file descriptors, most likely: give others time to close some.
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        let (tls, shared, usage) = (listener.tls.clone(), Arc::clone(&shared), Arc::clone(&usage));
        connections.spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let service = service_fn(move |request: Request<Incoming>| {
                let (shared, usage) = (Arc::clone(&shared), Arc::clone(&usage));
                async move { Ok::<_, Infallible>(answer(&shared, &usage, request).await) }
            });
            let server = auto::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(shared: &Arc<Shared>, usage: &Arc<Usage>, request: Request<Incoming>) -> Response<Body> {
    let segments: Vec<&str> = request.uri().path().split('/').skip(1).collect();
    let query = request.uri().query().unwrap_or_default();
    let is_open = segments.as_slice() == ["healthz"];
    if let Some(token) = &shared.options.token
        && !is_open
        && !presents(&request, token)
    {
        return text(StatusCode::UNAUTHORIZED, "Unauthorized");
    }
    match (request.method(), segments.as_slice()) {
        (&Method::GET, ["healthz"]) => text(StatusCode::OK, "ok"),
        (&Method::GET, ["containerLogs", namespace, pod, container]) => {
            container_logs(shared, namespace, pod, container, query)
        }
        (&Method::GET, ["metrics", "resource"]) => {
            let running = shared.registry.running();
            let usage = Arc::clone(usage);
            match tokio::task::spawn_blocking(move || usage.page(&running)).await {
                Ok(page) => {
                    let mut response = text(StatusCode::OK, page);
                    let kind = header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                    response.headers_mut().insert(header::CONTENT_TYPE, kind);
                    response
                }
                Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            }
        }
        (&Method::GET | &Method::POST, [kind @ ("exec" | "attach"), namespace, pod, container]) => {
            let kind = if *kind == "exec" { Kind::Exec } else { Kind::Attach };
            let place = Place::new(namespace, pod, container);
            streaming::answer(shared, kind, &place, request)
        }
        (&Method::GET | &Method::POST, ["portForward", namespace, pod]) => {
            let place = Place::new(namespace, pod, "");
            streaming::answer(shared, Kind::PortForward, &place, request)
        }
        _ => text(StatusCode::NOT_FOUND, "404 page not found"),
    }
}

fn presents(request: &Request<Incoming>, token: &str) -> bool {
    let header = request.headers().get(header::AUTHORIZATION).map(header::HeaderValue::as_bytes);
    let presented = header.and_then(|text| text.strip_prefix(b"Bearer ")).unwrap_or_default();
    presented.ct_eq(token.as_bytes()).into()
}

fn container_logs(
    shared: &Shared,
    namespace: &str,
    pod: &str,
    container: &str,
    query: &str,
) -> Response<Body> {
    let query = match Query::parse(query, Timestamp::now()) {
        Ok(query) => query,
        Err(error) => return text(StatusCode::BAD_REQUEST, error.to_string()),
    };
    match shared.registry.log(namespace, pod, container, query.previous) {
        Ok(log) => {
            let frames = logs::stream(log, query).map_ok(Frame::data);
            let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain"));
            response
        }
        Err(error @ (NoLog::Pod(_) | NoLog::Container { .. })) => {
            text(StatusCode::NOT_FOUND, error.to_string())
        }
        Err(error) => text(StatusCode::BAD_REQUEST, error.to_string()),
    }
}

pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}
