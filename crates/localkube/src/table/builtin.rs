//! The columns of built-in kinds, as data.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{Cell, Column, cells, pod};

type Compute = fn(&Value, Timestamp) -> Value;
/// Name, type, priority, description, and how to find the cell.
type Row = (&'static str, &'static str, i64, &'static str, Compute);

const NAME: Row = ("Name", "string", 0, NAME_DOC, cells::name);
const AGE: Row = ("Age", "string", 0, CREATED_DOC, cells::age);
const CONTAINERS: Row =
    ("Containers", "string", 1, "Names of each container in the template.", cells::containers);
const IMAGES: Row =
    ("Images", "string", 1, "Images referenced by each container in the template.", cells::images);
const SELECTOR: Row = ("Selector", "string", 1, "Which pods belong to it.", cells::selector);

const NAME_DOC: &str = "Unique within a namespace; given at creation and never changed.";
const CREATED_DOC: &str = "When the server created the object.";

pub fn name() -> Column {
    column(NAME)
}

pub fn age() -> Column {
    column(AGE)
}

fn column((name, kind, priority, description, compute): Row) -> Column {
    Column {
        name: name.into(),
        kind: kind.into(),
        format: if name == "Name" { "name" } else { "" }.into(),
        description: description.into(),
        priority,
        cell: Cell::Computed(compute),
    }
}

pub fn columns(kind: &str) -> Arc<[Column]> {
    let rows: &[Row] = match kind {
        "Pod" => PODS,
        "Deployment" => DEPLOYMENTS,
        "ReplicaSet" => REPLICA_SETS,
        "StatefulSet" => STATEFUL_SETS,
        "Service" => SERVICES,
        "Node" => NODES,
        "Event" => EVENTS,
        "Namespace" => &[
            NAME,
            ("Status", "string", 0, "The phase of the namespace.", |o, _| cells::text(o, "/status/phase")),
            AGE,
        ],
        "ConfigMap" => &[
            NAME,
            ("Data", "string", 0, "How many keys it holds.", |o, _| cells::count(o, &["data", "binaryData"])),
            AGE,
        ],
        "Secret" => &[
            NAME,
            ("Type", "string", 0, "What the data is for.", |o, _| cells::text(o, "/type")),
            ("Data", "string", 0, "How many keys it holds.", |o, _| cells::count(o, &["data"])),
            AGE,
        ],
        "ServiceAccount" => &[NAME, AGE],
        "HorizontalPodAutoscaler" => AUTOSCALERS,
        "PodDisruptionBudget" => BUDGETS,
        "Endpoints" => {
            &[NAME, ("Endpoints", "string", 0, "Addresses with their ports.", cells::endpoints), AGE]
        }
        "EndpointSlice" => &[
            NAME,
            ("AddressType", "string", 0, "What kind of addresses it lists.", |o, _| {
                cells::text(o, "/addressType")
            }),
            ("Ports", "string", 0, "The ports of every address.", cells::slice_ports),
            ("Endpoints", "string", 0, "The addresses.", cells::slice_endpoints),
            AGE,
        ],
        "Lease" => &[
            NAME,
            ("Holder", "string", 0, "Who holds the lease.", |o, _| cells::text(o, "/spec/holderIdentity")),
            AGE,
        ],
        "ControllerRevision" => &[
            NAME,
            ("Controller", "string", 0, "Controller of the object", cells::controller),
            ("Revision", "string", 0, "The number of the revision.", |o, _| o["revision"].clone()),
            AGE,
        ],
        "ResourceQuota" => &[
            NAME,
            ("Request", "string", 0, "Requests used, of those allowed.", |o, _| cells::quota(o, false)),
            ("Limit", "string", 0, "Limits used, of those allowed.", |o, _| cells::quota(o, true)),
            AGE,
        ],
        "RoleBinding" | "ClusterRoleBinding" => BINDINGS,
        // Kinds without columns of their own.
        _ => &[
            NAME,
            ("Created At", "date", 0, CREATED_DOC, |o, _| cells::text(o, "/metadata/creationTimestamp")),
        ],
    };
    rows.iter().copied().map(column).collect()
}

const PODS: &[Row] = &[
    NAME,
    ("Ready", "string", 0, "The aggregate readiness state of this pod for accepting traffic.", |o, now| {
        pod::summary(o, now).ready.into()
    }),
    ("Status", "string", 0, "The aggregate status of the containers in this pod.", |o, now| {
        pod::summary(o, now).status.into()
    }),
    (
        "Restarts",
        "string",
        0,
        "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
        |o, now| pod::summary(o, now).restarts.into(),
    ),
    AGE,
    ("IP", "string", 1, "The address of the pod.", |o, _| cells::or_none(&o["status"]["podIPs"][0]["ip"])),
    ("Node", "string", 1, "The node it was bound to.", |o, _| cells::or_none(&o["spec"]["nodeName"])),
    ("Nominated Node", "string", 1, "The node where room is being made for it.", |o, _| {
        cells::or_none(&o["status"]["nominatedNodeName"])
    }),
    (
        "Readiness Gates",
        "string",
        1,
        "Extra conditions for readiness that are true, of all.",
        pod::readiness_gates,
    ),
];

const DEPLOYMENTS: &[Row] = &[
    NAME,
    ("Ready", "string", 0, "Number of the pod with ready state", cells::ready_of_desired),
    ("Up-to-date", "string", 0, "Pods that have the desired template.", |o, _| {
        cells::number(o, "/status/updatedReplicas")
    }),
    ("Available", "string", 0, "Pods that were ready long enough.", |o, _| {
        cells::number(o, "/status/availableReplicas")
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const REPLICA_SETS: &[Row] = &[
    NAME,
    ("Desired", "integer", 0, "Pods wanted.", |o, _| cells::number(o, "/spec/replicas")),
    ("Current", "integer", 0, "Pods there are.", |o, _| cells::number(o, "/status/replicas")),
    ("Ready", "integer", 0, "Pods that are ready.", |o, _| cells::number(o, "/status/readyReplicas")),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const STATEFUL_SETS: &[Row] = &[
    NAME,
    ("Ready", "string", 0, "Number of the pod with ready state", cells::ready_of_desired),
    AGE,
    CONTAINERS,
    IMAGES,
];

const SERVICES: &[Row] = &[
    NAME,
    ("Type", "string", 0, "How the service is reached.", |o, _| cells::text(o, "/spec/type")),
    ("Cluster-IP", "string", 0, "Its address inside the cluster.", |o, _| {
        cells::or_none(&o["spec"]["clusterIPs"][0])
    }),
    ("External-IP", "string", 0, "Its addresses outside.", cells::external_ip),
    ("Port(s)", "string", 0, "The ports it listens on.", cells::service_ports),
    AGE,
    ("Selector", "string", 1, "Which pods belong to it.", |o, _| {
        cells::labels(&o["spec"]["selector"]).into()
    }),
];

const NODES: &[Row] = &[
    NAME,
    ("Status", "string", 0, "The status of the node", cells::node_status),
    ("Roles", "string", 0, "The roles of the node", cells::node_roles),
    AGE,
    ("Version", "string", 0, "The version its kubelet reports.", |o, _| {
        cells::text(o, "/status/nodeInfo/kubeletVersion")
    }),
    ("Internal-IP", "string", 1, "Its address inside the cluster.", |o, _| {
        cells::node_address(o, "InternalIP")
    }),
    ("External-IP", "string", 1, "Its address outside.", |o, _| cells::node_address(o, "ExternalIP")),
    ("OS-Image", "string", 1, "Its operating system.", |o, _| {
        cells::or_unknown(&o["status"]["nodeInfo"]["osImage"])
    }),
    ("Kernel-Version", "string", 1, "Its kernel.", cells::kernel),
    ("Container-Runtime", "string", 1, "What runs its containers.", |o, _| {
        cells::or_unknown(&o["status"]["nodeInfo"]["containerRuntimeVersion"])
    }),
];

const EVENTS: &[Row] = &[
    ("Last Seen", "string", 0, "When it happened last.", |o, now| cells::event(o, now).last.into()),
    ("Type", "string", 0, "Normal or Warning.", |o, _| cells::text(o, "/type")),
    ("Reason", "string", 0, "Why, in one word.", |o, _| cells::text(o, "/reason")),
    ("Object", "string", 0, "What it is about.", |o, now| cells::event(o, now).target.into()),
    ("Subobject", "string", 1, "Which part of it.", |o, _| cells::text(o, "/involvedObject/fieldPath")),
    ("Source", "string", 1, "Who says so.", |o, now| cells::event(o, now).source.into()),
    ("Message", "string", 0, "Why, in a sentence.", |o, _| {
        o["message"].as_str().unwrap_or_default().trim().into()
    }),
    ("First Seen", "string", 1, "When it happened first.", |o, now| cells::event(o, now).first.into()),
    ("Count", "string", 1, "How often it happened.", |o, now| cells::event(o, now).count.into()),
    ("Name", "string", 1, NAME_DOC, cells::name),
];

const AUTOSCALERS: &[Row] = &[
    NAME,
    ("Reference", "string", 0, "What it scales.", |o, _| {
        let target = &o["spec"]["scaleTargetRef"];
        let text = |key: &str| target[key].as_str().unwrap_or_default();
        format!("{}/{}", text("kind"), text("name")).into()
    }),
    ("Targets", "string", 0, "Metrics as they are and as they should be.", cells::autoscaler_targets),
    ("MinPods", "string", 0, "The fewest pods.", |o, _| match o["spec"]["minReplicas"].as_i64() {
        Some(count) => count.to_string().into(),
        None => "<unset>".into(),
    }),
    ("MaxPods", "string", 0, "The most pods.", |o, _| cells::number(o, "/spec/maxReplicas")),
    ("Replicas", "string", 0, "Pods there are.", |o, _| cells::number(o, "/status/currentReplicas")),
    AGE,
];

const BUDGETS: &[Row] = &[
    NAME,
    ("Min Available", "string", 0, "The minimum number of pods that must be available.", |o, _| {
        cells::or_not_applicable(&o["spec"]["minAvailable"])
    }),
    ("Max Unavailable", "string", 0, "The maximum number of pods that may be unavailable.", |o, _| {
        cells::or_not_applicable(&o["spec"]["maxUnavailable"])
    }),
    (
        "Allowed Disruptions",
        "integer",
        0,
        "Calculated number of pods that may be disrupted at this time.",
        |o, _| cells::number(o, "/status/disruptionsAllowed"),
    ),
    AGE,
];

const BINDINGS: &[Row] = &[
    NAME,
    ("Role", "string", 0, "What the subjects may do.", |o, _| {
        let text = |key: &str| o["roleRef"][key].as_str().unwrap_or_default();
        format!("{}/{}", text("kind"), text("name")).into()
    }),
    AGE,
    ("Users", "string", 1, "Users in the roleBinding", |o, _| cells::subjects(o, "User")),
    ("Groups", "string", 1, "Groups in the roleBinding", |o, _| cells::subjects(o, "Group")),
    ("ServiceAccounts", "string", 1, "ServiceAccounts in the roleBinding", |o, _| {
        cells::subjects(o, "ServiceAccount")
    }),
];
