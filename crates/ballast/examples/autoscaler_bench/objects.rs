//! What is made: a service of buffers, pipelines of four vertices, and the messages that fill a buffer.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use anyhow::Result;
use api::numaflow::{InterStepBufferService, Pipeline, Vertex};
use cluster::Counts;
use futures::{StreamExt, TryStreamExt, stream};
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use vertex::buffer::{Account, JetStream, NewMessage, Service};

const AT_ONCE: usize = 32;
/// The names of pipelines whose vertices sleep begin with it.
pub const SLEEPERS: &str = "sleeps";
const RUNNERS: &str = "runs";
/// The name of each source.
pub const SOURCE: &str = "in";
const OTHERS: [&str; 3] = ["first", "second", "out"];
/// Places in a buffer, of which 80 % are usable: enough to be full of, without much work for NATS.
const LENGTH: u64 = 1000;

pub struct Pipelines {
    n_pipelines: usize,
    /// Which of those that sleep, and of those that run, is filled next.
    next_sleeper: usize,
    next_runner: usize,
}

impl Pipelines {
    /// As many as have so many vertices, every other one of which sleeps.
    pub async fn create(client: &Client, nats: &str, n_vertices: usize) -> Result<Self> {
        let services: Api<InterStepBufferService> = Api::namespaced(client.clone(), "default");
        let service = serde_json::from_value(json!({
            "metadata": {"name": "default"}, "spec": {"jetstream": {"url": nats, "streamReplicas": 1}},
        }))?;
        services.create(&PostParams::default(), &service).await?;
        let made =
            Self { n_pipelines: n_vertices.div_ceil(1 + OTHERS.len()), next_sleeper: 0, next_runner: 0 };
        let pipelines: Api<Pipeline> = Api::namespaced(client.clone(), "default");
        stream::iter((0..made.n_pipelines).map(name))
            .map(|name| {
                let pipelines = pipelines.clone();
                async move {
                    pipelines.create(&PostParams::default(), &pipeline(&name)?).await?;
                    anyhow::Ok(())
                }
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(made)
    }

    pub fn n_vertices(&self) -> usize {
        self.n_pipelines * (1 + OTHERS.len())
    }

    /// The names of all Vertices, and whether each is to sleep.
    pub fn all(&self) -> impl Iterator<Item = (String, bool)> {
        (0..self.n_pipelines).map(name).flat_map(|pipeline| {
            let sleeps = pipeline.starts_with(SLEEPERS);
            let others = OTHERS.map(|vertex| (format!("{pipeline}-{vertex}"), sleeps));
            [(format!("{pipeline}-{SOURCE}"), false)].into_iter().chain(others)
        })
    }

    /// The next ones that sleep.
    pub fn sleepers(&mut self, n: usize) -> Vec<String> {
        self.next_sleeper += n;
        self.to_fill(true).skip(self.next_sleeper - n).take(n).collect()
    }

    /// The next ones that run.
    pub fn runners(&mut self, n: usize) -> Vec<String> {
        self.next_runner += n;
        self.to_fill(false).skip(self.next_runner - n).take(n).collect()
    }

    /// The last vertex of each pipeline, since a full buffer downstream would hold another one; then the first ones.
    fn to_fill(&self, sleeping: bool) -> impl Iterator<Item = String> {
        let [first, _, out] = OTHERS;
        [out, first].into_iter().flat_map(move |vertex| {
            let of_kind =
                self.all().filter(move |(name, sleeps)| *sleeps == sleeping && name.ends_with(vertex));
            of_kind.map(|(name, _)| name)
        })
    }
}

fn name(n: usize) -> String {
    format!("{}-{n:04}", if n.is_multiple_of(2) { RUNNERS } else { SLEEPERS })
}

/// A sleeping source wakes by itself every two minutes to look for messages: here they run. What was woken stays at one.
fn pipeline(name: &str) -> Result<Pipeline> {
    let max = if name.starts_with(SLEEPERS) { 1 } else { 50 };
    let scale = json!({"max": max, "scaleUpCooldownSeconds": 1, "scaleDownCooldownSeconds": 1});
    let limits = json!({"bufferMaxLength": LENGTH});
    let [first, second, out] = OTHERS;
    let udf = |name: &str| json!({"name": name, "udf": {"container": {"image": "none"}}, "scale": scale, "limits": limits});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "vertices": [
                {"name": SOURCE, "source": {"generator": {}}, "scale": {"min": 1}},
                udf(first),
                udf(second),
                {"name": out, "sink": {"blackhole": {}}, "scale": scale, "limits": limits},
            ],
            "edges": [
                {"from": SOURCE, "to": first}, {"from": first, "to": second}, {"from": second, "to": out},
            ],
        },
    }))?)
}

/// The buffer that a Vertex of this name reads.
pub fn buffer(vertex: &str) -> String {
    format!("default-{vertex}-0")
}

/// Fills the buffer of each; says when its first messages were sent.
pub async fn fill(nats: &str, vertices: &[String]) -> Result<HashMap<String, Instant>> {
    let service = JetStream::connect(nats, &Account::default(), Duration::from_secs(30)).await?;
    let mut begun = HashMap::new();
    for vertex in vertices {
        let buffer = service.open(&buffer(vertex)).await?;
        let messages = (0..LENGTH).map(|_| NewMessage { id: None, payload: vec![0; 8].into() });
        begun.insert(vertex.clone(), Instant::now());
        for answer in buffer.publish(messages.collect()).await {
            answer?;
        }
    }
    Ok(begun)
}

pub fn watch(client: &Client) -> Counts {
    let vertices: Api<Vertex> = Api::namespaced(client.clone(), "default");
    Counts::watch(vertices, |vertex| vertex.spec.replicas)
}
