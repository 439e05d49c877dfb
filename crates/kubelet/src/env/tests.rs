use std::{net::Ipv4Addr, sync::Arc};

use expect_test::{Expect, expect};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, json};

use super::*;
use crate::objects::{Data, Loaded};

fn facts() -> Facts {
    Facts {
        pod_ip: Ipv4Addr::new(127, 64, 0, 9),
        host_ip: Ipv4Addr::LOCALHOST,
        allocatable: [("memory".to_owned(), Quantity("1Gi".to_owned()))].into(),
    }
}

fn objects() -> Snapshot {
    let key = |kind, name: &str| Key { kind, namespace: "shop".to_owned(), name: name.to_owned() };
    let data = |entries: &[(&str, &str)]| {
        let entries = entries.iter().map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec()));
        Loaded::Present(Arc::new(Data(entries.collect())))
    };
    Snapshot::from([
        (key(Kind::ConfigMap, "settings"), data(&[("LEVEL", "info"), ("bad=name", "x")])),
        (key(Kind::Secret, "login"), data(&[("password", "hunter2")])),
        (key(Kind::ConfigMap, "missing"), Loaded::Absent),
    ])
}

fn check(container: Value, expected: Expect) {
    let container: Container = serde_json::from_value(container).unwrap();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "web-0", "namespace": "shop", "uid": "u1", "labels": { "app": "web" } },
        "spec": { "nodeName": "n1", "serviceAccountName": "sa", "containers": [container] },
    }))
    .unwrap();
    let host = Vars::from([("PATH".to_owned(), "/bin".to_owned())]);
    let api = ("127.0.0.1".to_owned(), 6443);
    let text = match build(&host, &pod, &container, &facts(), Some(&api), &objects()) {
        Ok(vars) => {
            let common = ["PATH", "HOSTNAME", "BALLAST_POD_IP"];
            let own =
                vars.iter().filter(|(k, _)| !common.contains(&k.as_str()) && !k.starts_with("KUBERNETES_"));
            let lines = own.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
            format!("{}\n{:?}", lines.join("\n"), argv(&container, &vars))
        }
        Err(error) => format!("error: {error}"),
    };
    expected.assert_eq(&text);
}

#[test]
fn values_from_everywhere_in_order() {
    check(
        json!({
            "name": "c",
            "command": ["serve", "--bind", "$(BALLAST_POD_IP)"],
            "args": ["$(WHO)", "$(NOBODY)", "$$(WHO)", "5$"],
            "envFrom": [
                { "configMapRef": { "name": "settings" } },
                { "prefix": "S_", "secretRef": { "name": "login" } },
                { "configMapRef": { "name": "missing", "optional": true } },
            ],
            "env": [
                { "name": "WHO", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                { "name": "GREETING", "value": "hello $(WHO) at $(LEVEL)" },
                { "name": "APP", "valueFrom": { "fieldRef": { "fieldPath": "metadata.labels['app']" } } },
                { "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } },
                { "name": "PASSWORD", "valueFrom": { "secretKeyRef": { "name": "login", "key": "password" } } },
                { "name": "NONE", "valueFrom": { "configMapKeyRef": { "name": "settings", "key": "no", "optional": true } } },
                { "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "requests.cpu", "divisor": "1m" } } },
                { "name": "MEMORY", "valueFrom": { "resourceFieldRef": { "resource": "limits.memory", "divisor": "1Mi" } } },
                { "name": "LEVEL", "value": "debug" },
            ],
            "resources": { "requests": { "cpu": "250m" } },
        }),
        expect![[r#"
            APP=web
            CPU=250
            GREETING=hello web-0 at info
            IP=127.64.0.9
            LEVEL=debug
            MEMORY=1024
            PASSWORD=hunter2
            S_password=hunter2
            WHO=web-0
            Some(["serve", "--bind", "127.64.0.9", "web-0", "$(NOBODY)", "$(WHO)", "5$"])"#]],
    );
}

#[test]
fn what_is_missing_is_named() {
    let env = |from: Value| json!({ "name": "c", "env": [{ "name": "X", "valueFrom": from }] });
    check(
        env(json!({ "configMapKeyRef": { "name": "missing", "key": "a" } })),
        expect![[r#"error: configmap "missing" not found"#]],
    );
    check(
        env(json!({ "secretKeyRef": { "name": "login", "key": "user" } })),
        expect!["error: couldn't find key user in Secret shop/login"],
    );
    check(
        env(json!({ "fieldRef": { "fieldPath": "spec.containers" } })),
        expect!["error: unsupported fieldPath: spec.containers"],
    );
    check(
        env(json!({ "resourceFieldRef": { "containerName": "other", "resource": "limits.cpu" } })),
        expect!["error: container other not found"],
    );
    check(
        env(json!({ "fileKeyRef": { "volumeName": "v", "path": "p", "key": "k" } })),
        expect![
            "error: env X takes its value from a source that the process node does not know; it knows fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef"
        ],
    );
}

#[test]
fn only_harmless_names_are_inherited() {
    let host = [("PATH", "/bin"), ("AWS_SECRET_ACCESS_KEY", "s"), ("HOME", "/root")];
    let vars = inherited(&host.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    assert_eq!(vars.into_keys().collect::<Vec<_>>(), ["HOME", "PATH"]);
}
