//! The main of a test program whose tests run on both clusters.

#![allow(clippy::print_stdout, reason = "a test program speaks on its output")]

use std::{future::Future, process::ExitCode};

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::{runtime::Runtime, sync::OnceCell};

use crate::{Cluster, Flavor};

/// One test on one of the clusters.
pub struct Test<Body> {
    pub name: String,
    pub flavor: Flavor,
    pub body: Body,
}

/// Started when the first test asks for it.
static EMBEDDED: OnceCell<Cluster> = OnceCell::const_new();
static REAL: OnceCell<Cluster> = OnceCell::const_new();

/// Runs those tests that the arguments ask for, and stops the clusters.
pub fn main<Body, Outcome>(tests: impl IntoIterator<Item = Test<Body>>) -> ExitCode
where
    Body: FnOnce(&'static Cluster) -> Outcome + Send + 'static,
    Outcome: Future<Output = Result<()>>,
{
    if let Some(ended) = launched() {
        return ended;
    }
    let arguments = Arguments::from_args();
    let Ok(runtime) = Runtime::new() else { return ExitCode::FAILURE };
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    let trial = |test: Test<Body>| {
        Trial::test(test.name, move || {
            let run = async { (test.body)(started(test.flavor).await?).await };
            runtime.block_on(run).map_err(|error| Failed::from(format!("{error:?}")))
        })
    };
    let conclusion = libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect());
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

/// The process nodes of this program start their containers through it: how that ended, if this is such a start.
pub fn launched() -> Option<ExitCode> {
    (std::env::args().nth(1).as_deref() == Some("pod-exec")).then(kubelet::launch::main)
}

async fn started(flavor: Flavor) -> Result<&'static Cluster> {
    let cell = if flavor == Flavor::Embedded { &EMBEDDED } else { &REAL };
    cell.get_or_try_init(|| Cluster::start(flavor)).await
}

async fn stop() -> Result<()> {
    for cell in [&EMBEDDED, &REAL] {
        if let Some(cluster) = cell.get() {
            cluster.stop().await?;
        }
    }
    Ok(())
}
