//! How long does a simulated day of many workloads take? `cargo run --release -p sim --example day [WORKLOADS]`

#![allow(clippy::print_stdout)]

use std::{env, error::Error, hint::black_box, time::Instant};

const SCENARIO: &str = include_str!("../../../examples/scenarios/daily-wave.yaml");

fn main() -> Result<(), Box<dyn Error>> {
    let n_workloads: u64 = env::args().nth(1).map_or(Ok(1000), |text| text.parse())?;
    let scenario = sim::Scenario::from_yaml(SCENARIO)?.with_policies(1);
    let begun = Instant::now();
    let (mut changes, mut decisions) = (0, 0);
    for seed in 0..n_workloads {
        let report = black_box(sim::run(&scenario.clone().with_seed(seed)));
        changes += report.runs.iter().map(|run| run.summary.changes).sum::<u64>();
        decisions += report.runs.iter().flat_map(|run| run.reasons.values()).sum::<u64>();
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{n_workloads} workloads, {} each at {} s ticks: {seconds:.2} s, {decisions} decisions ({:.0}/s), {changes} changes",
        scenario.duration,
        scenario.tick.0,
        decisions as f64 / seconds
    );
    Ok(())
}
