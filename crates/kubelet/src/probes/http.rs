//! A single HTTP GET. Certificates are not verified: a probe asks whether somebody answers, not who.

use bytes::Bytes;
use http_body_util::Empty;
use hyper::{client::conn::http1, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

#[derive(Debug, Clone)]
pub struct Request {
    pub tls: bool,
    pub host: String,
    pub port: u16,
    pub path: String,
    pub headers: Vec<(String, String)>,
}

// === impl Request ===

impl Request {
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}:{}{}", self.host, self.port, self.absolute_path())
    }

    fn absolute_path(&self) -> String {
        let path = self.path.as_str();
        if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
    }
}

/// The status code of the answer; redirects are not followed, they count as an answer.
pub async fn get(request: Request) -> Result<u16, String> {
    let address = format!("{}:{}", request.host, request.port);
    let stream = TcpStream::connect((request.host.as_str(), request.port))
        .await
        .map_err(|error| format!("dial tcp {address}: {error}"))?;
    if !request.tls {
        return exchange(stream, &request).await;
    }
    let name = ServerName::try_from(request.host.clone()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(tls::trusting_anybody());
    let stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
    exchange(stream, &request).await
}

async fn exchange<S>(stream: S, request: &Request) -> Result<u16, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let mut builder = http::Request::get(request.absolute_path());
    for (name, value) in &request.headers {
        builder = builder.header(name, value);
    }
    let defaults = [
        (header::HOST, format!("{}:{}", request.host, request.port)),
        (header::USER_AGENT, "kube-probe/ballast".to_owned()),
        (header::ACCEPT, "*/*".to_owned()),
    ];
    for (name, value) in defaults {
        if !builder.headers_ref().is_some_and(|headers| headers.contains_key(&name)) {
            builder = builder.header(name, value);
        }
    }
    let message = builder
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let answer = async { sender.send_request(message).await.map(|answer| answer.status().as_u16()) };
    tokio::select! {
        status = answer => status.map_err(|error| error.to_string()),
        Err(error) = connection => Err(error.to_string()),
    }
}
