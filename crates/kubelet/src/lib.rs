//! The process node: runs pods as processes. It stands in for a kubelet towards any API server, embedded or real.
//!
//! ```text
//!   API ──watch──▶ manager ──▶ one task a pod:  planner ──▶ runner ──▶ launcher ──▶ the container's process
//!    ▲                                             │          │
//!    └── status, events, Node, Lease ◀─────────────┘          └─▶ logs, probes ──▶ kubelet endpoint ◀── API
//! ```
//! The planner of a pod ([`pod`]) is a synchronous state machine; all else is at its edges. What makes a process a
//! container is the launcher ([`launch`]), which the program has to offer as a subcommand.
//!
//! What it does not do: pull or unpack images (`command` runs on the host, as the node's user), isolate containers
//! from the host or from each other, route Services, attach persistent volumes. CPU limits
//! are not enforced; memory limits only where cgroups may be made. `securityContext` has no effect.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Client;
use tokio_util::sync::CancellationToken;

mod address;
mod downward;
mod env;
mod events;
pub mod launch;
mod logs;
mod manager;
mod objects;
mod pod;
mod probes;
mod process;
mod register;
mod registry;
pub mod scheduler;
mod server;
mod streaming;
mod terminal;
mod usage;
mod volumes;

pub use pod::container::Delays;

/// Where the node of this directory keeps those of claims of storage, each named after its claim's uid.
pub fn claims(node: &std::path::Path) -> std::path::PathBuf {
    node.join(pod::disk::CLAIMS)
}

#[derive(Debug, Clone)]
pub struct Options {
    pub name: String,
    /// Pods' volumes, logs and records. One node at a time may use it.
    pub data_dir: PathBuf,
    /// The program and arguments that call [`launch::main`].
    pub launcher: Vec<OsString>,
    pub host_ip: Ipv4Addr,
    /// Of the kubelet endpoint; 0 takes a free one.
    pub port: u16,
    /// What the kubelet endpoint asks for as a bearer token; without one it answers everybody on this machine.
    pub token: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// Overrides what the machine has, by resource name.
    pub capacity: BTreeMap<String, Quantity>,
    /// Host and port that pods find in `KUBERNETES_SERVICE_HOST` and `_PORT`.
    pub api_server: Option<(String, u16)>,
    pub restart_delays: Delays,
    /// The environment of the machine; containers see of it only what any program needs, such as `PATH`.
    pub host_env: BTreeMap<String, String>,
    /// Mounts volumes where the manifest wants them, if this user may; otherwise paths are rewritten.
    pub mount_namespaces: bool,
    /// Binds pods to nodes as well, where there is no kube-scheduler.
    pub schedule: bool,
    /// The most that pods get to stop in when the node stops.
    pub shutdown_grace: Duration,
    /// Leaves processes running when the node stops; the next one on the same data directory takes them over.
    pub keep_pods: bool,
}

#[derive(Debug)]
pub struct Node {
    options: Options,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot use the data directory {path}: {source}")]
    DataDir { path: PathBuf, source: io::Error },
    #[error("another node is using the data directory {path}; stop it, or choose another directory")]
    DataDirInUse { path: PathBuf },
    #[error("cannot listen on {address} for the kubelet endpoint: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot make a certificate for the kubelet endpoint: {0}")]
    Certificate(String),
}

/// What all parts of a node share.
struct Shared {
    client: Client,
    options: Options,
    pods_dir: PathBuf,
    objects: objects::Objects,
    addresses: address::Addresses,
    launcher: process::Launcher,
    cgroups: Option<process::cgroup::Cgroups>,
    host_env: env::Vars,
    events: events::Events,
    registry: registry::Registry,
    sessions: streaming::Sessions,
    capacity: BTreeMap<String, Quantity>,
}

// === impl Options ===

impl Options {
    /// A node that starts its own program anew with `pod-exec` as launcher.
    pub fn new(name: impl Into<String>, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            data_dir: data_dir.into(),
            // Stays valid when the program's file is replaced by a newer one.
            launcher: vec!["/proc/self/exe".into(), "pod-exec".into()],
            host_ip: Ipv4Addr::LOCALHOST,
            port: 0,
            token: None,
            labels: BTreeMap::new(),
            capacity: BTreeMap::new(),
            api_server: None,
            restart_delays: Delays::default(),
            host_env: BTreeMap::new(),
            mount_namespaces: true,
            schedule: false,
            shutdown_grace: Duration::from_secs(10),
            keep_pods: false,
        }
    }
}

// === impl Node ===

impl Node {
    pub fn new(options: Options) -> Self {
        Self { options }
    }

    /// Runs until `shutdown`, and then until the pods' processes are gone.
    ///
    /// # Errors
    /// When the node cannot start; an API that cannot be reached is waited for.
    pub async fn run(self, client: Client, shutdown: CancellationToken) -> Result<(), Error> {
        let options = self.options;
        let pods_dir = options.data_dir.join("pods");
        let unusable = |source| Error::DataDir { path: options.data_dir.clone(), source };
        // Volumes hold Secrets.
        disk::private_dir(&options.data_dir).map_err(unusable)?;
        fs::create_dir_all(&pods_dir).map_err(unusable)?;
        let lock = disk::private_file(&options.data_dir.join("node.lock")).map_err(unusable)?;
        lock.try_lock().map_err(|_| Error::DataDirInUse { path: options.data_dir.clone() })?;

        let mut launcher = process::Launcher { command: options.launcher.clone(), namespaces: true };
        let scratch = options.data_dir.join("trial");
        fs::create_dir_all(&scratch).map_err(unusable)?;
        launcher.namespaces = options.mount_namespaces && launcher.may_mount(&scratch).await;
        if !launcher.namespaces {
            tracing::info!(
                "no mount namespaces here: volumes are at $BALLAST_ROOT, and mount paths are rewritten"
            );
        }
        let listener = server::bind(SocketAddr::new(options.host_ip.into(), options.port)).await?;
        let capacity = register::capacity(&options);
        let shared = Arc::new(Shared {
            objects: objects::Objects::new(client.clone()),
            addresses: address::Addresses::default(),
            cgroups: process::cgroup::Cgroups::detect(&options.name),
            host_env: env::inherited(&options.host_env),
            events: events::Events::spawn(client.clone(), "kubelet", options.name.clone()),
            registry: registry::Registry::default(),
            sessions: streaming::Sessions::default(),
            launcher,
            pods_dir,
            capacity,
            options,
            client,
        });
        let port = listener.port;
        let server = tokio::spawn(server::serve(listener, Arc::clone(&shared)));
        let registration = tokio::spawn(register::keep(Arc::clone(&shared), port));
        let scheduler = shared.options.schedule.then(|| tokio::spawn(scheduler::run(shared.client.clone())));

        manager::run(&shared, &shutdown).await;

        shared.sessions.stop().await;
        registration.abort();
        register::leave(&shared, port).await;
        server.abort();
        if let Some(scheduler) = scheduler {
            scheduler.abort();
        }
        if let Some(cgroups) = &shared.cgroups {
            cgroups.remove();
        }
        drop(lock);
        Ok(())
    }
}
