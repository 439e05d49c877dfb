//! The process node on a real kube-apiserver, with the real scheduler and controller manager.

// Everything here is test code, though clippy only knows the functions marked as tests.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use cluster::real::{ControlPlane, Options};
use k8s_openapi::api::core::v1::Node;
use kube::Api;

mod suite;

use suite::{NODE, NodeProcess, node_restart, pods};

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_as_processes() {
    let plane = ControlPlane::start(Options { controllers: true, ..Options::default() }).await.unwrap();
    let client = plane.client().await.unwrap();
    let data_dir = tempfile::tempdir().unwrap();
    let node = NodeProcess::start(&client, &plane.kubeconfig(), data_dir.path(), &[]).await;
    let registered = Api::<Node>::all(client.clone()).get(NODE).await.unwrap();
    let port = registered.status.unwrap().daemon_endpoints.unwrap().kubelet_endpoint.unwrap().port;
    let kubelet = format!("https://127.0.0.1:{port}");

    // Named when they are through: a scenario that waits for ever is the one that is missing.
    macro_rules! all {
        ($($name:ident($($argument:expr),*);)*) => {
            futures::join!($(async { pods::$name($($argument),*).await; println!("passed {}", stringify!($name)) }),*)
        };
    }
    all!(
        a_web_server_answers_on_its_own_address(&client);
        a_crashing_container_is_restarted_with_growing_pauses(&client);
        volumes_and_environment_come_from_the_api(&client);
        probes_restart_and_hold_back(&client);
        init_containers_sidecars_and_an_end(&client);
        a_stubborn_process_is_killed_with_all_its_children(&client);
        what_cannot_run_says_so(&client);
        a_token_is_projected_and_usage_is_measured(&client, &kubelet);
    );
    node_restart::run(&client, &plane.kubeconfig(), data_dir.path(), node, &[]).await;
}
