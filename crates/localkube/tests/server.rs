//! The server on a socket and on a file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use localkube::{ApiServer, ListenOptions, Options, Storage};
use serde_json::json;

fn config(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"key": "value"}})).unwrap()
}

async fn open(dir: &Path, sync: bool) -> Result<ApiServer, localkube::OpenError> {
    let storage = Storage::File { path: dir.join("objects.redb"), sync };
    ApiServer::open(Options { storage, ..Options::default() }).await
}

/// The file is free again soon after the last handle of its server is gone.
async fn reopen(dir: &Path) -> ApiServer {
    loop {
        match open(dir, false).await {
            Ok(server) => return server,
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test]
async fn a_kubeconfig_leads_to_the_listener_and_others_stay_out() {
    let dir = tempfile::tempdir().unwrap();
    let server = ApiServer::open(Options::default()).await.unwrap();
    let options =
        || ListenOptions { addr: "127.0.0.1:0".parse().unwrap(), data_dir: dir.path().join("data") };
    let listener = server.listen(options()).await.unwrap();
    let read = Kubeconfig::read_from(&listener.kubeconfig_path).unwrap();
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(Client::try_from(config.clone()).unwrap());
    let names: Vec<String> =
        namespaces.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);

    for token in ["", "wrong"] {
        let mut stranger = config.clone();
        stranger.auth_info.token = (!token.is_empty()).then(|| token.to_owned().into());
        let namespaces: Api<Namespace> = Api::all(Client::try_from(stranger).unwrap());
        let error = namespaces.list(&ListParams::default()).await.unwrap_err();
        assert!(
            matches!(error, kube::Error::Api(status) if status.code == 401 && status.reason == "Unauthorized")
        );
    }

    // Started again on the same directory, the same kubeconfig is good but for the port.
    let token = listener.token.clone();
    listener.shutdown().await;
    let again = server.listen(options()).await.unwrap();
    assert_eq!(again.token, token);
}

#[tokio::test]
async fn a_restart_finds_objects_definitions_and_the_revision() {
    let dir = tempfile::tempdir().unwrap();
    let server = open(dir.path(), false).await.unwrap();
    assert!(open(dir.path(), false).await.is_err(), "one server at a time");
    let client = server.client("default");
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com", "names": {"kind": "Boat", "plural": "boats"}, "scope": "Cluster",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    }))
    .unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &definition).await.unwrap();
    let made =
        Api::default_namespaced(client.clone()).create(&PostParams::default(), &config("a")).await.unwrap();
    drop((server, client));

    let client = reopen(dir.path()).await.client("default");
    let configs: Api<ConfigMap> = Api::default_namespaced(client.clone());
    assert_eq!(configs.get("a").await.unwrap(), made);
    let next = configs.create(&PostParams::default(), &config("b")).await.unwrap();
    let version = |one: &ConfigMap| one.resource_version().unwrap().parse::<u64>().unwrap();
    assert!(version(&next) > version(&made));
    let boats =
        client.request_text(http::Request::get("/apis/example.com/v1/boats").body(vec![]).unwrap()).await;
    assert!(boats.unwrap().contains("BoatList"), "the kind is served again");
}

const CHILD: &str = "LOCALKUBE_TEST_DIRECTORY";

/// Run by the next test in a process of its own: writes, and says what was acknowledged.
#[tokio::test]
#[ignore = "part of another test"]
async fn writer() {
    let Some(dir) = std::env::var_os(CHILD) else { return };
    let server = open(Path::new(&dir), false).await.unwrap();
    let configs: Api<ConfigMap> = Api::default_namespaced(server.client("default"));
    for round in 0.. {
        let names: Vec<String> = (0..8).map(|index| format!("c-{round}-{index}")).collect();
        let writes = names.iter().map(|name| {
            let configs = &configs;
            async move { configs.create(&PostParams::default(), &config(name)).await.unwrap() }
        });
        futures::future::join_all(writes).await;
        let mut out = std::io::stdout().lock();
        writeln!(out, "acknowledged {}", names.join(" ")).unwrap();
        out.flush().unwrap();
    }
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writer", "--ignored", "--nocapture"])
        .env(CHILD, dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut acknowledged: Vec<String> = Vec::new();
    for line in lines.filter_map(|line| Some(line.split_once("acknowledged ")?.1.to_owned())) {
        acknowledged.extend(line.split(' ').map(str::to_owned));
        if acknowledged.len() >= 200 {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(acknowledged.len() >= 200, "the writer wrote");

    let configs: Api<ConfigMap> = Api::default_namespaced(reopen(dir.path()).await.client("default"));
    let stored: Vec<String> =
        configs.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    let lost: Vec<_> = acknowledged.iter().filter(|name| !stored.contains(name)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
}
