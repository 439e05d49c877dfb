//! Functions on demand, end to end: nodes are `ballast serve` processes, pods are real processes. Every test runs on the
//! embedded API and on a real one, with one node on redb and with three nodes on JetStream.

mod http;
mod lines;
mod load;
mod relay;
mod suite;
mod world;

use std::process::ExitCode;

use anyhow::Result;
use cluster::{Cluster, Flavor, program};
use world::{Nodes, World};

fn main() -> ExitCode {
    let mut tests = Vec::new();
    for test in suite::ALL {
        for flavor in [Flavor::Embedded, Flavor::Real] {
            for nodes in [Nodes::One, Nodes::Three] {
                let is_meant = test.on.is_none_or(|on| on == nodes) && test.of.is_none_or(|of| of == flavor);
                if is_meant {
                    let name = format!("{}::{flavor}::{nodes}", test.name);
                    tests.push(program::Test {
                        name,
                        flavor,
                        body: move |cluster| run(test, cluster, nodes),
                    });
                }
            }
        }
    }
    program::main(tests)
}

async fn run(test: &suite::Test, cluster: &'static Cluster, nodes: Nodes) -> Result<()> {
    let mut world = World::start(cluster, nodes).await?;
    let result = (test.body)(&mut world).await;
    let logs = if result.is_err() { world.logs() } else { String::new() };
    world.clear().await?;
    result.map_err(|error| error.context(logs))
}
