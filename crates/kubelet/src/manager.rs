//! Keeps one task for every pod that the API binds to this node.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use futures::{StreamExt, future::join_all};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};
use rustix::process::Signal;
use tokio_util::sync::CancellationToken;

use crate::{
    Shared,
    pod::{
        actor::{self, Handle},
        disk::PodDir,
        machine::Event,
        status::container_id,
    },
    process,
};

struct Manager<'a> {
    shared: &'a Arc<Shared>,
    pods: HashMap<String, Handle>,
    /// Uids of the list that is coming in.
    listed: HashSet<String>,
    swept: bool,
}

pub async fn run(shared: &Arc<Shared>, shutdown: &CancellationToken) {
    let fields = format!("spec.nodeName={}", shared.options.name);
    let config = watcher::Config::default().fields(&fields);
    let mut stream = watcher(Api::<Pod>::all(shared.client.clone()), config).default_backoff().boxed();
    let mut manager = Manager { shared, pods: HashMap::new(), listed: HashSet::new(), swept: false };
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            event = stream.next() => match event {
                Some(Ok(event)) => manager.apply(event).await,
                Some(Err(error)) => tracing::warn!(%error, "the watch of pods is interrupted, will try again"),
                None => break,
            }
        }
    }
    manager.stop().await;
}

// === impl Manager ===

impl Manager<'_> {
    async fn apply(&mut self, event: watcher::Event<Pod>) {
        match event {
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(pod) => {
                self.listed.insert(uid(&pod));
                self.update(pod).await;
            }
            watcher::Event::InitDone => {
                let gone: Vec<String> =
                    self.pods.keys().filter(|uid| !self.listed.contains(*uid)).cloned().collect();
                for uid in gone {
                    self.remove(&uid).await;
                }
                if !std::mem::replace(&mut self.swept, true) {
                    self.sweep().await;
                }
            }
            watcher::Event::Apply(pod) => self.update(pod).await,
            watcher::Event::Delete(pod) => self.remove(&uid(&pod)).await,
        }
    }

    async fn update(&mut self, pod: Pod) {
        let uid = uid(&pod);
        match self.pods.get(&uid) {
            // A task that is through with its pod waits here for the API to forget the pod, too.
            Some(handle) => {
                let _ = handle.events.send(Event::Pod(Arc::new(pod))).await;
            }
            None => {
                self.pods.insert(uid, actor::spawn(Arc::clone(self.shared), pod));
            }
        }
    }

    async fn remove(&mut self, uid: &str) {
        if let Some(handle) = self.pods.remove(uid) {
            let _ = handle.events.send(Event::Gone).await;
        }
    }

    /// Ends what is left of pods that were deleted while no node was running.
    async fn sweep(&self) {
        let (pods_dir, listed) = (self.shared.pods_dir.clone(), self.listed.clone());
        let work = move || {
            for (dir, owner) in PodDir::list(&pods_dir) {
                let Some(owner) = owner.filter(|owner| !listed.contains(&owner.uid)) else { continue };
                for (container, instance) in dir.runs() {
                    let id = container_id(&owner.uid, &container, instance);
                    if let Some(process) = dir.run(&container, instance).process()
                        && process.is_alive_as(&id)
                    {
                        process::signal(&id, process.pid, Signal::KILL);
                    }
                }
                if let Err(error) = dir.remove() {
                    tracing::warn!(%error, pod = owner.name, "cannot remove what is left of a deleted pod");
                }
            }
        };
        let _ = tokio::task::spawn_blocking(work).await;
    }

    async fn stop(self) {
        if self.shared.options.keep_pods {
            for handle in self.pods.values() {
                handle.task.abort();
            }
            return;
        }
        let grace =
            SignedDuration::try_from(self.shared.options.shutdown_grace).unwrap_or(SignedDuration::ZERO);
        for handle in self.pods.values() {
            let _ = handle.events.send(Event::Shutdown { grace }).await;
        }
        join_all(self.pods.into_values().map(|handle| handle.task)).await;
    }
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}
