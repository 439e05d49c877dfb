//! What there is and how it does: status, its stream, readiness, metrics.

use std::{sync::Arc, time::Duration};

use api::slimfaas::Visibility;
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::StreamBody;
use ondemand::{Calls, Function};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    body::{Body, BoxError},
    gateway::Gateway,
    metrics::render,
    operators::Viewer,
    reply::{self, Refusal},
};

/// The names and the first five fields are SlimFaas's.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Status {
    number_ready: usize,
    number_requested: i32,
    pod_type: Arc<str>,
    namespace: Arc<str>,
    visibility: &'static str,
    name: Arc<str>,
    active_calls: usize,
    held_calls: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unschedulable: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_failure: Option<Arc<str>>,
    problems: Vec<Problem>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Problem {
    annotation: Arc<str>,
    message: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Activity {
    name: Arc<str>,
    active: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_call: Option<String>,
}

/// Changes within this time go out together.
const GATHER: Duration = Duration::from_millis(100);
/// So that proxies in between do not take a quiet stream for a dead one.
const STILL_HERE: Duration = Duration::from_secs(15);
/// Beyond it the store counts as unavailable.
const STORE: Duration = Duration::from_secs(2);

pub(crate) fn all(gateway: &Gateway, viewer: Viewer) -> Response<Body> {
    reply::json(StatusCode::OK, &statuses(gateway, viewer))
}

pub(crate) fn one(gateway: &Gateway, viewer: Viewer, name: &str) -> Response<Body> {
    let snapshot = gateway.catalog().current();
    match snapshot.functions.get(name).filter(|function| viewer.sees(function, &snapshot)) {
        Some(function) => reply::json(StatusCode::OK, &status(gateway, function)),
        None => gateway.no_function(name),
    }
}

fn statuses(gateway: &Gateway, viewer: Viewer) -> Vec<Status> {
    let snapshot = gateway.catalog().current();
    let functions = snapshot.functions.sorted().into_iter().map(|(_, function)| function);
    let visible = functions.filter(|function| viewer.sees(function, &snapshot));
    visible.map(|function| status(gateway, function)).collect()
}

fn status(gateway: &Gateway, function: &Function) -> Status {
    let name = function.name();
    let metrics = gateway.table().get(name).map(|upstream| upstream.metrics.clone());
    let problems = function
        .problems
        .iter()
        .map(|problem| Problem { annotation: problem.annotation.clone(), message: problem.message.clone() });
    Status {
        number_ready: function.ready().count(),
        number_requested: function.requested,
        pod_type: function.target.kind.clone(),
        namespace: function.target.namespace.clone(),
        visibility: match function.settings.visibility {
            Visibility::Public => "Public",
            Visibility::Private => "Private",
        },
        name: name.clone(),
        active_calls: metrics.as_ref().map_or(0, |metrics| metrics.active()),
        held_calls: metrics.as_ref().map_or(0, |metrics| metrics.held()),
        last_call: last_call(&gateway.activity().of(name)),
        unschedulable: function.unschedulable.clone(),
        start_failure: function.start_failure(),
        problems: problems.collect(),
        more: gateway.hooks().status.as_ref().map(|more| more(name)).unwrap_or_default(),
    }
}

fn last_call(calls: &Calls) -> Option<String> {
    calls.latest().map(|at| at.to_string())
}

/// Server-sent events: `state` with all functions, first and whenever something about them changes; `activity` when
/// calls begin and end.
pub(crate) fn stream(gateway: &Gateway, viewer: Viewer) -> Response<Body> {
    let place = gateway.metrics().stream();
    if gateway.metrics().streams() > gateway.options().streams {
        return Refusal::TooManyStreams.reply(format_args!(
            "{} clients follow the status already: ask /status-functions instead",
            gateway.options().streams
        ));
    }
    let watcher = Watcher {
        catalog: gateway.catalog().subscribe(),
        activity: gateway.activity().changes(),
        gateway: gateway.clone(),
        viewer,
        told: Vec::new(),
        is_new: true,
        place,
    };
    let events = stream::unfold(watcher, |mut watcher| async move {
        let text = watcher.next().await?;
        Some((Ok::<_, BoxError>(Frame::data(Bytes::from(text))), watcher))
    });
    let mut response = Response::new(Body::new(StreamBody::new(events)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Makes events only when its client takes them, so that a slow client costs nothing but its place.
struct Watcher<Place> {
    catalog: tokio::sync::watch::Receiver<Arc<ondemand::Snapshot>>,
    activity: tokio::sync::watch::Receiver<u64>,
    gateway: Gateway,
    viewer: Viewer,
    /// What the client knows of calls.
    told: Vec<(Arc<str>, Calls)>,
    is_new: bool,
    #[expect(dead_code, reason = "it is its end that counts")]
    place: Place,
}

impl<Place> Watcher<Place> {
    async fn next(&mut self) -> Option<String> {
        if std::mem::take(&mut self.is_new) {
            self.told = self.calls();
            return Some(self.state());
        }
        let ending = self.gateway.ending().begun().clone();
        loop {
            let text = tokio::select! {
                () = ending.cancelled() => return None,
                changed = self.catalog.changed() => {
                    changed.ok()?;
                    tokio::time::sleep(GATHER).await;
                    self.catalog.mark_unchanged();
                    self.state()
                }
                changed = self.activity.changed() => {
                    changed.ok()?;
                    tokio::time::sleep(GATHER).await;
                    self.activity.mark_unchanged();
                    self.activities()
                }
                () = tokio::time::sleep(STILL_HERE) => ": still here\n\n".to_owned(),
            };
            if !text.is_empty() {
                return Some(text);
            }
        }
    }

    fn state(&self) -> String {
        event("state", &statuses(&self.gateway, self.viewer))
    }

    /// One event for each function whose calls changed; several go together as `activity_batch`.
    fn activities(&mut self) -> String {
        let calls = self.calls();
        let changed = calls.iter().filter(|now| !self.told.contains(now)).map(|(name, calls)| Activity {
            name: name.clone(),
            active: calls.active,
            last_call: last_call(calls),
        });
        let changed: Vec<_> = changed.collect();
        self.told = calls;
        match changed.as_slice() {
            [] => String::new(),
            [one] => event("activity", one),
            several => event("activity_batch", &several),
        }
    }

    fn calls(&self) -> Vec<(Arc<str>, Calls)> {
        let mut calls = self.gateway.activity().all();
        let snapshot = self.gateway.catalog().current();
        calls.retain(|(name, _)| {
            let function = snapshot.functions.get(name);
            function.is_some_and(|function| self.viewer.sees(function, &snapshot))
        });
        calls.sort_by(|(one, _), (other, _)| one.cmp(other));
        calls
    }
}

fn event(name: &str, data: &impl Serialize) -> String {
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}

/// Ready: the functions are known, and what is accepted can be kept.
pub(crate) async fn ready(gateway: &Gateway) -> Response<Body> {
    match readiness(gateway).await {
        Ok(notes) if notes.is_empty() => reply::text(StatusCode::OK, "READY"),
        Ok(notes) => reply::text(StatusCode::OK, format!("READY\n{}\n", notes.join("\n"))),
        Err(why) => reply::text(StatusCode::SERVICE_UNAVAILABLE, format!("NOT_READY\n{why}\n")),
    }
}

async fn readiness(gateway: &Gateway) -> Result<Vec<String>, String> {
    if gateway.ending().is_announced() {
        return Err("shutting down".to_owned());
    }
    if !gateway.catalog().is_filled() {
        return Err("the functions are not known yet".to_owned());
    }
    match tokio::time::timeout(STORE, gateway.store().ready()).await {
        Ok(ready) => ready.map_err(|error| error.to_string())?,
        Err(_) => return Err(format!("the store did not answer within {STORE:?}")),
    }
    gateway.hooks().ready.as_ref().map_or(Ok(Vec::new()), |ready| ready())
}

pub(crate) fn metrics(gateway: &Gateway) -> Response<Body> {
    // What is gone is not shown any more.
    gateway.table().catch_up();
    let mut page = String::new();
    render(&gateway.families(), &mut page);
    if let Some(more) = &gateway.hooks().metrics {
        more(&mut page);
    }
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    reply::with_type(StatusCode::OK, kind, page.into())
}
