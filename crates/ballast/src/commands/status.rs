//! `ballast status`: what runs in a data directory.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use k8s_openapi::api::{apps::v1 as apps, core::v1 as core};
use kube::{
    Api, Resource,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::Serialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    output::{self, Format},
    running::Running,
};

/// For the gateway's answer: whoever asks wants to know now.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub struct Status {
    /// The data directory of the Ballast to ask
    #[arg(long, value_name = "DIR", default_value = ".ballast", env = "BALLAST_DATA_DIR")]
    data_dir: PathBuf,
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    running: Running,
    version: String,
    /// What does not work, and what to do about it.
    trouble: Vec<String>,
    nodes: Share,
    pods: Share,
    workloads: Vec<Workload>,
    /// Pods whose containers do not start.
    failures: Vec<Failure>,
}

#[derive(Debug, Serialize)]
struct Failure {
    namespace: String,
    pod: String,
    why: String,
}

/// How many of how many are as they should be.
#[derive(Debug, Serialize)]
struct Share {
    ready: usize,
    total: usize,
}

#[derive(Debug, Serialize)]
struct Workload {
    kind: &'static str,
    namespace: String,
    name: String,
    ready: i32,
    desired: i32,
}

// === impl Status ===

impl Status {
    pub fn run(self) -> Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let report = runtime.block_on(self.collect())?;
        match self.output {
            Format::Json => output::answer(serde_json::to_string_pretty(&report)?),
            Format::Text => output::answer(report.text()),
        }
        // it runs, but not as it should
        Ok(if report.trouble.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn collect(&self) -> Result<Report> {
        let running = Running::read(&self.data_dir)?;
        let unreachable = || {
            format!(
                "process {} should serve {}, but does not answer; was it killed?",
                running.pid, running.api
            )
        };
        let kubeconfig = Kubeconfig::read_from(self.data_dir.join("kubeconfig"))?;
        let mut config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // an answer now, whatever it is
        config.default_retry = false;
        let client = kube::Client::try_from(config)?;
        let version = client.apiserver_version().await.with_context(unreachable)?.git_version;
        let trouble = trouble(&client, &running).await;
        let all = ListParams::default();
        let nodes = Api::<core::Node>::all(client.clone()).list(&all).await?;
        let pods = Api::<core::Pod>::all(client.clone()).list(&all).await?;
        let deployments = Api::<apps::Deployment>::all(client.clone()).list(&all).await?;
        let stateful_sets = Api::<apps::StatefulSet>::all(client).list(&all).await?;

        let node_ready = |node: &core::Node| {
            is_ready(node.status.iter().flat_map(|status| status.conditions.iter().flatten()), |condition| {
                (&condition.type_, &condition.status)
            })
        };
        let pod_ready = |pod: &core::Pod| {
            is_ready(pod.status.iter().flat_map(|status| status.conditions.iter().flatten()), |condition| {
                (&condition.type_, &condition.status)
            })
        };
        let mut workloads: Vec<Workload> = Vec::new();
        workloads.extend(deployments.iter().map(|object| {
            let ready = object.status.as_ref().and_then(|status| status.ready_replicas);
            workload("Deployment", object, ready, object.spec.as_ref().and_then(|spec| spec.replicas))
        }));
        workloads.extend(stateful_sets.iter().map(|object| {
            let ready = object.status.as_ref().and_then(|status| status.ready_replicas);
            workload("StatefulSet", object, ready, object.spec.as_ref().and_then(|spec| spec.replicas))
        }));
        Ok(Report {
            running,
            version,
            trouble,
            nodes: share(&nodes.items, node_ready),
            pods: share(&pods.items, pod_ready),
            workloads,
            failures: pods.iter().filter_map(failure).collect(),
        })
    }
}

/// What the API's `/readyz` and the gateway's `/ready` say.
async fn trouble(client: &kube::Client, running: &Running) -> Vec<String> {
    let mut trouble = Vec::new();
    let asked = async {
        let response = client.send(http::Request::get("/readyz").body(kube::client::Body::empty())?).await?;
        let is_ready = response.status().is_success();
        let body = response.into_body().collect_bytes().await?;
        let text = String::from_utf8_lossy(&body).into_owned();
        let why = text.lines().find_map(|line| line.strip_prefix("[-]").map(str::to_owned)).unwrap_or(text);
        anyhow::Ok((!is_ready).then_some(why))
    };
    match asked.await {
        Ok(why) => trouble.extend(why.map(|why| format!("the Kubernetes API: {why}"))),
        Err(error) => trouble.push(format!("the Kubernetes API: {error:#}")),
    }
    match ask(&running.gateway, "/ready").await {
        Ok((200, _)) => {}
        Ok((_, text)) => {
            let why = text.trim().trim_start_matches("NOT_READY").trim().to_owned();
            if !trouble.iter().any(|known| known.contains(why.trim_start_matches("the Kubernetes API: "))) {
                trouble.push(format!("the gateway: {why}"));
            }
        }
        Err(error) => trouble.push(format!("the gateway: {error:#}")),
    }
    trouble
}

/// A plain GET: the code and the body.
async fn ask(url: &str, path: &str) -> Result<(u16, String)> {
    const MOST_BYTES: u64 = 64 << 10;
    let host = url.strip_prefix("http://").context("its address is not one of HTTP")?;
    let exchange = async {
        let mut stream = TcpStream::connect(host).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(MOST_BYTES).read_to_end(&mut answer).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = tokio::time::timeout(PATIENCE, exchange).await.context("it does not answer")??;
    let (head, body) = answer.split_once("\r\n\r\n").context("its answer is not one of HTTP")?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((code.context("its answer is not one of HTTP")?, body.to_owned()))
}

fn is_ready<'a, C: 'a>(
    mut conditions: impl Iterator<Item = &'a C>,
    type_and_status: impl Fn(&'a C) -> (&'a String, &'a String),
) -> bool {
    conditions.any(|condition| type_and_status(condition) == (&"Ready".to_owned(), &"True".to_owned()))
}

fn share<T>(items: &[T], is_ready: impl Fn(&T) -> bool) -> Share {
    Share { ready: items.iter().filter(|item| is_ready(item)).count(), total: items.len() }
}

fn failure(pod: &core::Pod) -> Option<Failure> {
    let why = controllers::catalog::start_failure(pod)?;
    let meta = &pod.metadata;
    let (namespace, pod) =
        (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
    Some(Failure { namespace, pod, why })
}

fn workload(
    kind: &'static str,
    object: &impl Resource,
    ready: Option<i32>,
    desired: Option<i32>,
) -> Workload {
    let meta = object.meta();
    Workload {
        kind,
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        ready: ready.unwrap_or(0),
        // what the API fills in when nothing is said
        desired: desired.unwrap_or(1),
    }
}

// === impl Report ===

impl Report {
    fn text(&self) -> String {
        let mut text = format!(
            "Ballast runs as process {}, its Kubernetes API ({}) is {}\nfunctions on {}, operators on {}\nnodes  {} of {} ready\npods   {} of {} ready",
            self.running.pid,
            self.version,
            self.running.api,
            self.running.gateway,
            self.running.operator,
            self.nodes.ready,
            self.nodes.total,
            self.pods.ready,
            self.pods.total
        );
        for trouble in &self.trouble {
            text.push_str(&format!("\nnot well: {trouble}"));
        }
        for Workload { kind, namespace, name, ready, desired } in &self.workloads {
            let state = match desired {
                0 => "asleep".to_owned(),
                desired => format!("{ready} of {desired} ready"),
            };
            text.push_str(&format!("\n{kind:<12} {namespace}/{name}: {state}"));
        }
        for Failure { namespace, pod, why } in &self.failures {
            text.push_str(&format!("\npod {namespace}/{pod} does not start: {why}"));
        }
        text
    }
}
