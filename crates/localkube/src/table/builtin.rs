//! The columns of built-in kinds, as data.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::{Cell, Column, cells, docs::Docs, more_cells, pod};

type Compute = fn(&Value, Timestamp) -> Value;
/// Name, type, priority, description (or, from a dot on, the field whose description it is), and how to find the cell.
type Row = (&'static str, &'static str, i64, &'static str, Compute);

const NAME: Row = ("Name", "string", 0, ".metadata.name", cells::name);
const AGE: Row = ("Age", "string", 0, ".metadata.creationTimestamp", cells::age);
const CONTAINERS: Row =
    ("Containers", "string", 1, "Names of each container in the template.", cells::containers);
const IMAGES: Row =
    ("Images", "string", 1, "Images referenced by each container in the template.", cells::images);
const SELECTOR: Row = ("Selector", "string", 1, ".spec.selector", cells::selector);

pub fn name(docs: &Docs) -> Column {
    column(NAME, docs)
}

pub fn age(docs: &Docs) -> Column {
    column(AGE, docs)
}

fn column((name, kind, priority, description, compute): Row, docs: &Docs) -> Column {
    Column {
        name: name.into(),
        kind: kind.into(),
        format: if name == "Name" { "name" } else { "" }.into(),
        description: docs.resolve(description),
        priority,
        cell: Cell::Computed(compute),
    }
}

pub fn columns(kind: &str, docs: &Docs) -> Arc<[Column]> {
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
            ("Status", "string", 0, "The status of the namespace", |o, _| cells::text(o, "/status/phase")),
            AGE,
        ],
        "ConfigMap" => {
            &[NAME, ("Data", "string", 0, ".data", |o, _| cells::count(o, &["data", "binaryData"])), AGE]
        }
        "Secret" => &[
            NAME,
            ("Type", "string", 0, ".type", |o, _| cells::text(o, "/type")),
            ("Data", "string", 0, ".data", |o, _| cells::count(o, &["data"])),
            AGE,
        ],
        "ServiceAccount" => &[NAME, AGE],
        "HorizontalPodAutoscaler" => AUTOSCALERS,
        "PodDisruptionBudget" => BUDGETS,
        "Endpoints" => &[NAME, ("Endpoints", "string", 0, ".subsets", cells::endpoints), AGE],
        "EndpointSlice" => &[
            NAME,
            ("AddressType", "string", 0, ".addressType", |o, _| cells::text(o, "/addressType")),
            ("Ports", "string", 0, ".ports", cells::slice_ports),
            ("Endpoints", "string", 0, ".endpoints", cells::slice_endpoints),
            AGE,
        ],
        "Lease" => &[
            NAME,
            ("Holder", "string", 0, ".spec.holderIdentity", |o, _| cells::text(o, "/spec/holderIdentity")),
            AGE,
        ],
        "ControllerRevision" => &[
            NAME,
            ("Controller", "string", 0, "Controller of the object", cells::controller),
            ("Revision", "string", 0, ".revision", |o, _| o["revision"].clone()),
            AGE,
        ],
        "ResourceQuota" => &[
            NAME,
            (
                "Request",
                "string",
                0,
                "Request represents a minimum amount of cpu/memory that a container may consume.",
                |o, _| cells::quota(o, false),
            ),
            (
                "Limit",
                "string",
                0,
                "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
                |o, _| cells::quota(o, true),
            ),
            AGE,
        ],
        "RoleBinding" | "ClusterRoleBinding" => BINDINGS,
        "DaemonSet" => DAEMON_SETS,
        "Job" => JOBS,
        "CronJob" => CRON_JOBS,
        "Ingress" => INGRESSES,
        "IngressClass" => &[
            ("Name", "string", 0, ".metadata.name", |o, _| {
                more_cells::marked_default(o, "ingressclass.kubernetes.io")
            }),
            ("Controller", "string", 0, "Controller that is responsible for handling this class", |o, _| {
                cells::text(o, "/spec/controller")
            }),
            (
                "Parameters",
                "string",
                0,
                "A reference to a resource with additional parameters",
                more_cells::parameters,
            ),
            AGE,
        ],
        "NetworkPolicy" => {
            &[NAME, ("Pod-Selector", "string", 0, ".spec.podSelector", more_cells::pod_selector), AGE]
        }
        "PersistentVolume" => VOLUMES,
        "PersistentVolumeClaim" => CLAIMS,
        "StorageClass" => STORAGE_CLASSES,
        "PriorityClass" => &[
            NAME,
            ("Value", "integer", 0, ".value", |o, _| cells::number(o, "/value")),
            ("Global-Default", "boolean", 0, ".globalDefault", |o, _| (o["globalDefault"] == true).into()),
            AGE,
            ("PreemptionPolicy", "string", 0, ".preemptionPolicy", |o, _| {
                cells::text(o, "/preemptionPolicy")
            }),
        ],
        // Kinds without columns of their own.
        _ => &[
            NAME,
            ("Created At", "date", 0, ".metadata.creationTimestamp", |o, _| {
                cells::text(o, "/metadata/creationTimestamp")
            }),
        ],
    };
    rows.iter().map(|row| column(*row, docs)).collect()
}

const DAEMON_SETS: &[Row] = &[
    NAME,
    ("Desired", "integer", 0, ".status.desiredNumberScheduled", |o, _| {
        cells::number(o, "/status/desiredNumberScheduled")
    }),
    ("Current", "integer", 0, ".status.currentNumberScheduled", |o, _| {
        cells::number(o, "/status/currentNumberScheduled")
    }),
    ("Ready", "integer", 0, ".status.numberReady", |o, _| cells::number(o, "/status/numberReady")),
    ("Up-to-date", "integer", 0, ".status.updatedNumberScheduled", |o, _| {
        cells::number(o, "/status/updatedNumberScheduled")
    }),
    ("Available", "integer", 0, ".status.numberAvailable", |o, _| {
        cells::number(o, "/status/numberAvailable")
    }),
    ("Node Selector", "string", 0, ".spec.template.spec.nodeSelector", |o, _| {
        cells::labels(&o["spec"]["template"]["spec"]["nodeSelector"]).into()
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const JOBS: &[Row] = &[
    NAME,
    ("Status", "string", 0, "Status of the job.", more_cells::job_status),
    ("Completions", "string", 0, ".status.succeeded", more_cells::job_completions),
    ("Duration", "string", 0, "Time required to complete the job.", more_cells::job_duration),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const CRON_JOBS: &[Row] = &[
    NAME,
    ("Schedule", "string", 0, ".spec.schedule", |o, _| cells::text(o, "/spec/schedule")),
    ("Timezone", "string", 0, ".spec.timeZone", |o, _| cells::or_none(&o["spec"]["timeZone"])),
    ("Suspend", "boolean", 0, ".spec.suspend", |o, _| match o["spec"]["suspend"].as_bool() {
        Some(true) => "True".into(),
        Some(false) => "False".into(),
        None => "<unset>".into(),
    }),
    ("Active", "integer", 0, ".status.active", |o, _| {
        o["status"]["active"].as_array().map_or(0, Vec::len).into()
    }),
    ("Last Schedule", "string", 0, ".status.lastScheduleTime", more_cells::last_schedule),
    AGE,
    ("Containers", "string", 1, "Names of each container in the template.", |o, now| {
        cells::containers(&o["spec"]["jobTemplate"], now)
    }),
    ("Images", "string", 1, "Images referenced by each container in the template.", |o, now| {
        cells::images(&o["spec"]["jobTemplate"], now)
    }),
    ("Selector", "string", 1, ".spec.jobTemplate.spec.selector", |o, now| {
        cells::selector(&o["spec"]["jobTemplate"], now)
    }),
];

const INGRESSES: &[Row] = &[
    NAME,
    (
        "Class",
        "string",
        0,
        "The name of the IngressClass resource that should be used for additional configuration",
        |o, _| cells::or_none(&o["spec"]["ingressClassName"]),
    ),
    (
        "Hosts",
        "string",
        0,
        "Hosts that incoming requests are matched against before the ingress rule",
        more_cells::hosts,
    ),
    (
        "Address",
        "string",
        0,
        "Address is a list containing ingress points for the load-balancer",
        more_cells::ingress_addresses,
    ),
    ("Ports", "string", 0, "Ports of TLS configurations that open", |o, _| {
        let tls = o["spec"]["tls"].as_array().is_some_and(|list| !list.is_empty());
        if tls { "80, 443" } else { "80" }.into()
    }),
    AGE,
];

const VOLUMES: &[Row] = &[
    NAME,
    ("Capacity", "string", 0, ".spec.capacity", |o, _| {
        more_cells::or_zero(&o["spec"]["capacity"]["storage"])
    }),
    ("Access Modes", "string", 0, ".spec.accessModes", |o, _| {
        more_cells::access_modes(&o["spec"]["accessModes"])
    }),
    ("Reclaim Policy", "string", 0, ".spec.persistentVolumeReclaimPolicy", |o, _| {
        cells::text(o, "/spec/persistentVolumeReclaimPolicy")
    }),
    ("Status", "string", 0, ".status.phase", more_cells::phase_or_terminating),
    ("Claim", "string", 0, ".spec.claimRef", |o, _| match &o["spec"]["claimRef"] {
        Value::Null => "".into(),
        claim => {
            let text = |key: &str| claim[key].as_str().unwrap_or_default();
            format!("{}/{}", text("namespace"), text("name")).into()
        }
    }),
    ("StorageClass", "string", 0, "StorageClass of the pv", |o, _| cells::text(o, "/spec/storageClassName")),
    ("VolumeAttributesClass", "string", 0, "VolumeAttributesClass of the pv", |o, _| {
        more_cells::or_unset(&o["spec"]["volumeAttributesClassName"])
    }),
    ("Reason", "string", 0, ".status.reason", |o, _| cells::text(o, "/status/reason")),
    AGE,
    ("VolumeMode", "string", 1, ".spec.volumeMode", |o, _| more_cells::or_unset(&o["spec"]["volumeMode"])),
];

const CLAIMS: &[Row] = &[
    NAME,
    ("Status", "string", 0, ".status.phase", more_cells::phase_or_terminating),
    ("Volume", "string", 0, ".spec.volumeName", |o, _| cells::text(o, "/spec/volumeName")),
    ("Capacity", "string", 0, ".status.capacity", |o, _| match o["spec"]["volumeName"].as_str() {
        Some(_) => more_cells::or_zero(&o["status"]["capacity"]["storage"]),
        None => "".into(),
    }),
    ("Access Modes", "string", 0, ".status.accessModes", |o, _| match o["spec"]["volumeName"].as_str() {
        Some(_) => more_cells::access_modes(&o["status"]["accessModes"]),
        None => "".into(),
    }),
    ("StorageClass", "string", 0, "StorageClass of the pvc", |o, _| cells::text(o, "/spec/storageClassName")),
    ("VolumeAttributesClass", "string", 0, "VolumeAttributesClass of the pvc", |o, _| {
        more_cells::or_unset(&o["spec"]["volumeAttributesClassName"])
    }),
    AGE,
    ("VolumeMode", "string", 1, ".spec.volumeMode", |o, _| more_cells::or_unset(&o["spec"]["volumeMode"])),
];

const STORAGE_CLASSES: &[Row] = &[
    ("Name", "string", 0, ".metadata.name", |o, _| {
        more_cells::marked_default(o, "storageclass.kubernetes.io")
    }),
    ("Provisioner", "string", 0, ".provisioner", |o, _| cells::text(o, "/provisioner")),
    ("ReclaimPolicy", "string", 0, ".reclaimPolicy", |o, _| cells::text(o, "/reclaimPolicy")),
    ("VolumeBindingMode", "string", 0, ".volumeBindingMode", |o, _| cells::text(o, "/volumeBindingMode")),
    ("AllowVolumeExpansion", "string", 0, ".allowVolumeExpansion", |o, _| {
        (o["allowVolumeExpansion"] == true).into()
    }),
    AGE,
];

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
    ("IP", "string", 1, ".status.podIP", |o, _| cells::or_none(&o["status"]["podIPs"][0]["ip"])),
    ("Node", "string", 1, ".spec.nodeName", |o, _| cells::or_none(&o["spec"]["nodeName"])),
    ("Nominated Node", "string", 1, ".status.nominatedNodeName", |o, _| {
        cells::or_none(&o["status"]["nominatedNodeName"])
    }),
    ("Readiness Gates", "string", 1, ".spec.readinessGates", pod::readiness_gates),
];

const DEPLOYMENTS: &[Row] = &[
    NAME,
    ("Ready", "string", 0, "Number of the pod with ready state", cells::ready_of_desired),
    ("Up-to-date", "string", 0, ".status.updatedReplicas", |o, _| {
        cells::number(o, "/status/updatedReplicas")
    }),
    ("Available", "string", 0, ".status.availableReplicas", |o, _| {
        cells::number(o, "/status/availableReplicas")
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const REPLICA_SETS: &[Row] = &[
    NAME,
    ("Desired", "integer", 0, ".spec.replicas", |o, _| cells::number(o, "/spec/replicas")),
    ("Current", "integer", 0, ".status.replicas", |o, _| cells::number(o, "/status/replicas")),
    ("Ready", "integer", 0, ".status.readyReplicas", |o, _| cells::number(o, "/status/readyReplicas")),
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
    ("Type", "string", 0, ".spec.type", |o, _| cells::text(o, "/spec/type")),
    ("Cluster-IP", "string", 0, ".spec.clusterIP", |o, _| cells::or_none(&o["spec"]["clusterIPs"][0])),
    ("External-IP", "string", 0, ".spec.externalIPs", cells::external_ip),
    ("Port(s)", "string", 0, ".spec.ports", cells::service_ports),
    AGE,
    ("Selector", "string", 1, ".spec.selector", |o, _| cells::labels(&o["spec"]["selector"]).into()),
];

const NODES: &[Row] = &[
    NAME,
    ("Status", "string", 0, "The status of the node", cells::node_status),
    ("Roles", "string", 0, "The roles of the node", cells::node_roles),
    AGE,
    ("Version", "string", 0, ".status.nodeInfo.kubeletVersion", |o, _| {
        cells::text(o, "/status/nodeInfo/kubeletVersion")
    }),
    ("Internal-IP", "string", 1, ".status.addresses", |o, _| cells::node_address(o, "InternalIP")),
    ("External-IP", "string", 1, ".status.addresses", |o, _| cells::node_address(o, "ExternalIP")),
    ("OS-Image", "string", 1, ".status.nodeInfo.osImage", |o, _| {
        cells::or_unknown(&o["status"]["nodeInfo"]["osImage"])
    }),
    ("Kernel-Version", "string", 1, ".status.nodeInfo.kernelVersion", cells::kernel),
    ("Container-Runtime", "string", 1, ".status.nodeInfo.containerRuntimeVersion", |o, _| {
        cells::or_unknown(&o["status"]["nodeInfo"]["containerRuntimeVersion"])
    }),
];

const EVENTS: &[Row] = &[
    ("Last Seen", "string", 0, ".lastTimestamp", |o, now| cells::event(o, now).last.into()),
    ("Type", "string", 0, ".type", |o, _| cells::text(o, "/type")),
    ("Reason", "string", 0, ".reason", |o, _| cells::text(o, "/reason")),
    ("Object", "string", 0, ".involvedObject", |o, now| cells::event(o, now).target.into()),
    ("Subobject", "string", 1, ".involvedObject.fieldPath", |o, _| {
        cells::text(o, "/involvedObject/fieldPath")
    }),
    ("Source", "string", 1, ".source", |o, now| cells::event(o, now).source.into()),
    ("Message", "string", 0, ".message", |o, _| o["message"].as_str().unwrap_or_default().trim().into()),
    ("First Seen", "string", 1, ".firstTimestamp", |o, now| cells::event(o, now).first.into()),
    ("Count", "string", 1, ".count", |o, now| cells::event(o, now).count.into()),
    ("Name", "string", 1, ".metadata.name", cells::name),
];

const AUTOSCALERS: &[Row] = &[
    NAME,
    ("Reference", "string", 0, ".spec.scaleTargetRef", |o, _| {
        let target = &o["spec"]["scaleTargetRef"];
        let text = |key: &str| target[key].as_str().unwrap_or_default();
        format!("{}/{}", text("kind"), text("name")).into()
    }),
    ("Targets", "string", 0, ".spec.metrics", cells::autoscaler_targets),
    ("MinPods", "string", 0, ".spec.minReplicas", |o, _| match o["spec"]["minReplicas"].as_i64() {
        Some(count) => count.to_string().into(),
        None => "<unset>".into(),
    }),
    ("MaxPods", "string", 0, ".spec.maxReplicas", |o, _| cells::number(o, "/spec/maxReplicas")),
    ("Replicas", "string", 0, ".status.currentReplicas", |o, _| cells::number(o, "/status/currentReplicas")),
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
    ("Role", "string", 0, ".roleRef", |o, _| {
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
