//! Container output on disk, a record a line: `<time> F <text>`, or `P` when the line goes on in the next record.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use jiff::Timestamp;
use tokio::{
    net::unix::pipe,
    sync::{broadcast, watch},
};
use tokio_util::sync::CancellationToken;

mod query;
mod read;

pub use query::Query;
pub use read::stream;

/// A file is set aside at this size; one older file is kept.
const ROTATE_AT: u64 = 10 << 20;
/// A line without an end is written in pieces of this size.
const LONGEST_RECORD: usize = 16 << 10;

/// Chunks of output that those who watch a container may be behind; whoever is slower misses some.
const LIVE_CHUNKS: usize = 64;

const CURRENT: &str = "log";
const OLDER: &str = "log.1";

/// How far writing has come; readers that follow wait for it to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    pub written: u64,
    pub rotations: u64,
    pub ended: bool,
}

/// One run of one container.
#[derive(Debug)]
pub struct Log {
    directory: PathBuf,
    progress: watch::Sender<Progress>,
    /// Output as it comes, for those who are attached.
    live: broadcast::Sender<Bytes>,
    rotate_at: u64,
}

struct Writer<'a> {
    log: &'a Log,
    file: File,
    size: u64,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
}

// === impl Log ===

impl Log {
    pub fn open(directory: &Path) -> Arc<Self> {
        Arc::new(Self {
            directory: directory.to_owned(),
            progress: watch::Sender::new(Progress::default()),
            live: broadcast::Sender::new(LIVE_CHUNKS),
            rotate_at: ROTATE_AT,
        })
    }

    /// A run that is over: nothing will be added.
    pub fn ended(directory: &Path) -> Arc<Self> {
        let log = Self::open(directory);
        log.progress.send_modify(|progress| progress.ended = true);
        log
    }

    pub fn exists(directory: &Path) -> bool {
        directory.join(CURRENT).exists()
    }

    /// All records that are still there.
    pub fn content(&self) -> Vec<u8> {
        let read = |name| fs::read(self.directory.join(name)).unwrap_or_default();
        let mut content = read(OLDER);
        content.extend(read(CURRENT));
        content
    }

    /// What comes out from now on, as it comes.
    pub fn live(&self) -> broadcast::Receiver<Bytes> {
        self.live.subscribe()
    }

    fn tell(&self, bytes: &[u8]) {
        if self.live.receiver_count() > 0 {
            // The last of them may have left just now.
            let _ = self.live.send(Bytes::copy_from_slice(bytes));
        }
    }

    /// Copies what comes out of the FIFO until `stop`, and then what is still in it.
    pub async fn pump(&self, fifo: pipe::Receiver, stop: CancellationToken) {
        if let Err(error) = self.copy(fifo, &stop).await {
            tracing::warn!(%error, log = %self.directory.display(), "container output is lost");
        }
        self.progress.send_modify(|progress| progress.ended = true);
    }

    async fn copy(&self, fifo: pipe::Receiver, stop: &CancellationToken) -> io::Result<()> {
        let mut writer = Writer::open(self)?;
        let mut buffer = vec![0; 64 << 10];
        let mut failure = None;
        loop {
            tokio::select! {
                ready = fifo.readable() => ready?,
                () = stop.cancelled() => break,
            }
            match fifo.try_read(&mut buffer) {
                // A full disk must not block the container: what cannot be kept is thrown away.
                Ok(n) => {
                    self.tell(&buffer[..n]);
                    failure = writer.push(&buffer[..n], Timestamp::now()).err().or(failure);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if is_hang_up(&error) => break,
                Err(error) => return Err(error),
            }
        }
        // Asked of the kernel: the runtime may not have noticed the last bytes yet.
        let mut rest = File::from(fifo.into_nonblocking_fd()?);
        loop {
            match rest.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => {
                    self.tell(&buffer[..n]);
                    writer.push(&buffer[..n], Timestamp::now())?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock || is_hang_up(&error) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        writer.finish(Timestamp::now())?;
        failure.map_or(Ok(()), Err)
    }
}

// === impl Writer ===

impl<'a> Writer<'a> {
    fn open(log: &'a Log) -> io::Result<Self> {
        let file = append(&log.directory.join(CURRENT))?;
        let size = file.metadata()?.len();
        Ok(Self { log, file, size, line: Vec::new() })
    }

    fn push(&mut self, mut bytes: &[u8], now: Timestamp) -> io::Result<()> {
        let mut records = Vec::with_capacity(bytes.len() + 64);
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&bytes[..end]);
            self.pieces(&mut records, now);
            record(&mut records, now, b'F', &self.line);
            self.line.clear();
            bytes = &bytes[end + 1..];
        }
        self.line.extend_from_slice(bytes);
        self.pieces(&mut records, now);
        self.append(&records)
    }

    /// Takes full pieces off an overlong line.
    fn pieces(&mut self, records: &mut Vec<u8>, now: Timestamp) {
        while self.line.len() > LONGEST_RECORD {
            let rest = self.line.split_off(LONGEST_RECORD);
            record(records, now, b'P', &self.line);
            self.line = rest;
        }
    }

    fn finish(mut self, now: Timestamp) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return Ok(());
        }
        let mut records = Vec::new();
        record(&mut records, now, b'P', &line);
        self.append(&records)
    }

    fn append(&mut self, records: &[u8]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let rotate = self.size > 0 && self.size + records.len() as u64 > self.log.rotate_at;
        if rotate {
            fs::rename(self.log.directory.join(CURRENT), self.log.directory.join(OLDER))?;
            self.file = append(&self.log.directory.join(CURRENT))?;
            self.size = 0;
        }
        self.file.write_all(records)?;
        self.size += records.len() as u64;
        self.log.progress.send_modify(|progress| {
            progress.written += records.len() as u64;
            progress.rotations += u64::from(rotate);
        });
        Ok(())
    }
}

/// How a terminal says that no process has it open any more.
fn is_hang_up(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn record(out: &mut Vec<u8>, at: Timestamp, tag: u8, text: &[u8]) {
    // Nine digits always, as Go's RFC3339Nano would show a time that happens to need them all.
    out.extend_from_slice(format!("{at:.9}").as_bytes());
    out.extend_from_slice(&[b' ', tag, b' ']);
    out.extend_from_slice(text);
    out.push(b'\n');
}

#[cfg(test)]
mod tests;
