//! Runs the embedded API and its workload controllers until standard input ends, for benchmarks: prints one JSON line with
//! the kubeconfig. What is answered is on disk, as with `ballast up`.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::net::SocketAddr;

use localkube::{ApiServer, ListenOptions, Options, Storage};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let directory = TempDir::with_prefix("ballast-embedded-")?;
    let data_dir = directory.path().to_owned();
    let storage = Storage::File { path: data_dir.join("kubernetes.redb"), sync: true };
    let api = ApiServer::open(Options { storage, ..Options::default() }).await?;
    let addr = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = api.listen(ListenOptions { addr, data_dir }).await?;
    let controllers = workloads::Controllers::new(api.client("default"), workloads::Options::default());
    tokio::spawn(controllers.run(std::future::pending::<()>()));
    println!("{}", serde_json::json!({ "kubeconfig": listener.kubeconfig_path }));
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    listener.shutdown().await;
    Ok(())
}
