//! A line to a server that can be cut.

use std::{io, net::SocketAddr};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// While it is cut, connections stay as they are and nothing comes through, as when the network between has gone. What
/// was sent meanwhile arrives once it is mended.
pub struct Relay {
    pub address: SocketAddr,
    is_cut: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Relay {
    pub async fn to(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("failed to listen for a relay")?;
        let address = listener.local_addr()?;
        let (is_cut, line) = watch::channel(false);
        Ok(Relay { address, is_cut, task: tokio::spawn(accept(listener, server, line)) })
    }

    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    pub fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, line: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        // either side may break off at any time
        let line = line.clone();
        connections.spawn(async move {
            let _ = connect(client, server, line).await;
        });
    }
}

async fn connect(client: TcpStream, server: SocketAddr, line: watch::Receiver<bool>) -> io::Result<()> {
    until_whole(&line).await?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = TcpStream::connect(server).await?.into_split();
    tokio::try_join!(carry(from_client, to_server, &line), carry(from_server, to_client, &line))?;
    Ok(())
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    line: &watch::Receiver<bool>,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let n = from.read(&mut buffer).await?;
        until_whole(line).await?;
        if n == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..n]).await?;
    }
}

async fn until_whole(line: &watch::Receiver<bool>) -> io::Result<()> {
    let whole = line.clone().wait_for(|is_cut| !is_cut).await.map(drop);
    whole.map_err(io::Error::other)
}
