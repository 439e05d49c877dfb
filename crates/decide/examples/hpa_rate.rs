//! How many HPA decisions one core makes in a second: 3 metrics, 10 pods, all steps recorded.
//!
//! `cargo run --release -p decide --example hpa_rate`
#![allow(clippy::print_stdout)]

use std::{hint::black_box, time::Instant};

use decide::{
    hpa::{
        Answer, Behavior, Condition, Memory, Metric, Observed, Phase, Pod, Ready, Requests, ResourceTarget,
        Rules, Sample, Settings, Source, Spec, TotalTarget, decide,
    },
    quantity::{Figure, Quantity},
    window::after,
};
use jiff::Timestamp;

const PODS: usize = 10;
const ROUND: u32 = 500_000;

fn main() {
    for (name, behavior) in [("without behavior", false), ("with behavior", true)] {
        let settings = Settings::default();
        let spec = Spec {
            min: 1,
            max: 100,
            metrics: metrics(),
            behavior: behavior
                .then(|| Behavior { up: Rules::default_up(), down: Rules::default_down(&settings) }),
            settings,
        };
        let mut best = 0.0f64;
        for _ in 0..5 {
            best = best.max(round(&spec));
        }
        println!("{name}: {:.2} million decisions a second", best / 1e6);
    }
}

/// A tick every 15 s with load that goes up and down, each decision applied, memory handed on.
fn round(spec: &Spec) -> f64 {
    let mut now = Timestamp::UNIX_EPOCH;
    let mut observed = observed(now);
    let mut memory = Memory::default();
    let mut steps = 0;
    let began = Instant::now();
    for tick in 0..ROUND {
        now = after(now, 15);
        load(&mut observed, 300 + i64::from(tick % 97) * 5);
        let decision = decide(now, black_box(spec), black_box(&observed), memory);
        steps += decision.steps.len();
        observed.current = decision.desired;
        observed.status_replicas = decision.desired;
        memory = decision.memory;
    }
    assert!(black_box(steps) >= ROUND as usize * 5, "the steps are recorded");
    f64::from(ROUND) / began.elapsed().as_secs_f64()
}

fn metrics() -> Vec<Metric> {
    let metric = |label: &str, source| Metric { label: label.into(), source };
    let target = ResourceTarget::Utilization(50);
    vec![
        metric("cpu", Source::Resource { resource: "cpu".into(), container: None, target }),
        metric("calls", Source::Pods { target: Quantity(50_000) }),
        metric("queue", Source::External { target: TotalTarget::AverageValue(Quantity(30_000)) }),
    ]
}

fn observed(start: Timestamp) -> Observed {
    let pod = Pod {
        phase: Phase::Running,
        deleting: false,
        start: Some(after(start, -3600)),
        ready: Some(Ready { status: Condition::True, since: after(start, -3600) }),
    };
    let samples = vec![Some(Sample { value: 0, at: None, window_seconds: 30 }); PODS];
    let requests = Requests::Known(vec![1000; PODS]);
    Observed {
        current: 10,
        status_replicas: 10,
        scaled_to_zero: false,
        pods: vec![pod; PODS],
        answers: vec![
            Answer::Pods { samples: samples.clone(), requests },
            Answer::Pods { samples, requests: Requests::Known(Vec::new()) },
            Answer::Total { values: vec![Figure(Some(Quantity(0)))], at: None },
        ],
    }
}

fn load(observed: &mut Observed, level: i64) {
    for answer in &mut observed.answers {
        match answer {
            Answer::Pods { samples, .. } => {
                for sample in samples.iter_mut().flatten() {
                    sample.value = level;
                }
            }
            Answer::Total { values, .. } => values[0] = Figure(Some(Quantity(level * 1000))),
            Answer::Failed(_) => {}
        }
    }
}
