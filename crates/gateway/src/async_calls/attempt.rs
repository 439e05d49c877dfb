//! One attempt: call the pod, wait for its answer or its callback, write down what came of it.

use std::{sync::Arc, time::Duration};

use api::slimfaas::{Attempts, Settings};
use http::{HeaderValue, Request, header};
use http_body::Body as _;
use http_body_util::{BodyExt, Limited};
use store::{Place, Settle, Taken};
use tokio::time::Instant;

use super::{
    ELEMENT_ID, LAST_TRY, TRY_NUMBER,
    callback::Waiting,
    conclude::{Work, conclude},
    judge::{Answer, Outcome, is_last},
    memory::Room,
    places::PodPlace,
    record::Head,
};
use crate::{
    body::Outgoing,
    forward,
    gateway::Gateway,
    timer::deadline,
    upstream::{SendError, Upstream},
};

/// Between two tries to reach the store.
const PAUSE: Duration = Duration::from_millis(500);
/// What is kept of an answer.
const ANSWER: usize = 1 << 20;

enum Reply {
    Outcome(Outcome),
    /// The function calls back, until then at the latest.
    Later {
        until: Instant,
    },
}

/// `leased` is when the call was taken, or a little before.
pub(crate) async fn attempt(
    gateway: Gateway,
    upstream: Arc<Upstream>,
    taken: Taken,
    mut room: Room,
    place: PodPlace,
    leased: Instant,
) {
    let _awake = upstream.activity.begin();
    let settings = upstream.state().function.settings.clone();
    let rules = &settings.asynchronous;
    let work = Work {
        function: upstream.name.clone(),
        id: taken.id.clone(),
        attempt: taken.attempt,
        ticket: taken.ticket,
    };
    let waiting = gateway.callbacks().wait(&work.function, &work.id);
    let ended = gateway.ending().ended().clone();
    let reply = tokio::select! {
        reply = call(&gateway, &place, &settings, taken, &mut room) => reply,
        () = keep(&gateway, &work, leased) => {
            tracing::debug!(function = %work.function, id = work.id, "an asynchronous call is in other hands");
            return;
        }
        () = ended.cancelled() => {
            // another node may have it at once
            let Work { function, id, ticket, .. } = &work;
            let _ = gateway.store().settle(function, id, *ticket, Settle::Retry(Duration::ZERO)).await;
            return;
        }
    };
    let outcome = match reply {
        Reply::Outcome(outcome) => Some(outcome),
        Reply::Later { until } => wait(&gateway, &work, &waiting, until).await,
    };
    if let Some(outcome) = outcome {
        write_down(&gateway, &work, rules, &outcome).await;
    }
    drop((place, room));
}

/// The function works on, whatever becomes of this node: the call is leased until it had its time. None if somebody
/// else writes down what came of it.
async fn wait(gateway: &Gateway, work: &Work, waiting: &Waiting, until: Instant) -> Option<Outcome> {
    let lease = gateway.options().async_lease;
    let Work { function, id, ticket, .. } = work;
    let asked = Instant::now();
    let left = until.saturating_duration_since(asked) + lease;
    while let Err(error) = gateway.store().settle(function, id, *ticket, Settle::Extend(left)).await {
        if matches!(error, store::Error::Conflict { .. }) || asked.elapsed() > lease {
            return None;
        }
        tokio::time::sleep(PAUSE).await;
    }
    loop {
        tokio::select! {
            () = waiting.settled() => return None,
            () = gateway.ending().begun().cancelled() => return None,
            () = tokio::time::sleep_until(until) => return Some(Outcome::TimedOut),
            // in case that nobody could tell
            () = tokio::time::sleep(lease) => {
                let place = gateway.store().find(function, id).await;
                let is_ours = |place| matches!(place, Place::InFlight { ticket: other, .. } if other == *ticket);
                if place.is_ok_and(|place| !place.is_some_and(is_ours)) {
                    return None;
                }
            }
        }
    }
}

/// Ends when the call is no longer ours.
async fn keep(gateway: &Gateway, work: &Work, leased: Instant) {
    let lease = gateway.options().async_lease;
    let mut until = leased + lease;
    let mut pause = lease / 3;
    loop {
        let next = Instant::now() + pause;
        if next >= until {
            tokio::time::sleep_until(until).await;
            return;
        }
        tokio::time::sleep_until(next).await;
        let asked = Instant::now();
        let extending = gateway.store().settle(&work.function, &work.id, work.ticket, Settle::Extend(lease));
        match tokio::time::timeout_at(until, extending).await {
            Ok(Ok(())) => {
                until = asked + lease;
                pause = lease / 3;
            }
            Ok(Err(store::Error::Conflict { .. })) | Err(_) => return,
            Ok(Err(_)) => pause = PAUSE,
        }
    }
}

/// Tries until the store takes it, or the call is no longer ours: then it is made again.
async fn write_down(gateway: &Gateway, work: &Work, rules: &Attempts, outcome: &Outcome) {
    let until = Instant::now() + gateway.options().async_lease;
    loop {
        match conclude(gateway, work, rules, outcome).await {
            Ok(_) | Err(store::Error::Conflict { .. }) => return,
            Err(error) => {
                let Work { function, id, .. } = work;
                tracing::warn!(%function, id, %error, "how an asynchronous call ended cannot be written down");
                if Instant::now() >= until {
                    return;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The room that the call took is then its answer's.
async fn call(
    gateway: &Gateway,
    place: &PodPlace,
    settings: &Settings,
    taken: Taken,
    room: &mut Room,
) -> Reply {
    let rules = &settings.asynchronous;
    let until = deadline(Instant::now(), rules.timeout);
    let Ok(head) = serde_json::from_slice::<Head>(&taken.head) else { return unreadable() };
    if !head.is_allowed(settings) {
        let why = "it is private by now, and the caller may not call what is private";
        return Reply::Outcome(Outcome::NotAllowed(why.to_owned()));
    }
    let Some(request) = request(place, rules, head, taken) else { return unreadable() };
    match tokio::time::timeout_at(until, send(gateway, place, request, room)).await {
        Ok(Ok(answer)) if answer.status == 202 => Reply::Later { until },
        Ok(Ok(answer)) => Reply::Outcome(Outcome::Answered(answer)),
        Ok(Err(outcome)) => Reply::Outcome(outcome),
        Err(_) => Reply::Outcome(Outcome::TimedOut),
    }
}

fn unreadable() -> Reply {
    Reply::Outcome(Outcome::NotSent("the stored call cannot be read".to_owned()))
}

fn request(place: &PodPlace, rules: &Attempts, head: Head, taken: Taken) -> Option<Request<Outgoing>> {
    let (method, uri, headers) = head.into_request()?;
    let mut request = Request::new(Outgoing::Whole(taken.body));
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    let headers = request.headers_mut();
    headers.insert(header::HOST, place.pod.host.clone());
    headers.insert(ELEMENT_ID, HeaderValue::try_from(taken.id).ok()?);
    headers.insert(TRY_NUMBER, taken.attempt.into());
    let is_last = if is_last(rules, taken.attempt) { "true" } else { "false" };
    headers.insert(LAST_TRY, HeaderValue::from_static(is_last));
    Some(request)
}

async fn send(
    gateway: &Gateway,
    place: &PodPlace,
    request: Request<Outgoing>,
    room: &mut Room,
) -> Result<Answer, Outcome> {
    let counted = place.pod.take();
    let exchange =
        place.pod.send(Box::new(request), gateway.options().connect_timeout, &mut false).await.map_err(
            |error| match error {
                SendError::Refused { error, .. } => Outcome::NotSent(error.to_string()),
                SendError::Broken { error, .. } => Outcome::Broken(error.to_string()),
            },
        )?;
    let response = exchange.into_response(counted, gateway.options().body_idle_timeout);
    let (mut head, body) = response.into_parts();
    forward::remove_hop_by_hop(&mut head.headers);
    let length = body.size_hint().upper().map_or(ANSWER, |length| length.min(ANSWER as u64) as usize);
    *room = Room::default();
    *room = gateway.async_memory().room(length).await;
    let body = match Limited::new(body, ANSWER).collect().await {
        Ok(body) => Some(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => None,
        Err(error) => return Err(Outcome::Broken(error.to_string())),
    };
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
}
