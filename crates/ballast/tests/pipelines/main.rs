//! Pipelines end to end, with real processes: on the embedded Kubernetes with embedded buffers, and on a real one with NATS.

#![allow(clippy::unwrap_used, reason = "a test, though with a main of its own")]

mod story;
mod world;

use std::{process::ExitCode, time::Duration};

use cluster::{Flavor, program};

use self::world::World;

/// Started without arguments it is the test; otherwise it is one of the containers that take part.
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    match arguments[..] {
        ["slow-map", sockets, millis] => {
            let pause = Duration::from_millis(millis.parse().unwrap());
            runtime().block_on(containers::slow_map(sockets, pause));
            ExitCode::SUCCESS
        }
        ["sink", sockets, file] => {
            runtime().block_on(containers::sink(sockets, file));
            ExitCode::SUCCESS
        }
        _ => program::main([Flavor::Embedded, Flavor::Real].map(|flavor| program::Test {
            name: format!("what_waits_decides_how_many_pods_there_are::{flavor}"),
            flavor,
            body: async |cluster| {
                let world = World::start(cluster).await?;
                let told = story::what_waits_decides_how_many_pods_there_are(&world).await;
                told.map_err(|error| error.context(world.log()))
            },
        })),
    }
}
