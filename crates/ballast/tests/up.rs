//! `ballast up` as a person runs it: starts, is found, refuses a second start, survives being killed, stops cleanly.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, though its helpers are not marked as such")]

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{ConfigMap, Event, Namespace, PersistentVolume, PersistentVolumeClaim, Pod},
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

/// Ends with the test, however the test ends.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ballast(arguments: &[&str], data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.args(arguments).arg("--data-dir").arg(data_dir).stdin(Stdio::null());
    command
}

impl Up {
    /// Returns when `up.json` names this process.
    async fn start(data_dir: &Path) -> Self {
        Self::until_up(ballast(&["up", "--quiet"], data_dir), data_dir).await
    }

    async fn until_up(mut command: Command, data_dir: &Path) -> Self {
        let mut up = Self(command.spawn().unwrap());
        loop {
            if let Some(status) = up.0.try_wait().unwrap() {
                panic!("ballast up ended: {status}");
            }
            let text = std::fs::read_to_string(data_dir.join("up.json")).unwrap_or_default();
            let running: Value = serde_json::from_str(&text).unwrap_or_default();
            if running["pid"] == up.0.id() {
                assert!(running["api"].as_str().is_some_and(|api| api.starts_with("https://127.0.0.1:")));
                return up;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn signal(mut self, signal: Signal) -> ExitStatus {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
        self.0.wait().unwrap()
    }
}

async fn config_maps(data_dir: &Path) -> Api<ConfigMap> {
    Api::default_namespaced(client(data_dir).await)
}

async fn client(data_dir: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(data_dir.join("kubeconfig")).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    // a refusal is an answer
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The status line and the body of a plain GET.
async fn get(url: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// What a newcomer does first, and what is still there after `kill -9`.
#[tokio::test]
async fn the_demo_wakes_from_zero() {
    let directory = tempfile::tempdir().unwrap();
    let running = |data_dir: &Path| -> Value {
        serde_json::from_str(&std::fs::read_to_string(data_dir.join("up.json")).unwrap()).unwrap()
    };
    for n in [10, 11] {
        let up = Up::start(directory.path()).await;
        let gateway = running(directory.path())["gateway"].as_str().unwrap().to_owned();
        let answer = get(&format!("{gateway}/function/fibonacci/fib/{n}")).await;
        let fibonacci = if n == 10 { 55 } else { 89 };
        assert!(answer.contains(&format!("\"fibonacci\": {fibonacci}")), "{answer}");
        // asked for by its trigger
        let mut store = String::new();
        for _ in 0..600 {
            store = get(&format!("{gateway}/debug/store")).await;
            if store.contains("http_server_requests_seconds_count") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(store.contains("http_server_requests_seconds_count"), "{store}");
        up.signal(if n == 10 { Signal::SIGKILL } else { Signal::SIGTERM });
    }
}

/// Functions on demand are served in one namespace: in another, somebody waits for what will not happen.
#[tokio::test]
async fn a_function_of_another_namespace_is_told_that_nothing_wakes_it() {
    let directory = tempfile::tempdir().unwrap();
    let _up = Up::start(directory.path()).await;
    let client = client(directory.path()).await;
    let shop: Namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &shop).await.unwrap();
    let workloads: Api<Deployment> = Api::namespaced(client.clone(), "shop");
    for (name, annotations) in
        [("meant", json!({"SlimFaas/Function": "true"})), ("plain", json!({"team": "shop"}))]
    {
        let labels = json!({"app": name});
        let workload = json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "none"}]},
            }},
        });
        let workload = serde_json::from_value(workload).unwrap();
        workloads.create(&PostParams::default(), &workload).await.unwrap();
    }
    let events: Api<Event> = Api::namespaced(client, "shop");
    let told = loop {
        let events = events.list(&ListParams::default()).await.unwrap();
        let told = events.items.into_iter().filter(|event| event.reason.as_deref() == Some("NotServed"));
        let told: Vec<Event> = told.collect();
        if !told.is_empty() {
            break told;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let note = told[0].message.clone().unwrap_or_default();
    assert!(told.len() == 1 && told[0].involved_object.name.as_deref() == Some("meant"), "{told:?}");
    assert!(note.contains("namespace default only") && note.contains("serve --namespace shop"), "{note}");
}

#[tokio::test]
async fn a_life_of_up() {
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path();

    let before = ballast(&["status"], data_dir).output().unwrap();
    assert!(!before.status.success() && words(&before).contains("start one with: ballast up"), "{before:?}");

    let up = Up::start(data_dir).await;
    let second = ballast(&["up"], data_dir).output().unwrap();
    assert!(
        !second.status.success() && words(&second).contains("another Ballast already runs"),
        "{second:?}"
    );
    let status = ballast(&["status", "-o", "json"], data_dir).output().unwrap();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["nodes"], json!({"ready": 1, "total": 1}));

    // acknowledged, then killed at once
    let object: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "kept"}, "data": {"k": "v"}})).unwrap();
    config_maps(data_dir).await.create(&PostParams::default(), &object).await.unwrap();
    up.signal(Signal::SIGKILL);
    let dead = ballast(&["status"], data_dir).output().unwrap();
    assert!(!dead.status.success() && words(&dead).contains("does not answer"), "{dead:?}");

    let up = Up::start(data_dir).await;
    let kept = config_maps(data_dir).await.get("kept").await.unwrap();
    assert_eq!(kept.data.unwrap()["k"], "v");
    assert!(up.signal(Signal::SIGTERM).success(), "asked to stop, it stops without an error");
    assert!(!data_dir.join("up.json").exists());
}

#[tokio::test]
async fn the_live_view_waits_for_a_ballast_that_is_away() {
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path();
    let up = Up::start(data_dir).await;
    let mut view = ballast(&["status", "--watch", "-o", "json"], data_dir);
    let mut view = view.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(view.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["nodes"]["total"], 1);
    up.signal(Signal::SIGKILL);
    while next()["nodes"]["total"] == 1 {}
    let up = Up::start(data_dir).await;
    while next()["nodes"]["total"] != 1 {}
    assert!(Up(view).signal(Signal::SIGINT).success());
    assert!(up.signal(Signal::SIGTERM).success());
}

#[tokio::test]
async fn the_log_can_be_json() {
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path();
    let log = data_dir.join("log");
    let mut command = ballast(&["up", "--no-demo", "-v", "--log-format", "json"], data_dir);
    command.stderr(std::fs::File::create(&log).unwrap());
    assert!(Up::until_up(command, data_dir).await.signal(Signal::SIGTERM).success());
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_started = |line: &Value| line["message"] == "started" && line["controller"].is_string();
    assert!(lines.iter().any(is_started), "{text}");
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Everything in the directory that somebody else could open, and the directory itself.
fn open_to_others(data_dir: &Path) -> Vec<String> {
    let names = [
        "",
        "kubernetes.redb",
        "ballast.redb",
        "kubeconfig",
        "token",
        "server.key",
        "up.json",
        "up.lock",
        "node",
    ];
    let open = names.iter().filter(|name| mode(&data_dir.join(name)) & 0o077 != 0);
    open.map(|name| format!("{name:?}")).collect()
}

#[tokio::test]
async fn what_up_keeps_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path().join("data");
    let without_mask = |data_dir: &Path| {
        let mut command = Command::new("sh");
        let script = "umask 0; exec \"$0\" up --quiet --no-demo --data-dir \"$1\"";
        command.args(["-c", script, env!("CARGO_BIN_EXE_ballast")]).arg(data_dir).stdin(Stdio::null());
        command
    };
    let up = Up::until_up(without_mask(&data_dir), &data_dir).await;
    assert_eq!(open_to_others(&data_dir), [""; 0]);
    up.signal(Signal::SIGTERM);
    // as an earlier version left them
    for name in ["", "kubernetes.redb", "ballast.redb", "kubeconfig", "token"] {
        let mode = if name.is_empty() { 0o755 } else { 0o644 };
        std::fs::set_permissions(data_dir.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let _up = Up::until_up(without_mask(&data_dir), &data_dir).await;
    assert_eq!(open_to_others(&data_dir), [""; 0]);
}

/// A limit on the size of files stands in for a disk that is full: it needs no rights, and can be lifted while the
/// process runs.
fn limited(data_dir: &Path, blocks: &str) -> Command {
    let script = "trap '' XFSZ; ulimit -S -f \"$2\"; exec \"$0\" up --quiet --no-demo --data-dir \"$1\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_ballast")])
        .arg(data_dir)
        .arg(blocks)
        .stdin(Stdio::null());
    command
}

fn limit_files(up: &Up, bytes: &str) {
    let pid = up.0.id().to_string();
    let done = Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={bytes}:")]).status().unwrap();
    assert!(done.success(), "prlimit of util-linux is needed");
}

#[tokio::test]
async fn a_start_without_space_says_so_in_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let output = limited(directory.path(), "100").output().unwrap();
    let said = words(&output);
    assert!(!output.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains("no space is left for the data directory"), "{said}");
}

#[tokio::test]
async fn a_full_disk_is_told_and_its_end_survived() {
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path();
    let up = Up::until_up(limited(data_dir, "unlimited"), data_dir).await;
    let running: Value =
        serde_json::from_str(&std::fs::read_to_string(data_dir.join("up.json")).unwrap()).unwrap();
    let ready = format!("{}/ready", running["gateway"].as_str().unwrap());
    let config_maps = config_maps(data_dir).await;
    let large = |name: &str| -> ConfigMap {
        let data = json!({"k": "x".repeat(900_000)});
        serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap()
    };
    config_maps.create(&PostParams::default(), &large("before")).await.unwrap();

    let size = std::fs::metadata(data_dir.join("kubernetes.redb")).unwrap().len();
    limit_files(&up, &size.to_string());
    // pages that are free inside the file may take the first ones
    let mut accepted = 0;
    let refused = loop {
        match config_maps.create(&PostParams::default(), &large(&format!("during-{accepted}"))).await {
            Ok(_) => accepted += 1,
            Err(kube::Error::Api(status)) => break status,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(refused.code, 503, "{refused:?}");
    assert!(refused.message.contains("no space is left for"), "{refused:?}");
    assert!(refused.message.contains("free some on its disk"), "{refused:?}");
    let told = get(&ready).await;
    assert!(told.contains(" 503 ") && told.contains("no space is left for"), "{told}");
    let status = ballast(&["status"], data_dir).output().unwrap();
    let shown = String::from_utf8_lossy(&status.stdout);
    assert!(!status.status.success() && shown.contains("not well: the Kubernetes API: "), "{shown}");
    // what is there can be read all the time
    assert!(config_maps.get("before").await.is_ok());

    limit_files(&up, "unlimited");
    while !get(&ready).await.contains(" 200 ") {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    config_maps.create(&PostParams::default(), &large("after")).await.unwrap();
    assert!(ballast(&["status"], data_dir).output().unwrap().status.success());
    up.signal(Signal::SIGKILL);
    let up = Up::start(data_dir).await;
    let names = config_maps_of(data_dir).await;
    assert!(names.contains(&"after".to_owned()) && names.contains(&"before".to_owned()), "{names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("during")).count(), accepted, "{names:?}");
    up.signal(Signal::SIGTERM);
}

async fn config_maps_of(data_dir: &Path) -> Vec<String> {
    let all = config_maps(data_dir).await.list(&kube::api::ListParams::default()).await.unwrap();
    all.items.into_iter().filter_map(|object| object.metadata.name).collect()
}

/// What `serve` needs is not there yet: it says so, without the password, and waits.
#[tokio::test]
async fn serve_waits_for_what_is_still_starting() {
    let directory = tempfile::tempdir().unwrap();
    let up = Up::start(directory.path()).await;
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let serve = |log: &str| {
        let (nats, gateway) = (free(), free());
        let log = directory.path().join(log);
        let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
        command
            .args([
                "serve",
                "--node-name=a",
                "--operator-addr=127.0.0.1:0",
                &format!("--gateway-addr={gateway}"),
            ])
            .env("KUBECONFIG", directory.path().join("kubeconfig"))
            .env("BALLAST_STORE", format!("nats://me:hunter2@{nats}"))
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap());
        (Up(command.spawn().unwrap()), gateway, log)
    };
    let until_told = async |gateway: std::net::SocketAddr, wanted: &str| {
        loop {
            if tokio::net::TcpStream::connect(gateway).await.is_ok() {
                let told = get(&format!("http://{gateway}/ready")).await;
                assert!(told.contains(" 503 "), "{told}");
                if told.contains(wanted) {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let (node, gateway, log) = serve("first.log");
    until_told(gateway, "waiting for the store nats://***@127.0.0.1").await;
    until_told(gateway, "cannot be reached").await;
    assert!(get(&format!("http://{gateway}/health")).await.contains(" 200 "));
    assert!(node.signal(Signal::SIGTERM).success());
    let log = std::fs::read_to_string(log).unwrap();
    assert!(!log.contains("hunter2"), "{log}");
    assert_eq!(log.matches("waiting for the store").count(), 1, "one state, one line: {log}");

    up.signal(Signal::SIGKILL);
    let (node, gateway, _) = serve("second.log");
    until_told(gateway, "waiting for the API server").await;
    assert!(node.signal(Signal::SIGTERM).success());
}

/// What a pod writes into a claim, the next one finds; the directory goes with the claim.
#[tokio::test]
async fn a_claim_is_a_directory_that_outlives_its_pods() {
    let directory = tempfile::tempdir().unwrap();
    let _up = Up::start(directory.path()).await;
    let client = client(directory.path()).await;
    let sets: Api<StatefulSet> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
    let set = json!({
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "db", "image": "none", "command": ["sh", "-c", "echo $$ >> /data/starts; sleep infinity"],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }],
            }},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            }}],
        },
    });
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    let claim = loop {
        match claims.get_opt("data-db-0").await.unwrap() {
            Some(claim) if claim.status.as_ref().unwrap().phase.as_deref() == Some("Bound") => break claim,
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let kept = directory.path().join("node/claims").join(claim.metadata.uid.unwrap());
    for n_starts in [1, 2] {
        loop {
            let text = std::fs::read_to_string(kept.join("starts")).unwrap_or_default();
            if text.lines().count() == n_starts {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        pods.delete("db-0", &DeleteParams::default()).await.unwrap();
    }
    sets.delete("db", &DeleteParams::foreground()).await.unwrap();
    claims.delete("data-db-0", &DeleteParams::default()).await.unwrap();
    let volumes: Api<PersistentVolume> = Api::all(client);
    while claims.get_opt("data-db-0").await.unwrap().is_some()
        || !volumes.list(&ListParams::default()).await.unwrap().items.is_empty()
        || kept.exists()
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
