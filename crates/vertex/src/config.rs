//! What one pod of a vertex is to do, as a value.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use crate::{buffer::Limits, route::Condition, source::Generator};

#[derive(Clone, Debug)]
pub struct Config {
    pub identity: Identity,
    pub input: Input,
    /// Whether a container changes messages before anything else is done with them.
    pub has_transformer: bool,
    /// Whether a container maps them.
    pub has_map: bool,
    pub output: Output,
    /// Messages read at once.
    pub batch: usize,
    /// How long a read waits for the first message.
    pub read_timeout: Duration,
    /// Messages under way at once.
    pub concurrency: usize,
    /// Whether the next batch is read while one is under way.
    pub read_ahead: bool,
    /// Where the sockets of the user's containers are.
    pub sockets: PathBuf,
    /// Where metrics and health are served, by HTTPS.
    pub metrics: SocketAddr,
    /// What is under way may take so long to finish when the pod is told to stop; the rest is given back.
    pub grace: Duration,
}

/// How metrics and messages name this pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// `kind` is `Source`, `MapUDF` or `Sink`.
    Vertex {
        pipeline: String,
        vertex: String,
        kind: String,
        replica: u32,
    },
    MonoVertex {
        name: String,
        replica: u32,
    },
}

#[derive(Clone, Debug)]
pub enum Input {
    /// The partitions of the vertex, by the names of their buffers.
    Buffers(Vec<String>),
    Generator(Generator),
    Http(Http),
    JetStream(JetStream),
    /// A container of the user.
    User,
}

#[derive(Clone, Debug)]
pub struct Http {
    pub https: SocketAddr,
    pub plain: SocketAddr,
    /// What callers have to show.
    pub token: Option<String>,
}

#[derive(Clone, Debug)]
pub struct JetStream {
    pub url: String,
    pub account: crate::buffer::Account,
    pub stream: String,
    /// A consumer that is there; otherwise one of this name is made.
    pub consumer: Option<String>,
    pub durable: String,
    pub deliver: Deliver,
    pub filters: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deliver {
    #[default]
    All,
    New,
    Last,
    LastPerSubject,
}

#[derive(Clone, Debug)]
pub enum Output {
    Edges(Vec<Edge>),
    Sink(Sink),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Edge {
    /// The partitions of the next vertex.
    pub buffers: Vec<String>,
    pub limits: Limits,
    pub condition: Condition,
    pub discards_when_full: bool,
    /// Messages with the same keys go to the same partition.
    pub by_keys: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    Log,
    Blackhole,
    /// A container of the user.
    User,
}

impl Identity {
    /// What offsets of this vertex are named after.
    pub fn name(&self) -> &str {
        match self {
            Identity::Vertex { vertex, .. } => vertex,
            Identity::MonoVertex { name, .. } => name,
        }
    }

    pub fn replica(&self) -> u32 {
        match self {
            Identity::Vertex { replica, .. } | Identity::MonoVertex { replica, .. } => *replica,
        }
    }
}
