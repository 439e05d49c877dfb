//! What a pod tells about itself, under the names that Numaflow's scalers read.

use std::{
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use crate::config::Identity;

pub struct Metrics {
    identity: Identity,
    pub partitions: Vec<Arc<Figures>>,
}

/// Of one partition, or of a source.
#[derive(Debug)]
pub struct Figures {
    /// The buffer, or the vertex if it is a source.
    pub name: String,
    pub read: AtomicU64,
    pub read_bytes: AtomicU64,
    pub acknowledged: AtomicU64,
    pub given_back: AtomicU64,
    pub written: AtomicU64,
    pub dropped: AtomicU64,
    /// Messages that were sent to a container or a buffer again.
    pub retried: AtomicU64,
    /// -1 while it is not known.
    pub pending: AtomicI64,
}

type Get = fn(&Figures) -> i64;

/// Name for a vertex, name for a MonoVertex, kind, meaning.
const FAMILIES: &[(&str, &str, &str, &str, Get)] = &[
    ("forwarder_data_read_total", "monovtx_read_total", "counter", "Data messages read", |figures| {
        of(&figures.read)
    }),
    (
        "forwarder_data_read_bytes_total",
        "monovtx_read_bytes_total",
        "counter",
        "Bytes of the messages read",
        |figures| of(&figures.read_bytes),
    ),
    ("forwarder_ack_total", "monovtx_ack_total", "counter", "Messages acknowledged", |figures| {
        of(&figures.acknowledged)
    }),
    ("forwarder_nack_total", "monovtx_nack_total", "counter", "Messages given back", |figures| {
        of(&figures.given_back)
    }),
    ("forwarder_write_total", "monovtx_sink_write_total", "counter", "Messages written", |figures| {
        of(&figures.written)
    }),
    ("forwarder_drop_total", "monovtx_dropped_total", "counter", "Messages dropped", |figures| {
        of(&figures.dropped)
    }),
    ("forwarder_retry_total", "monovtx_retry_total", "counter", "Messages tried again", |figures| {
        of(&figures.retried)
    }),
    (
        "vertex_pending_messages_raw",
        "monovtx_pending_raw",
        "gauge",
        "Messages that wait or are under way; -1 if it is not known",
        |figures| figures.pending.load(Ordering::Relaxed),
    ),
];

impl Figures {
    pub fn new(name: String) -> Self {
        Figures {
            name,
            read: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            retried: AtomicU64::new(0),
            pending: AtomicI64::new(-1),
        }
    }

    pub fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }
}

impl Metrics {
    pub fn new(identity: Identity, names: impl IntoIterator<Item = String>) -> Self {
        let partitions = names.into_iter().map(|name| Arc::new(Figures::new(name))).collect();
        Metrics { identity, partitions }
    }

    pub fn render(&self) -> String {
        let mut text = String::new();
        for (of_vertex, of_mono, kind, help, get) in FAMILIES {
            let name = match self.identity {
                Identity::Vertex { .. } => of_vertex,
                Identity::MonoVertex { .. } => of_mono,
            };
            let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
            for figures in &self.partitions {
                let _ = writeln!(text, "{name}{{{}}} {}", self.labels(figures), get(figures));
            }
        }
        text
    }

    /// Names of Kubernetes objects: nothing in them needs to be escaped.
    fn labels(&self, figures: &Figures) -> String {
        match &self.identity {
            Identity::Vertex { pipeline, vertex, kind, replica } => format!(
                "pipeline=\"{pipeline}\",vertex=\"{vertex}\",vertex_type=\"{kind}\",replica=\"{replica}\",partition_name=\"{}\"",
                figures.name
            ),
            Identity::MonoVertex { name, replica } => {
                format!("mvtx_name=\"{name}\",mvtx_replica=\"{replica}\"")
            }
        }
    }
}

fn of(counter: &AtomicU64) -> i64 {
    i64::try_from(counter.load(Ordering::Relaxed)).unwrap_or(i64::MAX)
}
