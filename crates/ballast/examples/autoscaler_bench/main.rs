//! The program of `bench/autoscaler`: many vertices on a real kube-apiserver with their buffers on a real NATS server, scaled
//! by `ballast serve`.
//!
//! ```text
//! autoscaler_bench BALLAST VERTICES [FILE]
//!
//! this program ── Pipelines ──▶ kube-apiserver ◀──▶ ballast serve ──▶ how much is waiting? ──▶ NATS
//!    │  ▲                            │  └──▶ audit log: what Ballast asked for     │             ▲  └─▶ counted by this program
//!    │  └── watch of Vertices ───────┘                                             │             │
//!    ├── stand-ins for pods: ready at once, and metrics over HTTPS ◀───────────────┘             │
//!    └── messages that fill a buffer ────────────────────────────────────────────────────────────┘
//! ```
//!
//! Half of the pipelines process 50 messages a second and keep up with them; in the others, all but the sources sleep. A
//! buffer that is filled is seen to when the watch shows another count: the API's own time is part of it. With a file, the
//! table between its markers is written anew.

#![allow(clippy::print_stdout, reason = "it prints what it measured")]

mod objects;
mod pods;
mod report;

use std::{
    collections::HashMap,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use cluster::{
    Counts, Nats, Requests, Running, StreamRequests,
    real::{ControlPlane, Options},
    report::{log, write_table},
    spawn_ballast,
};
use objects::Pipelines;
use report::{Fills, Report};

const IDLE: Duration = Duration::from_secs(60);
/// Ballast has come to rest when it has written nothing for so long.
const QUIET: Duration = Duration::from_secs(15);
/// So many buffers are filled together, so many times.
const TOGETHER: usize = 10;
const ROUNDS: usize = 6;
/// A vertex that runs is scaled by what waited over its lookback of 120 s: not waited for longer than this.
const PATIENCE: Duration = Duration::from_secs(150);

struct Bench {
    plane: ControlPlane,
    nats: Nats,
    asked: StreamRequests,
    counts: Counts,
    pipelines: Pipelines,
    ballast: Running,
    /// For what Ballast writes.
    _directory: tempfile::TempDir,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (ballast, n_vertices, file) = match arguments.as_slice() {
        [ballast, vertices] => (ballast, vertices.parse()?, None),
        [ballast, vertices, file] => (ballast, vertices.parse()?, Some(file)),
        _ => bail!("see the head of autoscaler_bench"),
    };
    let load = cluster::report::load()?;
    let mut bench = Bench::start(Path::new(ballast), n_vertices).await?;
    let report = bench.measure(load).await?;
    println!("{report}");
    file.map_or(Ok(()), |file| write_table(Path::new(file), "autoscaler", &report.to_string()))
}

impl Bench {
    async fn start(program: &Path, n_vertices: usize) -> Result<Self> {
        let plane = ControlPlane::start(Options { audit: true, ..Options::default() }).await?;
        let client = plane.client().await?;
        let nats = Nats::one().await?;
        let asked = StreamRequests::listen(&nats.url()).await?;
        controllers::crds::install(&client).await?;
        pods::run(client.clone())?;
        let directory = tempfile::tempdir()?;
        let (kubeconfig, log) = (plane.audited_kubeconfig(), log(directory.path(), "ballast")?);
        let flags = ["--controllers=pipelines", "--loopback-pods"];
        let ballast = spawn_ballast(program, &kubeconfig, directory.path(), &flags, &log)?;
        let counts = objects::watch(&client);
        let pipelines = Pipelines::create(&client, &nats.url(), n_vertices).await?;
        Ok(Self { plane, nats, asked, counts, pipelines, ballast, _directory: directory })
    }

    async fn measure(&mut self, load: String) -> Result<Report> {
        let begun = Instant::now();
        self.until_settled().await?;
        let settled = begun.elapsed();
        println!("at rest after {:.0} s", settled.as_secs_f64());
        self.asked.take();
        let (leases_before, before) = self.leases_and_requests()?;
        let idle_cores = cluster::report::cores(&self.ballast, IDLE).await?;
        let (leases, requests) = self.leases_and_requests()?;
        let (idle, leases) = (requests.since(&before), leases.since(&leases_before));
        println!("in the idle minute:\n{idle}");
        let asked = self.asked.take();
        let rss_mb = self.ballast.rss_mb()?;
        let (mut sleeping, begun, used) = (Fills::default(), Instant::now(), self.ballast.processor_time()?);
        let before = self.requests()?;
        for round in 0..ROUNDS {
            // not in step with the looks at the buffers
            tokio::time::sleep(Duration::from_millis(370 * round as u64)).await;
            let filled = self.pipelines.sleepers(TOGETHER);
            sleeping.extend(self.fill(&filled, 1, None).await?);
        }
        let busy_cores =
            (self.ballast.processor_time()? - used).as_secs_f64() / begun.elapsed().as_secs_f64();
        let writes = self.requests()?.since(&before);
        println!("while {} were woken:\n{writes}", sleeping.n_filled);
        let all = self.pipelines.sleepers(TOGETHER * 10);
        let together = self.fill(&all, 1, None).await?;
        let runners = self.pipelines.runners(TOGETHER);
        let running = self.fill(&runners, 2, Some(PATIENCE)).await?;
        Ok(Report {
            n_vertices: self.pipelines.n_vertices(),
            load,
            settled,
            idle_cores,
            busy_cores,
            idle,
            leases,
            asked: self.for_each_buffer(&asked),
            sleeping,
            together,
            running,
            rss_mb,
            peak_rss_mb: self.ballast.peak_rss_mb()?,
        })
    }

    /// Fills the buffers of vertices, until each is seen to have at least this many replicas.
    async fn fill(&mut self, vertices: &[String], to: i32, patience: Option<Duration>) -> Result<Fills> {
        let mut wanted = Vec::new();
        for vertex in vertices {
            let count = self.counts.of(vertex).with_context(|| format!("{vertex} was never seen"))?;
            ensure!(count < to, "{vertex} has {count} replicas already");
            wanted.push((vertex.clone(), to));
        }
        let filled = objects::fill(&self.nats.url(), vertices).await?;
        let seen = self.counts.until(&wanted, Instant::now(), patience).await;
        ensure!(!self.ballast.has_exited(), "ballast has ended");
        let time = |(vertex, at): (&String, &Instant)| seen.get(vertex).map(|seen| seen.duration_since(*at));
        Ok(Fills::new(vertices.len(), filled.iter().filter_map(time).collect()))
    }

    /// Until those that are to sleep do, the others run, and nothing is written any more.
    async fn until_settled(&mut self) -> Result<()> {
        let mut before = self.requests()?;
        loop {
            tokio::time::sleep(QUIET).await;
            ensure!(!self.ballast.has_exited(), "ballast has ended");
            let now = self.requests()?;
            let counts = self.pipelines.all().map(|(vertex, sleeps)| (self.counts.of(&vertex), sleeps));
            let is_right = |(count, sleeps): (Option<i32>, bool)| count == Some(if sleeps { 0 } else { 1 });
            let n_wrong = counts.filter(|one| !is_right(*one)).count();
            let n_writes = now.since(&before).n_writes();
            println!("{n_wrong} vertices are not there yet, {n_writes} writes");
            if n_wrong == 0 && n_writes == 0 {
                return Ok(());
            }
            before = now;
        }
    }

    /// How often the buffers were asked about: the least and the most.
    fn for_each_buffer(&self, asked: &HashMap<String, u64>) -> (u64, u64) {
        let readers = self.pipelines.all().filter(|(vertex, _)| !vertex.ends_with(objects::SOURCE));
        let count = |(vertex, _): (String, bool)| asked.get(&objects::buffer(&vertex)).copied().unwrap_or(0);
        let counts: Vec<u64> = readers.map(count).collect();
        (counts.iter().copied().min().unwrap_or(0), counts.iter().copied().max().unwrap_or(0))
    }

    /// Those of Ballast, without leases.
    fn requests(&self) -> Result<Requests> {
        Ok(self.leases_and_requests()?.1)
    }

    fn leases_and_requests(&self) -> Result<(Requests, Requests)> {
        Ok(Requests::audited(&self.plane.audit_log())?.split("leases"))
    }
}
