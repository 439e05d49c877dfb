//! `ballast status`: what runs in a data directory.

mod live;
mod reasons;

use std::{fmt::Debug, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use api::{kro, numaflow};
use engine::kind::Kind;
use k8s_openapi::{
    api::{apps::v1 as apps, core::v1 as core},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Resource, api::ListParams};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    output::{self, Format},
    running::{self, Running},
    scaled::Scaled,
};

/// For the gateway's answer: whoever asks wants to know now.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub struct Status {
    /// The data directory of the Ballast to ask
    #[arg(long, value_name = "DIR", default_value = ".ballast", env = "BALLAST_DATA_DIR")]
    data_dir: PathBuf,
    /// Go on and show what changes, with the last decisions, until interrupted
    #[arg(long, short)]
    watch: bool,
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
    /// Vertices, and Sets with how far their rollouts are.
    scaled: Vec<Scaled>,
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

/// One object with a count.
struct Shown {
    /// It wakes, falls asleep or is rolled out.
    is_changing: bool,
    line: String,
}

// === impl Status ===

impl Status {
    pub fn run(self) -> Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        if self.watch {
            return runtime.block_on(live::show(&self));
        }
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
        let mut config = running::kube_config(&self.data_dir).await?;
        // an answer now, whatever it is
        config.default_retry = false;
        let client = kube::Client::try_from(config)?;
        let version = client.apiserver_version().await.with_context(unreachable)?.git_version;
        let trouble = trouble(&client, &running).await;
        let all = ListParams::default();
        let nodes = Api::<core::Node>::all(client.clone()).list(&all).await?;
        let pods = Api::<core::Pod>::all(client.clone()).list(&all).await?;
        let deployments = Api::<apps::Deployment>::all(client.clone()).list(&all).await?;
        let stateful_sets = Api::<apps::StatefulSet>::all(client.clone()).list(&all).await?;

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
        let mut scaled = scaled(&client).await?;
        reasons::explain(&mut scaled, &reasons::last_decisions(&running).await);
        Ok(Report {
            running,
            version,
            trouble,
            nodes: share(&nodes.items, node_ready),
            pods: share(&pods.items, pod_ready),
            workloads,
            scaled,
            failures: pods.iter().filter_map(failure).collect(),
        })
    }
}

/// Vertices, and Sets of every definition that has one.
async fn scaled(client: &kube::Client) -> Result<Vec<Scaled>> {
    let [vertex, mono_vertex] = reasons::KINDS;
    let mut kinds = vec![
        Kind::namespaced(numaflow::GROUP, "v1alpha1", vertex, "vertices"),
        Kind::namespaced(numaflow::GROUP, "v1alpha1", mono_vertex, "monovertices"),
    ];
    let definitions = list::<kro::ResourceGraphDefinition>(&Api::all(client.clone())).await?;
    let sets: Vec<String> = definitions.into_iter().filter_map(|one| Some(one.spec.scaling?.kind)).collect();
    if !sets.is_empty() {
        let crds = list::<CustomResourceDefinition>(&Api::all(client.clone())).await?;
        let of_sets = crds.iter().filter(|crd| sets.contains(&crd.spec.names.kind));
        kinds.extend(of_sets.map(|crd| Kind::of_crd(&json!(crd))));
    }
    let mut scaled = Vec::new();
    for kind in kinds {
        let api = engine::execute::api(client, &kind, None);
        scaled.extend(
            list(&api).await?.iter().map(|object| Scaled::read(&kind, &object.metadata, &object.data)),
        );
    }
    Ok(scaled)
}

/// All of a kind; none if it is not served.
async fn list<K: Clone + DeserializeOwned + Debug>(api: &Api<K>) -> Result<Vec<K>> {
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error.into()),
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
        let objects = self.objects().into_iter().map(|object| object.line);
        self.summary().into_iter().chain(objects).chain(self.not_starting()).collect::<Vec<_>>().join("\n")
    }

    fn summary(&self) -> Vec<String> {
        let Self { running, version, trouble, nodes, pods, .. } = self;
        let mut lines = vec![
            format!(
                "Ballast runs as process {}, its Kubernetes API ({version}) is {}",
                running.pid, running.api
            ),
            format!("functions on {}, operators on {}", running.gateway, running.operator),
            format!("nodes  {} of {} ready", nodes.ready, nodes.total),
            format!("pods   {} of {} ready", pods.ready, pods.total),
        ];
        lines.extend(trouble.iter().map(|trouble| format!("not well: {trouble}")));
        lines
    }

    fn objects(&self) -> Vec<Shown> {
        let workloads = self.workloads.iter().map(|Workload { kind, namespace, name, ready, desired }| {
            let state = match desired {
                0 => "asleep".to_owned(),
                desired => format!("{ready} of {desired} ready"),
            };
            Shown { is_changing: ready != desired, line: format!("{kind:<12} {namespace}/{name}: {state}") }
        });
        let scaled = self
            .scaled
            .iter()
            .map(|scaled| Shown { is_changing: scaled.ready != scaled.desired, line: scaled.line() });
        workloads.chain(scaled).collect()
    }

    fn not_starting(&self) -> impl Iterator<Item = String> {
        self.failures
            .iter()
            .map(|Failure { namespace, pod, why }| format!("pod {namespace}/{pod} does not start: {why}"))
    }
}
