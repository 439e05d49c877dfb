//! Servers of pages, as stand-ins for what is scraped or asked: one request after the other, none of which has a body.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};
pub use tokio_rustls::TlsAcceptor;

/// The content type and the body for a path.
pub type Page = (&'static str, String);

pub const METRICS: &str = "text/plain; version=0.0.4";

/// For as long as the future is polled.
pub async fn serve(listener: TcpListener, of: impl Fn(&str) -> Page + Clone + Send + Sync + 'static) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, of.clone()));
    }
}

/// The same over TLS.
pub async fn serve_tls(
    listener: TcpListener,
    tls: TlsAcceptor,
    of: impl Fn(&str) -> Page + Clone + Send + Sync + 'static,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, of) = (tls.clone(), of.clone());
        tokio::spawn(async move {
            if let Ok(stream) = tls.accept(stream).await {
                answer(stream, of).await;
            }
        });
    }
}

/// With a certificate that nobody vouches for.
pub fn tls() -> Result<TlsAcceptor> {
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .context("failed to make a certificate")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, of: impl Fn(&str) -> Page) {
    let mut request = Vec::new();
    while let Ok(1..) = stream.read_buf(&mut request).await {
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        let head = String::from_utf8_lossy(&request).into_owned();
        request.clear();
        let (content_type, body) = of(head.split(' ').nth(1).unwrap_or_default());
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        if stream.write_all(answer.as_bytes()).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}
