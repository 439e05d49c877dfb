//! `ballast status`: what runs in a data directory.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use k8s_openapi::api::{apps::v1 as apps, core::v1 as core};
use kube::{
    Api, Resource,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde::Serialize;

use crate::{
    output::{self, Format},
    running::Running,
};

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
    nodes: Share,
    pods: Share,
    workloads: Vec<Workload>,
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
        Ok(ExitCode::SUCCESS)
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
            nodes: share(&nodes.items, node_ready),
            pods: share(&pods.items, pod_ready),
            workloads,
        })
    }
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
            "Ballast runs as process {}, its Kubernetes API ({}) is {}\nnodes  {} of {} ready\npods   {} of {} ready",
            self.running.pid,
            self.version,
            self.running.api,
            self.nodes.ready,
            self.nodes.total,
            self.pods.ready,
            self.pods.total
        );
        for Workload { kind, namespace, name, ready, desired } in &self.workloads {
            text.push_str(&format!("\n{kind:<12} {namespace}/{name}: {ready} of {desired} ready"));
        }
        text
    }
}
