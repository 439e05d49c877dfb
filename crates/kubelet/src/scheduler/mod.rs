//! Binds pods to nodes where there is no kube-scheduler: the first concern is that they run, not where.
//!
//! A node is fit when it is ready, its labels match the pod's `nodeSelector` and required node affinity, and the pod
//! tolerates its taints. Of fit nodes the one that has been given the fewest pods is taken. Resources are not counted:
//! a process node does not limit them either.

use std::collections::BTreeMap;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Binding, Node, ObjectReference, Pod, PodCondition},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;

use crate::events::Events;

mod fit;

pub use fit::unfit;

/// The scheduler whose pods these are; pods that name another one are left to it.
const DEFAULT_SCHEDULER: &str = "default-scheduler";

struct Scheduler {
    client: Client,
    events: Events,
    nodes: BTreeMap<String, Node>,
    /// How many pods each node has been given.
    given: BTreeMap<String, u64>,
    waiting: BTreeMap<String, Pod>,
}

/// Runs until dropped.
pub async fn run(client: Client) {
    let events = Events::spawn(client.clone(), DEFAULT_SCHEDULER, String::new());
    let mut scheduler = Scheduler {
        client: client.clone(),
        events,
        nodes: BTreeMap::new(),
        given: BTreeMap::new(),
        waiting: BTreeMap::new(),
    };
    let mut nodes =
        watcher(Api::<Node>::all(client.clone()), watcher::Config::default()).default_backoff().boxed();
    let unbound = watcher::Config::default().fields("spec.nodeName=");
    let mut pods = watcher(Api::<Pod>::all(client), unbound).default_backoff().boxed();
    loop {
        tokio::select! {
            Some(event) = nodes.next() => match event {
                Ok(event) => scheduler.node(event).await,
                Err(error) => tracing::debug!(%error, "the watch of nodes is interrupted"),
            },
            Some(event) = pods.next() => match event {
                Ok(event) => scheduler.pod(event).await,
                Err(error) => tracing::debug!(%error, "the watch of unbound pods is interrupted"),
            },
            else => return,
        }
    }
}

// === impl Scheduler ===

impl Scheduler {
    async fn node(&mut self, event: watcher::Event<Node>) {
        match event {
            watcher::Event::Init => self.nodes.clear(),
            watcher::Event::Apply(node) | watcher::Event::InitApply(node) => {
                let name = node.metadata.name.clone().unwrap_or_default();
                let before = self.nodes.insert(name, node.clone());
                let what_counts = |n: &Node| (n.metadata.labels.clone(), n.spec.clone(), fit::is_ready(n));
                // Heartbeats change nothing for those who wait.
                if before.is_some_and(|before| what_counts(&before) == what_counts(&node)) {
                    return;
                }
            }
            watcher::Event::Delete(node) => {
                self.nodes.remove(node.metadata.name.as_deref().unwrap_or_default());
                return;
            }
            watcher::Event::InitDone => {}
        }
        for pod in std::mem::take(&mut self.waiting).into_values() {
            self.place(pod).await;
        }
    }

    async fn pod(&mut self, event: watcher::Event<Pod>) {
        match event {
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => self.place(pod).await,
            watcher::Event::Delete(pod) => {
                self.waiting.remove(pod.metadata.uid.as_deref().unwrap_or_default());
            }
            watcher::Event::Init => self.waiting.clear(),
            watcher::Event::InitDone => {}
        }
    }

    async fn place(&mut self, pod: Pod) {
        let Some(spec) = &pod.spec else { return };
        let bound = spec.node_name.as_deref().is_some_and(|name| !name.is_empty());
        let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
        let others = spec.scheduler_name.as_deref().is_some_and(|name| name != DEFAULT_SCHEDULER);
        if bound || gated || others || pod.metadata.deletion_timestamp.is_some() {
            return;
        }
        let mut fit: Vec<&String> = Vec::new();
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for (name, node) in &self.nodes {
            match unfit(&pod, node) {
                None => fit.push(name),
                Some(reason) => *reasons.entry(reason).or_default() += 1,
            }
        }
        let choice = fit.into_iter().min_by_key(|name| self.given.get(*name)).cloned();
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        match choice {
            Some(node) => match self.bind(&pod, &node).await {
                Ok(()) => {
                    *self.given.entry(node).or_default() += 1;
                    self.waiting.remove(&uid);
                }
                // Somebody else was faster, or it is gone.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                    self.waiting.remove(&uid);
                }
                Err(error) => {
                    tracing::warn!(%error, %node, "cannot bind a pod, will try again when something changes");
                    self.waiting.insert(uid, pod);
                }
            },
            None => {
                self.refuse(&pod, &reasons).await;
                self.waiting.insert(uid, pod);
            }
        }
    }

    async fn bind(&self, pod: &Pod, node: &str) -> Result<(), kube::Error> {
        let (namespace, name) = names(pod);
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                uid: pod.metadata.uid.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let _: serde_json::Value =
            pods.create_subresource("binding", name, &PostParams::default(), &binding).await?;
        Ok(())
    }

    /// Says why it stays unbound, once for each reason.
    async fn refuse(&self, pod: &Pod, reasons: &BTreeMap<String, usize>) {
        let (namespace, name) = names(pod);
        let why: Vec<String> = reasons.iter().map(|(reason, n)| format!("{n} node(s) {reason}")).collect();
        let total: usize = reasons.values().sum();
        let message = match total {
            0 => "no nodes available to schedule pods".to_owned(),
            _ => format!("0/{total} nodes are available: {}.", why.join(", ")),
        };
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let before = conditions.into_iter().find(|condition| condition.type_ == "PodScheduled");
        if before.is_some_and(|c| c.status == "False" && c.message.as_deref() == Some(&message)) {
            return;
        }
        let condition = PodCondition {
            type_: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            reason: Some("Unschedulable".to_owned()),
            message: Some(message.clone()),
            last_transition_time: Some(Time(Timestamp::now())),
            observed_generation: pod.metadata.generation,
            last_probe_time: None,
        };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let patch = json!({ "status": { "conditions": [condition] } });
        if let Err(error) = pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(&patch)).await
        {
            tracing::debug!(%error, %name, "cannot say that a pod is unschedulable");
            return;
        }
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        };
        self.events.tell(about, true, "FailedScheduling", message);
    }
}

fn names(pod: &Pod) -> (&str, &str) {
    (pod.metadata.namespace.as_deref().unwrap_or_default(), pod.metadata.name.as_deref().unwrap_or_default())
}
