//! The process node on a real kube-apiserver, with the real scheduler and controller manager.

// Everything here is test code, though clippy only knows the functions marked as tests.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use cluster::real::{ControlPlane, Options};
use kube::Client;
use serde_json::json;

mod suite;

use suite::{NodeProcess, Scenario, node_restart, shell};

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_as_processes() {
    let plane = ControlPlane::start(Options { controllers: true, ..Options::default() }).await.unwrap();
    let client = plane.client().await.unwrap();
    let data_dir = tempfile::tempdir().unwrap();
    let node = NodeProcess::start(&client, &plane.kubeconfig(), data_dir.path(), &[]).await;
    suite::run(&client).await;
    a_token_is_projected(&client).await;
    node_restart::run(&client, &plane.kubeconfig(), data_dir.path(), node, &[]).await;
}

/// Only on an API server that gives out tokens.
async fn a_token_is_projected(client: &Client) {
    let s = Scenario::new(client);
    let mut container = shell("cut -c1-2 /var/run/ballast-token/token; exec sleep 1000");
    container["volumeMounts"] = json!([{ "name": "token", "mountPath": "/var/run/ballast-token" }]);
    let token = json!({ "sources": [{ "serviceAccountToken": { "path": "token" } }] });
    let volumes = json!([{ "name": "token", "projected": token }]);
    s.create(
        "token",
        json!({ "containers": [container], "serviceAccountName": "default", "volumes": volumes }),
    )
    .await;
    s.until_ready("token").await;
    s.follow("token", "ey").await;
    s.delete("token", 0).await;
    s.until_gone("token").await;
}
