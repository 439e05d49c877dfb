//! Events about pods, for `kubectl describe`: repeated ones are counted up, not written anew.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::sync::mpsc;

/// Events are worth little when there are too many to send: more than these are dropped.
const QUEUE: usize = 1024;
/// How many kinds of events are remembered for counting up.
const REMEMBERED: usize = 4096;

#[derive(Debug, Clone)]
pub struct Events {
    queue: mpsc::Sender<News>,
}

#[derive(Debug, Clone)]
struct News {
    about: ObjectReference,
    warning: bool,
    reason: &'static str,
    message: String,
}

/// What makes two events the same.
type Sameness = (Option<String>, Option<String>, &'static str, String);

// === impl Events ===

impl Events {
    /// Sends events for as long as there is somebody to tell them.
    pub fn spawn(client: Client, component: &'static str, node: String) -> Self {
        let (queue, mut receiver) = mpsc::channel::<News>(QUEUE);
        tokio::spawn(async move {
            let mut written: HashMap<Sameness, (String, i32)> = HashMap::new();
            while let Some(news) = receiver.recv().await {
                let namespace = news.about.namespace.clone().unwrap_or_else(|| "default".to_owned());
                let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
                let key = (
                    news.about.uid.clone(),
                    news.about.field_path.clone(),
                    news.reason,
                    news.message.clone(),
                );
                if written.len() > REMEMBERED {
                    written.clear();
                }
                if let Some((name, count)) = written.get_mut(&key) {
                    *count = count.saturating_add(1);
                    let patch = json!({ "count": count, "lastTimestamp": Time(Timestamp::now()) });
                    if events.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.is_ok() {
                        continue;
                    }
                }
                let event = news.into_event(component, &node, Timestamp::now());
                match events.create(&PostParams::default(), &event).await {
                    Ok(created) => {
                        written.insert(key, (created.metadata.name.unwrap_or_default(), 1));
                    }
                    Err(error) => tracing::debug!(%error, "cannot write an event"),
                }
            }
        });
        Self { queue }
    }

    pub fn tell(&self, about: ObjectReference, warning: bool, reason: &'static str, message: String) {
        let name = about.name.as_deref().unwrap_or_default();
        tracing::debug!(pod = name, reason, message, "event");
        if self.queue.try_send(News { about, warning, reason, message }).is_err() {
            tracing::debug!("too many events, one is dropped");
        }
    }
}

// === impl News ===

impl News {
    fn into_event(self, component: &str, node: &str, now: Timestamp) -> Event {
        let name = format!("{}.{:x}", self.about.name.as_deref().unwrap_or_default(), now.as_nanosecond());
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: self.about.namespace.clone().or_else(|| Some("default".to_owned())),
                ..ObjectMeta::default()
            },
            involved_object: self.about,
            type_: Some(if self.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(self.reason.to_owned()),
            // The API's own limit.
            message: Some(self.message.chars().take(1024).collect()),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource { component: Some(component.to_owned()), host: Some(node.to_owned()) }),
            reporting_component: Some(component.to_owned()),
            reporting_instance: Some(node.to_owned()),
            ..Event::default()
        }
    }
}
