//! Serves the embedded API on a port: `cargo run -p localkube --example serve -- DATA_DIR [PORT] [memory|file|sync]`.

#![allow(clippy::print_stderr, reason = "a program for the terminal")]

use std::{net::SocketAddr, path::PathBuf};

use localkube::{ApiServer, ListenOptions, Options, Storage};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let data_dir = PathBuf::from(args.next().ok_or("the first argument must be a data directory")?);
    let port = args.next().map_or(Ok(0), |port| port.parse::<u16>())?;
    let storage = match args.next().as_deref() {
        None | Some("memory") => Storage::Memory,
        Some(mode) => Storage::File { path: data_dir.join("objects.redb"), sync: mode == "sync" },
    };
    let server = ApiServer::open(Options { storage, ..Options::default() }).await?;
    let addr = SocketAddr::from(([127, 0, 0, 1], port));
    let listener = server.listen(ListenOptions { addr, data_dir }).await?;
    eprintln!(
        "listening on https://{}; try: kubectl --kubeconfig {} get ns",
        listener.addr,
        listener.kubeconfig_path.display()
    );
    tokio::signal::ctrl_c().await?;
    listener.shutdown().await;
    Ok(())
}
