//! Asks buffers and pods, each round once, and puts what they say into the windows. Between two rounds only the buffers are
//! asked, and only what cannot wait is news.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use api::numaflow::{METRICS_PORT, buffer_names, phases, vertex_name};
use engine::{
    Key, Queue,
    object::{name, uid},
};
use futures::{FutureExt, StreamExt, future::ready, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use metrics::{
    scrape::{self, FetchLimits, Scheme, Target, check_address},
    text::{Limits, Parser},
};
use promql::Labels;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::window::{PodCounters, Seen, Windows};
use crate::{
    data_plane::{Buffers, Services, Waiting},
    pipelines::{
        Caches, Parts,
        isbsvc::find,
        vertex::{Which, Worker},
    },
};

/// Buffers are asked this often: a message is to wake an object without pods, and a buffer that fills holds up its writers.
const TICK: Duration = Duration::from_secs(1);
/// Pods too, every so many ticks.
const ROUND: u32 = 5;
const PATIENCE: Duration = Duration::from_secs(3);
/// What a pod tells about itself is a few kilobytes.
const LARGEST_PAGE: usize = 1 << 20;
const AT_ONCE: usize = 64;

#[derive(Clone)]
pub struct Collector {
    caches: Caches,
    services: Arc<dyn Services>,
    client: scrape::Client,
    windows: Windows,
    queues: Vec<(Which, Arc<Queue<Key>>)>,
    loopback: bool,
}

/// One object in a round.
struct Subject {
    worker: Worker,
    key: Key,
    partitions: Vec<Arc<str>>,
    pods: Vec<Arc<Pod>>,
}

/// What a pod's page of metrics says.
#[derive(Debug, Default, PartialEq)]
pub struct Page {
    pub read: BTreeMap<String, f64>,
    /// Of a source; negative is unknown.
    pub pending: Option<f64>,
}

impl Collector {
    pub fn new(
        parts: &Parts,
        caches: &Caches,
        windows: Windows,
        queues: Vec<(Which, Arc<Queue<Key>>)>,
    ) -> Self {
        Self {
            caches: caches.clone(),
            services: parts.services.clone(),
            client: scrape::Client::new(),
            windows,
            queues,
            loopback: parts.options.loopback_pods,
        }
    }

    pub async fn run(self) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for n in 0_u32.. {
            tick.tick().await;
            self.round(n.is_multiple_of(ROUND)).await;
        }
    }

    async fn round(&self, with_pods: bool) {
        let subjects = self.subjects(with_pods);
        let waiting = self.waiting(&subjects).await;
        let now = Timestamp::now();
        for subject in &subjects {
            let seen = self.seen(subject, &waiting, None);
            if self.is_news(subject, &seen) {
                self.take(subject, &seen, now);
            }
        }
        if !with_pods {
            return;
        }
        let pages = self.pages(&subjects).await;
        for subject in &subjects {
            self.take(subject, &self.seen(subject, &waiting, Some(&pages)), now);
        }
        self.windows.retain(|which, key| which.find(&self.caches, key).is_some());
    }

    fn take(&self, subject: &Subject, seen: &Seen, now: Timestamp) {
        let which = subject.worker.which();
        self.windows.record(which, &subject.key, &subject.partitions, seen, now);
        for (_, queue) in self.queues.iter().filter(|(queued, _)| *queued == which) {
            queue.add(subject.key.clone());
        }
    }

    fn is_news(&self, subject: &Subject, seen: &Seen) -> bool {
        let Worker::Vertex(vertex) = &subject.worker else { return false };
        let (_, usable) = vertex.spec.vertex.limits.clone().unwrap_or_default().buffer();
        let is_asleep = subject.worker.status().is_none_or(|status| status.replicas == 0);
        self.windows.is_news(Which::Vertex, &subject.key, seen, is_asleep, usable)
    }

    /// All that run, or those of them that have buffers.
    fn subjects(&self, all: bool) -> Vec<Subject> {
        let workers =
            [Which::Vertex, Which::MonoVertex].into_iter().flat_map(|which| which.all(&self.caches));
        let is_due = |worker: &Worker| {
            let is_running = worker.status().is_some_and(|status| status.phase == phases::RUNNING);
            is_running && (all || worker.has_buffers())
        };
        let subject = |worker: Worker| {
            let key = Key::of(worker.meta());
            let partitions = match &worker {
                Worker::Vertex(vertex) if worker.has_buffers() => {
                    buffer_names(&key.namespace, &vertex.spec.pipeline_name, &vertex.spec.vertex)
                }
                Worker::Vertex(vertex) => vec![vertex.spec.vertex.name.clone()],
                Worker::MonoVertex(mono) => vec![name(&mono.metadata).to_owned()],
            };
            let pods = self.caches.pods.controlled_by(uid(worker.meta()));
            Subject {
                partitions: partitions.into_iter().map(Into::into).collect(),
                pods: pods.into_iter().filter(|pod| engine::pods::active(pod)).collect(),
                worker,
                key,
            }
        };
        workers.filter(is_due).map(subject).collect()
    }

    /// By name, of those that answer.
    async fn waiting(&self, subjects: &[Subject]) -> HashMap<Arc<str>, Waiting> {
        let mut services: HashMap<Key, Option<Arc<dyn Buffers>>> = HashMap::new();
        let mut asked = Vec::new();
        for subject in subjects {
            let Worker::Vertex(vertex) = &subject.worker else { continue };
            if !subject.worker.has_buffers() {
                continue;
            }
            let service = Key::new(&subject.key.namespace, vertex.spec.isb_service_name());
            if !services.contains_key(&service) {
                let found = self.service(&service).await;
                services.insert(service.clone(), found);
            }
            if let Some(Some(buffers)) = services.get(&service) {
                asked.extend(subject.partitions.iter().map(|name| (name.clone(), buffers.clone())));
            }
        }
        let asked: Vec<_> =
            asked.into_iter().map(|(name, buffers)| how_much(name, buffers).boxed()).collect();
        stream::iter(asked).buffer_unordered(AT_ONCE).filter_map(ready).collect().await
    }

    async fn service(&self, key: &Key) -> Option<Arc<dyn Buffers>> {
        let config = find(&self.caches, &key.namespace, &key.name).ok()?;
        match timeout(PATIENCE, self.services.find(&key.namespace, &config)).await {
            Ok(Ok(buffers)) => Some(buffers),
            Ok(Err(error)) => {
                tracing::debug!(service = %key, error, "the buffers are out of reach");
                None
            }
            Err(_) => None,
        }
    }

    /// By the pod's uid, of those that answer.
    async fn pages(&self, subjects: &[Subject]) -> HashMap<String, Page> {
        let mut asked = Vec::new();
        for subject in subjects {
            for pod in &subject.pods {
                let ip = engine::pods::ip(pod).filter(|ip| check_address(*ip, self.loopback).is_ok());
                if let Some(ip) = ip {
                    let address = SocketAddr::new(ip, METRICS_PORT);
                    asked.push((uid(&pod.metadata).to_owned(), address, subject.partitions[0].clone()));
                }
            }
        }
        let asked: Vec<_> =
            asked.into_iter().map(|(uid, at, only)| self.told(uid, at, only).boxed()).collect();
        stream::iter(asked).buffer_unordered(AT_ONCE).filter_map(ready).collect().await
    }

    /// What a pod tells about itself; its name goes with it.
    async fn told(&self, uid: String, address: SocketAddr, only: Arc<str>) -> Option<(String, Page)> {
        let limits = FetchLimits { body: LARGEST_PAGE, timeout: PATIENCE };
        let target = Target::new(address, "/metrics", &Labels::empty(), "pipelines").over(Scheme::Https);
        match self.client.fetch(&target, limits).await {
            Ok(fetched) => Some((uid, page(&fetched.body, fetched.format, &only)?)),
            Err(error) => {
                tracing::debug!(%address, ?error, "a pod of a pipeline does not tell its metrics");
                None
            }
        }
    }

    /// Without pages if the pods were not asked.
    fn seen(
        &self,
        subject: &Subject,
        waiting: &HashMap<Arc<str>, Waiting>,
        pages: Option<&HashMap<String, Page>>,
    ) -> Seen {
        let page = |pod: &Arc<Pod>| pages?.get(uid(&pod.metadata));
        let waiting_of = |name: &Arc<str>| match subject.worker.has_buffers() {
            true => waiting.get(name).copied(),
            false => source_pending(subject.pods.iter().filter_map(page)),
        };
        let running: Vec<&Arc<Pod>> = subject.pods.iter().filter(|pod| engine::pods::ready(pod)).collect();
        let counters = |pod: &Arc<Pod>| {
            let read = page(pod)?.read.clone();
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            Some(PodCounters { uid: uid(&pod.metadata).to_owned(), created, read })
        };
        Seen {
            waiting: subject.partitions.iter().map(waiting_of).collect(),
            pods: subject.pods.iter().filter_map(counters).collect(),
            is_complete: pages.is_some() && running.iter().all(|pod| page(pod).is_some()),
            ready: i32::try_from(running.len()).unwrap_or(i32::MAX),
            downstream_usage: self.downstream_usage(subject, waiting),
        }
    }

    fn downstream_usage(&self, subject: &Subject, waiting: &HashMap<Arc<str>, Waiting>) -> f64 {
        let Worker::Vertex(vertex) = &subject.worker else { return 0.0 };
        let spec = &vertex.spec;
        let mut usage = 0.0_f64;
        for edge in &spec.to_edges {
            let key = Key::new(&subject.key.namespace, vertex_name(&spec.pipeline_name, &edge.to));
            let Some(to) = self.caches.vertices.get(&key) else { continue };
            let (_, usable) = edge.to_vertex_limits.clone().unwrap_or_default().buffer();
            for name in buffer_names(&key.namespace, &spec.pipeline_name, &to.spec.vertex) {
                if let Some(waiting) = waiting.get(name.as_str()) {
                    usage = usage.max(waiting.total() as f64 / usable.max(1) as f64);
                }
            }
        }
        usage
    }
}

async fn how_much(name: Arc<str>, buffers: Arc<dyn Buffers>) -> Option<(Arc<str>, Waiting)> {
    match timeout(PATIENCE, buffers.waiting(&name)).await.unwrap_or(Err("no answer in time".to_owned())) {
        Ok(waiting) => Some((name.clone(), waiting)),
        Err(error) => {
            tracing::debug!(buffer = %name, error, "not known how much is waiting");
            None
        }
    }
}

/// All pods of a source see the same; the highest figure is the latest. Negative is unknown.
fn source_pending<'a>(pages: impl Iterator<Item = &'a Page>) -> Option<Waiting> {
    let known = pages.filter_map(|page| page.pending).filter(|pending| *pending >= 0.0);
    let pending = known.fold(None, |most: Option<f64>, pending| Some(most.unwrap_or(0.0).max(pending)))?;
    Some(Waiting { pending: pending as i64, ack_pending: 0 })
}

/// None if it is no page of metrics, or has none of ours. Series without a partition are those of `only`.
fn page(body: &[u8], format: metrics::text::Format, only: &str) -> Option<Page> {
    let mut parser = Parser::new(body, format, Limits::default()).ok()?;
    let mut page = Page::default();
    let mut is_ours = false;
    while let Some(sample) = parser.next_sample().ok()? {
        let partition = || {
            let label = sample.labels.iter().find(|label| label.name == "partition_name");
            label.map_or(only.to_owned(), |label| label.value.to_string())
        };
        match &*sample.name {
            "forwarder_data_read_total" | "monovtx_read_total" => {
                is_ours = true;
                *page.read.entry(partition()).or_default() += sample.value;
            }
            "vertex_pending_messages_raw" | "monovtx_pending_raw" => {
                is_ours = true;
                page.pending = Some(page.pending.map_or(sample.value, |most| most.max(sample.value)));
            }
            _ => {}
        }
    }
    is_ours.then_some(page)
}

#[cfg(test)]
pub(super) fn read_page(text: &str, only: &str) -> Option<Page> {
    page(text.as_bytes(), metrics::text::Format::Prometheus, only)
}
