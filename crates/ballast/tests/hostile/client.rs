//! Clients that send what they like.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

#[derive(Debug)]
pub struct Answer {
    /// 0 if the connection ended without an answer.
    pub status: u16,
    pub bytes: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<String> {
        let text = self.text();
        let head = text.split("\r\n\r\n").next().unwrap_or_default();
        let of_name = |line: &str| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        head.lines().find_map(of_name)
    }
}

/// Sends bytes as they are, and reads until the other side closes.
pub async fn raw(address: SocketAddr, bytes: impl AsRef<[u8]>) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // Whoever refuses may close before all was sent.
    let _ = stream.write_all(bytes.as_ref()).await;
    read(stream).await
}

pub async fn read(mut stream: TcpStream) -> Answer {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
        bytes.extend_from_slice(&buffer[..n]);
    }
    let status = bytes.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    Answer { status: status.unwrap_or(0), bytes }
}

/// `lines` are headers, each with its line end.
pub async fn send(address: SocketAddr, method: &str, path: &str, lines: &str, body: &[u8]) -> Answer {
    let length = body.len();
    let mut request =
        format!("{method} {path} HTTP/1.1\r\n{lines}content-length: {length}\r\nconnection: close\r\n\r\n")
            .into_bytes();
    request.extend_from_slice(body);
    raw(address, request).await
}

pub async fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, "GET", path, "host: localhost\r\n", b"").await
}

pub async fn connect(address: SocketAddr, bytes: impl AsRef<[u8]>) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_ref()).await.unwrap();
    stream
}
