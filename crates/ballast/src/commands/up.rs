//! `ballast up`: the embedded Kubernetes, its controllers and a process node, in one process.

use std::{
    fs::{self, File, TryLockError},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use controllers::{Settings, data_plane::DataPlane};
use engine::{Engine, Supervisor};
use gateway::OperatorPaths;
use k8s_openapi::api::core::v1 as core;
use kube::{Api, runtime::wait};
use localkube::{ApiServer, ListenOptions, Listener, Storage};
use scaling::History;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use vertex::buffer::Embedded;

use super::{gateway_flags::GatewayFlags, log_flags::LogFlags};
use crate::{
    components::{self, Chosen},
    control_plane::{Check, ControlPlane, Leadership, Listen, Options},
    data_plane::services::Places,
    demo, environment, output,
    running::Running,
    signals::StopSignals,
};

/// Taken when no port is asked for, unless it is in use.
const USUAL_API_PORT: u16 = 8443;
const USUAL_GATEWAY_PORT: u16 = 5000;
const USUAL_OPERATOR_PORT: u16 = 5001;
const USUAL_BUFFER_PORT: u16 = 5002;
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
    /// The port on 127.0.0.1 for operators: status, wake-up, dead letters, metrics, debug and query paths [default: 5001, or a free one]
    #[arg(long, value_name = "PORT")]
    operator_port: Option<u16>,
    /// The port on 127.0.0.1 where the pods of pipelines find their buffers [default: 5002, or a free one]
    #[arg(long, value_name = "PORT")]
    buffer_port: Option<u16>,
    /// Seconds between two scrapes of a pod
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    scrape_interval: u64,
    /// Which controllers to run, as for kube-controller-manager: * for all, NAME for one, -NAME for all but one
    #[arg(long, value_name = "NAMES", default_value = "*", value_parser = components::embedded, allow_hyphen_values = true)]
    controllers: Chosen,
    /// Do not bring the function fibonacci when the data directory is new
    #[arg(long)]
    no_demo: bool,
    #[command(flatten)]
    log: LogFlags,
    #[command(flatten)]
    gateway: GatewayFlags,
}

// === impl Up ===

impl Up {
    pub fn run(self) -> Result<ExitCode> {
        self.log.start(0);
        let runtime = tokio::runtime::Runtime::new().context("failed to start the runtime")?;
        runtime.block_on(self.serve())?;
        Ok(ExitCode::SUCCESS)
    }

    async fn serve(self) -> Result<()> {
        own_directory(&self.data_dir)?;
        let data_dir = self.data_dir.canonicalize()?;
        match disk::try_room(&data_dir) {
            Err(error) if disk::is_full(&error) => bail!(
                "no space is left for the data directory {}: free some on its disk, and start again",
                data_dir.display()
            ),
            room => room.with_context(|| format!("failed to write to {}", data_dir.display()))?,
        }
        // held until the process ends, however it ends
        let _lock = lock(&data_dir)?;
        let mut stop = StopSignals::new()?;

        let is_new = !data_dir.join("kubernetes.redb").exists();
        let storage = Storage::File { path: data_dir.join("kubernetes.redb"), sync: true };
        let kubelet_token = Some(localkube::new_token());
        let options =
            localkube::Options { storage, kubelet_token: kubelet_token.clone(), ..Default::default() };
        let api = ApiServer::open(options)
            .await
            .with_context(|| format!("failed to open the stored objects in {}", data_dir.display()))?;
        let listener = self.listen(&api, &data_dir).await?;

        let client = api.client("default");
        let shutdown = CancellationToken::new();
        let engine = Engine::new(client.clone(), Supervisor::default(), controllers::catalog::RELIST);
        let history = History::default();
        let which =
            workloads::Name::ALL.into_iter().filter(|name| self.controllers.has(name.as_str())).collect();
        let controllers = workloads::Controllers::on(
            engine.clone(),
            workloads::Options {
                which,
                history: history.clone(),
                claims: Some(kubelet::claims(&data_dir.join("node"))),
                ..workloads::Options::default()
            },
        );
        let controllers = tokio::spawn(controllers.run(shutdown.clone().cancelled_owned()));
        controllers::crds::install_these(&client, &self.controllers.crds()).await?;
        let options = kubelet::Options {
            schedule: true,
            token: kubelet_token,
            api_server: Some((listener.addr.ip().to_string(), listener.addr.port())),
            host_env: environment::all(),
            ..kubelet::Options::new(NODE_NAME, data_dir.join("node"))
        };
        let node_shutdown = shutdown.child_token();
        let mut node = tokio::spawn(kubelet::Node::new(options).run(client.clone(), node_shutdown.clone()));

        let started = tokio::select! {
            ready = node_is_ready(client.clone()) => ready.map(|()| true),
            ended = &mut node => Err(node_failure(ended)),
            () = stop.received() => Ok(false),
        };
        if matches!(started, Ok(true)) {
            if is_new && !self.no_demo {
                demo::install(&client, NAMESPACE).await?;
            }
            let (pipelines, mut buffers) = self.data_plane(&client, &data_dir, &shutdown).await?;
            let plane = self.control_plane(engine.clone(), &api, history, &data_dir, pipelines).await?;
            plane.known().await;
            let running = Running {
                api: format!("https://{}", listener.addr),
                gateway: format!("http://{}", plane.gateway),
                operator: format!("http://{}", plane.operator),
                pid: std::process::id(),
            };
            running.write(&data_dir)?;
            if !self.log.is_quiet() {
                greet(&running, &listener, &data_dir, !self.no_demo);
            }
            tokio::select! {
                () = stop.received() => {}
                ended = &mut node => return Err(node_failure(ended)),
                _ = &mut buffers => bail!("the buffers of pipelines are no longer served"),
                failure = plane.failed() => return Err(failure),
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

    /// What moves the messages of pipelines. Its buffers are served until `stop`: pods that end give back what they have.
    async fn data_plane(
        &self,
        client: &kube::Client,
        data_dir: &Path,
        stop: &CancellationToken,
    ) -> Result<(Option<DataPlane>, JoinHandle<()>)> {
        if !self.controllers.has("pipelines") {
            return Ok((None, tokio::spawn(std::future::pending())));
        }
        let path = data_dir.join("buffers.redb");
        let embedded = Embedded::open(&path)
            .with_context(|| format!("failed to open the buffers of pipelines in {}", path.display()))?;
        let at = async |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = match self.buffer_port {
            Some(port) => at(port).await.with_context(|| {
                format!(
                    "failed to serve the buffers of pipelines on port {port}; choose another --buffer-port"
                )
            })?,
            None => match at(USUAL_BUFFER_PORT).await {
                Ok(listener) => listener,
                Err(_) => at(0).await.context("failed to serve the buffers of pipelines")?,
            },
        };
        let program = std::env::current_exe().context("failed to find the program itself")?;
        let plane = DataPlane {
            services: Arc::new(Places::new(client.clone(), Some(embedded.clone()))),
            image: "ballast".to_owned(),
            command: vec![program.display().to_string(), "vertex".to_owned()],
            embedded_buffers: Some(listener.local_addr()?.to_string()),
            loopback_pods: true,
        };
        Ok((Some(plane), tokio::spawn(vertex::buffer::serve(listener, embedded, stop.clone()))))
    }

    async fn control_plane(
        &self,
        engine: Engine,
        api: &ApiServer,
        history: History,
        data_dir: &Path,
        pipelines: Option<DataPlane>,
    ) -> Result<ControlPlane> {
        let api = api.clone();
        let path = data_dir.join("ballast.redb");
        let store_options =
            store::Options { limits: self.gateway.store_limits(), ..store::Options::default() };
        let store = store::open(&format!("redb:{}", path.display()), store_options)
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
            leadership: Leadership::Alone,
            scrape_interval: std::time::Duration::from_secs(self.scrape_interval),
            components: self.controllers.clone(),
            settings: Settings {
                scratch: data_dir.to_owned(),
                sees_all_namespaces: true,
                // one's own machine, and repositories on it
                git_private_addresses: true,
                git_environment: environment::for_git(),
                pipelines,
                ..Settings::default()
            },
            // so that the first lines anybody tries work as written
            gateway_options: gateway::Options {
                operator_paths: OperatorPaths::Loopback,
                ..self.gateway.options()
            },
            loopback_pods: true,
            also_ready: Check::new(move || api.ready().map_err(|why| format!("the Kubernetes API: {why}"))),
            history,
        };
        ControlPlane::start(engine, store, options).await
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

/// Closed to others, unless it is a directory that holds other people's things too: then each file of ours is closed.
fn own_directory(path: &Path) -> Result<()> {
    let ours = ["up.lock", "kubernetes.redb"].iter().any(|name| path.join(name).exists());
    let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    if !path.exists() || ours || is_empty {
        return disk::private_dir(path)
            .with_context(|| format!("failed to use the data directory {}", path.display()));
    }
    tracing::warn!(
        "{} holds other things than Ballast's, so it stays open to whoever may read it now; a directory of its own is safer",
        path.display()
    );
    Ok(())
}

/// One Ballast a data directory: two would write over each other.
fn lock(data_dir: &Path) -> Result<File> {
    let path = data_dir.join("up.lock");
    let file = disk::private_file(&path).with_context(|| format!("failed to create {}", path.display()))?;
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

fn node_failure(ended: Result<Result<(), kubelet::Error>, tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow::anyhow!("the process node stopped by itself"),
        Ok(Err(error)) => anyhow::Error::new(error).context("the process node failed"),
        Err(error) => anyhow::Error::new(error).context("the process node crashed"),
    }
}

fn greet(running: &Running, listener: &Listener, data_dir: &Path, has_demo: bool) {
    let kubeconfig = listener.kubeconfig_path.display();
    let (gateway, data) = (&running.gateway, data_dir.display());
    let (call, explain) = match has_demo {
        true => (
            format!("  curl {gateway}/function/fibonacci/fib/20      wakes it from zero, and answers\n"),
            format!("  ballast explain deployment/fibonacci --data-dir {data}\n"),
        ),
        false => Default::default(),
    };
    output::answer(format_args!(
        "Ballast is up: a Kubernetes API on {api}, one node that runs pods as processes, functions on {gateway}.

{call}  curl {gateway}/status-functions
  {operator}/                       the dashboard{dashboard}

  export KUBECONFIG={kubeconfig}
  kubectl get deployments,pods
{explain}  kubectl apply -f examples/hello.yaml          three web servers, each on an address of its own
  ballast status --data-dir {data}

Ctrl-C stops it; what you made is still there after the next start.",
        api = running.api,
        operator = running.operator,
        dashboard = if web::is_built() { "" } else { " (not in this build: make web, and build again)" },
    ));
}
