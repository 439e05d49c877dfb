//! The program of `bench/scaling`: many scaled objects on a real kube-apiserver, scaled by `ballast serve` and then by the
//! HorizontalPodAutoscaler controller.
//!
//! ```text
//! scaling_bench BALLAST OBJECTS [all|ballast|hpa]
//!
//! figures ──▶ source, scraped ──▶ ballast serve ───────────────┐
//!    └──────▶ external.metrics.k8s.io ──▶ kube-apiserver ──▶ kube-controller-manager ──▶ scale ──▶ watch of this program
//! ```
//!
//! Every object has a figure of its own, 10 for each replica that it is to have. A change is a figure that grows, and it is
//! over when the watch shows the new count: the API's own time is part of it. Deployments have no pods.

#![allow(clippy::print_stdout, reason = "it prints what it measured")]

mod figures;
mod objects;
mod servers;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use cluster::{
    Counts, Requests, Running, free_ports,
    real::{ControlPlane, Options},
    report::{cores, percentile},
    spawn, spawn_ballast, tools,
};
use figures::{Figures, name};

/// So many objects change together: one in a hundred.
const SHARE: usize = 100;
const ROUNDS: usize = 6;
const IDLE: Duration = Duration::from_secs(60);
/// With the flags it is shipped with, the peer is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Shipped: 20 requests a second, five objects at a time.
const SHIPPED: &[&str] = &[];
const TUNED: &[&str] =
    &["--concurrent-horizontal-pod-autoscaler-syncs=50", "--kube-api-qps=5000", "--kube-api-burst=10000"];

struct Bench {
    plane: ControlPlane,
    client: kube::Client,
    figures: Arc<Figures>,
    counts: Counts,
    n_objects: usize,
    /// Which object changes next.
    next: usize,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (ballast, n_objects, which) = match arguments.as_slice() {
        [ballast, objects] => (*ballast, objects.parse()?, "all"),
        [ballast, objects, which] => (*ballast, objects.parse()?, *which),
        _ => bail!("see the head of scaling_bench"),
    };
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.client().await?;
    let figures = Arc::new(Figures::new(n_objects));
    let [source_port, metrics_port] = free_ports()?;
    servers::source(figures.clone(), source_port).await?;
    servers::external_metrics(figures.clone(), metrics_port).await?;
    let begun = Instant::now();
    objects::create(&client, n_objects, source_port).await?;
    println!("{n_objects} Deployments made in {:.0} s", begun.elapsed().as_secs_f64());
    let counts = objects::watch(&client);
    let mut bench = Bench { plane, client, figures, counts, n_objects, next: 0 };
    if which != "hpa" {
        bench.ballast(Path::new(ballast)).await?;
    }
    if which != "ballast" {
        objects::autoscale(&bench.client, n_objects).await?;
        bench.plane.aggregate("external.metrics.k8s.io", "v1beta1", metrics_port).await?;
        bench.peer("tuned", TUNED).await?;
        bench.peer("shipped", SHIPPED).await?;
    }
    Ok(())
}

impl Bench {
    async fn ballast(&mut self, program: &Path) -> Result<()> {
        println!("\nballast serve");
        let directory = tempfile::tempdir()?;
        let log = std::env::var_os("BALLAST_LOG").map_or(directory.path().join("log"), PathBuf::from);
        let begun = Instant::now();
        let kubeconfig = self.plane.kubeconfig();
        let mut running = spawn_ballast(program, &kubeconfig, directory.path(), &["--loopback-pods"], &log)?;
        while self.figures.n_scrapes() == 0 {
            ensure!(!running.has_exited(), "ballast ended: {}", std::fs::read_to_string(&log)?);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        println!("first scrape after {:.1} s", begun.elapsed().as_secs_f64());
        self.until_quiet(&running).await?;
        println!("quiet after {:.1} s", begun.elapsed().as_secs_f64());
        self.idle(&running).await?;
        self.rounds(&running, ROUNDS, self.n_objects.div_ceil(SHARE), None).await?;
        self.rounds(&running, 1, self.n_objects, None).await?;
        drop(running);
        Ok(())
    }

    async fn peer(&mut self, label: &str, flags: &[&str]) -> Result<()> {
        println!("\nkube-controller-manager, flags {label}: {}", flags.join(" "));
        let directory = tempfile::tempdir()?;
        let mut arguments = vec![
            format!("--kubeconfig={}", self.plane.kubeconfig().display()),
            "--controllers=horizontal-pod-autoscaler-controller".to_owned(),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let log = std::env::var_os("BALLAST_LOG").map_or(directory.path().join("log"), PathBuf::from);
        let is_shipped = flags.is_empty();
        self.figures.forget_asked();
        let begun = Instant::now();
        let mut running = spawn(&tools::kubernetes("kube-controller-manager")?, &arguments, &log)?;
        while self.figures.n_asked() < self.n_objects && !(is_shipped && begun.elapsed() > PATIENCE) {
            ensure!(!running.has_exited(), "it ended: {}", std::fs::read_to_string(&log)?);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        println!(
            "{} of {} objects looked at after {:.1} s",
            self.figures.n_asked(),
            self.n_objects,
            begun.elapsed().as_secs_f64()
        );
        if !is_shipped {
            // its first round writes the status of each
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        self.idle(&running).await?;
        let (n_rounds, patience) = if is_shipped { (1, Some(PATIENCE)) } else { (ROUNDS, None) };
        self.rounds(&running, n_rounds, self.n_objects.div_ceil(SHARE), patience).await
    }

    /// Until the API has had nothing to do for ten seconds.
    async fn until_quiet(&self, running: &Running) -> Result<()> {
        let mut before = Requests::read(&self.client).await?;
        loop {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let now = Requests::read(&self.client).await?;
            let n_writes = now.since(&before).n_writes();
            if n_writes == 0
                && self.figures.n_scrapes() > 2
                && cores(running, Duration::from_secs(5)).await? < 0.5
            {
                return Ok(());
            }
            before = now;
        }
    }

    async fn idle(&self, running: &Running) -> Result<()> {
        let (before, n_answers) = (Requests::read(&self.client).await?, self.figures.n_answers());
        let cores = cores(running, IDLE).await?;
        let requests = Requests::read(&self.client).await?.since(&before);
        println!(
            "idle for a minute: {} requests and {} for metrics, {cores:.3} cores, {:.1} MB",
            requests.n_all(),
            self.figures.n_answers() - n_answers,
            running.rss_mb()?
        );
        println!("{requests}");
        Ok(())
    }

    /// So many objects change together, several times over.
    async fn rounds(
        &mut self,
        running: &Running,
        n_rounds: usize,
        n_changes: usize,
        patience: Option<Duration>,
    ) -> Result<()> {
        let before = Requests::read(&self.client).await?;
        let (mut from_change, mut from_scrape) = (Vec::new(), Vec::new());
        for round in 0..n_rounds {
            // not in step with the scrapes
            tokio::time::sleep(Duration::from_millis(700 * round as u64)).await;
            let all: Vec<usize> = (0..n_changes).map(|idx| (self.next + idx) % self.n_objects).collect();
            self.next += n_changes;
            let more = |object: &usize| (*object, self.counts.of(&name(*object)).unwrap_or(1) + 1);
            let wanted: Vec<(usize, i32)> = all.iter().map(more).collect();
            let named: Vec<(String, i32)> =
                wanted.iter().map(|(object, replicas)| (name(*object), *replicas)).collect();
            let changed = Instant::now();
            self.figures.set(&wanted);
            let seen = self.counts.until(&named, changed, patience).await;
            let shown = self.figures.shown_after(changed);
            for at in seen.into_values() {
                from_change.push(at.saturating_duration_since(changed));
                from_scrape.extend(shown.map(|shown| at.saturating_duration_since(shown)));
            }
        }
        let n_expected = n_rounds * n_changes;
        println!("{n_rounds} × {n_changes} changes, {} of {n_expected} written", from_change.len());
        // what is said about them comes a moment later
        tokio::time::sleep(Duration::from_secs(5)).await;
        let requests = Requests::read(&self.client).await?.since(&before);
        println!("| s | p50 | p99 | max |\n|---|--:|--:|--:|");
        row("from the change", &mut from_change);
        row("from the scrape that shows it", &mut from_scrape);
        println!(
            "{:.2} writes a change, {:.1} MB",
            requests.n_writes() as f64 / from_change.len().max(1) as f64,
            running.rss_mb()?
        );
        println!("{requests}");
        Ok(())
    }
}

fn row(what: &str, all: &mut [Duration]) {
    if all.is_empty() {
        return;
    }
    all.sort();
    let at = |percent: usize| percentile(all, percent);
    println!("| {what} | {:.2} | {:.2} | {:.2} |", at(50), at(99), at(100));
}
