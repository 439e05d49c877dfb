//! A pipeline of real processes, generator to map to blackhole, beside what JetStream does when nothing else is to be done:
//! `bench/vertex`, which starts the NATS server. With a file, the table between its markers is written anew.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark speaks on its output")]

use std::{
    env, fs,
    path::Path,
    process::{Child, Command},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;
use vertex::{
    buffer::{Account, JetStream, Limits, NewMessage, Service, Settings, Shared},
    config::{Config, Edge, Identity, Input, Output, Sink},
    route::Condition,
    source::Generator,
};

const BEGIN: &str = "<!-- pipeline_bench: begin -->";
const END: &str = "<!-- pipeline_bench: end -->";

const BATCH: usize = 500;
/// Batches that each hop of the bare run has under way.
const AT_ONCE: usize = 4;
/// As long as a buffer may get before its writers wait, as in a pipeline.
const MOST: u64 = 24_000;
const WARM_UP: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);
const STEPS: [&str; 3] = ["source", "map", "sink"];

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--pod", step, url, sockets] => pod(step, url, sockets).await,
        ["--map", sockets] => containers::slow_map(sockets, Duration::ZERO).await,
        ["--bare", url] => bare(url).await,
        [url, nats, seconds, ref page @ ..] => {
            let table =
                measure(url, nats.parse().unwrap(), Duration::from_secs(seconds.parse().unwrap())).await;
            print!("{table}");
            if let [page] = page {
                write(page, &table);
            }
        }
        _ => println!("usage: pipeline_bench NATS_URL NATS_PID SECONDS [PAGE]"),
    }
}

async fn connect(url: &str) -> JetStream {
    JetStream::connect(url, &Account::default(), PATIENCE).await.unwrap()
}

/// What came through, and the cores that it took.
struct Run {
    rate: f64,
    /// Of each process, the NATS server last.
    cores: Vec<f64>,
}

async fn measure(url: &str, nats: u32, time: Duration) -> String {
    let service = connect(url).await;
    let this =
        |arguments: &[&str]| Command::new(env::current_exe().unwrap()).args(arguments).spawn().unwrap();
    let buffers = async |names: [&str; 2]| {
        for name in names {
            let settings = Settings { replicas: 1, ..Settings::default() };
            service.create(name, &settings).await.unwrap();
        }
    };
    buffers(["bare-0", "bare-1"]).await;
    let bare = run(&service, "bare-1", vec![this(&["--bare", url])], nats, time).await;
    buffers(["map-0", "out-0"]).await;
    let sockets = tempfile::TempDir::with_prefix("ballast-bench-").unwrap();
    let sockets = sockets.path().to_str().unwrap();
    let mut processes: Vec<Child> = STEPS.map(|step| this(&["--pod", step, url, sockets])).into();
    processes.push(this(&["--map", sockets]));
    let pipeline = run(&service, "out-0", processes, nats, time).await;
    let pods: f64 = pipeline.cores[..STEPS.len()].iter().sum();
    format!(
        "| batches of {BATCH}, {} s each | JetStream alone | pipeline | ratio |\n|---|--:|--:|--:|\n\
         | messages/s through both buffers | {:.0} | {:.0} | {:.2}× |\n\
         | cores: NATS | {:.2} | {:.2} | |\n\
         | cores: client; the three pods | {:.2} | {pods:.2} | |\n\
         | cores: the map's container | | {:.2} | |\n\
         | messages/s for each core of the pods | | {:.0} | |\n\
         | messages/s for each core of all | {:.0} | {:.0} | {:.2}× |\n",
        time.as_secs(),
        bare.rate,
        pipeline.rate,
        pipeline.rate / bare.rate,
        bare.nats(),
        pipeline.nats(),
        bare.cores[0],
        pipeline.cores[STEPS.len()],
        pipeline.rate / pods,
        bare.per_core(),
        pipeline.per_core(),
        pipeline.per_core() / bare.per_core(),
    )
}

impl Run {
    fn nats(&self) -> f64 {
        self.cores.last().copied().unwrap_or_default()
    }

    fn per_core(&self) -> f64 {
        self.rate / self.cores.iter().sum::<f64>()
    }
}

/// From when messages come through the last buffer, and have done so for a while.
async fn run(service: &JetStream, last: &str, processes: Vec<Child>, nats: u32, time: Duration) -> Run {
    while done(service, last).await == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(WARM_UP).await;
    let pids: Vec<u32> = processes.iter().map(Child::id).chain([nats]).collect();
    let (began, before) = (Instant::now(), done(service, last).await);
    let used: Vec<f64> = pids.iter().map(|pid| processor_seconds(*pid)).collect();
    tokio::time::sleep(time).await;
    let (seconds, after) = (began.elapsed().as_secs_f64(), done(service, last).await);
    let cores = pids.iter().zip(used).map(|(pid, used)| (processor_seconds(*pid) - used) / seconds).collect();
    for mut process in processes {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    Run { rate: (after - before) as f64 / seconds, cores }
}

/// How many messages of a buffer have been acknowledged.
async fn done(service: &JetStream, buffer: &str) -> u64 {
    let stream = service.context().get_stream(buffer).await.unwrap();
    let written = stream.cached_info().state.last_sequence;
    written.saturating_sub(service.info(buffer).await.unwrap().total())
}

fn processor_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // the name of the program, in parentheses, may hold spaces
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: f64 = fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum();
    ticks / 100.0
}

/// The same hops without anything of a data plane: what is written is read, written on, read and acknowledged.
async fn bare(url: &str) {
    let service = connect(url).await;
    let (first, second) = (service.open("bare-0").await.unwrap(), service.open("bare-1").await.unwrap());
    let (written, read) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let (to, written_here, read_here) = (first.clone(), written.clone(), read.clone());
        tasks.spawn(async move {
            loop {
                if written_here.load(Ordering::Relaxed) >= read_here.load(Ordering::Relaxed) + MOST {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
                let from = written_here.fetch_add(BATCH as u64, Ordering::Relaxed);
                let new = |number: u64| NewMessage {
                    id: Some(format!("bare-{number}")),
                    payload: number.to_be_bytes().to_vec().into(),
                };
                publish(&to, (from..from + BATCH as u64).map(new).collect()).await;
            }
        });
        tasks.spawn(hop(first.clone(), Some(second.clone()), Arc::default()));
        tasks.spawn(hop(second.clone(), None, read.clone()));
    }
    while tasks.join_next().await.is_some() {}
}

async fn hop(from: Shared, to: Option<Shared>, read: Arc<AtomicU64>) {
    loop {
        let batch = from.fetch(BATCH, Duration::from_secs(1)).await.unwrap();
        if let Some(to) = &to {
            let id = |sequence: u64| Some(format!("hop-{sequence}"));
            let messages =
                batch.iter().map(|one| NewMessage { id: id(one.sequence), payload: one.payload.clone() });
            publish(to, messages.collect()).await;
        }
        let tickets: Vec<_> = batch.iter().map(|one| one.ticket.clone()).collect();
        from.ack(&tickets).await.unwrap();
        read.fetch_add(batch.len() as u64, Ordering::Relaxed);
    }
}

async fn publish(to: &Shared, messages: Vec<NewMessage>) {
    for answer in to.publish(messages).await {
        answer.unwrap();
    }
}

async fn pod(step: &str, url: &str, sockets: &str) {
    let service = connect(url).await;
    let edge = |buffer: &str| {
        Output::Edges(vec![Edge {
            buffers: vec![buffer.to_owned()],
            limits: Limits { max_length: 30_000, usage_limit: 0.8 },
            condition: Condition::default(),
            discards_when_full: false,
            by_keys: false,
        }])
    };
    let (kind, input, output) = match step {
        "source" => {
            let generator = Generator { rpu: u64::MAX, ..Generator::default() };
            ("Source", Input::Generator(generator), edge("map-0"))
        }
        "map" => ("MapUDF", Input::Buffers(vec!["map-0".to_owned()]), edge("out-0")),
        _ => ("Sink", Input::Buffers(vec!["out-0".to_owned()]), Output::Sink(Sink::Blackhole)),
    };
    let config = Config {
        identity: Identity::Vertex {
            pipeline: "bench".to_owned(),
            vertex: step.to_owned(),
            kind: kind.to_owned(),
            replica: 0,
        },
        input,
        has_transformer: false,
        has_map: step == "map",
        output,
        batch: BATCH,
        read_timeout: Duration::from_secs(1),
        concurrency: BATCH,
        read_ahead: step != "source",
        sockets: sockets.into(),
        // nobody asks
        metrics: ([127, 0, 0, 1], 0).into(),
        grace: Duration::ZERO,
    };
    vertex::run(config, Some(Arc::new(service)), CancellationToken::new()).await.unwrap();
}

fn write(page: &str, table: &str) {
    let text = fs::read_to_string(Path::new(page)).unwrap();
    let (begin, end) = (text.find(BEGIN).unwrap(), text.find(END).unwrap());
    fs::write(page, format!("{}{BEGIN}\n\n{table}\n{}", &text[..begin], &text[end..])).unwrap();
}
