//! What scraping 1,000 targets of 200 series every 5 s costs.
//!
//! `cargo run --profile dist -p metrics --example scrape_bench` serves the targets itself, on addresses of their own in
//! 127.0.0.0/8, so the share of a core it prints is that of both sides together.
#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::scrape::{Clock, Options, Scraper, SystemClock, Target};
use metrics::{Database, store};
use promql::{Labels, MetricNames};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const N_TARGETS: u16 = 1_000;
const N_SERIES: usize = 200;
const WARM_UP: Duration = Duration::from_secs(7);
const MEASURED: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("0.0.0.0:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    // 200,000 series: more than a store keeps by default.
    let limits = store::Options { max_series: 250_000, max_points: 100_000_000, ..store::Options::default() };
    let database = Database::new(limits);
    let names = ["http_requests_total".to_string()].into();
    database.ask(&MetricNames { exact: names, ..MetricNames::default() }, SystemClock.now());
    let options = Options { loopback: true, ..Options::default() };
    let (scraper, handle) = Scraper::new(database.clone(), options, Arc::new(SystemClock));
    let targets = (0..N_TARGETS).map(|i| {
        let [high, low] = i.to_be_bytes();
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 1, high, low)), port);
        Target::new(address, "/metrics", &Labels::from_pairs([("pod", format!("pod-{i}"))]), "load")
    });
    handle.set_targets(targets.collect::<Vec<_>>());
    tokio::spawn(scraper.run(std::future::pending()));

    tokio::time::sleep(WARM_UP).await;
    let done = handle.done();
    let (n_before, cpu_before, start) = (*done.borrow(), cpu_seconds(), Instant::now());
    tokio::time::sleep(MEASURED).await;
    let (n, cpu, wall) =
        (*done.borrow() - n_before, cpu_seconds() - cpu_before, start.elapsed().as_secs_f64());
    let n_failed = handle.status().iter().filter(|s| s.error.is_some()).count();
    println!("{n} scrapes in {wall:.1} s, {n_failed} targets failing; {:?}", database.view().figures());
    println!("both sides: {:.3} cores, {:.0} µs a scrape", cpu / wall, cpu * 1e6 / n.max(1) as f64);
    Ok(())
}

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut body = String::new();
    for i in 0..N_SERIES {
        let _ =
            writeln!(body, "http_requests_total{{method=\"GET\",route=\"/things/{i}\",status=\"200\"}} {i}");
    }
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    let answer = head + &body;
    let mut asked = [0; 2048];
    while stream.read(&mut asked).await? > 0 {
        stream.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

/// User and system time of this process; ticks are hundredths of a second on Linux.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
