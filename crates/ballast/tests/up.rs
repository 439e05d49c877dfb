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
