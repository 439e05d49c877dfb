//! The pods: one container that moves messages, and those of the user beside it.

use std::collections::BTreeMap;

use api::numaflow::{
    BufferConfig, Container, HASH, HTTPS_SOURCE_PORT, MAIN_CONTAINER, METRICS_PORT, REPLICA, RUNTIME_PORT,
    SOCKET_DIRECTORY, UserDefined,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use engine::object::{controller_reference, name, uid};
use k8s_openapi::api::core::v1::EnvVar;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Worker;
use crate::pipelines::Options;

/// The Secret with what the pods of a pipeline show to use its buffers.
pub(in crate::pipelines) fn token_secret(pipeline: &str) -> String {
    format!("{pipeline}-buffers")
}

/// What all pods of an object are made from, and its hash.
pub(super) struct Template {
    body: Value,
    pub hash: String,
}

impl Template {
    pub fn new(worker: &Worker, buffers: Option<&BufferConfig>, options: &Options) -> Self {
        let body = template(worker, buffers, options);
        let hash = sha256(&body.to_string());
        Self { body, hash }
    }

    /// The pod of an index. Its name follows from the pods of this index that are still there, so that two leaders make
    /// one pod and not two.
    pub fn pod(&self, worker: &Worker, index: i32, others: &[&str]) -> Value {
        let prefix = worker.prefix();
        let seed = format!("{} {} {index} {}", uid(worker.meta()), self.hash, others.join(" "));
        let mut pod = self.body.clone();
        pod["metadata"]["name"] = json!(format!("{prefix}-{index}-{}", &sha256(&seed)[..5]));
        pod["metadata"]["ownerReferences"] =
            json!([controller_reference(&worker.which().kind(), worker.meta())]);
        pod["metadata"]["annotations"][HASH] = json!(self.hash);
        pod["metadata"]["annotations"][REPLICA] = json!(index.to_string());
        pod["spec"]["hostname"] = json!(format!("{prefix}-{index}"));
        pod
    }
}

pub(in crate::pipelines) fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn template(worker: &Worker, buffers: Option<&BufferConfig>, options: &Options) -> Value {
    let given = worker.pod_template();
    let metadata = given.metadata.clone().unwrap_or_default();
    let mut labels = metadata.labels;
    labels.extend(worker.labels());
    let mut annotations = metadata.annotations;
    annotations.insert("kubectl.kubernetes.io/default-container".to_owned(), MAIN_CONTAINER.to_owned());
    let (volumes, init_containers, sidecars) = worker.extras();
    let mut init_containers: Vec<Value> = list(init_containers);
    // Native sidecars: they are there before the first message, and end after the last.
    init_containers.extend(user_containers(worker));
    let mut containers = vec![main(worker, buffers, options)];
    containers.extend(list(sidecars));
    let mut all_volumes = vec![json!({
        "name": "var-run-numaflow", "emptyDir": { "medium": "Memory" },
    })];
    all_volumes.extend(list(volumes));
    let mut spec = json!({
        "subdomain": format!("{}-headless", worker.prefix()),
        "volumes": all_volumes,
        "initContainers": init_containers,
        "containers": containers,
    });
    // Whatever else a pod has, under the name that it has there.
    if let (Value::Object(given), Some(spec)) = (json!(given), spec.as_object_mut()) {
        spec.extend(given.into_iter().filter(|(field, _)| field != "metadata"));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "labels": labels, "annotations": annotations },
        "spec": spec,
    })
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list,
        _ => Vec::new(),
    }
}

fn main(worker: &Worker, buffers: Option<&BufferConfig>, options: &Options) -> Value {
    let given = worker.container_template();
    let mut env = common_env(worker);
    let mut variable = |name: &str, value: Value| env.push(json!({ "name": name, "value": value }));
    let encoded = |value: &Value| json!(BASE64_STANDARD.encode(value.to_string()));
    match worker {
        Worker::Vertex(_) => variable("NUMAFLOW_VERTEX_OBJECT", encoded(&worker.for_pods())),
        Worker::MonoVertex(_) => variable("NUMAFLOW_MONO_VERTEX_OBJECT", encoded(&worker.for_pods())),
    }
    if let (Some(config), Worker::Vertex(vertex)) = (buffers, worker) {
        variable("NUMAFLOW_ISBSVC_CONFIG", encoded(&json!(config)));
        if let Some(jetstream) = &config.jetstream {
            variable("NUMAFLOW_ISBSVC_JETSTREAM_URL", json!(jetstream.url));
            for (name, from) in [
                ("NUMAFLOW_ISBSVC_JETSTREAM_USER", &jetstream.user),
                ("NUMAFLOW_ISBSVC_JETSTREAM_PASSWORD", &jetstream.password),
            ] {
                if let Some(from) = from {
                    env.push(json!({ "name": name, "valueFrom": { "secretKeyRef": from } }));
                }
            }
        }
        if config.embedded.is_some() {
            let from = json!({ "name": token_secret(&vertex.spec.pipeline_name), "key": "token" });
            env.push(json!({ "name": "NUMAFLOW_ISBSVC_TOKEN", "valueFrom": { "secretKeyRef": from } }));
        }
    }
    env.extend(source_secrets(worker));
    env.extend(given.env.iter().map(|variable| json!(variable)));
    let mut ports = vec![
        json!({ "name": "metrics", "containerPort": METRICS_PORT }),
        json!({ "name": "runtime", "containerPort": RUNTIME_PORT }),
    ];
    if worker.source().is_some_and(|source| source.http.is_some()) {
        ports.push(json!({ "name": "https", "containerPort": HTTPS_SOURCE_PORT }));
    }
    let mut container = json!({
        "name": MAIN_CONTAINER,
        "image": options.image,
        "imagePullPolicy": given.image_pull_policy.as_deref().unwrap_or("IfNotPresent"),
        "command": options.command,
        "env": env,
        "ports": ports,
        "volumeMounts": [{ "name": "var-run-numaflow", "mountPath": SOCKET_DIRECTORY }],
        // Looked at more often than upstream (10 s): a decision waits for pods to be ready.
        "readinessProbe": probe("/readyz", (1, 2, 30, 6), given.readiness_probe.map(|raw| json!(raw))),
        "livenessProbe": probe("/livez", (20, 60, 30, 5), given.liveness_probe.map(|raw| json!(raw))),
    });
    let optional = [
        ("resources", given.resources.map(|resources| json!(resources))),
        ("securityContext", given.security_context.map(|context| json!(context))),
        ("envFrom", (!given.env_from.is_empty()).then(|| json!(given.env_from))),
    ];
    for (field, value) in optional {
        if let Some(value) = value {
            container[field] = value;
        }
    }
    container
}

/// What callers of an HTTP source have to show, and as whom a stream is read.
fn source_secrets(worker: &Worker) -> Vec<Value> {
    let source = worker.source();
    let http = source.and_then(|source| source.http.as_ref()?.auth.as_ref()?.token.as_ref());
    let basic = source.and_then(|source| source.jetstream.as_ref()?.auth.as_ref()?.basic.as_ref());
    let all = [
        ("NUMAFLOW_SOURCE_TOKEN", http),
        ("NUMAFLOW_SOURCE_USER", basic.and_then(|basic| basic.user.as_ref())),
        ("NUMAFLOW_SOURCE_PASSWORD", basic.and_then(|basic| basic.password.as_ref())),
    ];
    let given = all.into_iter().filter_map(|(name, from)| Some((name, from?)));
    given.map(|(name, from)| json!({ "name": name, "valueFrom": { "secretKeyRef": from } })).collect()
}

/// Delay, period, timeout in seconds, and how many failures; what the user gives goes before.
fn probe(
    path: &str,
    (delay, period, timeout, failures): (i32, i32, i32, i32),
    given: Option<Value>,
) -> Value {
    let mut probe = json!({
        "httpGet": { "path": path, "port": METRICS_PORT, "scheme": "HTTPS" },
        "initialDelaySeconds": delay, "periodSeconds": period, "timeoutSeconds": timeout, "failureThreshold": failures,
    });
    if let (Some(Value::Object(given)), Some(probe)) = (given, probe.as_object_mut()) {
        probe.extend(given);
    }
    probe
}

/// What each container is told.
fn common_env(worker: &Worker) -> Vec<Value> {
    let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "apiVersion": "v1", "fieldPath": path } } });
    let mut env = vec![
        field("NUMAFLOW_NAMESPACE", "metadata.namespace"),
        field("NUMAFLOW_POD", "metadata.name"),
        field("NUMAFLOW_REPLICA", &format!("metadata.annotations['{REPLICA}']")),
        field("NUMAFLOW_POD_IP", "status.podIP"),
    ];
    let names = match worker {
        Worker::Vertex(vertex) => vec![
            ("NUMAFLOW_PIPELINE_NAME", vertex.spec.pipeline_name.clone()),
            ("NUMAFLOW_VERTEX_NAME", vertex.spec.vertex.name.clone()),
        ],
        Worker::MonoVertex(mono) => vec![("NUMAFLOW_MONO_VERTEX_NAME", name(&mono.metadata).to_owned())],
    };
    env.extend(names.into_iter().map(|(name, value)| json!({ "name": name, "value": value })));
    env
}

fn user_containers(worker: &Worker) -> Vec<Value> {
    let of = |user: Option<&UserDefined>| user.and_then(|user| user.container.clone());
    let source = worker.source();
    let all = [
        ("udsource", of(source.and_then(|source| source.udsource.as_ref()))),
        ("transformer", of(source.and_then(|source| source.transformer.as_ref()))),
        ("udf", worker.udf().and_then(|udf| udf.container.clone())),
        ("udsink", of(worker.sink().and_then(|sink| sink.udsink.as_ref()))),
    ];
    let given = all.into_iter().filter_map(|(name, container)| Some((name, container?)));
    given.map(|(name, container)| user_container(worker, name, &container)).collect()
}

fn user_container(worker: &Worker, name: &str, given: &Container) -> Value {
    let mut container = json!(given);
    let own = given.env.iter().map(|variable: &EnvVar| json!(variable));
    let kind = json!({ "name": "NUMAFLOW_UD_CONTAINER_TYPE", "value": name });
    let env: Vec<Value> = common_env(worker).into_iter().chain([kind]).chain(own).collect();
    let mount = json!({ "name": "var-run-numaflow", "mountPath": SOCKET_DIRECTORY });
    let mounts: Vec<Value> =
        [mount].into_iter().chain(given.volume_mounts.iter().map(|mount| json!(mount))).collect();
    container["name"] = json!(name);
    container["restartPolicy"] = json!("Always");
    container["env"] = json!(env);
    container["volumeMounts"] = json!(mounts);
    container
}

/// The Services of an object: one that gives each pod a name, and one for an HTTP source that asks for it.
pub(super) fn services(worker: &Worker) -> Vec<Value> {
    let service = |name: String, spec: Value| {
        let hash = sha256(&spec.to_string());
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": name,
                "labels": worker.labels(),
                "annotations": BTreeMap::from([(HASH, hash)]),
                "ownerReferences": [controller_reference(&worker.which().kind(), worker.meta())],
            },
            "spec": spec,
        })
    };
    let selector = worker.selector();
    let port =
        |name: &str, port: u16| json!({ "name": name, "port": port, "targetPort": port, "protocol": "TCP" });
    let headless = json!({
        "clusterIP": "None",
        "publishNotReadyAddresses": true,
        "selector": selector,
        "ports": [port("metrics", METRICS_PORT), port("runtime", RUNTIME_PORT)],
    });
    let mut all = vec![service(format!("{}-headless", worker.prefix()), headless)];
    let http = worker.source().and_then(|source| source.http.as_ref());
    if http.is_some_and(|http| http.service == Some(true)) {
        let spec = json!({
            "type": "ClusterIP",
            "selector": selector,
            "ports": [port("https", HTTPS_SOURCE_PORT)],
        });
        all.push(service(worker.prefix(), spec));
    }
    all
}
