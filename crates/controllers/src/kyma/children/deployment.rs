//! The Deployment: one container that runs the language's server, and for a Git source one that fetches it before.

use std::collections::BTreeMap;

use api::kyma::{Auth, AuthType, CONTAINER, Function, GitRepository, resources};
use engine::object::name;
use k8s_openapi::api::core::v1::{EnvVar, SecurityContext};
use serde_json::{Value, json};

use super::{child_name, config_map, key, metadata, selector, service::PORT};
use crate::fingerprint::fingerprint;
use crate::kyma::{
    git::{ASK_SECRET, FETCH, Place},
    runtimes::Runtime,
};

/// What the ConfigMap holds.
const SOURCE: &str = "/usr/src/app/source";
/// What was fetched by Git.
const REPOSITORY: &str = "/usr/src/app/repository";
/// Where the code runs and its dependencies are installed.
const WORK: &str = "/usr/src/app/function";
const SSH_KEY: &str = "/usr/src/app/ssh";
const GIT_IMAGE: &str = "docker.io/alpine/git:2.49.1";

pub(in crate::kyma) fn image(function: &Function, runtime: &Runtime) -> String {
    function.spec.runtime_image_override.clone().unwrap_or_else(|| runtime.image.to_owned())
}

/// As it should be. `commit` is that of a Git source.
pub(in crate::kyma) fn wanted(function: &Function, runtime: &Runtime, commit: Option<&str>) -> Value {
    let mut pod_labels: BTreeMap<String, String> = function.spec.labels.clone();
    pod_labels.insert("app.kubernetes.io/name".to_owned(), name(&function.metadata).to_owned());
    pod_labels.extend(selector(function));
    json!({
        "metadata": metadata(function, &child_name(function)),
        "spec": {
            "replicas": function.spec.replicas(),
            "selector": { "matchLabels": selector(function) },
            "template": {
                "metadata": {
                    "labels": pod_labels,
                    "annotations": pod_annotations(function, runtime),
                },
                "spec": pod(function, runtime, commit),
            },
        },
    })
}

/// A changed source must reach the pods: its fingerprint is part of the template.
fn pod_annotations(function: &Function, runtime: &Runtime) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::new();
    let data = config_map::data(function, runtime);
    let parts = data.iter().flat_map(|(file, text)| [file.as_str(), text.as_str()]);
    annotations.insert(key("source"), format!("{:016x}", fingerprint(parts)));
    annotations.extend(function.spec.annotations.clone());
    annotations
}

fn pod(function: &Function, runtime: &Runtime, commit: Option<&str>) -> Value {
    let spec = &function.spec;
    let git = spec.source.git_repository.as_ref().zip(commit);
    let mut volumes = vec![
        json!({ "name": "source", "configMap": { "name": child_name(function) } }),
        json!({ "name": "function", "emptyDir": {} }),
    ];
    let mut mounts = vec![
        json!({ "name": "source", "mountPath": SOURCE, "readOnly": true }),
        json!({ "name": "function", "mountPath": WORK }),
    ];
    if let Some((git, _)) = git {
        volumes.push(json!({ "name": "repository", "emptyDir": {} }));
        mounts.push(json!({ "name": "repository", "mountPath": REPOSITORY, "readOnly": true }));
        if let Some(Auth { type_: AuthType::Key, secret_name }) = &git.auth {
            // it belongs to root, and the container's user has to read it
            let items = [json!({ "key": "key", "path": "key", "mode": 0o444 })];
            volumes.push(json!({ "name": "ssh", "secret": { "secretName": secret_name, "items": items } }));
        }
    }
    for (index, mount) in spec.secret_mounts.iter().enumerate() {
        let name = format!("secret-{index}");
        volumes.push(json!({ "name": name, "secret": { "secretName": mount.secret_name } }));
        mounts.push(json!({ "name": name, "mountPath": mount.mount_path, "readOnly": true }));
    }
    let source = match git {
        Some((git, _)) => {
            let base = git.base_dir.as_deref().unwrap_or_default().trim_matches('/').trim_start_matches("./");
            format!("{REPOSITORY}/{base}").trim_end_matches('/').to_owned()
        }
        None => SOURCE.to_owned(),
    };
    let mut command: Vec<String> = runtime.language.interpreter.iter().map(|&word| word.to_owned()).collect();
    command.extend([format!("{SOURCE}/{}", runtime.language.server.0), source, WORK.to_owned()]);
    let requirements = resources::of(spec).requirements;
    let probe = |period: i32, failures: i32, timeout: i32| {
        json!({
            "httpGet": { "path": "/healthz", "port": PORT, "scheme": "HTTP" },
            "periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": timeout, "successThreshold": 1,
        })
    };
    let container = json!({
        "name": CONTAINER,
        "image": image(function, runtime),
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "env": env(function, runtime),
        "resources": requirements,
        "ports": [{ "containerPort": PORT, "protocol": "TCP" }],
        "volumeMounts": mounts,
        // 150 s to start, as upstream (5 s × 30), but looked at each second: somebody waits for it.
        "startupProbe": probe(1, 150, 1),
        "readinessProbe": probe(5, 1, 2),
        "livenessProbe": probe(5, 3, 4),
        "securityContext": container_security(function),
    });
    let mut pod = json!({ "containers": [container], "volumes": volumes });
    if let Some((git, commit)) = git {
        pod["initContainers"] = json!([fetch(function, git, commit)]);
    }
    if let Some(context) = &spec.pod_security_context {
        pod["securityContext"] = json!(context);
    }
    pod
}

/// The runtime's own variables first, so that a Function's may refer to them.
fn env(function: &Function, runtime: &Runtime) -> Vec<EnvVar> {
    let limits = resources::of(&function.spec).requirements.limits.unwrap_or_default();
    let memory = limits.get("memory").map(|quantity| quantity.0.clone()).unwrap_or_default();
    let own = [
        ("FUNC_NAME", name(&function.metadata).to_owned()),
        ("SERVICE_NAMESPACE", function.metadata.namespace.clone().unwrap_or_default()),
        ("FUNC_RUNTIME", runtime.name.to_owned()),
        ("FUNC_HANDLER", "main".to_owned()),
        ("FUNC_PORT", PORT.to_string()),
        ("MOD_NAME", "handler".to_owned()),
        ("FUNC_HANDLER_SOURCE", WORK.to_owned()),
        ("FUNC_MEMORY_LIMIT", memory),
    ];
    let own =
        own.into_iter().filter(|(name, _)| !function.spec.env.iter().any(|theirs| theirs.name == *name));
    own.map(|(name, value)| EnvVar { name: name.to_owned(), value: Some(value), value_from: None })
        .chain(function.spec.env.clone())
        .collect()
}

/// What a pod may do where the Function says nothing: as little as runs.
fn container_security(function: &Function) -> Value {
    let given: Option<&SecurityContext> = function.spec.container_security_context.as_ref();
    given.map_or_else(
        || {
            json!({
                "allowPrivilegeEscalation": false,
                "privileged": false,
                "capabilities": { "drop": ["ALL"] },
                "runAsNonRoot": true,
                "runAsUser": 1000,
                "runAsGroup": 1000,
                "seccompProfile": { "type": "RuntimeDefault" },
            })
        },
        |given| json!(given),
    )
}

fn fetch(function: &Function, git: &GitRepository, commit: &str) -> Value {
    let mut mounts = vec![json!({ "name": "repository", "mountPath": REPOSITORY })];
    let mut env = vec![json!({ "name": "HOME", "value": REPOSITORY })];
    match &git.auth {
        Some(Auth { type_: AuthType::Basic, secret_name }) => {
            for (variable, entry) in [("GIT_USERNAME", "username"), ("GIT_PASSWORD", "password")] {
                let from = json!({ "secretKeyRef": { "name": secret_name, "key": entry } });
                env.push(json!({ "name": variable, "valueFrom": from }));
            }
        }
        Some(Auth { type_: AuthType::Key, .. }) => {
            mounts.push(json!({ "name": "ssh", "mountPath": SSH_KEY, "readOnly": true }));
        }
        None => {}
    }
    // One that cannot be read has been refused before there was a commit to fetch.
    let helper = Place::of(&git.url).map(|place| place.helper(ASK_SECRET)).unwrap_or_default();
    json!({
        "name": "fetch",
        "image": GIT_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", FETCH, "fetch", git.url, commit, REPOSITORY, helper, format!("{SSH_KEY}/key")],
        "env": env,
        "volumeMounts": mounts,
        "resources": resources::of(&function.spec).requirements,
        "securityContext": container_security(function),
    })
}
