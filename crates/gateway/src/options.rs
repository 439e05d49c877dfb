//! What the program decides about the gateway.

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use ipnet::IpNet;
use serde_json::{Map, Value};

use crate::body::Body;

#[derive(Clone, Debug)]
pub struct Options {
    /// Calls that wait for a pod of one function; one more is refused.
    pub held_per_function: usize,
    /// Calls that wait for a pod of whichever function.
    pub held: usize,
    /// The longest body of a call, in bytes.
    pub body_limit: u64,
    /// The longest body of an event, which is kept in memory until every subscriber has it.
    pub event_body_limit: usize,
    /// Bytes of bodies that are in memory as a whole, or are waiting with their calls; all together.
    pub body_memory: usize,
    /// Bytes of asynchronous calls under way, what pods answer included; more wait in the store.
    pub async_memory: usize,
    /// The longest body of an asynchronous call.
    pub async_body_limit: usize,
    /// After so long without a sign of life from its node an asynchronous call is made again by another.
    pub async_lease: Duration,
    /// How long the result of an asynchronous call can be read.
    pub async_result_kept: Duration,
    /// The longest head of a request (its first line and all headers), in bytes.
    pub head_limit: usize,
    /// How long a client may take for the head of a request, and how long its connection may be idle.
    pub head_timeout: Duration,
    /// How long a body may stand still, in either direction and on either side.
    pub body_idle_timeout: Duration,
    pub connect_timeout: Duration,
    /// How long a call keeps trying when every ready pod refuses the connection: so long it may take until the catalog
    /// hears that pods are gone.
    pub refused_patience: Duration,
    /// Threads that serve connections; 0: they are served by the runtime of whoever listens.
    pub workers: usize,
    /// Connections of clients, whatever protocol they speak; more are only told how the gateway does.
    pub connections: usize,
    /// Of one address, unless it is that of a trusted proxy; half of all if it is not said.
    pub connections_per_address: Option<usize>,
    /// Clients of the status stream.
    pub streams: usize,
    /// How long connections are still accepted after the shutdown began: until those who balance over the nodes have
    /// heard that this one is not ready any more.
    pub linger: Duration,
    /// How long calls may go on after that.
    pub grace: Duration,
    /// Peers whose `X-Forwarded-*` headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    pub cors: Cors,
    pub operator_paths: OperatorPaths,
}

/// Who is served the paths for operators (dead letters, status, wake-up, metrics, debug) on the gateway's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorPaths {
    Off,
    /// Programs on this machine, if the gateway listens on its loopback addresses; no page of another origin.
    Loopback,
    /// Anybody, each as much as they may call.
    Visible,
}

/// Which pages of other origins may call functions from a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cors {
    Any,
    Only(Vec<HeaderValue>),
    Off,
}

/// What the program adds from outside.
#[derive(Clone, Default)]
pub struct Hooks {
    pub mounts: Vec<Mount>,
    /// Appends more families to the text of `/metrics`.
    pub metrics: Option<MoreMetrics>,
    /// More fields of a function's status, by its name.
    pub status: Option<MoreStatus>,
    /// Why this node is not ready, besides the store and the catalog; or what is worth knowing although it is.
    pub ready: Option<MoreReady>,
}

/// Paths that somebody else serves.
#[derive(Clone)]
pub struct Mount {
    /// `/debug/`, `/api/v1/`.
    pub prefix: String,
    pub serve: Serve,
}

pub type MoreMetrics = Arc<dyn Fn(&mut String) + Send + Sync>;
pub type MoreStatus = Arc<dyn Fn(&str) -> Map<String, Value> + Send + Sync>;
pub type MoreReady = Arc<dyn Fn() -> Result<Vec<String>, String> + Send + Sync>;

/// Handed the request and the address of the peer.
pub type Serve = Arc<dyn Fn(Request<Incoming>, IpAddr) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

impl Default for Options {
    fn default() -> Self {
        Options {
            held_per_function: 10_000,
            held: 20_000,
            body_limit: 500 << 20,
            event_body_limit: 16 << 20,
            body_memory: 256 << 20,
            async_memory: 64 << 20,
            // the store keeps 16 MiB with the head
            async_body_limit: (16 << 20) - (128 << 10),
            async_lease: Duration::from_secs(15),
            async_result_kept: Duration::from_secs(3600),
            head_limit: 64 << 10,
            head_timeout: Duration::from_secs(60),
            body_idle_timeout: Duration::from_secs(300),
            connect_timeout: Duration::from_secs(5),
            refused_patience: Duration::from_secs(3),
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            connections: 50_000,
            connections_per_address: None,
            streams: 64,
            linger: Duration::ZERO,
            grace: Duration::from_secs(30),
            trusted_proxies: Vec::new(),
            cors: Cors::Any,
            operator_paths: OperatorPaths::Off,
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefixes = self.mounts.iter().map(|mount| &mount.prefix);
        f.debug_list().entries(prefixes).finish()
    }
}
