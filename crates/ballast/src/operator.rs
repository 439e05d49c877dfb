//! The operator port of a running Ballast, as the commands that ask it see it.

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use scaling::Record;

/// Twenty decisions of an object are a few dozen kilobytes.
const LONGEST_ANSWER: usize = 64 << 20;
const LONGEST_ERROR: usize = 64 << 10;

pub struct OperatorPort {
    url: String,
    token: Option<String>,
}

impl OperatorPort {
    pub fn new(url: &str, token: Option<String>) -> Self {
        Self { url: url.trim_end_matches('/').to_owned(), token }
    }

    /// The last decisions that pass the filters.
    pub async fn decisions(&self, filters: &[(&str, &str)]) -> Result<Vec<Record>> {
        let (url, answer) = self.ask_for_decisions(filters, "application/json").await?;
        let body = Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("failed to read what {url} answers: {error}"))?;
        serde_json::from_slice(&body.to_bytes())
            .with_context(|| format!("{url} answers something unexpected"))
    }

    /// The same, and each new one as it is made, as server-sent events.
    pub async fn follow_decisions(&self, filters: &[(&str, &str)]) -> Result<Incoming> {
        let (_, answer) = self.ask_for_decisions(filters, "text/event-stream").await?;
        Ok(answer.into_body())
    }

    /// The address that was asked, and its answer if that is a good one.
    async fn ask_for_decisions(
        &self,
        filters: &[(&str, &str)],
        accept: &str,
    ) -> Result<(String, http::Response<Incoming>)> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(filters).finish();
        let url = format!("{}/api/v1/decisions?{query}", self.url);
        let mut request = http::Request::get(&url).header(http::header::ACCEPT, accept);
        if let Some(token) = &self.token {
            request = request.header(http::header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Empty::<&[u8]>::new()).context("this is no address to ask")?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let answer = client.request(request).await.with_context(|| format!("failed to ask {url}"))?;
        let status = answer.status();
        if !status.is_success() {
            let body = Limited::new(answer.into_body(), LONGEST_ERROR).collect().await;
            let body = body.map(|body| body.to_bytes()).unwrap_or_default();
            bail!("{url} answers {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok((url, answer))
    }
}
