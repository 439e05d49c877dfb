//! Asking a node's own endpoint, as the real server does for logs, metrics and commands in containers.

use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{
    ApiServer,
    error::{ApiError, Result},
    object,
};

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubelet {
    pub node: String,
    pub host: String,
    pub port: u16,
}

// === impl Kubelet ===

impl Kubelet {
    pub fn of_node(node: &Value) -> Option<Self> {
        let status = &node["status"];
        let port = status["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64().filter(|port| *port > 0)?;
        let addresses = status["addresses"].as_array()?;
        let host = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"]
            .iter()
            .filter_map(|kind| addresses.iter().find(|one| one["type"] == *kind))
            .filter_map(|one| one["address"].as_str())
            // A process node's host name may resolve to nothing; its address always leads to it.
            .max_by_key(|host| host.parse::<std::net::IpAddr>().is_ok())?;
        Some(Self {
            node: object::name(node).to_owned(),
            host: host.to_owned(),
            port: u16::try_from(port).ok()?,
        })
    }

    pub fn find(server: &ApiServer, node: &str) -> Result<Self> {
        let registry = server.registry();
        let missing = || ApiError::internal(format!("node {node:?} has no endpoint to ask"));
        let nodes = registry.resource("", "nodes").ok_or_else(missing)?;
        let record = server
            .store()
            .get(nodes.table, node)
            .ok_or_else(|| ApiError::not_found(&nodes.subject(), node))?;
        Self::of_node(&record.to_value()).ok_or_else(missing)
    }
}

/// The response of a node to `GET path`.
pub async fn get(
    server: &ApiServer,
    kubelet: &Kubelet,
    path: &str,
) -> Result<http::Response<hyper::body::Incoming>> {
    send(server, kubelet, Method::GET, path, HeaderMap::new()).await
}

/// The response of a node; the connection may go on in another protocol.
pub async fn send(
    server: &ApiServer,
    kubelet: &Kubelet,
    method: Method,
    path: &str,
    headers: HeaderMap,
) -> Result<http::Response<hyper::body::Incoming>> {
    let verb = if method == Method::GET { "Get" } else { "Post" };
    let unreachable = |why: String| {
        ApiError::internal(format!("{verb} \"https://{}:{}{path}\": {why}", kubelet.host, kubelet.port))
    };
    let tcp = TcpStream::connect((kubelet.host.as_str(), kubelet.port))
        .await
        .map_err(|error| unreachable(format!("dial tcp: {error}")))?;
    let tcp_peer = tcp.peer_addr();
    let name = ServerName::try_from(kubelet.host.clone()).map_err(|error| unreachable(error.to_string()))?;
    // Kubelets sign their own serving certificates; the real server does not verify them by default either.
    let tls = TlsConnector::from(tls::trusting_anybody())
        .connect(name, tcp)
        .await
        .map_err(|error| unreachable(error.to_string()))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls))
        .await
        .map_err(|error| unreachable(error.to_string()))?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a node ended");
        }
    });
    let mut request = http::Request::builder().method(method).uri(path);
    if let Some(all) = request.headers_mut() {
        *all = headers;
    }
    request = request.header(http::header::HOST, format!("{}:{}", kubelet.host, kubelet.port));
    // Who answers elsewhere has proved nothing.
    let is_here = tcp_peer.is_ok_and(|peer| peer.ip().is_loopback());
    if let Some(token) = server.kubelet_token().filter(|_| is_here) {
        request = request.header(http::header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| unreachable(error.to_string()))?;
    sender.send_request(request).await.map_err(|error| unreachable(error.to_string()))
}

pub async fn text(response: http::Response<hyper::body::Incoming>) -> Result<String> {
    let bytes = response.into_body().collect().await.map_err(ApiError::internal)?.to_bytes();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
