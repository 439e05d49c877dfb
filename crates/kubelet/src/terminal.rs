//! A pseudo terminal: the node's end of it.

use std::{fs::File, io, path::PathBuf};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    net::unix::pipe,
};

/// Reads and writes like two pipes. Reading fails when every process has closed the other end.
pub struct Terminal {
    pub output: pipe::Receiver,
    pub input: pipe::Sender,
    pub window: Window,
}

#[derive(Debug)]
pub struct Window(File);

/// As clients say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Size {
    width: u16,
    height: u16,
}

// === impl Terminal ===

impl Terminal {
    /// With the path of the other end.
    pub fn open() -> io::Result<(Self, PathBuf)> {
        let node = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&node)?;
        unlockpt(&node)?;
        let path = ptsname(&node, Vec::new())?.into_string().map_err(io::Error::other)?;
        fcntl_setfl(&node, fcntl_getfl(&node)? | OFlags::NONBLOCK)?;
        let output = pipe::Receiver::from_owned_fd_unchecked(node.try_clone()?)?;
        let input = pipe::Sender::from_owned_fd_unchecked(node.try_clone()?)?;
        Ok((Self { output, input, window: Window(File::from(node)) }, path.into()))
    }
}

// === impl Window ===

impl Window {
    /// Another way to write to the terminal.
    pub fn writer(&self) -> io::Result<pipe::Sender> {
        pipe::Sender::from_owned_fd_unchecked(self.0.try_clone()?.into())
    }

    /// Follows what the client says of its window.
    pub async fn follow(&self, mut sizes: impl AsyncRead + Unpin) {
        let mut pending = Vec::new();
        let mut buffer = [0; 256];
        while let Ok(length @ 1..) = sizes.read(&mut buffer).await {
            pending.extend_from_slice(&buffer[..length]);
            if let Some(Size { width, height }) = latest(&mut pending) {
                let size = Winsize { ws_col: width, ws_row: height, ws_xpixel: 0, ws_ypixel: 0 };
                if let Err(error) = tcsetwinsize(&self.0, size) {
                    tracing::debug!(%error, "cannot resize a terminal");
                }
            }
        }
    }
}

/// Takes whole sizes off the front of what has come so far and returns the last; what is none is forgotten.
fn latest(pending: &mut Vec<u8>) -> Option<Size> {
    let mut sizes = serde_json::Deserializer::from_slice(pending).into_iter::<Size>();
    let mut last = None;
    let taken = loop {
        match sizes.next() {
            Some(Ok(size)) => last = Some(size),
            Some(Err(error)) if error.is_eof() && pending.len() < 1024 => break sizes.byte_offset(),
            Some(Err(_)) | None => break pending.len(),
        }
    };
    pending.drain(..taken);
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_with_and_without_line_ends_and_in_pieces() {
        let size = |width, height| Some(Size { width, height });
        let mut pending = br#"{"Width":80,"Height":24}{"Width":100,"Height":30}"#.to_vec();
        assert_eq!((latest(&mut pending), pending.len()), (size(100, 30), 0));
        let mut pending = b"{\"Width\":81,\"Height\":25}\n{\"Wid".to_vec();
        assert_eq!(latest(&mut pending), size(81, 25));
        pending.extend(b"th\":82,\"Height\":26}\n");
        assert_eq!((latest(&mut pending), pending.len()), (size(82, 26), 0));
        for nonsense in ["[]", "{\"Width\":-1,\"Height\":0}", &"[".repeat(2000)] {
            let mut pending = nonsense.as_bytes().to_vec();
            assert_eq!((latest(&mut pending), pending.len()), (None, 0), "{nonsense}");
        }
    }
}
