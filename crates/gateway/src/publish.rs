//! Events: one request, delivered to every ready pod of every subscriber that the caller may reach.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use api::slimfaas::{Attempts, Visibility};
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header, request};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::{
    body::{Body, Outgoing},
    caller::Peer,
    forward,
    gateway::{Gateway, is_closed},
    hold::{hold, whole},
    reply::{self, Refusal},
    timer::deadline,
    upstream::{Lasting, Pod, Upstream},
};

const DELIVERED: HeaderName = HeaderName::from_static("ballast-event-delivered");
const FAILED: HeaderName = HeaderName::from_static("ballast-event-failed");

/// Pods that are asked at the same time, for one event.
const AT_ONCE: usize = 64;
/// What is read of a pod's answer so that its connection can be used again.
const ANSWER: usize = 64 << 10;

struct Event {
    head: request::Parts,
    body: Bytes,
}

#[derive(Default)]
struct Outcome {
    delivered: AtomicUsize,
    failed: AtomicUsize,
}

pub(crate) async fn publish(
    gateway: &Gateway,
    event: &str,
    uri: Uri,
    peer: &Peer,
    request_id: HeaderValue,
    request: Request<Incoming>,
) -> Response<Body> {
    let arrived = Instant::now();
    let subscribers = subscribers(gateway, event, uri.path(), peer, request.headers());
    if subscribers.is_empty() {
        return Refusal::NotFound
            .reply(format_args!("no function that you may reach subscribes to the event {event}"));
    }
    // They start while the body still comes.
    let subscribers: Vec<_> = subscribers
        .into_iter()
        .map(|upstream| {
            let lasting = Lasting { call: upstream.activity.begin(), active: upstream.metrics.activate() };
            (upstream, lasting)
        })
        .collect();
    let (mut head, body) = request.into_parts();
    let body = match whole(gateway, body, gateway.options().event_body_limit).await {
        Ok(whole) => whole,
        Err(refused) => return refused,
    };
    forward::prepare_whole(&mut head, peer, request_id, uri);
    let (event, outcome) = (Event { head, body }, Outcome::default());
    stream::iter(&subscribers)
        .for_each_concurrent(AT_ONCE, |(upstream, _)| {
            to_function(gateway, upstream, &event, arrived, &outcome)
        })
        .await;
    let mut response = reply::empty(StatusCode::NO_CONTENT);
    for (name, count) in [(DELIVERED, &outcome.delivered), (FAILED, &outcome.failed)] {
        response.headers_mut().insert(name, count.load(Ordering::Relaxed).into());
    }
    response
}

/// Who may not call a path of a function cannot get there by an event either.
fn subscribers(
    gateway: &Gateway,
    event: &str,
    path: &str,
    peer: &Peer,
    headers: &HeaderMap,
) -> Vec<Arc<Upstream>> {
    let is_subscriber = |upstream: &Arc<Upstream>| {
        let state = upstream.state();
        let settings = &state.function.settings;
        let rule = is_closed(settings, path).then_some(Visibility::Private);
        let subscription = settings.subscriptions.iter().find(|subscription| *subscription.event == *event);
        subscription.is_some_and(|subscription| {
            [Some(subscription.visibility), rule]
                .into_iter()
                .flatten()
                .all(|visibility| gateway.may_use(visibility, peer, headers))
        })
    };
    gateway.table().all().into_iter().filter(is_subscriber).collect()
}

/// One clock over waking and all attempts.
async fn to_function(
    gateway: &Gateway,
    upstream: &Upstream,
    event: &Event,
    arrived: Instant,
    outcome: &Outcome,
) {
    let attempts = &upstream.state().function.settings.publish;
    let until = deadline(arrived, attempts.timeout);
    let mut no_body = Outgoing::empty();
    let pods = match tokio::time::timeout_at(until, hold(gateway, upstream, &mut no_body)).await {
        Ok(Ok(state)) => state.pods.clone(),
        Ok(Err(_)) | Err(_) => {
            tracing::warn!(function = %upstream.name, "an event found no ready pod in time");
            outcome.count(upstream, false);
            return;
        }
    };
    stream::iter(&pods)
        .for_each_concurrent(AT_ONCE, |pod| async move {
            let delivering = to_pod(gateway, pod, event, attempts);
            let is_delivered = tokio::time::timeout_at(until, delivering).await.unwrap_or_default();
            if !is_delivered {
                tracing::warn!(function = %upstream.name, pod = %pod.name, "an event was not taken");
            }
            outcome.count(upstream, is_delivered);
        })
        .await;
}

async fn to_pod(gateway: &Gateway, pod: &Arc<Pod>, event: &Event, attempts: &Attempts) -> bool {
    let mut delays = attempts.delays.iter();
    loop {
        let status = attempt(gateway, pod, event).await;
        if !status.is_none_or(|status| attempts.statuses.contains(&status.as_u16())) {
            return true;
        }
        let Some(delay) = delays.next() else { return false };
        tokio::time::sleep(*delay).await;
    }
}

/// The status of the pod's answer; none if there was no answer.
async fn attempt(gateway: &Gateway, pod: &Arc<Pod>, event: &Event) -> Option<StatusCode> {
    let body = Outgoing::Whole(event.body.clone());
    let mut request = Box::new(Request::from_parts(event.head.clone(), body));
    request.headers_mut().insert(header::HOST, pod.host.clone());
    let taken = pod.take();
    let exchange = pod.send(request, gateway.options().connect_timeout, &mut false).await.ok()?;
    let response = exchange.into_response(taken, gateway.options().body_idle_timeout);
    let (head, body) = response.into_parts();
    // Only to keep the connection; the event was taken or not.
    let _ = Limited::new(body, ANSWER).collect().await;
    Some(head.status)
}

impl Outcome {
    fn count(&self, upstream: &Upstream, is_delivered: bool) {
        upstream.metrics.event(is_delivered);
        let counter = if is_delivered { &self.delivered } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
