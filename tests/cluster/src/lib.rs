//! A Kubernetes to test on: embedded, or the real one built from pinned modules. One test body runs on both.

mod counts;
mod eventually;
mod nats;
pub mod pages;
mod process;
pub mod program;
pub mod real;
pub mod report;
mod requests;
pub mod tools;
mod usage;

use std::{
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1 as core;
use kube::{Api, api::PostParams, runtime::wait};
use localkube::{ApiServer, ListenOptions, Listener};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, sync::Mutex, task::JoinHandle};
use tokio_util::sync::CancellationToken;

pub use counts::Counts;
pub use eventually::{STUCK, eventually};
pub use nats::{Nats, StreamRequests};
pub use process::{Running, free_ports, spawn, spawn_ballast, spawn_client};
pub use requests::Requests;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// Our API server and our workload controllers.
    Embedded,
    /// etcd, kube-apiserver, kube-controller-manager and kube-scheduler.
    Real,
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Embedded => "embedded",
            Self::Real => "real",
        })
    }
}

/// A cluster with one process node. The program that starts one must offer `kubelet::launch::main` as `pod-exec`, as
/// [`program::main`] does.
pub struct Cluster {
    pub flavor: Flavor,
    control: Mutex<Option<Control>>,
    client: kube::Client,
    kubeconfig: PathBuf,
    shutdown: CancellationToken,
    node_shutdown: CancellationToken,
    node: Mutex<Option<JoinHandle<Result<(), kubelet::Error>>>>,
    directory: TempDir,
}

/// Held for as long as the cluster runs.
enum Control {
    Embedded { _listener: Listener },
    Real { plane: Box<real::ControlPlane>, metrics: Option<Running> },
}

/// How long an HPA without rules of its own remembers a higher wish. Kubernetes has five minutes.
const DOWNSCALE_STABILIZATION_SECONDS: u32 = 5;
const NODE_NAME: &str = "process-node";

impl Cluster {
    pub async fn start(flavor: Flavor) -> Result<Self> {
        let directory = TempDir::with_prefix("ballast-cluster-")?;
        let shutdown = CancellationToken::new();
        let (control, client, kubeconfig) = match flavor {
            Flavor::Embedded => start_embedded(directory.path(), &shutdown).await?,
            Flavor::Real => {
                let plane =
                    real::ControlPlane::start(real::Options { controllers: true, ..Default::default() })
                        .await?;
                let (client, kubeconfig) = (plane.client().await?, plane.kubeconfig());
                (Control::Real { plane: Box::new(plane), metrics: None }, client, kubeconfig)
            }
        };
        let options = kubelet::Options {
            // the real cluster has kube-scheduler
            schedule: flavor == Flavor::Embedded,
            // a test wants to see several restarts
            restart_delays: kubelet::Delays {
                initial: jiff::SignedDuration::from_millis(500),
                ..kubelet::Delays::default()
            },
            host_env: std::env::vars().collect(),
            ..kubelet::Options::new(NODE_NAME, directory.path().join("node"))
        };
        let node_shutdown = shutdown.child_token();
        let node = tokio::spawn(kubelet::Node::new(options).run(client.clone(), node_shutdown.clone()));
        let nodes: Api<core::Node> = Api::all(client.clone());
        wait::await_condition(nodes, NODE_NAME, |node: Option<&core::Node>| {
            let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
            conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
        })
        .await?;
        Ok(Self {
            flavor,
            control: Mutex::new(Some(control)),
            client,
            kubeconfig,
            shutdown,
            node_shutdown,
            node: Mutex::new(Some(node)),
            directory,
        })
    }

    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A directory of this cluster's, for files of tests.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A new namespace with a name of its own.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{prefix}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let namespace: core::Namespace =
            serde_json::from_value(serde_json::json!({"metadata": {"name": name}}))?;
        Api::all(self.client()).create(&PostParams::default(), &namespace).await?;
        Ok(name)
    }

    /// Sees to it that `metrics.k8s.io` answers: the real cluster needs a program of its own for it.
    pub async fn serve_metrics(&self) -> Result<()> {
        if let Some(Control::Real { plane, metrics: metrics @ None }) = &mut *self.control.lock().await {
            *metrics = Some(plane.start_metrics().await?);
        }
        Ok(())
    }

    /// What kubectl prints on standard output.
    pub async fn kubectl<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Result<String> {
        self.kubectl_with_input(args, "").await
    }

    /// The same, with `input` on its standard input (for `-f -`).
    pub async fn kubectl_with_input<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        input: &str,
    ) -> Result<String> {
        let mut command = self.kubectl_command()?;
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let shown = format!("{:?}", command.as_std());
        let mut child = command.spawn().context("failed to start kubectl")?;
        if let Some(mut stdin) = child.stdin.take() {
            // kubectl may not read it
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let output = child.wait_with_output().await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            bail!("{shown}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        Ok(text)
    }

    /// kubectl of the pinned version, talking to this cluster; for what has to run in the background.
    pub fn kubectl_command(&self) -> Result<tokio::process::Command> {
        let mut command = tokio::process::Command::new(tools::kubernetes("kubectl")?);
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", self.directory.path().join("kubectl-cache"))
            .kill_on_drop(true);
        Ok(command)
    }

    /// Ends the pods' processes, then the cluster.
    pub async fn stop(&self) -> Result<()> {
        self.node_shutdown.cancel();
        let node = self.node.lock().await.take();
        if let Some(node) = node {
            node.await??;
        }
        self.shutdown.cancel();
        // taken out and dropped: that stops the processes of a real control plane
        drop(self.control.lock().await.take());
        Ok(())
    }
}

async fn start_embedded(
    directory: &Path,
    shutdown: &CancellationToken,
) -> Result<(Control, kube::Client, PathBuf)> {
    let api = ApiServer::open(localkube::Options::default()).await?;
    let addr = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = api.listen(ListenOptions { addr, data_dir: directory.to_owned() }).await?;
    let mut options = workloads::Options {
        hpa_sync_period: Duration::from_secs(1),
        claims: Some(kubelet::claims(&directory.join("node"))),
        ..workloads::Options::default()
    };
    options.hpa_settings.downscale_stabilization_seconds = DOWNSCALE_STABILIZATION_SECONDS;
    let controllers = workloads::Controllers::new(api.client("default"), options);
    let token = shutdown.child_token();
    tokio::spawn(async move { controllers.run(token.cancelled()).await });
    let kubeconfig = listener.kubeconfig_path.clone();
    Ok((Control::Embedded { _listener: listener }, api.client("default"), kubeconfig))
}
