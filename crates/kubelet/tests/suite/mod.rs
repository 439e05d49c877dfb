//! Pods on a process node, as anybody sees them through the API. Each scenario uses names of its own, so that all of
//! them may run at once.

use std::{fmt::Debug, future::Future, path::Path, process::Stdio, time::Duration};

use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

pub mod node_restart;
pub mod pods;

pub const NODE: &str = "process-node";
/// Of the kubelet endpoint, where it asks for one.
pub const TOKEN: &str = "of-the-kubelet";

/// A node in a process of its own, so that it can be killed.
pub struct NodeProcess {
    child: Child,
}

impl NodeProcess {
    pub async fn start(client: &Client, kubeconfig: &Path, data_dir: &Path, arguments: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_process-node"))
            .args([NODE.as_ref(), data_dir.as_os_str()])
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let nodes: Api<Node> = Api::all(client.clone());
        until(&nodes, NODE, |node| {
            let status = node.and_then(|node| node.status.as_ref());
            status.is_some_and(|s| {
                s.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True")
            })
        })
        .await;
        Self { child }
    }

    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Asks it to stop, and waits for it.
    pub async fn stop(mut self) {
        self.terminate();
        let status = self.child.wait().await.unwrap();
        assert!(status.success(), "{status}");
    }

    fn terminate(&self) {
        if let Some(pid) = self.child.id() {
            let pid = Pid::from_raw(pid.try_into().unwrap());
            let _ = kill(pid, Signal::SIGTERM);
        }
    }
}

/// A failed test leaves no pods behind either.
impl Drop for NodeProcess {
    fn drop(&mut self) {
        self.terminate();
        while let Ok(None) = self.child.try_wait() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// All that a node does while it is left in peace.
pub async fn run(client: &Client) {
    // Named when they are through: a scenario that is stuck is the one that is missing.
    macro_rules! all {
        ($($name:ident)*) => {
            futures::join!($(async { pods::$name(client).await; println!("passed {}", stringify!($name)) }),*)
        };
    }
    all!(
        a_web_server_answers_on_its_own_address
        a_crashing_container_is_restarted_with_growing_pauses
        volumes_and_environment_come_from_the_api
        probes_restart_and_hold_back
        init_containers_sidecars_and_an_end
        a_stubborn_process_is_killed_with_all_its_children
        what_cannot_run_says_so
        usage_is_measured
        memory_is_limited_where_cgroups_allow
    );
}

/// Waits until the object (or its absence) is as wanted, and returns what it then was.
pub async fn until<K>(api: &Api<K>, name: &str, wanted: impl Fn(Option<&K>) -> bool) -> Option<K>
where
    K: kube::Resource + Clone + Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let mut stream = watcher::watch_object(api.clone(), name).default_backoff().boxed();
    let mut seen = None;
    let wait = async {
        loop {
            if let Some(Ok(object)) = stream.next().await {
                if wanted(object.as_ref()) {
                    return object;
                }
                seen = object;
            }
        }
    };
    match tokio::time::timeout(cluster::STUCK, wait).await {
        Ok(object) => object,
        Err(_) => panic!("stuck waiting for {name}; last seen: {seen:#?}"),
    }
}

pub struct Scenario {
    pub pods: Api<Pod>,
    pub config_maps: Api<ConfigMap>,
    pub events: Api<Event>,
}

impl Scenario {
    pub fn new(client: &Client) -> Self {
        Self {
            pods: Api::default_namespaced(client.clone()),
            config_maps: Api::default_namespaced(client.clone()),
            events: Api::default_namespaced(client.clone()),
        }
    }

    pub async fn create(&self, name: &str, spec: Value) -> Pod {
        let mut pod = json!({ "metadata": { "name": name }, "spec": spec });
        for list in ["containers", "initContainers"] {
            for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
                container["image"] = json!("none");
            }
        }
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods.create(&PostParams::default(), &pod).await.unwrap()
    }

    pub async fn set_config(&self, name: &str, data: Value) {
        let patch =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data });
        self.config_maps.patch(name, &PatchParams::apply("suite"), &Patch::Apply(&patch)).await.unwrap();
    }

    pub async fn until(&self, name: &str, wanted: impl Fn(&Pod) -> bool) -> Pod {
        until(&self.pods, name, |pod| pod.is_some_and(&wanted)).await.unwrap()
    }

    pub async fn until_ready(&self, name: &str) -> Pod {
        self.until(name, |pod| condition(pod, "Ready").as_deref() == Some("True")).await
    }

    pub async fn until_gone(&self, name: &str) {
        until(&self.pods, name, |pod| pod.is_none()).await;
    }

    pub async fn delete(&self, name: &str, grace: u32) {
        match self.pods.delete(name, &DeleteParams::default().grace_period(grace)).await {
            // With no grace, the node may end the pod between the two steps of a server that marks before it removes.
            Err(kube::Error::Api(status)) if status.code == 404 && grace == 0 => {}
            result => drop(result.unwrap()),
        }
    }

    pub async fn logs(&self, name: &str) -> String {
        self.pods.logs(name, &LogParams::default()).await.unwrap()
    }

    /// Follows the log until `wanted` has come; returns all lines up to it.
    pub async fn follow(&self, name: &str, wanted: &str) -> Vec<String> {
        let params = LogParams { follow: true, ..LogParams::default() };
        let mut lines = self.pods.log_stream(name, &params).await.unwrap().lines();
        let mut seen = Vec::new();
        let wait = async {
            while let Some(line) = lines.try_next().await.unwrap() {
                seen.push(line);
                if seen.last().is_some_and(|line| line.contains(wanted)) {
                    return true;
                }
            }
            false
        };
        match tokio::time::timeout(cluster::STUCK, wait).await {
            Ok(true) => seen,
            Ok(false) => panic!("the log of {name} ended without {wanted:?}: {seen:?}"),
            Err(_) => panic!("stuck waiting for {wanted:?} in the log of {name}: {seen:?}"),
        }
    }

    pub async fn event_reasons(&self, name: &str) -> Vec<String> {
        let fields = ListParams::default().fields(&format!("involvedObject.name={name}"));
        let events = self.events.list(&fields).await.unwrap();
        let mut reasons: Vec<String> = events.items.into_iter().filter_map(|event| event.reason).collect();
        reasons.sort();
        reasons.dedup();
        reasons
    }

    /// Events come a moment after what they tell of.
    pub async fn until_event(&self, name: &str, reason: &str) {
        eventually(async || self.event_reasons(name).await.iter().any(|r| r == reason)).await;
    }
}

/// For what cannot be watched.
pub async fn eventually<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    cluster::eventually("what is asked for above", || {
        let holds = holds();
        async move { Ok(if holds.await { Ok(()) } else { Err(()) }) }
    })
    .await
    .unwrap();
}

pub fn condition(pod: &Pod, kind: &str) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind).map(|condition| condition.status.clone())
}

pub fn pod_ip(pod: &Pod) -> String {
    pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap()
}

pub fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.and_then(|statuses| statuses.first()).map_or(0, |status| status.restart_count)
}

/// One shell container.
pub fn shell(script: &str) -> Value {
    json!({ "name": "c", "command": ["sh", "-c", script] })
}

/// Pids of live processes whose command line has `mark` in it.
pub fn processes(mark: &str) -> Vec<u32> {
    let alive = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let state = stat.rsplit_once(") ")?.1.chars().next()?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        (state != 'Z' && String::from_utf8_lossy(&line).contains(mark)).then_some(pid)
    };
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(alive).collect()
}
