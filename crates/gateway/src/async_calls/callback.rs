//! Functions that answer 202 say later, to any node, how the call ended.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use api::slimfaas::{Settings, Visibility};
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use store::{Expect, Place};
use tokio::sync::Notify;

use super::{
    conclude::{Work, conclude},
    dead,
    judge::{Answer, Outcome},
    refused_by_store,
};
use crate::{
    body::Body,
    gateway::Gateway,
    reply::{self, Refusal},
};

/// Keys that tell the node that waits of a callback that came to another one.
pub(crate) const PREFIX: &str = "async-callback/";
const TOLD_FOR: Duration = Duration::from_secs(60);

/// Attempts of this node that may be called back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Callbacks(Arc<Mutex<HashMap<String, Arc<Notify>>>>);

/// Forgotten when dropped.
pub(crate) struct Waiting {
    callbacks: Callbacks,
    key: String,
    settled: Arc<Notify>,
}

/// `success` in whichever case counts as status 200, anything else as 500. Whoever may not make a call cannot end it
/// either: `may_call` is asked for the path that was called.
pub(crate) async fn callback(
    gateway: &Gateway,
    name: &str,
    id: &str,
    status: &str,
    may_call: impl Fn(&Settings, &str) -> bool,
) -> Response<Body> {
    let Some(upstream) = gateway.table().get(name) else { return gateway.no_function(name) };
    let state = upstream.state();
    let settings = &state.function.settings;
    let unknown = || Refusal::NotFound.reply(format_args!("{name} has no call {id} to call back for"));
    let (attempt, ticket) = match gateway.store().find(name, id).await {
        Ok(Some(Place::InFlight { attempt, ticket })) => (attempt, ticket),
        Ok(Some(_)) => {
            return Refusal::BadRequest
                .reply(format_args!("call {id} of {name} is not under way: it took too long, or has ended"));
        }
        Ok(None) => return unknown(),
        Err(error) => return refused_by_store(&error),
    };
    let is_open = settings.visibility == Visibility::Public && settings.path_visibility.is_empty();
    if !is_open {
        match gateway.store().head(name, id).await {
            Ok(Some(head)) if may_call(settings, &dead::path(&head)) => {}
            Ok(_) => return unknown(),
            Err(error) => return refused_by_store(&error),
        }
    }
    let status = if status.eq_ignore_ascii_case("success") { 200 } else { 500 };
    let answer = Answer { status, headers: HeaderMap::new(), body: Some(Bytes::new()) };
    let work = Work { function: upstream.name.clone(), id: id.to_owned(), attempt, ticket };
    match conclude(gateway, &work, &settings.asynchronous, &Outcome::Answered(answer)).await {
        Ok(_) => {}
        Err(store::Error::Conflict { .. }) => return unknown(),
        Err(error) => return refused_by_store(&error),
    }
    let key = key(name, id);
    if !gateway.callbacks().tell(&key) {
        // The node that waits finds out by its lease too, only later.
        let told = gateway.store().put(&key, Bytes::new(), Expect::Anything, Some(TOLD_FOR)).await;
        if let Err(error) = told {
            tracing::debug!(%error, function = name, id, "the node that waits is not told of a callback");
        }
    }
    reply::empty(StatusCode::OK)
}

pub(crate) fn key(name: &str, id: &str) -> String {
    format!("{PREFIX}{name}/{id}")
}

impl Callbacks {
    pub(crate) fn wait(&self, name: &str, id: &str) -> Waiting {
        let (key, settled) = (key(name, id), Arc::new(Notify::new()));
        self.waiting().insert(key.clone(), settled.clone());
        Waiting { callbacks: self.clone(), key, settled }
    }

    /// False if nobody waits here.
    pub(crate) fn tell(&self, key: &str) -> bool {
        let waiting = self.waiting().get(key).cloned();
        waiting.inspect(|settled| settled.notify_one()).is_some()
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    pub(crate) async fn settled(&self) {
        self.settled.notified().await;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waiting = self.callbacks.waiting();
        // the same call may have been given out again in between
        if waiting.get(&self.key).is_some_and(|settled| Arc::ptr_eq(settled, &self.settled)) {
            waiting.remove(&self.key);
        }
    }
}
