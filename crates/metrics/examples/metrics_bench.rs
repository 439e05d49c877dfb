//! How fast bodies are read, and what a full store weighs.
//!
//! `cargo run --release -p metrics --example metrics_bench [BODY]` reads BODY, a file in the Prometheus text format (such as
//! Prometheus's own `model/textparse/testdata/alltypes.237mfs.prom.txt`), or a body like those of pods.
#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use metrics::store::SeriesRef;
use metrics::text::{Format, Limits, Parser, SeriesCache};
use metrics::{Database, Scraped, ingest};
use promql::{Labels, MetricNames};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let body = match std::env::args().nth(1) {
        Some(path) => std::fs::read_to_string(path)?,
        None => pod_body(0, 1_000, 0),
    };
    let mut n_samples = 0;
    let parse = fastest(&mut || {
        let mut parser = Parser::new(body.as_bytes(), Format::Prometheus, Limits::default())?;
        n_samples = 0;
        while let Some(sample) = parser.next_sample()? {
            black_box((sample.labels, sample.value));
            n_samples += 1;
        }
        Ok(())
    })?;
    println!("body: {} bytes, {n_samples} samples", body.len());
    report("parse every line", &body, n_samples, parse);

    let wanted = MetricNames { any: true, ..MetricNames::default() };
    let target = Labels::from_pairs([("instance", "10.0.0.1:80"), ("pod", "a-1"), ("namespace", "default")]);
    let mut database = Database::default();
    let mut cache = SeriesCache::default();
    let cold = fastest(&mut || {
        database = Database::default();
        database.ask(&wanted, 0);
        cache.clear();
        scrape(&database, &target, 1, &body, &mut cache)
    })?;
    report("scrape into an empty store", &body, n_samples, cold);
    let mut time = 1;
    let warm = fastest(&mut || {
        time += 5_000;
        scrape(&database, &target, time, &body, &mut cache)
    })?;
    report("scrape with a warm series cache", &body, n_samples, warm);
    drop((database, cache));
    weigh(&wanted)
}

/// 10,000 series of 50 targets, for 30 minutes at 5 s and then for 10 more.
fn weigh(wanted: &MetricNames) -> Result<(), Box<dyn std::error::Error>> {
    let before = resident_kb();
    let database = Database::default();
    database.ask(wanted, 0);
    let mut targets: Vec<(Labels, SeriesCache<SeriesRef>)> = (0..50)
        .map(|i| {
            let instance = format!("10.0.0.{i}:80");
            (Labels::from_pairs([("instance", &*instance), ("namespace", "default")]), SeriesCache::default())
        })
        .collect();
    let mut spent = Duration::ZERO;
    for row in 0..480 {
        for (i, (labels, cache)) in targets.iter_mut().enumerate() {
            let body = pod_body(i, 200, row);
            let start = Instant::now();
            scrape(&database, labels, row as i64 * 5_000, &body, cache)?;
            spent += start.elapsed();
        }
    }
    let figures = database.view().figures();
    println!("\n{figures:?}");
    println!("resident: {:.1} MB", (resident_kb().saturating_sub(before)) as f64 / 1024.0);
    println!(
        "reading and storing a scrape of 200 series: {:.1} µs",
        spent.as_secs_f64() * 1e6 / (480.0 * 50.0)
    );
    let start = Instant::now();
    let bytes = database.snapshot();
    println!("snapshot: {:.1} MB in {:?}", bytes.len() as f64 / 1e6, start.elapsed());
    let start = Instant::now();
    database.restore(&bytes)?;
    println!("restored in {:?}", start.elapsed());
    Ok(())
}

fn scrape(
    database: &Database,
    labels: &Labels,
    time: i64,
    body: &str,
    cache: &mut SeriesCache<SeriesRef>,
) -> Result<(), Box<dyn std::error::Error>> {
    let target = labels.get("instance");
    let scraped = Scraped { target, labels, time, body: body.as_bytes(), format: Format::Prometheus };
    database.ingest(scraped, &[], cache, ingest::Limits::default())?;
    Ok(())
}

/// A histogram per route, as web frameworks expose it; `row` moves the values.
fn pod_body(pod: usize, n_series: usize, row: usize) -> String {
    const BOUNDS: [&str; 10] = ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "+Inf"];
    let mut body = String::from("# HELP http_request_duration_seconds Time to answer.\n");
    body += "# TYPE http_request_duration_seconds histogram\n";
    for i in 0..n_series {
        let (route, le, n) = (i / BOUNDS.len(), BOUNDS[i % BOUNDS.len()], (row + 1) * (i + pod + 1));
        let _ = writeln!(
            body,
            "http_request_duration_seconds_bucket{{method=\"GET\",route=\"/api/v1/things/{route}\",status=\"200\",le=\"{le}\"}} {n}"
        );
    }
    body
}

/// The best of many runs: what the code costs when nothing else wants the core.
fn fastest(
    run: &mut dyn FnMut() -> Result<(), Box<dyn std::error::Error>>,
) -> Result<Duration, Box<dyn std::error::Error>> {
    let mut best = Duration::MAX;
    for _ in 0..200 {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

fn report(what: &str, body: &str, n_samples: usize, took: Duration) {
    let megabytes = body.len() as f64 / 1e6 / took.as_secs_f64();
    let nanos = took.as_secs_f64() * 1e9 / n_samples.max(1) as f64;
    println!("{what:32} {megabytes:7.0} MB/s {nanos:7.1} ns/sample");
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}
