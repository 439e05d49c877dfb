//! SPDY/3.1, as much of it as Kubernetes uses: a client opens streams with headers, both sides send on them and close
//! their own half. No priorities, and no windows: neither side of Kubernetes has ever kept them, so what slows a
//! sender down is the connection.

use std::{collections::HashMap, io, sync::Arc};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, WriteHalf},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time,
};
use tokio_util::sync::CancellationToken;

use super::link::{BUFFER, CHUNK, Link, PING_PERIOD, Pumps, QUEUE};

mod headers;

use headers::{Deflater, Headers, Inflater};

/// Open at the same time on one connection; `kubectl port-forward` needs two for each connection it forwards.
const MOST_STREAMS: usize = 256;
/// Of frames other than data.
const LARGEST_FRAME: usize = 16 << 10;

const VERSION: u16 = 0x8003;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const FIN: u8 = 1;
const REFUSED_STREAM: u32 = 3;

/// A stream that the client opened.
pub struct Stream {
    headers: Headers,
    pub io: DuplexStream,
}

struct Reader {
    pumps: Pumps,
    frames: mpsc::Sender<Bytes>,
    accepted: mpsc::Sender<Stream>,
    /// Those that the client may still write to.
    streams: HashMap<u32, (WriteHalf<DuplexStream>, Arc<OwnedSemaphorePermit>)>,
    /// A stream takes one until both sides have closed it.
    permits: Arc<Semaphore>,
    inflate: Inflater,
    deflate: Deflater,
}

// === impl Stream ===

impl Stream {
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// Speaks SPDY as the server. Streams come out of the channel in the order in which they were opened.
pub fn serve<R, W>(from: R, to: W) -> io::Result<(Link, mpsc::Receiver<Stream>)>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let pumps = Pumps::default();
    let (frames, queue) = mpsc::channel(QUEUE);
    let (accepted, streams) = mpsc::channel(1);
    let reader = Reader {
        pumps: pumps.clone(),
        frames,
        accepted,
        streams: HashMap::new(),
        permits: Arc::new(Semaphore::new(MOST_STREAMS)),
        inflate: Inflater::new(),
        deflate: Deflater::new()?,
    };
    let read = async move {
        if let Err(error) = reader.run(from).await {
            tracing::debug!(%error, "a SPDY connection ended");
        }
    };
    let write = |finishing| async move {
        if let Err(error) = write(queue, to, finishing).await {
            tracing::debug!(%error, "a SPDY connection cannot be written to");
        }
    };
    let link = Link::spawn(pumps, read, write);
    Ok((link, streams))
}

// === impl Reader ===

impl Reader {
    async fn run(mut self, mut from: impl AsyncRead + Unpin) -> io::Result<()> {
        loop {
            let first = match from.read_u32().await {
                Ok(first) => first,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            };
            let second = from.read_u32().await?;
            let flags = (second >> 24) as u8;
            let length = (second & 0x00ff_ffff) as usize;
            if first >> 31 == 0 {
                self.data(first, flags, length, &mut from).await?;
                continue;
            }
            if (first >> 16) as u16 != VERSION || length > LARGEST_FRAME {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "not a frame of SPDY/3, or too large",
                ));
            }
            let mut payload = vec![0; length];
            from.read_exact(&mut payload).await?;
            if !self.control(first as u16, flags, &payload).await? {
                return Ok(());
            }
        }
    }

    /// Hands on what arrives for a stream piece by piece; what arrives for none is passed over.
    async fn data(
        &mut self,
        id: u32,
        flags: u8,
        length: usize,
        from: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<()> {
        let mut buffer = vec![0; length.min(CHUNK)];
        let mut left = length;
        while left > 0 {
            let size = left.min(CHUNK);
            from.read_exact(&mut buffer[..size]).await?;
            left -= size;
            if let Some((stream, _)) = self.streams.get_mut(&id)
                && stream.write_all(&buffer[..size]).await.is_err()
            {
                self.streams.remove(&id);
            }
        }
        if flags & FIN != 0 {
            self.close(id).await;
        }
        Ok(())
    }

    /// Whether the connection goes on.
    async fn control(&mut self, kind: u16, flags: u8, payload: &[u8]) -> io::Result<bool> {
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "a frame of SPDY is too short");
        let id = || {
            let id = payload.first_chunk::<4>().ok_or_else(malformed)?;
            Ok::<u32, io::Error>(u32::from_be_bytes(*id) & 0x7fff_ffff)
        };
        match kind {
            SYN_STREAM => {
                // Two ids, priority and slot; the rest are headers. They are read even if the stream is refused:
                // the compression has to keep up.
                let headers = self.inflate.read(payload.get(10..).ok_or_else(malformed)?)?;
                self.open(id()?, flags, headers).await?;
            }
            RST_STREAM => {
                self.streams.remove(&id()?);
            }
            // Odd ones are the client's, even ones are answers to ours.
            PING if id()? % 2 == 1 => self.send(control(PING, 0, payload)).await,
            GOAWAY => return Ok(false),
            _ => {}
        }
        Ok(true)
    }

    async fn open(&mut self, id: u32, flags: u8, headers: Headers) -> io::Result<()> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok();
        let Some(permit) = permit.filter(|_| !self.streams.contains_key(&id)).map(Arc::new) else {
            let mut payload = id.to_be_bytes().to_vec();
            payload.extend(REFUSED_STREAM.to_be_bytes());
            self.send(control(RST_STREAM, 0, &payload)).await;
            return Ok(());
        };
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        let (output, input) = tokio::io::split(ours);
        self.streams.insert(id, (input, Arc::clone(&permit)));
        let mut payload = id.to_be_bytes().to_vec();
        payload.extend(self.deflate.empty()?);
        self.send(control(SYN_REPLY, 0, &payload)).await;
        let pump = pump(id, output, self.frames.clone());
        self.pumps.spawn(async move {
            pump.await;
            drop(permit);
        });
        if flags & FIN != 0 {
            self.close(id).await;
        }
        // Nobody wants it any more when the session is about to end.
        let _ = self.accepted.send(Stream { headers, io: theirs }).await;
        Ok(())
    }

    async fn close(&mut self, id: u32) {
        if let Some((mut stream, _)) = self.streams.remove(&id) {
            let _ = stream.shutdown().await;
        }
    }

    async fn send(&self, frame: Bytes) {
        // The writer is gone only when the connection is, which reading will notice.
        let _ = self.frames.send(frame).await;
    }
}

async fn pump(id: u32, mut output: impl AsyncRead + Unpin, frames: mpsc::Sender<Bytes>) {
    loop {
        let mut frame = BytesMut::with_capacity(8 + CHUNK);
        frame.put_u32(id);
        frame.put_u32(0);
        let length = output.read_buf(&mut (&mut frame).limit(CHUNK)).await.unwrap_or(0);
        let flags = if length == 0 { FIN } else { 0 };
        let head = u32::from(flags) << 24 | length as u32;
        frame[4..8].copy_from_slice(&head.to_be_bytes());
        if frames.send(frame.freeze()).await.is_err() || length == 0 {
            return;
        }
    }
}

fn control(kind: u16, flags: u8, payload: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(8 + payload.len());
    frame.put_u16(VERSION);
    frame.put_u16(kind);
    frame.put_u32(u32::from(flags) << 24 | payload.len() as u32);
    frame.put_slice(payload);
    frame.freeze()
}

/// Writes frames, and a ping now and then: a client that is gone without a word is found out by writing to it.
async fn write(
    mut queue: mpsc::Receiver<Bytes>,
    mut to: impl AsyncWrite + Unpin,
    finishing: CancellationToken,
) -> io::Result<()> {
    let mut pings = time::interval_at(time::Instant::now() + PING_PERIOD, PING_PERIOD);
    let mut id = 0_u32;
    loop {
        let frame = tokio::select! {
            frame = queue.recv() => match frame {
                Some(frame) => frame,
                None => break,
            },
            () = finishing.cancelled(), if !queue.is_closed() => {
                queue.close();
                continue;
            }
            _ = pings.tick() => {
                id = id.wrapping_add(2);
                control(PING, 0, &id.to_be_bytes())
            }
        };
        to.write_all(&frame).await?;
        if queue.is_empty() {
            to.flush().await?;
        }
    }
    to.write_all(&control(GOAWAY, 0, &[0; 8])).await?;
    to.shutdown().await
}

#[cfg(test)]
mod tests;
