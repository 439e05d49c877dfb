//! Containers of the user, spoken to by Numaflow's gRPC protocol on Unix sockets beside which they say what they are.

mod calls;
mod info;
mod map;
mod sink;
mod source;

use std::{path::PathBuf, time::Duration};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

pub use info::{Mode, ServerInfo};
pub use map::{Map, Outcome, Transform};
pub use sink::{Sink, Verdict};
pub use source::Source;

/// As the SDKs have it.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// Requests that wait to be sent.
const MAX_WAITING: usize = 512;

/// The container went away, or breaks the protocol: what was asked may have happened or not.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{socket}: {words}")]
pub struct Error {
    pub socket: String,
    pub words: String,
}

/// One container's socket.
#[derive(Clone, Debug)]
pub struct Socket {
    path: PathBuf,
}

impl Socket {
    pub fn new(path: PathBuf) -> Self {
        Socket { path }
    }

    pub async fn connect(&self) -> Result<Channel, Error> {
        let path = self.path.clone();
        // the address means nothing, there has to be one
        let endpoint = Endpoint::from_static("http://localhost").connect_timeout(Duration::from_secs(10));
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        endpoint.connect_with_connector(connector).await.map_err(|error| {
            let why = std::error::Error::source(&error).map(|why| format!(": {why}")).unwrap_or_default();
            self.error(format!("{error}{why}"))
        })
    }

    pub fn error(&self, words: impl ToString) -> Error {
        Error { socket: self.path.display().to_string(), words: words.to_string() }
    }

    pub fn status(&self, status: &tonic::Status) -> Error {
        self.error(format!("{}: {}", status.code(), status.message()))
    }
}
