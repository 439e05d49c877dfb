//! Durable enqueues per second: 512 callers, 1 KiB each, one redb file with fsync and one JetStream file store.
//!
//! `cargo run --profile dist --package store --example enqueue_bench -- 10`: ten seconds each.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark speaks on its output")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use store::{Limits, NewItem, Options, Shared};

const CALLERS: usize = 512;
const BODY: usize = 1024;

#[tokio::main]
async fn main() {
    let seconds = std::env::args().nth(1).and_then(|seconds| seconds.parse().ok()).unwrap_or(10);
    let limits = Limits { queue_items: usize::MAX, queue_bytes: u64::MAX, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let directory = tempfile::TempDir::with_prefix("ballast-bench-").unwrap();
    let file = format!("redb:{}", directory.path().join("store.redb").display());
    let nats = cluster::Nats::one().await.unwrap();
    println!("{:<10} {:>12} {:>10} {:>10} {:>10}", "store", "enqueues/s", "p50 ms", "p99 ms", "max ms");
    for (name, address) in [("redb", file), ("JetStream", nats.url())] {
        let store = store::open(&address, options.clone()).await.unwrap();
        run(name, store, Duration::from_secs(seconds)).await;
    }
}

async fn run(name: &str, store: Shared, time: Duration) {
    let (count, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let body = Bytes::from(vec![b'x'; BODY]);
    let began = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (store, count, is_over) = (store.clone(), count.clone(), is_over.clone());
            let body = body.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let id = format!("{caller}-{}", times.len());
                    let asked = Instant::now();
                    let item = NewItem { id, head: Bytes::from_static(b"{}"), body: body.clone() };
                    store.enqueue("q", item).await.unwrap();
                    times.push(asked.elapsed());
                    count.fetch_add(1, Ordering::Relaxed);
                }
                times
            })
        })
        .collect();
    tokio::time::sleep(time).await;
    let rate = count.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    is_over.store(true, Ordering::Relaxed);
    let mut times = Vec::new();
    for caller in callers {
        times.extend(caller.await.unwrap());
    }
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
    println!("{name:<10} {rate:>12.0} {:>10.1} {:>10.1} {:>10.1}", at(0.5), at(0.99), at(1.0));
}
