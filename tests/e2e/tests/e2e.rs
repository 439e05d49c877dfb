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

use cluster::{Flavor, program};

fn main() -> ExitCode {
    if let Some(ended) = program::launched() {
        return ended;
    }
    if let Err(error) = put_our_programs_first() {
        println!("cannot start with a PATH of its own: {error}");
        return ExitCode::FAILURE;
    }
    tracing_subscriber::fmt().with_env_filter("controllers=trace,engine=trace").with_writer(|| Log).init();
    let mut tests = Vec::new();
    for test in suite::ALL {
        for flavor in [Flavor::Embedded, Flavor::Real] {
            if test.only.is_none_or(|only| only == flavor) {
                tests.push(program::Test {
                    name: format!("{}::{flavor}", test.name),
                    flavor,
                    body: test.body,
                });
            }
        }
    }
    program::main(tests)
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
