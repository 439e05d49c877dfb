//! One GET, distrustful: bounded in time and size, no redirects, no compression, no names to resolve.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::{Failure, Reason, Target};
use crate::text::Format;

/// The classic format first: it is the smaller one where both are offered. Names may be UTF-8.
const ACCEPT: &str = "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                      application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                      text/plain;version=0.0.4;q=0.4,*/*;q=0.1";
/// Room for headers: more than this is not an answer of an exporter.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// Keeps connections open between scrapes.
#[derive(Debug, Clone)]
pub struct Client(legacy::Client<HttpsConnector<HttpConnector>, Empty<Bytes>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchLimits {
    /// Bytes of the body.
    pub body: usize,
    /// From connecting to the last byte.
    pub timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    pub body: Vec<u8>,
    pub format: Format,
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    pub fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        // The layer around it speaks https.
        connector.enforce_http(false);
        let tls = (*tls::trusting_anybody()).clone();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .pool_max_idle_per_host(1)
            .http1_max_buf_size(MAX_HEADER_BYTES)
            .build(connector);
        Self(client)
    }

    pub async fn fetch(&self, target: &Target, limits: FetchLimits) -> Result<Fetched, Failure> {
        match tokio::time::timeout(limits.timeout, self.get(target, limits.body)).await {
            Ok(result) => result,
            Err(_) => {
                Err(Failure::new(Reason::Timeout, format!("no complete answer within {:?}", limits.timeout)))
            }
        }
    }

    async fn get(&self, target: &Target, limit: usize) -> Result<Fetched, Failure> {
        let uri = Uri::builder()
            .scheme(target.scheme.as_str())
            .authority(target.address.to_string())
            .path_and_query(target.path.as_str())
            .build()
            .map_err(|e| Failure::new(Reason::InvalidUrl, format!("{:?}: {e}", target.path)))?;
        let request = Request::get(uri)
            .header(header::ACCEPT, ACCEPT)
            .header(header::ACCEPT_ENCODING, "identity")
            .header(header::USER_AGENT, concat!("ballast/", env!("CARGO_PKG_VERSION")))
            .body(Empty::new())
            .map_err(|e| Failure::new(Reason::InvalidUrl, e))?;
        let answer =
            self.0.request(request).await.map_err(|e| Failure::new(Reason::Connection, chain(&e)))?;
        check_head(&answer)?;
        if answer.body().size_hint().lower() > limit as u64 {
            return Err(too_large(limit));
        }
        let content_type = answer.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let format = Format::from_content_type(content_type.unwrap_or_default());
        let body = read_body(answer.into_body(), limit).await?;
        Ok(Fetched { body, format })
    }
}

fn check_head(answer: &Response<Incoming>) -> Result<(), Failure> {
    let status = answer.status();
    if status.is_redirection() {
        let location =
            answer.headers().get(header::LOCATION).and_then(|v| v.to_str().ok()).unwrap_or("nowhere");
        let message = format!("{status} to {location:?}: set prometheus.io/path to where the metrics are");
        return Err(Failure::new(Reason::Redirect, message));
    }
    if status != StatusCode::OK {
        return Err(Failure::new(Reason::HttpStatus, status));
    }
    match answer.headers().get(header::CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            Err(Failure::new(Reason::Encoding, format!("content-encoding {encoding:?} was not asked for")))
        }
        _ => Ok(()),
    }
}

async fn read_body(mut incoming: Incoming, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|e| Failure::new(Reason::Connection, chain(&e)))?;
        let Ok(data) = frame.into_data() else { continue };
        if body.len() + data.len() > limit {
            return Err(too_large(limit));
        }
        body.extend_from_slice(&data);
    }
    Ok(body)
}

fn too_large(limit: usize) -> Failure {
    Failure::new(Reason::ResponseTooLarge, format!("the body is longer than {limit} bytes"))
}

/// The client's own message is only "client error (Connect)"; the reason stands below it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}
