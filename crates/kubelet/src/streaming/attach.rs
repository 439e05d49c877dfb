//! `kubectl attach`: what a container says from now on, and what it is told.

use std::future::pending;

use bytes::Bytes;
use serde_json::Value;
use tokio::{
    io::AsyncWriteExt,
    net::unix::pipe,
    sync::broadcast::{self, error::RecvError},
};
use tokio_util::sync::CancellationToken;

use super::{remote::Remote, status};
use crate::registry::Site;

/// What the session needs of the container; taken before the client is told that it is attached.
pub struct Attached {
    output: broadcast::Receiver<Bytes>,
    input: Option<pipe::Sender>,
}

// === impl Attached ===

impl Attached {
    /// # Errors
    /// Says why the container cannot be told anything.
    pub fn to(site: &Site, stdin: bool) -> Result<Self, String> {
        let input = if stdin { Some(site.writer()?) } else { None };
        Ok(Self { output: site.log.live(), input })
    }

    /// Until the container ends, or `over` says that nobody is there any more.
    pub async fn run(mut self, site: &Site, remote: &mut Remote, over: &CancellationToken) -> Value {
        let (ended, sizes) = (&site.ended, remote.resize.take());
        // Both outputs of a container are one stream here.
        let (client_in, client_out) = (remote.stdin.take(), remote.stdout.take().or(remote.stderr.take()));
        let resize = async {
            if let (Some(window), Some(sizes)) = (site.window(), sizes) {
                window.follow(sizes).await;
            }
            pending().await
        };
        let feed = async {
            if let (Some(mut from), Some(mut to)) = (client_in, self.input) {
                let _ = tokio::io::copy(&mut from, &mut to).await;
                // Ends it, if it was to be used once.
                drop(to);
            }
            pending().await
        };
        let show = async {
            let Some(mut to) = client_out else { return ended.cancelled().await };
            loop {
                let chunk = tokio::select! {
                    biased;
                    chunk = self.output.recv() => chunk,
                    // All that there was has been received.
                    () = ended.cancelled() => return,
                };
                let written = match chunk {
                    Ok(chunk) => to.write_all(&chunk).await,
                    Err(RecvError::Lagged(_)) => to.write_all(MISSED).await,
                    Err(RecvError::Closed) => return,
                };
                if written.is_err() {
                    return ended.cancelled().await;
                }
            }
        };
        tokio::select! {
            () = show => {}
            () = feed => {}
            () = resize => {}
            () = over.cancelled() => {}
        }
        status::success()
    }
}

/// The container does not wait for those who watch it.
const MISSED: &[u8] = b"\r\n[output was left out here: it came faster than it was read]\r\n";
