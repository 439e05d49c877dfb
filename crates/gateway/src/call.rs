//! A synchronous call: wait for a pod if there is none, ask the least loaded one, pass its answer on.

use std::{error::Error as _, io, net::SocketAddr, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::{
    body::{Body, Outgoing, UploadError},
    caller::Peer,
    forward,
    gateway::Gateway,
    hold::{bad_upload, hold, upload},
    reply::Refusal,
    timer::within,
    upgrade::{self, Upgrading},
    upstream::{Exchange, Lasting, SendError, State, Taken, Upstream},
};

/// How long a call waited for the first pod, in milliseconds; only calls that waited have it.
const COLD_START: HeaderName = HeaderName::from_static("ballast-cold-start");

/// All of a call that the gateway has to know.
pub(crate) struct Call<'a> {
    pub upstream: Arc<Upstream>,
    /// What the pod is asked for.
    pub uri: Uri,
    pub peer: &'a Peer,
    pub request_id: HeaderValue,
    pub request: Request<Incoming>,
}

struct Answered {
    exchange: Exchange,
    taken: Taken,
    /// How long the call was held for want of pods.
    held: Option<Duration>,
}

/// What can be done at once is done before the future is made, so that it is small: thousands of them may be held.
pub(crate) fn call(gateway: Gateway, call: Call<'_>) -> impl Future<Output = Response<Body>> + use<> {
    let Call { upstream, uri, peer, request_id, request } = call;
    let arrived = Instant::now();
    let lasting = Lasting { call: upstream.activity.begin(), active: upstream.metrics.activate() };
    let state = upstream.state();
    let timeout = state.function.settings.sync_timeout;
    let (mut parts, body) = request.into_parts();
    let on_upgrade = forward::prepare(&mut parts, peer, request_id, uri);
    let on_upgrade = on_upgrade.map(|client| Upgrading { client, place: peer.place.clone() });
    let request = match outgoing(&gateway, body) {
        Ok(body) => Ok(Box::new(Request::from_parts(parts, body))),
        Err(refused) => Err(Box::new(refused)),
    };
    async move {
        let response = match request {
            Err(refused) => *refused,
            Ok(request) => match within(arrived, timeout, ask(&gateway, &upstream, state, request)).await {
                None => too_late(&upstream, timeout),
                Some(Err(refused)) => refused,
                Some(Ok(answered)) => pass_on(&gateway, &upstream, answered, lasting, on_upgrade),
            },
        };
        upstream.metrics.answered(response.status(), arrived.elapsed());
        response
    }
}

fn outgoing(gateway: &Gateway, body: Incoming) -> Result<Outgoing, Response<Body>> {
    if body.is_end_stream() {
        return Ok(Outgoing::empty());
    }
    let upload = upload(gateway, body, gateway.options().body_limit)?;
    Ok(Outgoing::Upload(Box::new(upload)))
}

/// Asks until a pod answers, or until there is no sense in asking.
async fn ask(
    gateway: &Gateway,
    upstream: &Upstream,
    mut state: Arc<State>,
    mut request: Box<Request<Outgoing>>,
) -> Result<Answered, Response<Body>> {
    let mut held = None;
    if state.pods.is_empty() {
        state = hold_anew(gateway, upstream, &mut request, &mut held).await?;
    }
    let (mut refusals, mut repeated) = (Refusals::default(), false);
    loop {
        let Some(pod) = upstream.pick(&state.pods, |pod| !refusals.pods.contains(&pod.address)) else {
            state = Box::pin(refusals.wait(gateway, upstream, &state)).await?;
            if state.pods.is_empty() {
                state = hold_anew(gateway, upstream, &mut request, &mut held).await?;
            }
            continue;
        };
        let taken = pod.take();
        request.headers_mut().insert(header::HOST, pod.host.clone());
        // Boxed: a call that waits for a pod need not have the room for it.
        match Box::pin(pod.send(request, gateway.options().connect_timeout, &mut repeated)).await {
            Ok(exchange) => return Ok(Answered { exchange, taken, held }),
            Err(SendError::Refused { request: back, error }) => {
                tracing::debug!(function = %upstream.name, pod = %pod.name, %error, "the pod refused a connection");
                upstream.metrics.retried();
                refusals.add(pod.address, error);
                request = back;
            }
            Err(SendError::Broken { again: Some(again), .. }) => {
                upstream.metrics.retried();
                refusals.pods.push(pod.address);
                repeated = true;
                request = again;
            }
            Err(SendError::Broken { error, .. }) => return Err(broken(upstream, &pod.name, &error)),
        }
    }
}

async fn hold_anew(
    gateway: &Gateway,
    upstream: &Upstream,
    request: &mut Request<Outgoing>,
    held: &mut Option<Duration>,
) -> Result<Arc<State>, Response<Body>> {
    let since = Instant::now();
    forward::detach(request.headers_mut());
    let state = hold(gateway, upstream, request.body_mut()).await?;
    *held = Some(held.unwrap_or_default() + since.elapsed());
    Ok(state)
}

/// Pods that refused a connection: they may be gone, and the catalog does not know yet.
#[derive(Default)]
struct Refusals {
    pods: Vec<SocketAddr>,
    last: Option<io::Error>,
    /// Of the first that refused.
    since: Option<Instant>,
    rounds: u32,
}

impl Refusals {
    fn add(&mut self, pod: SocketAddr, error: io::Error) {
        // A pod that answers nothing has too much to do, or is gone with its node: only the deadline ends that.
        if error.kind() != io::ErrorKind::TimedOut {
            self.since.get_or_insert_with(Instant::now);
        }
        self.pods.push(pod);
        self.last = Some(error);
    }

    /// All have refused: waits for other pods, or a moment for the same, and forgets.
    async fn wait(
        &mut self,
        gateway: &Gateway,
        upstream: &Upstream,
        state: &Arc<State>,
    ) -> Result<Arc<State>, Response<Body>> {
        let is_over = self.since.is_some_and(|since| since.elapsed() >= gateway.options().refused_patience);
        // A pod without a readiness probe is called ready before it listens: that is a part of waking up.
        if is_over && state.pods.iter().any(|pod| pod.has_started()) {
            let why = self.last.take().map(|error| error.to_string()).unwrap_or_default();
            return Err(Refusal::NoConnection
                .reply(format_args!("no pod of {} takes a connection: {why}", upstream.name)));
        }
        let mut changes = upstream.subscribe();
        if Arc::ptr_eq(&changes.borrow_and_update(), state) {
            let pause = Duration::from_millis(20 << self.rounds.min(4));
            // Whether something changed or only time has passed: what is there now is asked again.
            let _ = tokio::time::timeout(pause, changes.changed()).await;
        }
        self.rounds += 1;
        self.pods.clear();
        Ok(upstream.state())
    }
}

fn pass_on(
    gateway: &Gateway,
    upstream: &Upstream,
    answered: Answered,
    lasting: Lasting,
    on_upgrade: Option<Upgrading>,
) -> Response<Body> {
    let Answered { mut exchange, taken, held } = answered;
    let taken = taken.with(lasting);
    let mut response = if exchange.response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let Some(client) = on_upgrade else {
            let name = &upstream.name;
            return Refusal::BrokenConnection
                .reply(format_args!("{name} changed the protocol without having been asked"));
        };
        let pod = hyper::upgrade::on(&mut exchange.response);
        let (mut parts, _) = exchange.response.into_parts();
        let protocol = parts.headers.get(header::UPGRADE).cloned();
        forward::remove_hop_by_hop(&mut parts.headers);
        parts.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        if let Some(protocol) = protocol {
            parts.headers.insert(header::UPGRADE, protocol);
        }
        upgrade::bridge(gateway, client, pod, exchange.connection, taken);
        parts.extensions.clear();
        Response::from_parts(parts, Body::empty())
    } else {
        let mut response = exchange.into_response(taken, gateway.options().body_idle_timeout).map(Body::from);
        forward::remove_hop_by_hop(response.headers_mut());
        response
    };
    if let Some(held) = held {
        upstream.metrics.cold_start(held);
        let ms = u64::try_from(held.as_millis()).unwrap_or(u64::MAX);
        response.headers_mut().insert(COLD_START, ms.into());
    }
    response
}

fn broken(upstream: &Upstream, pod: &str, error: &hyper::Error) -> Response<Body> {
    if let Some(upload) = error.source().and_then(|source| source.downcast_ref::<UploadError>()) {
        return bad_upload(upload);
    }
    let name = &upstream.name;
    tracing::debug!(function = %name, pod, %error, "a pod broke a call off");
    Refusal::BrokenConnection.reply(format_args!("pod {pod} of {name} broke the call off: {error}"))
}

fn too_late(upstream: &Upstream, timeout: Duration) -> Response<Body> {
    let (name, state) = (&upstream.name, upstream.state());
    let why = state.function.unschedulable.clone().or_else(|| state.function.start_failure());
    let what = match (why, state.pods.is_empty()) {
        (Some(why), true) => format!("no pod of {name} became ready within {timeout:?}: {why}"),
        (None, true) => format!("no pod of {name} became ready within {timeout:?}"),
        (_, false) => format!("{name} did not answer within {timeout:?}"),
    };
    Refusal::Deadline.reply(what)
}
