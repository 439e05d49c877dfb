//! The program of `bench/graphs`: many instances of one definition on a real kube-apiserver, looked after by `ballast serve`
//! and then, on a fresh one, by kro's controller.
//!
//! ```text
//! graphs_bench BALLAST INSTANCES [FILE]
//!
//! this program ── definition, instances ──▶ kube-apiserver ◀── ballast serve, or kro ──▶ 3 resources for each instance
//!       ▲                                        │  └──▶ audit log: what the controller has asked for
//!       └──────────── watch of instances ────────┘
//! ```
//!
//! It is over when the watch shows all instances as ACTIVE; nothing runs the pods, and readiness does not ask for them. With a
//! file, the table between its markers is written anew.

#![allow(clippy::print_stdout, reason = "it prints what it measured")]

mod compiled;
mod instances;
mod objects;
mod report;
mod sets;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use cluster::{
    Requests, Running, free_ports,
    real::{ControlPlane, Options},
    report::{log, write_table},
    spawn_ballast, spawn_client, tools,
};
use instances::Instances;
use kube::CustomResourceExt;
use report::{Report, Side};

const KIND: &str = "App";
const IDLE: Duration = Duration::from_secs(60);
/// Whoever asks for nothing for so long has come to rest.
const QUIET: Duration = Duration::from_secs(10);
/// Not waited for longer than this.
const RESTLESS: Duration = Duration::from_secs(180);

/// kro is shipped with one instance at a time, ten events and a hundred requests a second.
const TUNED: &[&str] = &[
    "--dynamic-controller-concurrent-reconciles=50",
    "--dynamic-controller-rate-limiter-rate-limit=10000",
    "--dynamic-controller-rate-limiter-burst-limit=10000",
    "--client-qps=10000",
    "--client-burst=10000",
    "--zap-log-level=info",
];

struct Bench {
    plane: ControlPlane,
    client: kube::Client,
    controller: Running,
    /// For what the controller writes.
    _directory: tempfile::TempDir,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (ballast, n_instances, file) = match arguments.as_slice() {
        [ballast, instances] => (ballast, instances.parse()?, None),
        [ballast, instances, file] => (ballast, instances.parse()?, Some(file)),
        _ => bail!("see the head of graphs_bench"),
    };
    let load = cluster::report::load()?;
    let compile = compiled::median(20)?;
    let mut bench = Bench::ballast(Path::new(ballast)).await?;
    let ours = bench.measure(n_instances).await.context("ballast serve")?;
    println!("ballast serve\n{ours}");
    let sets = sets::measure(&bench.client, n_instances).await?;
    drop(bench);
    let mut bench = Bench::kro().await?;
    let peer = bench.measure(n_instances).await.context("kro")?;
    println!("kro\n{peer}");
    drop(bench);
    let report = Report { n_instances, load, ours, peer, sets, compile };
    println!("{report}");
    file.map_or(Ok(()), |file| write_table(Path::new(file), "graphs", &report.to_string()))
}

impl Bench {
    async fn ballast(program: &Path) -> Result<Self> {
        let (plane, client, directory) = Self::plane().await?;
        let crds = [api::kro::ResourceGraphDefinition::crd()];
        controllers::crds::install_these(&client, &crds).await?;
        let (kubeconfig, log) = (plane.audited_kubeconfig(), log(directory.path(), "ballast")?);
        let controller =
            spawn_ballast(program, &kubeconfig, directory.path(), &["--controllers=graph"], &log)?;
        Ok(Self { plane, client, controller, _directory: directory })
    }

    async fn kro() -> Result<Self> {
        let (plane, client, directory) = Self::plane().await?;
        let program = tools::kro()?;
        objects::install(&client, program.parent().context("it is in a folder")?).await?;
        let [metrics, health] = free_ports()?;
        let mut arguments: Vec<String> = TUNED.iter().map(|flag| (*flag).to_owned()).collect();
        arguments.push(format!("--metrics-bind-address=127.0.0.1:{metrics}"));
        arguments.push(format!("--health-probe-bind-address=127.0.0.1:{health}"));
        let controller =
            spawn_client(&program, &plane.audited_kubeconfig(), &arguments, &log(directory.path(), "kro")?)?;
        Ok(Self { plane, client, controller, _directory: directory })
    }

    /// A fresh one, so that neither finds what the other has left.
    async fn plane() -> Result<(ControlPlane, kube::Client, tempfile::TempDir)> {
        let plane = ControlPlane::start(Options { audit: true, ..Options::default() }).await?;
        let client = plane.client().await?;
        Ok((plane, client, tempfile::tempdir()?))
    }

    async fn measure(&mut self, n_instances: usize) -> Result<Side> {
        objects::define(&self.client, objects::definition(KIND, 3, None)).await?;
        let api = objects::api(&self.client, KIND);
        let mut instances = Instances::watch(api.clone());
        self.until_quiet().await?;
        let rss_before_mb = self.controller.rss_mb()?;
        let (before, processor, servers) =
            (self.requests()?, self.controller.processor_time()?, self.servers()?);
        let begun = Instant::now();
        let (created, active) =
            tokio::join!(objects::create_all(&api, KIND, n_instances), instances.until(n_instances));
        let all_active = begun.elapsed();
        created.and(active)?;
        ensure!(!self.controller.has_exited(), "the controller has ended");
        self.until_quiet().await?;
        let calls = self.requests()?.since(&before);
        let processor = self.controller.processor_time()? - processor;
        let servers = self.servers()? - servers;
        let (leases_before, before) = self.leases_and_requests()?;
        tokio::time::sleep(IDLE).await;
        let (leases, requests) = self.leases_and_requests()?;
        Ok(Side {
            all_active,
            times: instances.times(),
            calls,
            idle: requests.since(&before),
            leases: leases.since(&leases_before),
            processor,
            servers,
            rss_before_mb,
            rss_mb: self.controller.rss_mb()?,
            peak_rss_mb: self.controller.peak_rss_mb()?,
        })
    }

    /// Until the controller has asked for nothing for a while.
    async fn until_quiet(&self) -> Result<()> {
        let begun = Instant::now();
        let mut before = self.requests()?;
        while begun.elapsed() < RESTLESS {
            tokio::time::sleep(QUIET).await;
            let now = self.requests()?;
            if now.since(&before).n_all() == 0 {
                return Ok(());
            }
            before = now;
        }
        Ok(())
    }

    /// Those of the controller, without leases.
    fn requests(&self) -> Result<Requests> {
        Ok(self.leases_and_requests()?.1)
    }

    fn leases_and_requests(&self) -> Result<(Requests, Requests)> {
        Ok(Requests::audited(&self.plane.audit_log())?.split("leases"))
    }

    /// Processor time of kube-apiserver and etcd.
    fn servers(&self) -> Result<Duration> {
        Ok(self.plane.apiserver.processor_time()? + self.plane.etcd.processor_time()?)
    }
}
