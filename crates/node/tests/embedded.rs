//! The process node on the embedded API server, over its TLS listener as kubectl would.

// Everything here is test code, though clippy only knows the functions marked as tests.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::path::PathBuf;

use kube::Client;
use localkube::{ApiServer, ListenOptions, Listener, Options};
use serde_json::json;
use tempfile::TempDir;

mod suite;

use suite::{NodeProcess, Scenario, eventually, node_restart, shell};

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_as_processes() {
    let (_directory, _listener, client, kubeconfig) = embedded().await;
    let data_dir = tempfile::tempdir().unwrap();
    let node = NodeProcess::start(&client, &kubeconfig, data_dir.path(), &["--schedule"]).await;
    suite::run(&client).await;
    node_restart::run(&client, &kubeconfig, data_dir.path(), node, &["--schedule"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_reached_without_mounts() {
    let (_directory, _listener, client, kubeconfig) = embedded().await;
    let data_dir = tempfile::tempdir().unwrap();
    let node =
        NodeProcess::start(&client, &kubeconfig, data_dir.path(), &["--schedule", "--no-mounts"]).await;
    let s = Scenario::new(&client);
    s.set_config("greeting", json!({ "text": "hello\n" })).await;
    let mut container =
        shell("cat /srv/greeting/text \"$BALLAST_ROOT/srv/greeting/text\" $FILE; exec sleep 1000");
    container["env"] = json!([{ "name": "FILE", "value": "/srv/greeting/text" }]);
    container["volumeMounts"] = json!([{ "name": "greeting", "mountPath": "/srv/greeting" }]);
    let volumes = json!([{ "name": "greeting", "configMap": { "name": "greeting" } }]);
    s.create("rewritten", json!({ "containers": [container], "volumes": volumes })).await;
    s.until_ready("rewritten").await;
    eventually(async || s.logs("rewritten").await == "hello\nhello\nhello\n").await;
    node.stop().await;
}

async fn embedded() -> (TempDir, Listener, Client, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let api = ApiServer::open(Options::default()).await.unwrap();
    let addr = ([127, 0, 0, 1], 0).into();
    let listener = api.listen(ListenOptions { addr, data_dir: directory.path().to_owned() }).await.unwrap();
    let kubeconfig = listener.kubeconfig_path.clone();
    (directory, listener, api.client("default"), kubeconfig)
}
