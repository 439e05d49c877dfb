//! A plain HTTP client: one connection a request.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    net::TcpStream,
};

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        let found =
            lines.filter_map(|line| line.split_once(':')).find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    }

    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("not JSON: {self:?}"))
    }
}

pub async fn get(at: SocketAddr, path: &str) -> Result<Answer> {
    request(at, "GET", path, "").await
}

/// Says that it asks for somebody at another address.
pub async fn get_for(client: &str, at: SocketAddr, path: &str) -> Result<Answer> {
    send(at, "GET", path, &format!("X-Forwarded-For: {client}\r\n"), "").await
}

pub async fn request(at: SocketAddr, method: &str, path: &str, body: &str) -> Result<Answer> {
    send(at, method, path, "", body).await
}

async fn send(at: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Result<Answer> {
    let mut stream = TcpStream::connect(at).await.with_context(|| format!("failed to connect to {at}"))?;
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    let answer = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("cut off: {answer:?}"))?;
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok());
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { unchunked(body) } else { body.to_owned() };
    Ok(Answer { status: status.with_context(|| format!("no status: {head}"))?, head: head.to_owned(), body })
}

fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let Some(chunk) = after.get(..size).filter(|chunk| !chunk.is_empty()) else { break };
        body.push_str(chunk);
        rest = after.get(size + 2..).unwrap_or_default();
    }
    body
}

/// Server-sent events, one after the other.
pub struct Events(Lines<BufReader<TcpStream>>);

impl Events {
    pub async fn follow(at: SocketAddr, path: &str) -> Result<Self> {
        let mut stream =
            TcpStream::connect(at).await.with_context(|| format!("failed to connect to {at}"))?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {at}\r\n\r\n").as_bytes()).await?;
        Ok(Events(BufReader::new(stream).lines()))
    }

    /// Its name and what it says. The lines between, of chunks and of a stream that is merely still there, say nothing.
    pub async fn next(&mut self) -> Result<(String, Value)> {
        let mut name = String::new();
        while let Some(line) = self.0.next_line().await? {
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Ok((name, serde_json::from_str(data)?));
            }
        }
        bail!("the stream ended")
    }
}
