//! The parts of `bench/gateway`: a tiny backend, a gateway in front of it, and loads.
//!
//! ```text
//! proxy_bench backend ADDRESS                              answers everything with 128 bytes
//! proxy_bench gateway ADDRESS BACKEND [FUNCTIONS] [STORE]  functions f0, f1, … with the backend as pod, and `asleep`
//! proxy_bench load ADDRESS PATH RATE SECONDS CONNECTIONS   calls at fixed times; prints latencies in microseconds
//! proxy_bench hold ADDRESS PATH CALLS                      calls that wait, until standard input ends
//! ```
#![allow(clippy::print_stdout, reason = "it prints what it measured")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on has no result")]

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io::{Read, Write},
    net::SocketAddr,
    os::fd::AsFd,
    sync::Arc,
    time::{Duration, Instant},
};

use api::slimfaas::Settings;
use gateway::{Gateway, Hooks, Options, Parts};
use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::{
        epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout},
        time::TimeSpec,
    },
};
use ondemand::{Activity, Catalog, Function, Pod, Snapshot, Target};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

/// As in the program.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["backend", address] => backend(address.parse()?).await,
        ["gateway", address, backend, rest @ ..] => {
            let functions = rest.first().map_or(Ok(1), |count| count.parse())?;
            let store = rest.get(1).copied().unwrap_or("memory:");
            gateway(address.parse()?, backend.parse()?, functions, store).await
        }
        ["load", address, path, rate, seconds, connections] => {
            load(address.parse()?, path, rate.parse()?, seconds.parse()?, connections.parse()?)
        }
        ["hold", address, path, calls] => hold(address.parse()?, path, calls.parse()?).await,
        _ => Err("see the head of proxy_bench.rs".into()),
    }
}

/// As little as possible: what is measured is the way to it.
async fn backend(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address).await?;
    let body = "x".repeat(128);
    let answer: Arc<str> =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 128\r\n\r\n{body}").into();
    loop {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answer = answer.clone();
        tokio::spawn(async move {
            let mut request = [0; 4096];
            // Benchmarks send no bodies, and one request at a time.
            while let Ok(n @ 1..) = stream.read(&mut request).await {
                if request[..n].ends_with(b"\r\n\r\n") && stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
    }
}

async fn gateway(address: SocketAddr, backend: SocketAddr, functions: usize, store: &str) -> Result<()> {
    let catalog = Catalog::default();
    let pod = Pod {
        name: "backend".into(),
        ip: Some(backend.ip()),
        port: Some(backend.port()),
        ready: true,
        failure: None,
    };
    let named = |name: String, pods: Vec<Pod>| {
        let function = Function {
            target: Target {
                api_version: "apps/v1".into(),
                kind: "Deployment".into(),
                namespace: "default".into(),
                name: name.as_str().into(),
            },
            settings: Arc::new(Settings { sync_timeout: Duration::from_secs(3600), ..Settings::default() }),
            problems: Vec::new(),
            requested: 1,
            pods,
            is_scaled: true,
            unschedulable: None,
            autoscaler: None,
        };
        (function.name().clone(), Arc::new(function))
    };
    let functions = (0..functions).map(|n| named(format!("f{n}"), vec![pod.clone()]));
    let functions = functions.chain([named("asleep".to_owned(), Vec::new())]).collect();
    catalog.publish(Snapshot { functions, ..Snapshot::default() });
    let parts = Parts {
        catalog,
        activity: Activity::default(),
        store: store::open(store, store::Options::default()).await?,
        options: Options { connections: 100_000, ..Options::default() },
        hooks: Hooks::default(),
    };
    let (_, served) = Gateway::new(parts).listen(address, CancellationToken::new()).await?;
    Ok(served.await?)
}

/// Each connection calls at fixed times. One thread serves them all and sleeps in between: a client that spins, or has a
/// thread for each connection, would take the processor from what it measures.
fn load(address: SocketAddr, path: &str, rate: f64, seconds: f64, connections: u32) -> Result<()> {
    let began = Instant::now() + Duration::from_millis(200);
    let (request, every) = (request(path), Duration::from_secs_f64(f64::from(connections) / rate));
    let epoll = Epoll::new(EpollCreateFlags::empty())?;
    let mut callers = Vec::new();
    // Those that wait for no answer: the first of them is due first.
    let mut free = BinaryHeap::new();
    for index in 0..connections {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, index.into()))?;
        let due = began + Duration::from_secs_f64(f64::from(index) / rate);
        callers.push(Caller { stream, due, sent: began, answer: Vec::new() });
        free.push(Reverse((due, index as usize)));
    }
    let end = began + Duration::from_secs_f64(seconds);
    let mut latencies: Vec<Duration> = Vec::with_capacity((rate * seconds) as usize);
    let mut events = vec![EpollEvent::empty(); callers.len()];
    while Instant::now() < end {
        while let Some(Reverse((due, index))) = free.peek().copied()
            && due <= Instant::now()
        {
            free.pop();
            callers[index].due += every;
            callers[index].send(&request)?;
        }
        let pause = free.peek().map_or(Duration::from_millis(100), |Reverse((due, _))| {
            due.saturating_duration_since(Instant::now())
        });
        // To wait for the events themselves knows milliseconds only, and calls are due every few microseconds.
        let mut any = [PollFd::new(epoll.0.as_fd(), PollFlags::POLLIN)];
        ppoll(&mut any, Some(TimeSpec::from_duration(pause)), None)?;
        let n_events = epoll.wait(&mut events, EpollTimeout::ZERO)?;
        for index in events[..n_events].iter().map(|event| event.data() as usize) {
            if let Some(took) = callers[index].read()? {
                latencies.push(took);
                free.push(Reverse((callers[index].due, index)));
            }
        }
    }
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize].as_micros();
    println!("calls {} p50 {} p99 {} max {}", latencies.len(), at(0.5), at(0.99), at(1.0));
    Ok(())
}

struct Caller {
    stream: std::net::TcpStream,
    /// When it calls next.
    due: Instant,
    sent: Instant,
    answer: Vec<u8>,
}

impl Caller {
    fn send(&mut self, request: &str) -> Result<()> {
        self.sent = Instant::now();
        Ok(self.stream.write_all(request.as_bytes())?)
    }

    /// How long the call took, once its answer is whole.
    fn read(&mut self) -> Result<Option<Duration>> {
        let mut buffer = [0; 4096];
        let n = self.stream.read(&mut buffer)?;
        self.answer.extend_from_slice(&buffer[..n]);
        if n == 0 || (self.answer.len() > 12 && !self.answer.starts_with(b"HTTP/1.1 200")) {
            return Err(String::from_utf8_lossy(&self.answer).into());
        }
        if !self.answer.ends_with(b"xxxx") {
            return Ok(None);
        }
        self.answer.clear();
        Ok(Some(self.sent.elapsed()))
    }
}

async fn hold(address: SocketAddr, path: &str, calls: usize) -> Result<()> {
    let mut held = Vec::with_capacity(calls);
    for _ in 0..calls {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request(path).as_bytes()).await?;
        held.push(stream);
    }
    println!("sent {calls}");
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    Ok(())
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: bench\r\nuser-agent: proxy_bench\r\naccept: */*\r\n\r\n")
}
