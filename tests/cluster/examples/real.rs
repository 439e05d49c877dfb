//! Runs etcd and kube-apiserver until standard input ends, for benchmarks: prints one JSON line with the kubeconfig and
//! the process ids. `--sync` lets etcd write to disk as in production.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use cluster::real::{ControlPlane, Options};
use tokio::io::AsyncReadExt;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let sync = std::env::args().any(|argument| argument == "--sync");
    let started = std::time::Instant::now();
    let plane = ControlPlane::start(Options { controllers: false, sync }).await?;
    let line = serde_json::json!({
        "kubeconfig": plane.kubeconfig(),
        "pids": [plane.apiserver.pid(), plane.etcd.pid()],
        "ready_ms": started.elapsed().as_millis(),
    });
    println!("{line}");
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    Ok(())
}
