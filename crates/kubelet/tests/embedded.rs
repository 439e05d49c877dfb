//! The process node on the embedded API server, over its TLS listener as kubectl would.

// Everything here is test code, though clippy only knows the functions marked as tests.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::path::PathBuf;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, api::ListParams};
use localkube::{ApiServer, ListenOptions, Listener, Options};
use serde_json::json;
use tempfile::TempDir;

mod suite;

use suite::{NodeProcess, Scenario, TOKEN, eventually, node_restart, shell};

const GUARDED: &str = "--token=of-the-kubelet";

#[tokio::test(flavor = "multi_thread")]
async fn the_kubelet_endpoint_asks_for_its_token() {
    let (_directory, _listener, client, kubeconfig) = embedded().await;
    let data_dir = tempfile::tempdir().unwrap();
    let node = NodeProcess::start(&client, &kubeconfig, data_dir.path(), &["--schedule", GUARDED]).await;
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    let status = nodes.items[0].status.clone().unwrap();
    let port = status.daemon_endpoints.unwrap().kubelet_endpoint.unwrap().port;
    for (header, path, code) in [
        ("", "/metrics/resource", "401"),
        ("Authorization: Bearer wrong\r\n", "/containerLogs/default/p/c", "401"),
        ("Authorization: Bearer \r\n", "/metrics/resource", "401"),
        ("Authorization: Bearer of-the-kubelet\r\n", "/metrics/resource", "200"),
        ("", "/healthz", "200"),
    ] {
        let answer = ask(u16::try_from(port).unwrap(), path, header).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{header:?} {path}: {answer}");
    }
    node.stop().await;
}

/// A plain GET over TLS, whoever answers.
async fn ask(port: u16, path: &str, header: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let mut tls =
        tokio_rustls::TlsConnector::from(tls::trusting_anybody()).connect(name, stream).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}Connection: close\r\n\r\n");
    tls.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // a server may leave out the end of TLS
    let _ = tls.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_as_processes() {
    let (_directory, _listener, client, kubeconfig) = embedded().await;
    let data_dir = tempfile::tempdir().unwrap();
    let node = NodeProcess::start(&client, &kubeconfig, data_dir.path(), &["--schedule", GUARDED]).await;
    suite::run(&client).await;
    node_restart::run(&client, &kubeconfig, data_dir.path(), node, &["--schedule", GUARDED]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_reached_without_mounts() {
    let (_directory, _listener, client, kubeconfig) = embedded().await;
    let data_dir = tempfile::tempdir().unwrap();
    let node =
        NodeProcess::start(&client, &kubeconfig, data_dir.path(), &["--schedule", "--no-mounts", GUARDED])
            .await;
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
    let options = Options { kubelet_token: Some(TOKEN.to_owned()), ..Options::default() };
    let api = ApiServer::open(options).await.unwrap();
    let addr = ([127, 0, 0, 1], 0).into();
    let listener = api.listen(ListenOptions { addr, data_dir: directory.path().to_owned() }).await.unwrap();
    let kubeconfig = listener.kubeconfig_path.clone();
    (directory, listener, api.client("default"), kubeconfig)
}
