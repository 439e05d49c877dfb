//! Runs every test of the suite on the embedded cluster and on the real one.

#![allow(clippy::print_stdout, reason = "a test program speaks on its output")]

mod suite;

use std::{
    env, io, iter,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode},
    sync::{Mutex, PoisonError},
};

use anyhow::Result;
use cluster::{Cluster, Flavor};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::{runtime::Runtime, sync::OnceCell};

/// Started when the first test asks for it.
static EMBEDDED: OnceCell<Cluster> = OnceCell::const_new();
static REAL: OnceCell<Cluster> = OnceCell::const_new();

fn main() -> ExitCode {
    // the process nodes of this program start their containers through it
    if std::env::args().nth(1).as_deref() == Some("pod-exec") {
        return node::launch::main();
    }
    if let Err(error) = put_our_programs_first() {
        println!("cannot start with a PATH of its own: {error}");
        return ExitCode::FAILURE;
    }
    tracing_subscriber::fmt().with_env_filter("controllers=trace,engine=trace").with_writer(|| Log).init();
    let arguments = Arguments::from_args();
    let Ok(runtime) = Runtime::new() else { return ExitCode::FAILURE };
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    let mut trials = Vec::new();
    for test in suite::ALL {
        for flavor in [Flavor::Embedded, Flavor::Real] {
            if test.only.is_none_or(|only| only == flavor) {
                trials.push(Trial::test(format!("{}::{flavor}", test.name), move || {
                    runtime.block_on(run(test, flavor)).map_err(|error| Failed::from(format!("{error:?}")))
                }));
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

/// The `ssh` of these tests stands before the machine's, for this program and for the pods of its nodes. It takes a new
/// start: no program changes the variables of its own without `unsafe`.
fn put_our_programs_first() -> io::Result<()> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("bin");
    let path = env::var_os("PATH").unwrap_or_default();
    if env::split_paths(&path).next().as_ref() == Some(&ours) {
        return Ok(());
    }
    let all = env::join_paths(iter::once(ours).chain(env::split_paths(&path))).map_err(io::Error::other)?;
    Err(Command::new(env::current_exe()?).args(env::args_os().skip(1)).env("PATH", all).exec())
}

/// What the controllers log, for tests of what they must not say.
static LOGGED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        LOGGED.lock().unwrap_or_else(PoisonError::into_inner).write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logged() -> String {
    String::from_utf8_lossy(&LOGGED.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}

async fn run(test: &suite::Test, flavor: Flavor) -> Result<()> {
    let cell = if flavor == Flavor::Embedded { &EMBEDDED } else { &REAL };
    let cluster = cell.get_or_try_init(|| Cluster::start(flavor)).await?;
    (test.body)(cluster).await
}

async fn stop() -> Result<()> {
    for cell in [&EMBEDDED, &REAL] {
        if let Some(cluster) = cell.get() {
            cluster.stop().await?;
        }
    }
    Ok(())
}
