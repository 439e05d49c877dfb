//! The process node on the embedded API server, over its TLS listener as kubectl would.

// Everything here is test code, though clippy only knows the functions marked as tests.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use localkube::{ApiServer, ListenOptions, Options};

mod suite;

use suite::{NodeProcess, node_restart};

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_as_processes() {
    let directory = tempfile::tempdir().unwrap();
    let api = ApiServer::open(Options::default()).await.unwrap();
    let addr = ([127, 0, 0, 1], 0).into();
    let listener = api.listen(ListenOptions { addr, data_dir: directory.path().to_owned() }).await.unwrap();
    let (client, kubeconfig) = (api.client("default"), &listener.kubeconfig_path);
    let data_dir = tempfile::tempdir().unwrap();
    let node = NodeProcess::start(&client, kubeconfig, data_dir.path(), &["--schedule"]).await;

    suite::run(&client).await;
    node_restart::run(&client, kubeconfig, data_dir.path(), node, &["--schedule"]).await;
}
