//! The parts of `bench/wake`, which play people, node and pods for a `ballast serve`, on the API that `KUBECONFIG` names.
//!
//! ```text
//! wake_bench create FUNCTIONS WAKES PORT            functions asleep, whose pods will listen on PORT of 127.0.0.1
//! wake_bench known GATEWAY FUNCTIONS                waits until the gateway knows so many functions
//! wake_bench wake GATEWAY FUNCTIONS PORT [CALLS]    wakes one after the other, then calls them in turn
//! ```
//!
//! ```text
//! call sent ──▶ scale write seen ── pod made ── pod made ready ──▶ call arrives ── answered ── all quiet
//!          Ballast                (others)                   Ballast
//! ```
//!
//! What is seen is seen in a watch of this program's, so the API's own time is part of what is measured: how long a bare
//! scale write takes to be seen is measured between the wakes.

#![allow(clippy::print_stdout, reason = "it prints what it measured")]

use std::{
    net::SocketAddr,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

const CREATED_AT_ONCE: usize = 16;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["create", functions, wakes, port] => create(functions.parse()?, wakes.parse()?, port.parse()?).await,
        ["known", gateway, functions] => known(gateway.parse()?, functions.parse()?).await,
        ["wake", gateway, functions, port, calls @ ..] => {
            let calls = calls.first().map_or(Ok(0), |calls| calls.parse())?;
            wake(gateway.parse()?, functions.parse()?, port.parse()?, calls).await
        }
        _ => bail!("see the head of wake_bench.rs"),
    }
}

// === create ===

fn name(index: usize) -> String {
    format!("f{index:04}")
}

/// Is paused and has never run, so a scale write to it makes no pods.
fn bare_name(index: usize) -> String {
    format!("bare-{index:04}")
}

async fn create(functions: usize, wakes: usize, port: u16) -> Result<()> {
    let client = Client::try_default().await?;
    controllers::crds::install(&client).await?;
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let all = (0..functions).map(|index| function(index, port)).chain((0..wakes).map(bare));
    stream::iter(all)
        .map(|object| async {
            deployments.create(&PostParams::default(), &serde_json::from_value(object?)?).await?;
            anyhow::Ok(())
        })
        .buffer_unordered(CREATED_AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

/// As `fibonacci` of the examples.
fn function(index: usize, port: u16) -> Result<Value> {
    let query =
        "sum(rate(http_server_requests_seconds_count{namespace=\"${namespace}\",job=\"${app}\"}[1m]))";
    let scale = json!({"ReplicaMax": 10, "Triggers": [
        {"MetricType": "AverageValue", "MetricName": "rps_per_pod", "Query": query, "Threshold": 20},
    ]});
    let mut deployment = deployment(&name(index), port);
    deployment["metadata"]["annotations"] = json!({
        "SlimFaas/ReplicasMin": "0", "SlimFaas/ReplicasAtStart": "1",
        "SlimFaas/TimeoutSecondBeforeSetReplicasMin": "3600", "SlimFaas/Scale": serde_json::to_string(&scale)?,
    });
    Ok(deployment)
}

fn bare(index: usize) -> Result<Value> {
    let mut deployment = deployment(&bare_name(index), 1);
    deployment["spec"]["paused"] = json!(true);
    Ok(deployment)
}

fn deployment(name: &str, port: u16) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    // nobody's, so that a real scheduler leaves the pods to this program
                    "schedulerName": "wake-bench",
                    "containers": [{"name": "app", "image": "none", "ports": [{"containerPort": port}]}],
                },
            },
        },
    })
}

// === known ===

async fn known(gateway: SocketAddr, functions: usize) -> Result<()> {
    loop {
        let mut caller = Caller::connect(gateway).await?;
        caller.ask("/status-functions").await?;
        let (status, body) = caller.answer().await?;
        let listed: Vec<Value> = serde_json::from_slice(&body).unwrap_or_default();
        if status == 200 && listed.len() >= functions {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

// === wake ===

/// What one wake took.
struct Times {
    to_scale: Duration,
    to_forward: Duration,
    /// A scale write without Ballast.
    bare: Duration,
}

struct World {
    client: Client,
    caller: Caller,
    deployments: Sightings<Deployment>,
    pods: Sightings<Pod>,
    arrivals: mpsc::UnboundedReceiver<Instant>,
}

async fn wake(gateway: SocketAddr, functions: usize, port: u16, calls: usize) -> Result<()> {
    let client = Client::try_default().await?;
    let mut world = World {
        caller: Caller::connect(gateway).await?,
        deployments: Sightings::of(Api::default_namespaced(client.clone())),
        pods: Sightings::of(Api::default_namespaced(client.clone())),
        arrivals: backend(port).await?,
        client,
    };
    let mut all = Vec::with_capacity(functions);
    for index in 0..functions {
        let bare = world.bare(&bare_name(index)).await?;
        let (to_scale, to_forward) = world.wake(&name(index)).await?;
        all.push(Times { to_scale, to_forward, bare });
    }
    println!("| {functions} wakes, ms | p50 | p99 | max |");
    println!("|---|--:|--:|--:|");
    row("call sent → scale write seen", &all, |times| times.to_scale);
    row("pod ready → call arrives", &all, |times| times.to_forward);
    row("both together", &all, |times| times.to_scale + times.to_forward);
    row("a bare scale write → seen, for comparison", &all, |times| times.bare);
    for call in 0..calls {
        world.caller.ask(&format!("/function/{}/", name(call % functions))).await?;
        ensure!(world.caller.answer().await?.0 == 200, "call {call} failed");
    }
    Ok(())
}

fn row(what: &str, all: &[Times], of: impl Fn(&Times) -> Duration) {
    let mut sorted: Vec<f64> = all.iter().map(|times| of(times).as_secs_f64() * 1000.0).collect();
    sorted.sort_by(f64::total_cmp);
    // the smallest that so many percent do not exceed
    let at = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1];
    println!("| {what} | {:.2} | {:.2} | {:.2} |", at(50), at(99), at(100));
}

impl World {
    async fn bare(&mut self, name: &str) -> Result<Duration> {
        let api: Api<Deployment> = Api::default_namespaced(self.client.clone());
        let scale = Patch::Merge(json!({"spec": {"replicas": 1}}));
        let sent = Instant::now();
        api.patch_scale(name, &PatchParams::default(), &scale).await?;
        let (_, seen) = self.deployments.until(|seen| is(seen, name) && replicas(seen) == 1).await?;
        self.deployments.until(|seen| is(seen, name) && is_observed(seen)).await?;
        Ok(seen - sent)
    }

    async fn wake(&mut self, name: &str) -> Result<(Duration, Duration)> {
        let sent = Instant::now();
        self.caller.ask(&format!("/function/{name}/")).await?;
        let (_, scaled) = self.deployments.until(|seen| is(seen, name) && replicas(seen) == 1).await?;
        let (pod, _) = self.pods.until(|pod| app(pod) == Some(name)).await?;
        let pod = pod.metadata.name.context("a pod without a name")?;

        let api: Api<Pod> = Api::default_namespaced(self.client.clone());
        let status = Patch::Merge(json!({"status": {
            "phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}],
            "conditions": [
                {"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "True"},
            ],
        }}));
        let params = PatchParams::default();
        let patched = async { api.patch_status(&pod, &params, &status).await.map(|_| Instant::now()) };
        let seen = self.pods.until(|seen| seen.metadata.name.as_ref() == Some(&pod) && e2e::is_ready(seen));
        let (patched, seen) = tokio::join!(patched, seen);
        let ready = patched?.min(seen?.1);

        let arrived = self.arrivals.recv().await.context("the backend ended")?;
        ensure!(self.caller.answer().await?.0 == 200, "the call of {name} failed");
        // The next is woken when nobody works on this one any more.
        self.deployments
            .until(|seen| is(seen, name) && ready_replicas(seen) == 1 && is_observed(seen))
            .await?;
        // It may have arrived before this program saw what the gateway saw.
        Ok((scaled - sent, arrived.saturating_duration_since(ready)))
    }
}

fn is(deployment: &Deployment, name: &str) -> bool {
    deployment.metadata.name.as_deref() == Some(name)
}

fn replicas(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

fn ready_replicas(deployment: &Deployment) -> i32 {
    deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
}

fn is_observed(deployment: &Deployment) -> bool {
    let observed = deployment.status.as_ref().and_then(|status| status.observed_generation);
    observed >= deployment.metadata.generation
}

fn app(pod: &Pod) -> Option<&str> {
    Some(pod.metadata.labels.as_ref()?.get("app")?)
}

/// What a watch shows, each with the moment it was seen.
struct Sightings<K>(mpsc::UnboundedReceiver<(K, Instant)>);

impl<K> Sightings<K>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    fn of(api: Api<K>) -> Self {
        let (sender, sightings) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut seen = pin!(watcher(api, watcher::Config::default()).default_backoff().applied_objects());
            while let Some(object) = seen.next().await {
                if let Ok(object) = object
                    && sender.send((object, Instant::now())).is_err()
                {
                    return;
                }
            }
        });
        Sightings(sightings)
    }

    /// The first such that has not been asked for yet; what came before it is forgotten.
    async fn until(&mut self, is_it: impl Fn(&K) -> bool) -> Result<(K, Instant)> {
        loop {
            let (object, at) = self.0.recv().await.context("the watch ended")?;
            if is_it(&object) {
                return Ok((object, at));
            }
        }
    }
}

// === HTTP, without anything that takes time of its own ===

/// All pods: tells when a call arrives, and answers it.
async fn backend(port: u16) -> Result<mpsc::UnboundedReceiver<Instant>> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let (sender, arrivals) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                // the calls have no bodies
                while let Ok(n @ 1..) = stream.read(&mut request).await {
                    if !request[..n].ends_with(b"\r\n\r\n") {
                        continue;
                    }
                    // nobody listens after the last wake
                    let _ = sender.send(Instant::now());
                    if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok(arrivals)
}

/// One connection to the gateway.
struct Caller {
    stream: TcpStream,
    gateway: SocketAddr,
}

impl Caller {
    async fn connect(gateway: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(gateway).await?;
        stream.set_nodelay(true)?;
        Ok(Caller { stream, gateway })
    }

    async fn ask(&mut self, path: &str) -> Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.gateway);
        Ok(self.stream.write_all(request.as_bytes()).await?)
    }

    /// Status and body.
    async fn answer(&mut self) -> Result<(u16, Vec<u8>)> {
        let mut bytes = Vec::new();
        loop {
            if let Some((status, length, begin)) = head(&bytes)
                && bytes.len() >= begin + length
            {
                return Ok((status, bytes.split_off(begin)));
            }
            ensure!(self.stream.read_buf(&mut bytes).await? > 0, "the gateway hung up");
        }
    }
}

/// Status, length and beginning of the body, once the head is complete.
fn head(bytes: &[u8]) -> Option<(u16, usize, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?.trim().parse().ok()?;
    Some((status, length, end + 4))
}
