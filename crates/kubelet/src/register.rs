//! The Node object and its Lease.

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::{
            DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeStatus, NodeSystemInfo,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time},
    },
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time;

use crate::{Options, Shared};

const LEASE_NAMESPACE: &str = "kube-node-lease";
/// A kubelet's numbers: 40 s, renewed four times in that.
const LEASE_SECONDS: i32 = 40;
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// An unchanged status is repeated only this often; the Lease says that the node lives.
const RENEWALS_PER_STATUS: u32 = 30;
const RETRY: Duration = Duration::from_secs(1);
/// Whether a container that takes more memory than its limit is killed: not every machine lets the node make cgroups.
pub const MEMORY_LIMITS: &str = "ballast.dev/memory-limits";
const DEFAULT_PODS: &str = "250";

/// Registers the node and says again and again that it is there.
pub async fn keep(shared: Arc<Shared>, port: u16) {
    let mut renewals = 0;
    let mut node = None;
    loop {
        if node.is_none() || renewals % RENEWALS_PER_STATUS == 0 {
            match register(&shared, port, true).await {
                Ok(registered) => node = Some(registered),
                Err(error) => {
                    tracing::warn!(%error, "cannot register the node, will try again");
                    time::sleep(RETRY).await;
                    continue;
                }
            }
        }
        if let Some(node) = &node
            && let Err(error) = renew(&shared, node).await
        {
            tracing::debug!(%error, "cannot renew the node's lease, will try again");
            time::sleep(RETRY).await;
            continue;
        }
        renewals += 1;
        time::sleep(RENEW_EVERY).await;
    }
}

/// Says that the node is going, if somebody still listens.
pub async fn leave(shared: &Shared, port: u16) {
    let said = time::timeout(Duration::from_secs(2), register(shared, port, false)).await;
    if !matches!(said, Ok(Ok(_))) {
        tracing::debug!("could not say good-bye to the API");
    }
}

async fn register(shared: &Shared, port: u16, ready: bool) -> Result<Node, kube::Error> {
    let nodes: Api<Node> = Api::all(shared.client.clone());
    let name = &shared.options.name;
    let existing = nodes.get_opt(name).await?;
    let status = status(shared, port, ready, existing.as_ref(), Timestamp::now());
    let labels = labels(&shared.options, shared.cgroups.is_some());
    let Some(existing) = existing else {
        let node = Node {
            metadata: ObjectMeta { name: Some(name.clone()), labels: Some(labels), ..ObjectMeta::default() },
            status: Some(status.clone()),
            ..Node::default()
        };
        let created = nodes.create(&PostParams::default(), &node).await?;
        // An API server may drop the status of a new object; a second look costs nothing when it did not.
        if created.status.as_ref().is_some_and(|s| s.conditions.is_some()) {
            return Ok(created);
        }
        return patch_status(&nodes, name, &status).await;
    };
    let has_labels = |have: &BTreeMap<String, String>| labels.iter().all(|(k, v)| have.get(k) == Some(v));
    if !existing.metadata.labels.as_ref().is_some_and(has_labels) {
        let patch = json!({ "metadata": { "labels": labels } });
        nodes.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    }
    patch_status(&nodes, name, &status).await
}

async fn patch_status(nodes: &Api<Node>, name: &str, status: &NodeStatus) -> Result<Node, kube::Error> {
    nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(json!({ "status": status }))).await
}

async fn renew(shared: &Shared, node: &Node) -> Result<(), kube::Error> {
    let name = &shared.options.name;
    let leases: Api<Lease> = Api::namespaced(shared.client.clone(), LEASE_NAMESPACE);
    let now = MicroTime(Timestamp::now());
    let patch = json!({ "spec": { "holderIdentity": name, "renewTime": now } });
    match leases.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => return Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(error),
    }
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(LEASE_NAMESPACE.to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: name.clone(),
                uid: node.metadata.uid.clone().unwrap_or_default(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name.clone()),
            lease_duration_seconds: Some(LEASE_SECONDS),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }),
    };
    leases.create(&PostParams::default(), &lease).await.map(drop)
}

fn labels(options: &Options, limits_memory: bool) -> BTreeMap<String, String> {
    let own = [
        (MEMORY_LIMITS, if limits_memory { "enforced" } else { "ignored" }),
        ("kubernetes.io/hostname", options.name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture()),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
    own.into_iter().chain(options.labels.clone()).collect()
}

/// What the machine has, or what the options say that it has.
pub fn capacity(options: &Options) -> BTreeMap<String, Quantity> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        text.lines()
            .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB").map(str::to_owned))
    });
    let disk = nix::sys::statvfs::statvfs(&options.data_dir)
        .map(|stat| (stat.blocks() * stat.fragment_size() / 1024).to_string());
    let mut capacity = BTreeMap::from([
        ("cpu".to_owned(), Quantity(cpus.to_string())),
        ("memory".to_owned(), Quantity(format!("{}Ki", memory.unwrap_or_default().trim()))),
        ("ephemeral-storage".to_owned(), Quantity(format!("{}Ki", disk.unwrap_or_else(|_| "0".to_owned())))),
        ("pods".to_owned(), Quantity(DEFAULT_PODS.to_owned())),
    ]);
    capacity.extend(options.capacity.clone());
    capacity
}

fn status(shared: &Shared, port: u16, ready: bool, existing: Option<&Node>, now: Timestamp) -> NodeStatus {
    let options = &shared.options;
    let address = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
    NodeStatus {
        capacity: Some(shared.capacity.clone()),
        allocatable: Some(shared.capacity.clone()),
        addresses: Some(vec![
            address("InternalIP", options.host_ip.to_string()),
            address("Hostname", options.name.clone()),
        ]),
        daemon_endpoints: Some(NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint { port: i32::from(port) }),
        }),
        conditions: Some(conditions(ready, existing, now)),
        node_info: Some(system_info()),
        ..NodeStatus::default()
    }
}

fn conditions(ready: bool, existing: Option<&Node>, now: Timestamp) -> Vec<NodeCondition> {
    let (ready_status, ready_reason, ready_message) = if ready {
        ("True", "KubeletReady", "the process node is posting ready status")
    } else {
        ("False", "NodeShutdown", "the process node has been stopped")
    };
    [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "the process node does not evict for memory",
        ),
        (
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "the process node does not evict for disk space",
        ),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "the process node does not evict for process ids",
        ),
        ("Ready", ready_status, ready_reason, ready_message),
    ]
    .into_iter()
    .map(|(type_, status, reason, message)| {
        let before = existing
            .and_then(|node| node.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == type_))
            .filter(|before| before.status == status);
        NodeCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(
                before.and_then(|before| before.last_transition_time.clone()).unwrap_or(Time(now)),
            ),
        }
    })
    .collect()
}

fn system_info() -> NodeSystemInfo {
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let os_release = read("/etc/os-release");
    let os_image = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("Linux");
    NodeSystemInfo {
        architecture: architecture().to_owned(),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        machine_id: read("/etc/machine-id"),
        system_uuid: read("/etc/machine-id"),
        kernel_version: read("/proc/sys/kernel/osrelease"),
        operating_system: "linux".to_owned(),
        os_image: os_image.trim_matches('"').to_owned(),
        container_runtime_version: format!("process://{}", env!("CARGO_PKG_VERSION")),
        // kubectl and others parse it; it says which kubelet's behaviour to expect.
        kubelet_version: "v1.36.0-ballast".to_owned(),
        kube_proxy_version: String::new(),
        swap: None,
    }
}

/// As Go names it, which is what node selectors are written for.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
