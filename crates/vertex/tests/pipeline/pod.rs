//! The process of a pod.

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use vertex::{
    buffer::{Account, JetStream, Limits, Remote, Service},
    config::{Config, Edge, Identity, Input, Output, Sink},
    route::{Condition, Operator},
    source::Generator,
};

/// A busy machine is no reason to fail.
pub const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Serialize, Deserialize)]
pub struct Pod {
    pub step: Step,
    pub buffers: Where,
    pub sockets: PathBuf,
    pub port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    Source,
    Map,
    Sink,
}

#[derive(Clone, Serialize, Deserialize)]
pub enum Where {
    JetStream(String),
    Served { url: String, token: String },
}

pub const MAP: [&str; 2] = ["default-numbers-map-0", "default-numbers-map-1"];
pub const OUT: [&str; 1] = ["default-numbers-out-0"];
/// Hundreds alone go there, and nobody reads them.
pub const HUNDREDS: [&str; 1] = ["default-numbers-hundreds-0"];

pub async fn run(pod: &str) {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::INFO).init();
    let pod: Pod = serde_json::from_str(pod).unwrap();
    let buffers: Arc<dyn Service> = match &pod.buffers {
        Where::JetStream(url) => {
            Arc::new(JetStream::connect(url, &Account::default(), PATIENCE).await.unwrap())
        }
        Where::Served { url, token } => Arc::new(Remote::new(url, token.clone(), PATIENCE).unwrap()),
    };
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    let stopping = stop.clone();
    tokio::spawn(async move {
        terminate.recv().await;
        stopping.cancel();
    });
    vertex::run(config(&pod), Some(buffers), stop).await.unwrap();
}

fn config(pod: &Pod) -> Config {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let edge = |buffers: &[&str], condition| Edge {
        buffers: names(buffers),
        limits: Limits { max_length: 30_000, usage_limit: 0.8 },
        condition,
        discards_when_full: false,
        by_keys: false,
    };
    let hundreds = Condition(Some((Operator::Or, vec!["hundred".to_owned()])));
    let (kind, input, output) = match pod.step {
        Step::Source => {
            let generator =
                Generator { rpu: 200, duration: Duration::from_millis(100), ..Generator::default() };
            let output = Output::Edges(vec![edge(&MAP, Condition::default())]);
            ("Source", Input::Generator(generator), output)
        }
        Step::Map => {
            let edges = vec![edge(&OUT, Condition::default()), edge(&HUNDREDS, hundreds)];
            ("MapUDF", Input::Buffers(names(&MAP)), Output::Edges(edges))
        }
        Step::Sink => ("Sink", Input::Buffers(names(&OUT)), Output::Sink(Sink::User)),
    };
    Config {
        identity: Identity::Vertex {
            pipeline: "numbers".to_owned(),
            vertex: kind.to_lowercase(),
            kind: kind.to_owned(),
            replica: 0,
        },
        input,
        has_transformer: false,
        has_map: pod.step == Step::Map,
        output,
        batch: 500,
        read_timeout: Duration::from_secs(1),
        concurrency: 500,
        read_ahead: pod.step != Step::Source,
        sockets: pod.sockets.clone(),
        metrics: ([127, 0, 0, 1], pod.port).into(),
        grace: Duration::from_secs(300),
    }
}
