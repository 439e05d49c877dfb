//! `ballast serve`: one node of Ballast on a real cluster.

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail};

use super::gateway_flags::GatewayFlags;
use crate::{
    control_plane::{ControlPlane, Leadership, Listen, Options},
    output, permissions,
    signals::StopSignals,
};

#[derive(Debug, clap::Args)]
pub struct Serve {
    /// The namespace whose workloads are served [default: that of the kubeconfig or the pod]
    #[arg(long, short, env = "BALLAST_NAMESPACE")]
    namespace: Option<String>,
    /// Where queues and shared state are kept: redb:FILE (one node), nats://HOST:PORT[,HOST:PORT…] (several), memory:
    #[arg(long, value_name = "URL", default_value = "redb:ballast.redb", env = "BALLAST_STORE")]
    store: String,
    /// Copies that NATS keeps of everything
    #[arg(long, value_name = "N", default_value_t = 1, env = "BALLAST_STORE_REPLICAS")]
    store_replicas: usize,
    /// The name of all this group of nodes keeps on NATS, which other groups may use too [default: ballast-NAMESPACE]
    #[arg(long, value_name = "NAME", env = "BALLAST_STORE_NAME")]
    store_name: Option<String>,
    /// Where functions are called
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:5000", env = "BALLAST_GATEWAY_ADDR")]
    gateway_addr: SocketAddr,
    /// Where operators ask: metrics, debug and query paths
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5001", env = "BALLAST_OPERATOR_ADDR")]
    operator_addr: SocketAddr,
    /// What operators must present as a bearer token
    #[arg(long, value_name = "TOKEN", env = "BALLAST_OPERATOR_TOKEN", hide_env_values = true)]
    operator_token: Option<String>,
    /// Serve the debug and query paths on the gateway's port too, to anybody
    #[arg(long)]
    debug_on_gateway: bool,
    /// This node's name, unique among the nodes and the same after a restart [default: the host's name]
    #[arg(long, value_name = "NAME", env = "BALLAST_NODE_NAME")]
    node_name: Option<String>,
    /// What to run beside the functions on demand
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "function")]
    controllers: Vec<Controller>,
    /// Look after Kyma's Functions of this namespace only, where other nodes look after others [default: all]
    #[arg(long, value_name = "NAMESPACE", env = "BALLAST_FUNCTION_NAMESPACE")]
    function_namespace: Option<String>,
    /// Seconds after which a node that fell silent is replaced
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    lease: u64,
    /// Seconds between two scrapes of a pod
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    scrape_interval: u64,
    /// Pods may have addresses of this machine (with the process node)
    #[arg(long)]
    loopback_pods: bool,
    /// Say nothing but errors
    #[arg(long, short, conflicts_with = "verbose")]
    quiet: bool,
    /// Say more; twice for everything
    #[arg(long, short, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    gateway: GatewayFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Controller {
    /// Nothing
    None,
    /// Kyma's Functions (their kind has to be installed: ballast crds)
    Function,
}

impl Serve {
    pub fn run(self) -> Result<ExitCode> {
        // A server's decisions belong into its log without being asked for.
        crate::log::start(self.quiet, self.verbose + 1);
        let runtime = tokio::runtime::Runtime::new().context("failed to start the runtime")?;
        runtime.block_on(self.serve())?;
        Ok(ExitCode::SUCCESS)
    }

    async fn serve(self) -> Result<()> {
        let mut stop = StopSignals::new()?;
        let config = kube::Config::infer()
            .await
            .context("failed to find a cluster: set KUBECONFIG, or run in a pod with a service account")?;
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = kube::Client::try_from(config).context("failed to make a client of the kubeconfig")?;
        let looks_after_functions = self.controllers.contains(&Controller::Function);
        permissions::check(&client, &namespace, looks_after_functions).await?;
        let node = match self.node_name.clone() {
            Some(name) => name,
            None => host_name()?,
        };
        // Queues and history go by the names of functions, which are unique in a namespace only.
        let name = self.store_name.clone().unwrap_or_else(|| format!("ballast-{namespace}"));
        let store_options =
            store::Options { replicas: self.store_replicas, name, ..store::Options::default() };
        let store = store::open(&self.store, store_options)
            .await
            .with_context(|| format!("failed to open the store {}", self.store))?;

        let options = Options {
            namespace,
            node,
            gateway: Listen::At(self.gateway_addr),
            operator: Listen::At(self.operator_addr),
            operator_token: self.operator_token.clone(),
            debug_on_gateway: self.debug_on_gateway,
            leadership: Leadership::Lease(Duration::from_secs(self.lease)),
            scrape_interval: Duration::from_secs(self.scrape_interval),
            functions: looks_after_functions.then(|| controllers::function::Options {
                namespace: self.function_namespace.clone(),
                ..controllers::function::Options::new(std::env::temp_dir().join("ballast-git"))
            }),
            gateway_options: self.gateway.options(),
            loopback_pods: self.loopback_pods,
        };
        let plane = ControlPlane::start(client, store, options).await?;
        output::answer(format_args!(
            "serving functions on http://{} and operators on http://{}",
            plane.gateway, plane.operator
        ));
        stop.received().await;
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
