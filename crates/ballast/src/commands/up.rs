//! `ballast up`: the embedded Kubernetes, its controllers and a process node, in one process.

use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1 as core;
use kube::{Api, runtime::wait};
use localkube::{ApiServer, ListenOptions, Listener, Storage};
use tokio_util::sync::CancellationToken;

use super::gateway_flags::GatewayFlags;
use crate::{
    control_plane::{ControlPlane, Leadership, Listen, Options},
    demo, output,
    running::Running,
    signals::StopSignals,
};

/// Taken when no port is asked for, unless it is in use.
const USUAL_API_PORT: u16 = 8443;
const USUAL_GATEWAY_PORT: u16 = 5000;
const USUAL_OPERATOR_PORT: u16 = 5001;
const NODE_NAME: &str = "ballast";
const NAMESPACE: &str = "default";

#[derive(Debug, clap::Args)]
pub struct Up {
    /// Where objects, logs, volumes and the kubeconfig are kept
    #[arg(long, value_name = "DIR", default_value = ".ballast", env = "BALLAST_DATA_DIR")]
    data_dir: PathBuf,
    /// The port of the Kubernetes API on 127.0.0.1 [default: 8443, or a free one]
    #[arg(long, value_name = "PORT")]
    api_port: Option<u16>,
    /// The port of the gateway on 127.0.0.1, where functions are called [default: 5000, or a free one]
    #[arg(long, value_name = "PORT")]
    gateway_port: Option<u16>,
    /// The port on 127.0.0.1 for metrics, debug and query paths [default: 5001, or a free one]
    #[arg(long, value_name = "PORT")]
    operator_port: Option<u16>,
    /// Seconds between two scrapes of a pod
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    scrape_interval: u64,
    /// Do not bring the function fibonacci when the data directory is new
    #[arg(long)]
    no_demo: bool,
    /// Say nothing but errors
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    /// Say more; twice for everything
    #[arg(long, short, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    gateway: GatewayFlags,
}

// === impl Up ===

impl Up {
    pub fn run(self) -> Result<ExitCode> {
        crate::log::start(self.quiet, self.verbose);
        let runtime = tokio::runtime::Runtime::new().context("failed to start the runtime")?;
        runtime.block_on(self.serve())?;
        Ok(ExitCode::SUCCESS)
    }

    async fn serve(self) -> Result<()> {
        fs::create_dir_all(&self.data_dir)
            .with_context(|| format!("failed to create the data directory {}", self.data_dir.display()))?;
        let data_dir = self.data_dir.canonicalize()?;
        // held until the process ends, however it ends
        let _lock = lock(&data_dir)?;
        let mut stop = StopSignals::new()?;

        let is_new = !data_dir.join("kubernetes.redb").exists();
        let storage = Storage::File { path: data_dir.join("kubernetes.redb"), sync: true };
        let api = ApiServer::open(localkube::Options { storage, ..localkube::Options::default() })
            .await
            .with_context(|| format!("failed to open the stored objects in {}", data_dir.display()))?;
        let listener = self.listen(&api, &data_dir).await?;

        let client = api.client("default");
        let shutdown = CancellationToken::new();
        let controllers = workloads::Controllers::new(client.clone(), workloads::Options::default());
        let controllers = tokio::spawn(controllers.run(shutdown.clone().cancelled_owned()));
        controllers::crds::install(&client).await?;
        let options = node::Options {
            schedule: true,
            api_server: Some((listener.addr.ip().to_string(), listener.addr.port())),
            host_env: environment(),
            ..node::Options::new(NODE_NAME, data_dir.join("node"))
        };
        let node_shutdown = shutdown.child_token();
        let mut node = tokio::spawn(node::Node::new(options).run(client.clone(), node_shutdown.clone()));

        let started = tokio::select! {
            ready = node_is_ready(client.clone()) => ready.map(|()| true),
            ended = &mut node => Err(node_failure(ended)),
            () = stop.received() => Ok(false),
        };
        if matches!(started, Ok(true)) {
            if is_new && !self.no_demo {
                demo::install(&client, NAMESPACE).await?;
            }
            let plane = self.control_plane(client.clone(), &data_dir).await?;
            plane.known().await;
            let running = Running {
                api: format!("https://{}", listener.addr),
                gateway: format!("http://{}", plane.gateway),
                operator: format!("http://{}", plane.operator),
                pid: std::process::id(),
            };
            running.write(&data_dir)?;
            if !self.quiet {
                greet(&running, &listener, &data_dir);
            }
            tokio::select! {
                () = stop.received() => {}
                ended = &mut node => return Err(node_failure(ended)),
            }
            Running::remove(&data_dir);
            tokio::select! {
                () = plane.stop() => {}
                () = stop.received() => tracing::warn!("asked twice: not waiting for the calls"),
            }
        }

        tracing::info!("stopping: pods get their time to end");
        // the node first: it still has to tell the API how its pods ended
        node_shutdown.cancel();
        tokio::select! {
            _ = &mut node => {}
            () = stop.received() => tracing::warn!("asked twice: not waiting for the pods"),
        }
        shutdown.cancel();
        controllers.abort();
        listener.shutdown().await;
        started.map(|_| ())
    }

    async fn control_plane(&self, client: kube::Client, data_dir: &Path) -> Result<ControlPlane> {
        let path = data_dir.join("ballast.redb");
        let store = store::open(&format!("redb:{}", path.display()), store::Options::default())
            .await
            .with_context(|| format!("failed to open the queues in {}", path.display()))?;
        let at = |port: Option<u16>, usual| match port {
            Some(port) => Listen::At(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
            None => Listen::Usually(usual),
        };
        let options = Options {
            namespace: NAMESPACE.to_owned(),
            node: NODE_NAME.to_owned(),
            gateway: at(self.gateway_port, USUAL_GATEWAY_PORT),
            operator: at(self.operator_port, USUAL_OPERATOR_PORT),
            operator_token: None,
            // on loopback, and so that the first lines anybody tries work as written
            debug_on_gateway: true,
            leadership: Leadership::Alone,
            scrape_interval: std::time::Duration::from_secs(self.scrape_interval),
            functions: Some(controllers::function::Options::new(data_dir.join("git"))),
            gateway_options: self.gateway.options(),
            loopback_pods: true,
        };
        ControlPlane::start(client, store, options).await
    }

    async fn listen(&self, api: &ApiServer, data_dir: &Path) -> Result<Listener> {
        let at = |port| ListenOptions {
            addr: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            data_dir: data_dir.to_owned(),
        };
        match self.api_port {
            Some(port) => api.listen(at(port)).await.with_context(|| {
                format!("failed to serve the Kubernetes API on port {port}; choose another --api-port")
            }),
            None => match api.listen(at(USUAL_API_PORT)).await {
                Ok(listener) => Ok(listener),
                Err(_) => api.listen(at(0)).await.context("failed to serve the Kubernetes API"),
            },
        }
    }
}

/// One Ballast a data directory: two would write over each other.
fn lock(data_dir: &Path) -> Result<File> {
    let path = data_dir.join("up.lock");
    let file = File::create(&path).with_context(|| format!("failed to create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let who = match Running::read(data_dir) {
                Ok(running) => format!("process {}, its API is {}", running.pid, running.api),
                Err(_) => "it is still starting".to_owned(),
            };
            bail!(
                "another Ballast already runs in {} ({who}); stop it first, or give this one its own --data-dir",
                data_dir.display()
            );
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("failed to lock {}", path.display()))
        }
    }
}

/// What of it is text: `std::env::vars` would panic at the rest.
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

async fn node_is_ready(client: kube::Client) -> Result<()> {
    let is_ready = |node: Option<&core::Node>| {
        let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|conditions| {
            conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        })
    };
    wait::await_condition(Api::<core::Node>::all(client), NODE_NAME, is_ready)
        .await
        .context("failed to see the node become ready")?;
    Ok(())
}

fn node_failure(ended: Result<Result<(), node::Error>, tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow::anyhow!("the process node stopped by itself"),
        Ok(Err(error)) => anyhow::Error::new(error).context("the process node failed"),
        Err(error) => anyhow::Error::new(error).context("the process node crashed"),
    }
}

fn greet(running: &Running, listener: &Listener, data_dir: &Path) {
    let kubeconfig = listener.kubeconfig_path.display();
    output::answer(format_args!(
        "Ballast is up: a Kubernetes API on {api}, one node that runs pods as processes, functions on {gateway}.

  curl {gateway}/function/fibonacci/fib/20      wakes it from zero, and answers
  curl {gateway}/status-functions

  export KUBECONFIG={kubeconfig}
  kubectl get deployments,pods
  kubectl describe deployment fibonacci         why it was scaled
  kubectl apply -f examples/hello.yaml          three web servers, each on an address of its own
  ballast status --data-dir {data}

Ctrl-C stops it; what you made is still there after the next start.",
        api = running.api,
        gateway = running.gateway,
        data = data_dir.display(),
    ));
}
