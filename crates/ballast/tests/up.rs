//! `ballast up` as a person runs it: starts, is found, refuses a second start, survives being killed, stops cleanly.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, though its helpers are not marked as such")]

use std::{
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    api::PostParams,
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
        let mut up = Self(ballast(&["up", "--quiet"], data_dir).spawn().unwrap());
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
    let kubeconfig = Kubeconfig::read_from(data_dir.join("kubeconfig")).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Api::default_namespaced(Client::try_from(config).unwrap())
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
