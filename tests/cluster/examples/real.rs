//! Runs etcd and kube-apiserver until standard input ends, for benchmarks: prints one JSON line with the kubeconfig and
//! the process ids. `--sync` lets etcd write to disk as in production; `--controllers` starts kube-controller-manager and
//! kube-scheduler too.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use cluster::real::{ControlPlane, Options};
use tokio::io::AsyncReadExt;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let is_asked_for = |flag| std::env::args().any(|argument| argument == flag);
    let options = Options {
        controllers: is_asked_for("--controllers"),
        sync: is_asked_for("--sync"),
        ..Options::default()
    };
    let started = std::time::Instant::now();
    let plane = ControlPlane::start(options).await?;
    let line = serde_json::json!({
        "kubeconfig": plane.kubeconfig(),
        "pids": [plane.apiserver.pid(), plane.etcd.pid()],
        "ready_ms": started.elapsed().as_millis(),
    });
    println!("{line}");
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    Ok(())
}
