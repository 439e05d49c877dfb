//! Starts the processes, kills some, and counts.

use std::{collections::HashMap, path::Path, process::Stdio, sync::Arc, time::Duration};

use cluster::eventually;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use vertex::buffer::{Account, Embedded, JetStream, Service, Settings};

use crate::pod::{HUNDREDS, MAP, OUT, PATIENCE, Pod, Step, Where};

pub async fn on_jetstream() {
    let nats = cluster::Nats::one().await.unwrap();
    let service = JetStream::connect(&nats.url(), &Account::default(), PATIENCE).await.unwrap();
    killed_pods_lose_nothing(&service, Where::JetStream(nats.url()), &this(&["--map"])).await;
}

/// The same, and the map is written with the SDK for Python.
pub async fn in_python() {
    let nats = cluster::Nats::one().await.unwrap();
    let service = JetStream::connect(&nats.url(), &Account::default(), PATIENCE).await.unwrap();
    let python = cluster::tools::pynumaflow().unwrap();
    let words = cluster::tools::root().join("tests/containers/python/words.py");
    let map = [python, words].map(|path| path.display().to_string());
    killed_pods_lose_nothing(&service, Where::JetStream(nats.url()), &map).await;
}

pub async fn on_embedded() {
    let directory = TempDir::with_prefix("ballast-pipeline-").unwrap();
    let service = Embedded::open(directory.path().join("buffers.redb")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let token = service.token("default/numbers");
    tokio::spawn(vertex::buffer::serve(listener, service.clone(), CancellationToken::new()));
    killed_pods_lose_nothing(&service, Where::Served { url, token }, &this(&["--map"])).await;
}

/// `map` is the command of the map's container, and takes where its socket is to be.
async fn killed_pods_lose_nothing(service: &dyn Service, buffers: Where, map: &[String]) {
    let directory = TempDir::with_prefix("ballast-pipeline-").unwrap();
    let lines = directory.path().join("lines");
    for name in MAP.iter().chain(&OUT).chain(&HUNDREDS) {
        // a dead pod's messages come again while their ids are still known
        let (ack_wait, duplicates) = (Duration::from_secs(3), Duration::from_secs(600));
        let owner = "default/numbers".to_owned();
        let settings = Settings { owner, replicas: 1, ack_wait, duplicates, ..Settings::default() };
        service.create(name, &settings).await.unwrap();
    }
    let sockets = directory.path().to_str().unwrap();
    let _map_container = keep([map, &[sockets.to_owned()]].concat());
    let _sink_container = keep(this(&["--sink", sockets, lines.to_str().unwrap()]));
    let port = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let pod = |step| {
        let (buffers, sockets, port) = (buffers.clone(), directory.path().to_owned(), port());
        Pod { step, buffers, sockets, port }
    };
    let begin = |pod: &Pod| start(&this(&["--pod", &serde_json::to_string(pod).unwrap()]));
    let (source, map, sink) = (pod(Step::Source), pod(Step::Map), pod(Step::Sink));
    let (mut source_process, mut map_process, mut sink_process) = (begin(&source), begin(&map), begin(&sink));

    let mut wanted = 1000;
    for _ in 0..2 {
        arrived(&lines, wanted).await;
        // as kill -9 does: it has no chance to give anything back
        map_process.kill().await.unwrap();
        map_process = begin(&map);
        wanted += 1500;
    }
    arrived(&lines, wanted).await;
    let before = count(&lines);
    let twice = before.values().filter(|times| **times > 1).count();
    assert_eq!(twice, 0, "a map that died is no reason for a sink to see a message twice");

    sink_process.kill().await.unwrap();
    sink_process = begin(&sink);
    arrived(&lines, wanted + 1500).await;

    let read = metric(source.port, "forwarder_data_read_total").await;
    terminate(&mut source_process).await;
    let drained = eventually("the buffers are empty", || async {
        let mut left = 0;
        for name in MAP.iter().chain(&OUT) {
            left += service.info(name).await?.total();
        }
        Ok(if left == 0 { Ok(()) } else { Err(left) })
    });
    drained.await.unwrap();
    terminate(&mut map_process).await;
    terminate(&mut sink_process).await;

    let seen = count(&lines);
    let last = seen.keys().copied().max().unwrap();
    assert!(last + 2 >= read, "{read} were read by the source, and {last} is the last that arrived");
    let missing: Vec<u64> = (0..=last).filter(|n| n % 10 != 9 && !seen.contains_key(n)).collect();
    assert!(missing.is_empty(), "lost: {missing:?} of {last}");
    assert!(seen.keys().all(|n| n % 10 != 9), "what the map dropped stays dropped");
    let again: u64 = seen.values().map(|times| times - 1).sum();
    assert!(again <= 1000, "{again} came again: more than a sink has under way");
    let hundreds = service.info(HUNDREDS[0]).await.unwrap().pending;
    // hundreds whose index ends in 9 are none
    assert_eq!(hundreds, last / 100 + 1, "one for each hundred, by its tag, whatever died");
}

/// The command that starts this program as another process.
fn this(arguments: &[&str]) -> Vec<String> {
    let program = std::env::current_exe().unwrap().display().to_string();
    std::iter::once(program).chain(arguments.iter().map(|argument| (*argument).to_owned())).collect()
}

fn start(command: &[String]) -> Child {
    let mut process = Command::new(&command[0]);
    process.args(&command[1..]).stdout(Stdio::null()).kill_on_drop(true).spawn().unwrap()
}

/// As a kubelet does: the SDK ends when the pod's other container is gone.
fn keep(command: Vec<String>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            start(&command).wait().await.unwrap();
        }
    }))
}

async fn terminate(process: &mut Child) {
    let id = nix::unistd::Pid::from_raw(process.id().unwrap().try_into().unwrap());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM).unwrap();
    let status = process.wait().await.unwrap();
    assert!(status.success(), "a pod that is told to stop ends well: {status}");
}

async fn arrived(lines: &Path, wanted: usize) {
    let arrived = eventually(format!("{wanted} messages arrive"), || async {
        let n = count(lines).len();
        Ok(if n >= wanted { Ok(()) } else { Err(n) })
    });
    arrived.await.unwrap();
}

/// How often each number arrived.
fn count(lines: &Path) -> HashMap<u64, u64> {
    let text = std::fs::read_to_string(lines).unwrap_or_default();
    let mut counts = HashMap::new();
    // the last line may be half written
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        *counts.entry(line.parse().unwrap()).or_default() += 1;
    }
    counts
}

/// The sum of all series of one name, as a scraper sees it.
async fn metric(port: u16, name: &str) -> u64 {
    let connector = tokio_rustls::TlsConnector::from(Arc::new((*tls::trusting_anybody()).clone()));
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut stream = connector.connect("pod".try_into().unwrap(), stream).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nhost: pod\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text).await;
    let series = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    let values: Vec<u64> = series.map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap()).collect();
    assert!(!values.is_empty(), "no {name} in:\n{text}");
    values.into_iter().sum()
}
