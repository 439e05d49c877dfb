//! Where the figures can be had: a page for scrapers, and the API for external metrics.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use crate::figures::{Figures, number};

pub async fn source(figures: Arc<Figures>, port: u16) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let figures = figures.clone();
            tokio::spawn(answer(stream, move |_| ("text/plain; version=0.0.4", figures.page())));
        }
    });
    Ok(())
}

pub async fn external_metrics(figures: Arc<Figures>, port: u16) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let acceptor = TlsAcceptor::from(Arc::new(tls()?));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (figures, acceptor) = (figures.clone(), acceptor.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    answer(stream, |path| ("application/json", external(&figures, path))).await;
                }
            });
        }
    });
    Ok(())
}

fn tls() -> Result<ServerConfig> {
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .context("failed to make a certificate")
}

/// The group's resources, or the value for the object that the selector names: `…/load?labelSelector=object%3Df00001`.
fn external(figures: &Figures, path: &str) -> String {
    let object = path.split_once("labelSelector=object%3D").map(|(_, rest)| rest);
    let object = object.and_then(|rest| number(rest.split('&').next()?));
    let Some(value) = object.and_then(|object| figures.of(object)) else {
        return json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "external.metrics.k8s.io/v1beta1",
            "resources": [{
                "name": "load", "singularName": "", "namespaced": true,
                "kind": "ExternalMetricValueList", "verbs": ["get"],
            }],
        })
        .to_string();
    };
    json!({
        "kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {},
        "items": [{
            "metricName": "load", "metricLabels": {}, "timestamp": jiff::Timestamp::now(), "value": value.to_string(),
        }],
    })
    .to_string()
}

/// One request after the other, none of which has a body.
async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    of: impl Fn(&str) -> (&'static str, String),
) {
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
