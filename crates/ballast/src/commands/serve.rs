//! `ballast serve`: one node of Ballast on a real cluster.

use std::{net::SocketAddr, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result, bail};
use controllers::{Settings, data_plane::DataPlane};
use engine::{Engine, Supervisor};
use gateway::OperatorPaths;
use scaling::History;

use super::{
    gateway_flags::GatewayFlags, log_flags::LogFlags, operator_flags::OperatorFlags, store_flags::StoreFlags,
};
use crate::{
    components::{self, Chosen},
    control_plane::{Check, ControlPlane, Leadership, Listen, Options},
    data_plane::services::Places,
    environment, output, permissions,
    signals::StopSignals,
    waiting::{Missing, Waiting},
};

#[derive(Debug, clap::Args)]
pub struct Serve {
    /// The namespace whose workloads are served [default: that of the kubeconfig or the pod]
    #[arg(long, short, env = "BALLAST_NAMESPACE")]
    namespace: Option<String>,
    /// Where functions are called
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:5000", env = "BALLAST_GATEWAY_ADDR")]
    gateway_addr: SocketAddr,
    /// Serve the operators' paths on the gateway's port too: to anybody, of the functions that they may call
    #[arg(long, alias = "debug-on-gateway")]
    operator_paths_on_gateway: bool,
    /// This node's name, unique among the nodes and the same after a restart [default: the host's name]
    #[arg(long, value_name = "NAME", env = "BALLAST_NODE_NAME")]
    node_name: Option<String>,
    /// What this node does: take calls only (gateway), or decide and write as well (controller). A node that only takes
    /// calls needs no right to write, and a store that it shares with the controllers
    #[arg(long, value_name = "ROLE", default_value = "all", env = "BALLAST_ROLES")]
    roles: Roles,
    /// Which controllers to run, as for kube-controller-manager: * for all, NAME for one, -NAME for all but one
    #[arg(long, value_name = "NAMES", default_value = "*", value_parser = components::on_cluster, allow_hyphen_values = true, env = "BALLAST_CONTROLLERS")]
    controllers: Chosen,
    /// Look after Kyma's Functions of this namespace only, where other nodes look after others [default: all]
    #[arg(long, value_name = "NAMESPACE", env = "BALLAST_FUNCTION_NAMESPACE")]
    function_namespace: Option<String>,
    /// Git servers of Functions may be on private, link-local and loopback addresses
    #[arg(long, env = "BALLAST_GIT_PRIVATE_ADDRESSES")]
    git_private_addresses: bool,
    /// Passwords may be sent to Git servers over plain HTTP
    #[arg(long, env = "BALLAST_GIT_CREDENTIALS_OVER_HTTP")]
    git_credentials_over_http: bool,
    /// The image of the container that moves messages in the pods of pipelines: one that has `ballast` in its PATH
    #[arg(long, value_name = "IMAGE", default_value = "ballast", env = "BALLAST_VERTEX_IMAGE")]
    vertex_image: String,
    /// Seconds after which a node that fell silent is replaced
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    lease: u64,
    /// Seconds between two scrapes of a pod
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    scrape_interval: u64,
    /// Pods may have addresses of this machine (with the process node)
    #[arg(long)]
    loopback_pods: bool,
    #[command(flatten)]
    log: LogFlags,
    #[command(flatten, next_help_heading = "Store")]
    store: StoreFlags,
    #[command(flatten, next_help_heading = "Operators")]
    operator: OperatorFlags,
    #[command(flatten)]
    gateway: GatewayFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Roles {
    /// Takes calls, holds and queues them; reads the API and writes nothing there
    Gateway,
    /// Decides and writes, dispatches queued calls, scrapes. No Service should lead to it
    Controller,
    /// Both
    All,
}

impl Serve {
    pub fn run(self) -> Result<ExitCode> {
        // A server's decisions belong into its log without being asked for.
        self.log.start(1);
        let runtime = tokio::runtime::Runtime::new().context("failed to start the runtime")?;
        runtime.block_on(self.serve())?;
        Ok(ExitCode::SUCCESS)
    }

    /// Waits for the API server and the store. None if the end is asked for meanwhile.
    async fn store(
        &self,
        client: &kube::Client,
        needs: &permissions::Needs,
        stop: &mut StopSignals,
    ) -> Result<Option<store::Shared>> {
        let waiting = Waiting::start(self.gateway_addr).await;
        let check = async || permissions::check(client, needs).await;
        if waiting.for_it("the API server", stop, check).await?.is_none() {
            return Ok(None);
        }
        let what = format!("the store {}", self.store.address());
        let open = async || {
            self.store.open(&needs.namespace, self.gateway.store_limits()).await.map_err(
                |error| match error {
                    store::Error::Unavailable(why) => Missing::Yet(why),
                    error => {
                        Missing::ForGood(anyhow::Error::new(error).context(format!("failed to open {what}")))
                    }
                },
            )
        };
        let store = waiting.for_it(&what, stop, open).await?;
        waiting.end().await;
        Ok(store)
    }

    async fn serve(self) -> Result<()> {
        let mut stop = StopSignals::new()?;
        let operator_token = self.operator.token()?;
        let config = kube::Config::infer()
            .await
            .context("failed to find a cluster: set KUBECONFIG, or run in a pod with a service account")?;
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = kube::Client::try_from(config).context("failed to make a client of the kubeconfig")?;
        let decides = self.roles != Roles::Gateway;
        if !decides && self.store.is_private() {
            bail!(
                "a node that only takes calls tells the controllers of them through the store: give both --store=nats://…"
            );
        }
        let components = match decides {
            true => self.controllers.clone(),
            false => self.controllers.clone().gateway_only(),
        };
        let needs = permissions::Needs {
            namespace: namespace.clone(),
            only_namespace: self.function_namespace.clone(),
            components: components.clone(),
        };
        let node = match self.node_name.clone() {
            Some(name) => name,
            None => host_name()?,
        };
        let store = self.store(&client, &needs, &mut stop).await?;
        let Some(store) = store else { return Ok(()) };

        let options = Options {
            namespace,
            node,
            gateway: Listen::At(self.gateway_addr),
            operator: Listen::At(self.operator.operator_addr),
            operator_token,
            leadership: match decides {
                true => Leadership::Lease(Duration::from_secs(self.lease)),
                false => Leadership::Never,
            },
            scrape_interval: Duration::from_secs(self.scrape_interval),
            components,
            settings: Settings {
                only_namespace: self.function_namespace.clone(),
                sees_all_namespaces: false,
                scratch: std::env::temp_dir().join("ballast"),
                git_private_addresses: self.git_private_addresses,
                git_credentials_over_http: self.git_credentials_over_http,
                git_environment: environment::for_git(),
                pipelines: Some(DataPlane {
                    services: Arc::new(Places::new(client.clone(), None)),
                    image: self.vertex_image.clone(),
                    command: vec!["ballast".to_owned(), "vertex".to_owned()],
                    embedded_buffers: None,
                    loopback_pods: self.loopback_pods,
                }),
            },
            gateway_options: gateway::Options {
                operator_paths: match self.operator_paths_on_gateway {
                    true => OperatorPaths::Visible,
                    false => OperatorPaths::Off,
                },
                ..self.gateway.options()
            },
            loopback_pods: self.loopback_pods,
            also_ready: Check::new(|| Ok(())),
            history: History::default(),
        };
        let engine = Engine::new(client, Supervisor::default(), controllers::catalog::RELIST);
        let plane = ControlPlane::start(engine, store, options).await?;
        output::answer(format_args!(
            "serving functions on http://{} and operators on http://{}",
            plane.gateway, plane.operator
        ));
        tokio::select! {
            () = stop.received() => {}
            failure = plane.failed() => return Err(failure),
        }
        tracing::info!("stopping: calls under way get their time to end");
        tokio::select! {
            () = plane.stop() => {}
            () = stop.received() => tracing::warn!("asked twice: not waiting for the calls"),
        }
        Ok(())
    }
}

fn host_name() -> Result<String> {
    let name = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let name = name.or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    match name.map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()) {
        Some(name) => Ok(name),
        None => bail!("the host's name is not known: give this node a --node-name"),
    }
}
