//! The client's end of a command: its standard streams, over either protocol.

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream};

use super::{
    link::Link,
    spdy,
    websocket::{self, Channel},
};

/// The stream that tells the size of the client's window; it has nothing to do with the sizes of pods.
const WINDOW: &str = "resize";

/// Which streams a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

pub struct Remote {
    pub stdin: Option<DuplexStream>,
    pub stdout: Option<DuplexStream>,
    pub stderr: Option<DuplexStream>,
    pub resize: Option<DuplexStream>,
    error: Option<DuplexStream>,
    pub link: Link,
}

// === impl Wanted ===

impl Wanted {
    /// In the order of their channels, under the names that SPDY has for them.
    fn streams(self) -> [(&'static str, bool); 5] {
        [
            ("stdin", self.stdin),
            ("stdout", self.stdout),
            // A terminal has one output.
            ("stderr", self.stderr && !self.tty),
            ("error", true),
            (WINDOW, self.tty),
        ]
    }
}

// === impl Remote ===

impl Remote {
    pub async fn over_websocket(
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        wanted: Wanted,
    ) -> Self {
        let socket = websocket::accept(io).await;
        let streams = wanted.streams();
        let numbers = (0..).zip(streams).filter(|(_, (_, wanted))| *wanted).map(|(number, _)| number);
        let channels = numbers.map(|number| Channel { number, preface: Vec::new() }).collect();
        let (link, ends) = websocket::serve(socket, channels);
        let mut ends = ends.into_iter();
        let [stdin, stdout, stderr, error, resize] =
            streams.map(|(_, wanted)| if wanted { ends.next() } else { None });
        Self { stdin, stdout, stderr, resize, error, link }
    }

    /// Once the client has opened all its streams; `None` if it hangs up before.
    pub async fn over_spdy(
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        wanted: Wanted,
    ) -> Option<Self> {
        let (from, to) = tokio::io::split(io);
        let (link, mut streams) = spdy::serve(from, to).ok()?;
        let wanted = wanted.streams();
        let mut ends = wanted.map(|_| None);
        while wanted.iter().zip(&ends).any(|((_, wanted), end)| *wanted && end.is_none()) {
            let stream = streams.recv().await?;
            let kind = stream.header("streamtype");
            if let Some(at) = wanted.iter().position(|(name, wanted)| *name == kind && *wanted) {
                ends[at] = Some(stream.io);
            }
        }
        let [stdin, stdout, stderr, error, resize] = ends;
        Some(Self { stdin, stdout, stderr, resize, error, link })
    }

    /// Says how it ended, and takes leave.
    pub async fn finish(mut self, status: &Value) {
        drop((self.stdin.take(), self.stdout.take(), self.stderr.take(), self.resize.take()));
        if let Some(mut error) = self.error.take() {
            let _ = error.write_all(status.to_string().as_bytes()).await;
        }
        self.link.finish().await;
    }
}
