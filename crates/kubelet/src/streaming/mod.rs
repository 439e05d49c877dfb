//! Sessions with containers: `exec`, `attach` and `port-forward`.
//!
//! ```text
//! client ── Upgrade: websocket ──▶ numbered channels ─┐                  ┌─▶ exec: a command's pipes or terminal
//!        ── Upgrade: SPDY/3.1 ───▶ streams ───────────┼─▶ duplex pipes ──┼─▶ attach: a container's output and stdin
//!        ── websocket, SPDY inside it ▶ streams ──────┘   of fixed size  └─▶ port-forward: TCP
//! ```
//! A session ends when the client hangs up, when the container does, or when there is nothing left to do. Whoever is
//! faster waits for the other: nothing is kept in between but what fits the pipes.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::{body::Incoming, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time,
};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    attach::Attached,
    forward::Target,
    remote::{Remote, Wanted},
};
use crate::{
    Shared,
    registry::{NoSite, Site},
    server::{Body, text},
};

mod attach;
mod exec;
mod forward;
mod link;
mod remote;
mod spdy;
mod status;
mod websocket;

/// At the same time on one node.
const MOST_SESSIONS: usize = 64;
/// How long a client has to take the last words after its container is gone.
const LAST_WORDS: Duration = Duration::from_secs(5);
const MOST_PORTS: usize = 32;

const STREAM_PROTOCOL: &str = "x-stream-protocol-version";
/// Newest first. Since v4 the end is told as a Status; since v5 a WebSocket can close one channel.
const COMMANDS: &[&str] = &["v5.channel.k8s.io", "v4.channel.k8s.io"];
const FORWARD_SPDY: &[&str] = &["portforward.k8s.io"];
const FORWARD_TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const FORWARD_WEBSOCKET: &[&str] = &[FORWARD_TUNNEL, "v4.channel.k8s.io"];

/// The sessions of a node.
pub struct Sessions {
    permits: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Exec,
    Attach,
    PortForward,
}

/// What a session is with.
pub struct Place {
    namespace: String,
    pod: String,
    container: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    WebSocket(&'static str),
    Spdy,
}

/// What a session will do, once the client has its connection.
enum Work {
    Exec { site: Arc<Site>, command: Vec<String>, wanted: Wanted },
    Attach { site: Arc<Site>, attached: Attached, wanted: Wanted },
    Forward { target: Target, ports: Vec<u16>, gone: CancellationToken },
}

type Io = TokioIo<Upgraded>;

// === impl Sessions ===

impl Default for Sessions {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(MOST_SESSIONS)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }
}

impl Sessions {
    /// Ends them all, with the commands that they run.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

// === impl Place ===

impl Place {
    pub fn new(namespace: &str, pod: &str, container: &str) -> Self {
        let (namespace, pod, container) = (namespace.to_owned(), pod.to_owned(), container.to_owned());
        Self { namespace, pod, container }
    }
}

/// Agrees to a session and begins it, or says why not.
pub fn answer(shared: &Arc<Shared>, kind: Kind, place: &Place, request: Request<Incoming>) -> Response<Body> {
    begin(shared, kind, place, request).unwrap_or_else(|(status, why)| text(status, why))
}

fn begin(
    shared: &Arc<Shared>,
    kind: Kind,
    place: &Place,
    request: Request<Incoming>,
) -> Result<Response<Body>, (StatusCode, String)> {
    let work = work(shared, kind, place, request.uri().query().unwrap_or_default())?;
    let (transport, response) = negotiate(kind, request.headers())?;
    let too_many = format!("this node has {MOST_SESSIONS} sessions already; end one of them");
    let permit = Arc::clone(&shared.sessions.permits)
        .try_acquire_owned()
        .map_err(|_| (StatusCode::TOO_MANY_REQUESTS, too_many))?;
    let upgrade = hyper::upgrade::on(request);
    let stop = shared.sessions.stop.clone();
    let own = Arc::clone(shared);
    shared.sessions.tasks.spawn(async move {
        let upgraded = tokio::select! {
            upgraded = upgrade => upgraded,
            () = stop.cancelled() => return,
        };
        match upgraded {
            Ok(io) => run(&own, work, transport, TokioIo::new(io), permit).await,
            Err(error) => tracing::debug!(%error, "a session was not begun"),
        }
    });
    Ok(response)
}

/// What is asked for, and whether it can be done.
fn work(shared: &Shared, kind: Kind, place: &Place, query: &str) -> Result<Work, (StatusCode, String)> {
    let Place { namespace, pod, container } = place;
    let query: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let all = |name: &str| {
        let values = query.iter().filter(|(known, _)| known == name).map(|(_, value)| value.clone());
        values.collect::<Vec<_>>()
    };
    let flag = |name: &str| all(name).first().is_some_and(|value| value == "1" || value == "true");
    let missing = |error: NoSite| {
        let status =
            if error == NoSite::Pod { StatusCode::NOT_FOUND } else { StatusCode::INTERNAL_SERVER_ERROR };
        (status, error.to_string())
    };
    let bad = |why: &str| (StatusCode::BAD_REQUEST, why.to_owned());
    if kind == Kind::PortForward {
        let (address, gone) = shared.registry.address(namespace, pod).map_err(missing)?;
        let texts = all("port");
        let ports = texts.iter().flat_map(|ports| ports.split(',')).map(str::parse);
        let ports: Vec<u16> =
            ports.collect::<Result<_, _>>().map_err(|error| bad(&format!("invalid port: {error}")))?;
        if ports.contains(&0) || ports.len() > MOST_PORTS {
            return Err(bad(&format!("ports are between 1 and 65535, and {MOST_PORTS} at the most")));
        }
        return Ok(Work::Forward { target: Target { pod: pod.clone(), address }, ports, gone });
    }
    let wanted =
        Wanted { stdin: flag("input"), stdout: flag("output"), stderr: flag("error"), tty: flag("tty") };
    if !(wanted.stdin || wanted.stdout || wanted.stderr) {
        return Err(bad("you must specify at least 1 of stdin, stdout, stderr"));
    }
    let site = shared.registry.site(namespace, pod, container).map_err(missing)?;
    if kind == Kind::Attach {
        let attached = Attached::to(&site, wanted.stdin).map_err(|why| bad(&why))?;
        return Ok(Work::Attach { site, attached, wanted });
    }
    let command = all("command");
    if command.is_empty() {
        return Err(bad("you must specify the command to run"));
    }
    Ok(Work::Exec { site, command, wanted })
}

/// The protocol that both know, and the answer that says so.
fn negotiate(kind: Kind, headers: &HeaderMap) -> Result<(Transport, Response<Body>), (StatusCode, String)> {
    let words = |name: &str| -> Vec<&str> {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).map(str::trim).collect()
    };
    let upgrades = words("upgrade");
    let asks_for = |protocol: &str| upgrades.iter().any(|asked| asked.eq_ignore_ascii_case(protocol));
    let (name, known, upgrade) = if asks_for("websocket") {
        let known = if kind == Kind::PortForward { FORWARD_WEBSOCKET } else { COMMANDS };
        ("sec-websocket-protocol", known, "websocket")
    } else if asks_for("SPDY/3.1") {
        let known = if kind == Kind::PortForward { FORWARD_SPDY } else { COMMANDS };
        (STREAM_PROTOCOL, known, "SPDY/3.1")
    } else {
        return Err((StatusCode::BAD_REQUEST, "Upgrade request required".to_owned()));
    };
    let offered = words(name);
    let chosen = known.iter().copied().find(|protocol| offered.contains(protocol)).ok_or_else(|| {
        let why =
            format!("unable to negotiate protocol: client supports {offered:?}, server accepts {known:?}");
        (StatusCode::FORBIDDEN, why)
    })?;
    let mut response =
        Response::new(http_body_util::Empty::new().map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = response.headers_mut();
    answer.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(header::UPGRADE, HeaderValue::from_static(upgrade));
    answer.insert(name, HeaderValue::from_static(chosen));
    if upgrade == "SPDY/3.1" {
        return Ok((Transport::Spdy, response));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).unwrap_or_default();
    let accepted = HeaderValue::from_str(&derive_accept_key(key))
        .map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
    response.headers_mut().insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
    Ok((Transport::WebSocket(chosen), response))
}

async fn run(shared: &Shared, work: Work, transport: Transport, io: Io, _permit: OwnedSemaphorePermit) {
    let stop = &shared.sessions.stop;
    match work {
        Work::Exec { site, command, wanted } => {
            let connected = connect(transport, io, wanted, &site, stop).await;
            let Some((mut remote, over)) = connected else { return };
            let status = exec::run(&shared.launcher, &site, command, wanted.tty, &mut remote, &over).await;
            finish(remote.finish(&status), &site.ended, stop).await;
        }
        Work::Attach { site, attached, wanted } => {
            let connected = connect(transport, io, wanted, &site, stop).await;
            let Some((mut remote, _)) = connected else { return };
            let over = any(&[remote.link.gone(), stop.clone()]);
            let status = attached.run(&site, &mut remote, &over).await;
            finish(remote.finish(&status), &site.ended, stop).await;
        }
        Work::Forward { target, ports, gone } => {
            tokio::select! {
                () = forward(transport, io, target, &ports) => {}
                () = gone.cancelled() => {}
                () = stop.cancelled() => {}
            }
        }
    }
}

async fn connect(
    transport: Transport,
    io: Io,
    wanted: Wanted,
    site: &Site,
    stop: &CancellationToken,
) -> Option<(Remote, CancellationToken)> {
    let remote = match transport {
        Transport::WebSocket(_) => Remote::over_websocket(io, wanted).await,
        Transport::Spdy => tokio::select! {
            remote = Remote::over_spdy(io, wanted) => remote?,
            () = site.ended.cancelled() => return None,
            () = stop.cancelled() => return None,
        },
    };
    let over = any(&[remote.link.gone(), site.ended.clone(), stop.clone()]);
    Some((remote, over))
}

/// Cancelled when one of them is.
fn any(tokens: &[CancellationToken]) -> CancellationToken {
    let one = CancellationToken::new();
    let waits: Vec<_> = tokens.iter().cloned().map(|token| Box::pin(token.cancelled_owned())).collect();
    let (guard, all) = (one.clone().drop_guard(), one.clone());
    tokio::spawn(async move {
        let _guard = guard;
        tokio::select! {
            _ = futures::future::select_all(waits) => {}
            () = all.cancelled() => {}
        }
    });
    one
}

/// A client that does not take the last words keeps its session; not when the pod is gone, though.
async fn finish(farewell: impl Future<Output = ()>, ended: &CancellationToken, stop: &CancellationToken) {
    let gone = async {
        tokio::select! {
            () = ended.cancelled() => {}
            () = stop.cancelled() => {}
        }
        time::sleep(LAST_WORDS).await;
    };
    tokio::select! {
        () = farewell => {}
        () = gone => {}
    }
}

async fn forward(transport: Transport, io: Io, target: Target, ports: &[u16]) {
    match transport {
        Transport::Spdy => {
            let (from, to) = tokio::io::split(io);
            forward::over_spdy(from, to, target).await;
        }
        Transport::WebSocket(FORWARD_TUNNEL) => {
            let (from, to) = websocket::tunnel(websocket::accept(io).await);
            forward::over_spdy(from, to, target).await;
        }
        Transport::WebSocket(_) => {
            let (link, mut connections) =
                forward::over_websocket(websocket::accept(io).await, &target, ports);
            let gone = link.gone();
            tokio::select! {
                () = async { while connections.join_next().await.is_some() {} } => link.finish().await,
                () = gone.cancelled() => {}
            }
        }
    }
}
