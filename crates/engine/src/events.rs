//! Events for people. Never part of a decision: a failure to write one is logged and nothing else.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tracing::debug;

use crate::{effect::Event, kind};

/// As many different Events are remembered to count a repetition instead of writing another object.
const REMEMBERED: usize = 4096;

#[derive(Clone)]
pub struct Events {
    client: Client,
    seen: Arc<Mutex<HashMap<Identity, Seen>>>,
}

#[derive(PartialEq, Eq, Hash)]
struct Identity {
    uid: String,
    component: &'static str,
    reason: String,
    note: String,
}

#[derive(Clone)]
struct Seen {
    name: String,
    count: u32,
}

impl Events {
    pub fn new(client: Client) -> Self {
        Self { client, seen: Arc::default() }
    }

    /// Writes in the background, so that no controller waits for it.
    pub fn publish(&self, event: Event) {
        let events = self.clone();
        tokio::spawn(async move {
            if let Err(error) = events.write(&event).await {
                debug!(%event, %error, "could not write the event");
            }
        });
    }

    async fn write(&self, event: &Event) -> Result<(), kube::Error> {
        let namespace = event.regarding.namespace.as_deref().unwrap_or("default");
        let now = Timestamp::now();
        let seen = self.count(event, now);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &kind::EVENT.api_resource());
        let second = whole_second(now);
        if seen.count > 1 {
            let body = json!({ "count": seen.count, "lastTimestamp": second });
            match api.patch(&seen.name, &PatchParams::default(), &Patch::Merge(body)).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {} // its time is over: begin a new one
                answer => return answer.map(drop),
            }
        }
        let body = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "name": seen.name, "namespace": namespace },
            "involvedObject": event.regarding.reference(),
            "type": if event.warning { "Warning" } else { "Normal" },
            "reason": event.reason,
            "message": shortened(&event.note),
            "source": { "component": event.component },
            "reportingComponent": event.component,
            "reportingInstance": "",
            "firstTimestamp": second,
            "lastTimestamp": second,
            "count": 1,
        });
        let object: DynamicObject = serde_json::from_value(body).map_err(kube::Error::SerdeError)?;
        api.create(&PostParams::default(), &object).await.map(drop)
    }

    fn count(&self, event: &Event, now: Timestamp) -> Seen {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= REMEMBERED {
            seen.clear();
        }
        let identity = Identity {
            uid: event.regarding.uid.clone(),
            component: event.component,
            reason: event.reason.clone(),
            note: event.note.clone(),
        };
        let entry = seen.entry(identity).or_insert_with(|| Seen {
            name: format!("{}.{:x}", event.regarding.name, now.as_nanosecond()),
            count: 0,
        });
        entry.count += 1;
        entry.clone()
    }
}

/// API times have seconds.
pub fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// The API refuses messages above 1024 bytes.
fn shortened(note: &str) -> String {
    const LONGEST: usize = 1024;
    if note.len() <= LONGEST {
        return note.to_owned();
    }
    let end = (0..=LONGEST - 3).rev().find(|at| note.is_char_boundary(*at)).unwrap_or(0);
    format!("{}...", &note[..end])
}
