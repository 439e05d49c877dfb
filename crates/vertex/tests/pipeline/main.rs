//! A pipeline of real processes, generator to map to sink, whose pods are killed as `kill -9` does: no message is lost, and
//! one comes twice only where a sink may see it twice.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, though with a main of its own")]

mod pod;
mod story;

use std::process::ExitCode;

use futures::{FutureExt, future::BoxFuture};
use libtest_mimic::{Arguments, Trial};

/// Started without arguments it is the test; otherwise it is one of the processes that take part.
fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--pod", config] => runtime.block_on(pod::run(config)),
        ["--map", sockets] => runtime.block_on(containers::map(sockets)),
        ["--sink", sockets, file] => runtime.block_on(containers::sink(sockets, file)),
        _ => {
            let runtime: &'static _ = Box::leak(Box::new(runtime));
            let trial = |name: &str, story: fn() -> BoxFuture<'static, ()>| {
                Trial::test(format!("killed_pods_lose_nothing::{name}"), move || {
                    runtime.block_on(story());
                    Ok(())
                })
            };
            let trials = vec![
                trial("jetstream", || story::on_jetstream().boxed()),
                trial("embedded", || story::on_embedded().boxed()),
                trial("python", || story::in_python().boxed()),
            ];
            return libtest_mimic::run(&Arguments::from_args(), trials).exit_code();
        }
    }
    ExitCode::SUCCESS
}
