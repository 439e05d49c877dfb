//! Events for people. Never part of a decision: a failure to write one is logged and nothing else.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
};

use futures::FutureExt;
use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::debug;

use crate::{
    effect::Event,
    fence::Fence,
    kind,
    supervise::{Supervisor, panic_message},
};

/// As many different Events are remembered to count a repetition instead of writing another object.
const REMEMBERED: usize = 4096;
/// So many may wait to be written. What comes then is dropped: an API that is slow must not fill the memory.
const WAITING: usize = 1024;

#[derive(Clone)]
pub struct Events(mpsc::Sender<Event>);

#[derive(Clone)]
struct Writer {
    client: Client,
    fence: Fence,
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
    pub fn new(client: Client, fence: Fence, supervisor: &Supervisor) -> Self {
        let (sender, mut events) = mpsc::channel::<Event>(WAITING);
        let writer = Writer { client, fence, seen: Arc::default() };
        let noted = supervisor.clone();
        // Ends with the last sender.
        supervisor.run_to_end("events", async move {
            while let Some(event) = events.recv().await {
                if !writer.fence.may_write() {
                    continue;
                }
                match AssertUnwindSafe(writer.write(&event)).catch_unwind().await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => debug!(%event, %error, "could not write the event"),
                    Err(panic) => noted.panicked("events", panic_message(&*panic)),
                }
            }
        });
        Self(sender)
    }

    /// Writes in the background, so that no controller waits for it.
    pub fn publish(&self, event: Event) {
        if let Err(error) = self.0.try_send(event) {
            debug!(%error, "too many events are waiting: this one is dropped");
        }
    }
}

impl Writer {
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
