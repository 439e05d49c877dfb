//! Nothing that was acknowledged is lost: not with this process, not with a NATS server, not with one of three.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, though with a main of its own")]

mod child;
#[path = "../shared/eventually.rs"]
mod eventually;
mod servers;

use std::{process::ExitCode, time::Duration};

use eventually::eventually;
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, child, address, name, prefix] = &arguments[..]
        && child == "child"
    {
        runtime.block_on(child::work(address, name, prefix));
        return ExitCode::SUCCESS;
    }
    let runtime: &'static _ = Box::leak(Box::new(runtime));
    let trials = vec![
        Trial::test("a_killed_process_loses_nothing::redb", || {
            runtime.block_on(child::a_killed_process_loses_nothing_in_a_file());
            Ok(())
        }),
        Trial::test("a_killed_process_loses_nothing::nats", || {
            runtime.block_on(child::a_killed_process_loses_nothing_on_nats());
            Ok(())
        }),
        Trial::test("a_killed_server_loses_nothing", || {
            runtime.block_on(servers::a_killed_server_loses_nothing());
            Ok(())
        }),
        Trial::test("three_servers_lose_each_in_turn", || {
            runtime.block_on(servers::three_servers_lose_each_in_turn());
            Ok(())
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn options(name: &str, replicas: usize, patience: Duration) -> store::Options {
    store::Options { name: name.to_owned(), replicas, patience, ..store::Options::default() }
}
