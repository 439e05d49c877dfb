//! Defaults of built-in kinds. Most are rows; the rest depends on what else the object says.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::{Map, Value, json};

use crate::{AdditionalProperties, Schema, json::object_mut};

type Object = Map<String, Value>;

/// Fields that are set when absent, by type: each holds wherever the type occurs.
const ROWS: &str = r#"
core.v1.PodSpec restartPolicy "Always"
core.v1.PodSpec dnsPolicy "ClusterFirst"
core.v1.PodSpec securityContext {}
core.v1.PodSpec terminationGracePeriodSeconds 30
core.v1.PodSpec schedulerName "default-scheduler"
core.v1.Container terminationMessagePath "/dev/termination-log"
core.v1.Container terminationMessagePolicy "File"
core.v1.EphemeralContainer terminationMessagePath "/dev/termination-log"
core.v1.EphemeralContainer terminationMessagePolicy "File"
core.v1.ContainerPort protocol "TCP"
core.v1.Probe timeoutSeconds 1
core.v1.Probe periodSeconds 10
core.v1.Probe successThreshold 1
core.v1.Probe failureThreshold 3
core.v1.HTTPGetAction path "/"
core.v1.HTTPGetAction scheme "HTTP"
core.v1.GRPCAction service ""
core.v1.SecretVolumeSource defaultMode 420
core.v1.ConfigMapVolumeSource defaultMode 420
core.v1.DownwardAPIVolumeSource defaultMode 420
core.v1.ProjectedVolumeSource defaultMode 420
core.v1.ServiceAccountTokenProjection expirationSeconds 3600
core.v1.ObjectFieldSelector apiVersion "v1"
core.v1.HostPathVolumeSource type ""
core.v1.ISCSIVolumeSource iscsiInterface "default"
core.v1.RBDVolumeSource pool "rbd"
core.v1.RBDVolumeSource user "admin"
core.v1.RBDVolumeSource keyring "/etc/ceph/keyring"
core.v1.AzureDiskVolumeSource cachingMode "ReadWrite"
core.v1.AzureDiskVolumeSource kind "Shared"
core.v1.AzureDiskVolumeSource fsType "ext4"
core.v1.AzureDiskVolumeSource readOnly false
core.v1.ScaleIOVolumeSource storageMode "ThinProvisioned"
core.v1.ScaleIOVolumeSource fsType "xfs"
core.v1.PersistentVolumeClaimSpec volumeMode "Filesystem"
core.v1.PersistentVolumeClaimStatus phase "Pending"
core.v1.PersistentVolumeSpec persistentVolumeReclaimPolicy "Retain"
core.v1.PersistentVolumeSpec volumeMode "Filesystem"
core.v1.PersistentVolumeStatus phase "Pending"
core.v1.ISCSIPersistentVolumeSource iscsiInterface "default"
core.v1.RBDPersistentVolumeSource pool "rbd"
core.v1.RBDPersistentVolumeSource user "admin"
core.v1.RBDPersistentVolumeSource keyring "/etc/ceph/keyring"
core.v1.ScaleIOPersistentVolumeSource storageMode "ThinProvisioned"
core.v1.ScaleIOPersistentVolumeSource fsType "xfs"
core.v1.NamespaceStatus phase "Active"
core.v1.Secret type "Opaque"
core.v1.ServiceSpec sessionAffinity "None"
core.v1.ServiceSpec type "ClusterIP"
core.v1.ServicePort protocol "TCP"
core.v1.EndpointPort protocol "TCP"
discovery.v1.EndpointPort name ""
discovery.v1.EndpointPort protocol "TCP"
apps.v1.DeploymentSpec replicas 1
apps.v1.DeploymentSpec revisionHistoryLimit 10
apps.v1.DeploymentSpec progressDeadlineSeconds 600
apps.v1.DeploymentStrategy type "RollingUpdate"
apps.v1.RollingUpdateDeployment maxUnavailable "25%"
apps.v1.RollingUpdateDeployment maxSurge "25%"
apps.v1.ReplicaSetSpec replicas 1
apps.v1.StatefulSetSpec replicas 1
apps.v1.StatefulSetSpec podManagementPolicy "OrderedReady"
apps.v1.StatefulSetSpec revisionHistoryLimit 10
apps.v1.StatefulSetSpec persistentVolumeClaimRetentionPolicy {}
apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted "Retain"
apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy whenScaled "Retain"
apps.v1.RollingUpdateStatefulSetStrategy partition 0
apps.v1.DaemonSetSpec revisionHistoryLimit 10
apps.v1.DaemonSetUpdateStrategy type "RollingUpdate"
apps.v1.RollingUpdateDaemonSet maxUnavailable 1
apps.v1.RollingUpdateDaemonSet maxSurge 0
autoscaling.v1.HorizontalPodAutoscalerSpec minReplicas 1
autoscaling.v1.HorizontalPodAutoscalerSpec targetCPUUtilizationPercentage 80
autoscaling.v2.HorizontalPodAutoscalerSpec minReplicas 1
batch.v1.CronJobSpec concurrencyPolicy "Allow"
batch.v1.CronJobSpec suspend false
batch.v1.CronJobSpec successfulJobsHistoryLimit 3
batch.v1.CronJobSpec failedJobsHistoryLimit 1
batch.v1.PodFailurePolicyOnPodConditionsPattern status "True"
networking.v1.IngressClassParametersReference scope "Cluster"
networking.v1.NetworkPolicyPort protocol "TCP"
rbac.v1.RoleRef apiGroup "rbac.authorization.k8s.io"
scheduling.v1.PriorityClass preemptionPolicy "PreemptLowerPriority"
storage.v1.StorageClass reclaimPolicy "Delete"
storage.v1.StorageClass volumeBindingMode "Immediate"
"#;

/// Fills in `value`, a built-in type or something that holds some.
pub(super) fn fill(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => {
            if let Some(title) = &schema.title {
                for (field, default) in rows(title) {
                    set(map, field, || default.clone());
                }
                computed(title, map);
            }
            for (name, value) in map.iter_mut() {
                match (schema.properties.get(name), &schema.additional_properties) {
                    (Some(field), _) => fill(value, field),
                    (None, Some(AdditionalProperties::Typed(entry))) => fill(value, entry),
                    _ => {}
                }
            }
            if schema.title.as_deref() == Some("core.v1.Pod") {
                pod(map);
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|item| fill(item, schema));
            }
        }
        _ => {}
    }
}

fn rows(title: &str) -> &'static [(&'static str, Value)] {
    type Table = HashMap<&'static str, Vec<(&'static str, Value)>>;
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        let mut table = Table::new();
        for line in ROWS.lines() {
            let mut parts = line.splitn(3, ' ');
            if let (Some(title), Some(field), Some(value)) = (parts.next(), parts.next(), parts.next()) {
                let value = serde_json::from_str(value).unwrap_or_default();
                table.entry(title).or_default().push((field, value));
            }
        }
        table
    });
    TABLE.get(title).map(Vec::as_slice).unwrap_or_default()
}

fn set(map: &mut Object, field: &str, default: impl FnOnce() -> Value) {
    if map.get(field).is_none_or(|value| value.is_null() || *value == "") {
        map.insert(field.to_owned(), default());
    }
}

fn is(map: &Object, field: &str, value: &str) -> bool {
    map.get(field).and_then(Value::as_str).unwrap_or_default() == value
}

fn computed(title: &str, map: &mut Object) {
    match title {
        "core.v1.Container" | "core.v1.EphemeralContainer" => {
            let policy = pull_policy(map.get("image"));
            set(map, "imagePullPolicy", || policy.into());
        }
        "core.v1.ImageVolumeSource" => {
            let policy = pull_policy(map.get("reference"));
            set(map, "pullPolicy", || policy.into());
        }
        "core.v1.Volume" if map.keys().all(|name| name == "name") => {
            map.insert("emptyDir".to_owned(), json!({}));
        }
        // one field with two names; the old one is still written
        "core.v1.PodSpec" => {
            for (from, to) in
                [("serviceAccount", "serviceAccountName"), ("serviceAccountName", "serviceAccount")]
            {
                if let Some(name) = map.get(from).cloned() {
                    set(map, to, || name);
                }
            }
        }
        "apps.v1.StatefulSetSpec" => {
            for claim in
                map.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut).into_iter().flatten()
            {
                if let Some(claim) = claim.as_object_mut() {
                    set(claim, "apiVersion", || "v1".into());
                    set(claim, "kind", || "PersistentVolumeClaim".into());
                }
            }
        }
        "core.v1.ServiceSpec" => service(map),
        "core.v1.ServicePort" => {
            let port = map.get("port").cloned().unwrap_or_default();
            if map.get("targetPort").is_none_or(|target| *target == json!(0) || *target == json!("")) {
                map.insert("targetPort".to_owned(), port);
            }
        }
        "core.v1.Namespace" => {
            let name = map.get("metadata").and_then(|meta| meta.get("name")).and_then(Value::as_str);
            if let Some(name) = name.map(str::to_owned) {
                let labels = object_mut(object_mut(map, "metadata"), "labels");
                labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
            }
        }
        "core.v1.NodeStatus" => {
            if let Some(capacity) = map.get("capacity").cloned() {
                set(map, "allocatable", || capacity);
            }
        }
        "core.v1.LimitRangeItem" => limit_range_item(map),
        "apps.v1.DeploymentStrategy" | "apps.v1.DaemonSetUpdateStrategy"
            if is(map, "type", "RollingUpdate") =>
        {
            set(map, "rollingUpdate", || json!({}));
        }
        // only an absent type brings the whole strategy: a given `RollingUpdate` may stand alone
        "apps.v1.StatefulSetUpdateStrategy" if is(map, "type", "") => {
            map.insert("type".to_owned(), "RollingUpdate".into());
            set(map, "rollingUpdate", || json!({}));
        }
        "autoscaling.v2.HorizontalPodAutoscalerSpec" => autoscaler(map),
        "batch.v1.Job" => job(map),
        "networking.v1.NetworkPolicySpec" => {
            let egress = map.get("egress").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
            if map.get("policyTypes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
                let types = if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
                map.insert("policyTypes".to_owned(), types);
            }
        }
        "rbac.v1.Subject" if is(map, "kind", "User") || is(map, "kind", "Group") => {
            set(map, "apiGroup", || "rbac.authorization.k8s.io".into());
        }
        _ => {}
    }
}

/// An image without a tag, or tagged `latest`, may change: it is pulled each time.
fn pull_policy(image: Option<&Value>) -> &'static str {
    let image = image.and_then(Value::as_str).unwrap_or_default();
    if image.contains('@') {
        return "IfNotPresent";
    }
    let name = image.rsplit('/').next().unwrap_or(image);
    match name.split_once(':') {
        // what is no image has no tag either
        _ if name.split(':').next().is_none_or(|name| {
            !name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
                || name
                    .contains(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c)))
        }) =>
        {
            "IfNotPresent"
        }
        None | Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
    }
}

fn service(map: &mut Object) {
    if is(map, "sessionAffinity", "None") {
        map.remove("sessionAffinityConfig");
    }
    if is(map, "sessionAffinity", "ClientIP") {
        let timeout = map.get("sessionAffinityConfig").and_then(|c| c.get("clientIP")?.get("timeoutSeconds"));
        if timeout.is_none() {
            map.insert(
                "sessionAffinityConfig".to_owned(),
                json!({ "clientIP": { "timeoutSeconds": 10800 } }),
            );
        }
    }
    let external = is(map, "type", "NodePort") || is(map, "type", "LoadBalancer");
    let external_ips = map.get("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
    if external || (is(map, "type", "ClusterIP") && external_ips) {
        set(map, "externalTrafficPolicy", || "Cluster".into());
    }
    if external || is(map, "type", "ClusterIP") {
        set(map, "internalTrafficPolicy", || "Cluster".into());
    }
    if is(map, "type", "LoadBalancer") {
        set(map, "allocateLoadBalancerNodePorts", || true.into());
    }
}

/// What holds for a pod but not for the templates of pods.
fn pod(map: &mut Object) {
    let spec = object_mut(map, "spec");
    set(spec, "enableServiceLinks", || true.into());
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else { continue };
            if let Some(limits) =
                container.get("resources").and_then(|r| r.get("limits")?.as_object()).cloned()
            {
                let requests = object_mut(object_mut(container, "resources"), "requests");
                for (name, amount) in limits {
                    requests.entry(name).or_insert(amount);
                }
            }
            if host_network {
                for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                    let number = port.get("containerPort").cloned().unwrap_or_default();
                    if let Some(port) = port.as_object_mut() {
                        set(port, "hostPort", || number);
                    }
                }
            }
        }
    }
}

/// Limits default to the maximum, requests to the limits, then to the minimum.
fn limit_range_item(map: &mut Object) {
    if !is(map, "type", "Container") {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let Some(source) = map.get(from).and_then(Value::as_object).cloned() else { continue };
        let target = object_mut(map, to);
        for (name, amount) in source {
            target.entry(name).or_insert(amount);
        }
    }
}

/// What holds for a Job but not for the template that a CronJob makes Jobs of.
fn job(map: &mut Object) {
    let spec = object_mut(map, "spec");
    let labels = spec.get("template").and_then(|template| template.get("metadata")?.get("labels")).cloned();
    let counted = ["completions", "parallelism"]
        .iter()
        .any(|field| spec.get(*field).is_some_and(|value| !value.is_null()));
    if !counted {
        set(spec, "completions", || 1.into());
    }
    set(spec, "parallelism", || 1.into());
    let by_index = spec.get("backoffLimitPerIndex").is_some_and(|value| !value.is_null());
    set(spec, "backoffLimit", || if by_index { i32::MAX.into() } else { 6.into() });
    set(spec, "completionMode", || "NonIndexed".into());
    set(spec, "suspend", || false.into());
    let judged = spec.get("podFailurePolicy").is_some_and(|value| !value.is_null());
    set(spec, "podReplacementPolicy", || if judged { "Failed" } else { "TerminatingOrFailed" }.into());
    set(spec, "manualSelector", || false.into());
    if let Some(labels) = labels {
        let metadata = object_mut(map, "metadata");
        if metadata.get("labels").and_then(Value::as_object).is_none_or(Map::is_empty) {
            metadata.insert("labels".to_owned(), labels);
        }
    }
}

fn autoscaler(map: &mut Object) {
    if map.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        let target = json!({ "type": "Utilization", "averageUtilization": 80 });
        let metric = json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
        map.insert("metrics".to_owned(), json!([metric]));
    }
    // rules are filled in only where somebody asked for any
    let Some(behavior) = map.get_mut("behavior").and_then(Value::as_object_mut) else { return };
    let up = object_mut(behavior, "scaleUp");
    set(up, "stabilizationWindowSeconds", || 0.into());
    set(up, "selectPolicy", || "Max".into());
    set(up, "policies", || {
        json!([
            { "type": "Pods", "value": 4, "periodSeconds": 15 },
            { "type": "Percent", "value": 100, "periodSeconds": 15 },
        ])
    });
    // how long to wait before going down is the controller's to say
    let down = object_mut(behavior, "scaleDown");
    set(down, "selectPolicy", || "Max".into());
    set(down, "policies", || json!([{ "type": "Percent", "value": 100, "periodSeconds": 15 }]));
}
