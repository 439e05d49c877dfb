//! Functions on demand, end to end: nodes are `ballast serve` processes, pods are real processes. Every test runs on the
//! embedded API and on a real one, with one node on redb and with three nodes on JetStream.

#![allow(clippy::print_stdout, reason = "a test program speaks on its output")]

mod http;
mod lines;
mod load;
mod relay;
mod suite;
mod world;

use std::process::ExitCode;

use anyhow::Result;
use cluster::{Cluster, Flavor};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::{runtime::Runtime, sync::OnceCell};
use world::{Nodes, World};

/// Started when the first test asks for it.
static EMBEDDED: OnceCell<Cluster> = OnceCell::const_new();
static REAL: OnceCell<Cluster> = OnceCell::const_new();

fn main() -> ExitCode {
    // the process nodes of this program start their containers through it
    if std::env::args().nth(1).as_deref() == Some("pod-exec") {
        return node::launch::main();
    }
    let arguments = Arguments::from_args();
    let Ok(runtime) = Runtime::new() else { return ExitCode::FAILURE };
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    let mut trials = Vec::new();
    for test in suite::ALL {
        for flavor in [Flavor::Embedded, Flavor::Real] {
            for nodes in [Nodes::One, Nodes::Three] {
                if test.only.is_none_or(|only| only == nodes) {
                    trials.push(Trial::test(format!("{}::{flavor}::{nodes}", test.name), move || {
                        runtime
                            .block_on(run(test, flavor, nodes))
                            .map_err(|error| Failed::from(format!("{error:?}")))
                    }));
                }
            }
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    let stopped = runtime.block_on(stop());
    match (conclusion.has_failed(), stopped) {
        (false, Ok(())) => ExitCode::SUCCESS,
        (_, Err(error)) => {
            println!("the clusters did not stop: {error:?}");
            ExitCode::FAILURE
        }
        (true, Ok(())) => ExitCode::FAILURE,
    }
}

async fn run(test: &suite::Test, flavor: Flavor, nodes: Nodes) -> Result<()> {
    let cell = if flavor == Flavor::Embedded { &EMBEDDED } else { &REAL };
    let cluster = cell.get_or_try_init(|| Cluster::start(flavor)).await?;
    let mut world = World::start(cluster, nodes).await?;
    let result = (test.body)(&mut world).await;
    let logs = if result.is_err() { world.logs() } else { String::new() };
    world.clear().await?;
    result.map_err(|error| error.context(logs))
}

async fn stop() -> Result<()> {
    for cell in [&EMBEDDED, &REAL] {
        if let Some(cluster) = cell.get() {
            cluster.stop().await?;
        }
    }
    Ok(())
}
