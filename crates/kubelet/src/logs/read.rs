//! Answers a log query, and goes on answering when it is to follow.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use futures::Stream;

use super::{CURRENT, Log, OLDER, Progress, Query};

/// Where a follower stands.
struct Follower {
    log: Arc<Log>,
    query: Query,
    /// In the current file.
    position: u64,
    seen: Progress,
    first: bool,
    remaining: Option<usize>,
}

/// The log as the query wants it. Ends at the end of what is there, or, with `follow`, when the container has ended.
pub fn stream(log: Arc<Log>, query: Query) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let remaining = query.limit_bytes;
    let follower = Follower { log, query, position: 0, seen: Progress::default(), first: true, remaining };
    futures::stream::try_unfold(follower, |mut follower| async move {
        loop {
            if follower.remaining == Some(0) {
                return Ok(None);
            }
            // Noted before reading: what is written meanwhile is read twice as "changed", never missed.
            let progress = *follower.log.progress.borrow();
            if !follower.first && !follower.wait(progress).await {
                return Ok(None);
            }
            let mut reader = follower;
            let read = tokio::task::spawn_blocking(move || reader.next().map(|bytes| (bytes, reader)));
            let (bytes, advanced) = read.await.map_err(io::Error::other)??;
            follower = advanced;
            if !bytes.is_empty() {
                return Ok(Some((bytes, follower)));
            }
        }
    })
}

// === impl Follower ===

impl Follower {
    /// Waits until there is more to read; false when there never will be.
    async fn wait(&mut self, now: Progress) -> bool {
        if !self.query.follow || (now.ended && now == self.seen) {
            return false;
        }
        let mut progress = self.log.progress.subscribe();
        progress.wait_for(|progress| *progress != self.seen).await.is_ok()
    }

    fn next(&mut self) -> io::Result<Bytes> {
        let now = *self.log.progress.borrow();
        let directory = self.log.directory.clone();
        let mut content = Vec::new();
        if self.first {
            read_from(&directory.join(OLDER), 0, &mut content)?;
            self.position = 0;
        } else if now.rotations != self.seen.rotations {
            read_from(&directory.join(OLDER), self.position, &mut content)?;
            self.position = 0;
        }
        let before = content.len();
        read_from(&directory.join(CURRENT), self.position, &mut content)?;
        // A record that is being written right now is left for the next time.
        let whole = content.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1).max(before);
        content.truncate(whole);
        self.position += (whole - before) as u64;
        self.seen = now;
        let mut out = self.query.select(&content);
        if self.first {
            // The tail is taken once, from what was there when the question was asked.
            self.query.tail_lines = None;
            self.first = false;
        }
        if let Some(remaining) = &mut self.remaining {
            out.truncate(*remaining);
            *remaining -= out.len();
        }
        Ok(Bytes::from(out))
    }
}

fn read_from(path: &Path, position: u64, into: &mut Vec<u8>) -> io::Result<()> {
    match File::open(path) {
        Ok(mut file) => {
            file.seek(SeekFrom::Start(position))?;
            file.read_to_end(into).map(drop)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
