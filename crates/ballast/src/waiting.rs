//! Before a node can serve: what it needs may still be starting. It says so on its port, and once in its log.

use std::{net::SocketAddr, time::Duration};

use anyhow::Result;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use crate::signals::StopSignals;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// For a request and its answer, each a few hundred bytes.
const PATIENCE: Duration = Duration::from_secs(5);
const MOST_AT_ONCE: usize = 64;

/// Answers on the port of the gateway until it is dropped: alive, but not ready, and why.
pub struct Waiting {
    reason: watch::Sender<String>,
    task: Option<JoinHandle<()>>,
}

/// Why something is not there.
pub enum Missing {
    /// It may come by itself.
    Yet(String),
    /// It will not.
    ForGood(anyhow::Error),
}

// === impl Waiting ===

impl Waiting {
    /// A port that is in use is told later, by who needs it.
    pub async fn start(addr: SocketAddr) -> Self {
        let (reason, told) = watch::channel("starting".to_owned());
        let listener = TcpListener::bind(addr).await.ok();
        Self { reason, task: listener.map(|listener| tokio::spawn(answer(listener, told))) }
    }

    /// Tries until it is there, with growing pauses. None if the end is asked for meanwhile.
    pub async fn for_it<T>(
        &self,
        what: &str,
        stop: &mut StopSignals,
        mut attempt: impl AsyncFnMut() -> Result<T, Missing>,
    ) -> Result<Option<T>> {
        let mut pause = FIRST_PAUSE;
        let mut waited = false;
        self.reason.send_replace(format!("waiting for {what}"));
        loop {
            let tried = tokio::select! {
                tried = attempt() => tried,
                () = stop.received() => return Ok(None),
            };
            match tried {
                Ok(found) => {
                    if waited {
                        tracing::info!("{what} is there now");
                    }
                    return Ok(Some(found));
                }
                Err(Missing::ForGood(error)) => return Err(error),
                Err(Missing::Yet(why)) => {
                    let reason = format!("waiting for {what}: {why}");
                    let is_news = self
                        .reason
                        .send_if_modified(|told| std::mem::replace(told, reason.clone()) != reason);
                    if is_news {
                        tracing::warn!("{reason}");
                    }
                    waited = true;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.received() => return Ok(None),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Returns when the port is free.
    pub async fn end(mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn answer(listener: TcpListener, reason: watch::Receiver<String>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        while connections.len() >= MOST_AT_ONCE {
            connections.join_next().await;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                let reason = reason.borrow().clone();
                connections.spawn(tokio::time::timeout(PATIENCE, reply(stream, reason)));
            }
            // out of file descriptors, most likely
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn reply(mut stream: TcpStream, reason: String) -> std::io::Result<()> {
    let mut head = [0; 1024];
    let mut length = 0;
    while length < head.len() && !head[..length].windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut head[length..]).await? {
            0 => break,
            read => length += read,
        }
    }
    let is_alive = head.starts_with(b"GET /health ");
    let (status, body) = match is_alive {
        true => ("200 OK", "OK".to_owned()),
        false => ("503 Service Unavailable", format!("NOT_READY\n{reason}\n")),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\nRetry-After: 1\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
