//! Prints how long the engine takes for the query shapes that dashboards and autoscalers use most.
//!
//! `cargo run --release -p promql --example engine_bench [ROUNDS [SHAPE]]`
//!
//! One thread; each line is the mean of ROUNDS (default 50). Where the kernel tells the time that the thread really ran,
//! waiting for a busy processor does not count; the kernel brings that up to date only every few milliseconds, so one
//! round alone would say little.
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use promql::{Engine, Labels, Limits, MemorySource, Steps, parse};

/// 1,000 pods with 3 containers each, a sample every 30 s; queried over 2 hours in steps of 30 s.
const PODS: usize = 1000;
const INTERVAL: i64 = 30_000;
const HOURS_2: i64 = 7_200_000;
const LEAD: i64 = 600_000;

fn main() -> promql::Result<()> {
    let rounds: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).filter(|&n| n > 0).unwrap_or(50);
    let only = std::env::args().nth(2).unwrap_or_default();
    let source = load()?;
    let range = Steps { start: LEAD, end: LEAD + HOURS_2, step: 30_000 };
    let shapes: [(&str, &str, Option<Steps>); 6] = [
        ("rate", "rate(http_requests_total[1m])", Some(range)),
        ("sum by rate", "sum by (pod) (rate(http_requests_total[1m]))", Some(range)),
        (
            "histogram_quantile",
            "histogram_quantile(0.9, rate(http_response_seconds_bucket[1m]))",
            Some(range),
        ),
        ("one to one join", "http_requests_total / on (pod, container) http_responses_total", Some(range)),
        ("many to one join", "http_requests_total * on (pod) group_left (node) pod_info", Some(range)),
        ("instant over 10,000 series", "sum by (pod) (rate(wide_total[1m]))", None),
    ];
    println!("{:<28} {:>10} {:>12}", "shape", "ms", "ns/series·step");
    for (name, query, steps) in shapes.into_iter().filter(|(name, ..)| name.contains(&only)) {
        let plan = parse(query)?;
        let engine = Engine::default();
        let begin = Clock::now();
        for _ in 0..rounds {
            match steps {
                Some(steps) => drop(engine.query_range(&plan, &source, steps, Limits::default())?),
                None => drop(engine.query_instant(&plan, &source, LEAD + HOURS_2, Limits::default())?),
            }
        }
        let mean = begin.elapsed() / rounds;
        let cells = if steps.is_some() { 3 * PODS * 241 } else { 10 * PODS };
        println!(
            "{name:<28} {:>10.3} {:>12.1}",
            mean.as_secs_f64() * 1e3,
            mean.as_nanos() as f64 / cells as f64
        );
    }
    Ok(())
}

/// Time on the processor, or on the wall where the kernel does not tell.
enum Clock {
    Processor(Duration),
    Wall(Instant),
}

impl Clock {
    fn now() -> Self {
        processor_time().map_or_else(|| Self::Wall(Instant::now()), Self::Processor)
    }

    fn elapsed(&self) -> Duration {
        match self {
            Self::Processor(begin) => processor_time().unwrap_or_default().saturating_sub(*begin),
            Self::Wall(begin) => begin.elapsed(),
        }
    }
}

fn processor_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

fn load() -> promql::Result<MemorySource> {
    let mut source = MemorySource::new();
    let samples = (LEAD + HOURS_2) / INTERVAL + 1;
    let mut counter = |pairs: Vec<(&str, String)>, per_sample: f64| {
        let values: Vec<f64> = (0..samples).map(|i| i as f64 * per_sample).collect();
        source.push_all(&Labels::from_pairs(pairs), 0, INTERVAL, &values)
    };
    for pod in 0..PODS {
        let pod_name = || format!("app-{pod:04}");
        for container in ["app", "proxy", "sidecar"] {
            for name in ["http_requests_total", "http_responses_total"] {
                let labels =
                    vec![("__name__", name.into()), ("pod", pod_name()), ("container", container.into())];
                counter(labels, 1.0 + pod as f64 / 100.0)?;
            }
        }
        counter(
            vec![
                ("__name__", "pod_info".into()),
                ("pod", pod_name()),
                ("node", format!("node-{}", pod % 20)),
            ],
            0.0,
        )?;
        for replica in 0..10 {
            let labels =
                vec![("__name__", "wide_total".into()), ("pod", pod_name()), ("cpu", replica.to_string())];
            counter(labels, 2.0)?;
        }
    }
    let bounds = ["0.005", "0.01", "0.05", "0.1", "0.5", "1", "2.5", "5", "10", "+Inf"];
    for pod in 0..3 * PODS / bounds.len() {
        for (le, n) in bounds.iter().zip(1..) {
            let labels = vec![
                ("__name__", "http_response_seconds_bucket".into()),
                ("pod", format!("app-{pod:04}")),
                ("le", (*le).into()),
            ];
            counter(labels, f64::from(n) * (1.0 + pod as f64 / 100.0))?;
        }
    }
    Ok(source)
}
