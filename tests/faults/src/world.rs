//! One API server, pods that become ready at once, and controllers that may die and are started again.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::{sync::Mutex, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{Faults, Plan};

/// What a lost event costs the controllers at most.
pub const RELIST_PERIOD: Duration = Duration::from_millis(300);

/// Runs the controllers under test on a client until it is told to stop.
pub type Start = Arc<dyn Fn(Client, CancellationToken) -> BoxFuture<'static, ()> + Send + Sync>;

pub struct World {
    /// Undisturbed.
    pub client: Client,
    lives: Arc<Mutex<Vec<Faults>>>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl World {
    /// `plans` are those of the first lives; every life after them is undisturbed.
    pub fn new(client: Client, plans: Vec<Plan>, start: Start) -> Self {
        let stop = CancellationToken::new();
        let lives = Arc::new(Mutex::new(Vec::new()));
        let kubelet = tokio::spawn(make_pods_ready(client.clone(), stop.clone()));
        let controllers = tokio::spawn(live(client.clone(), plans, Arc::clone(&lives), stop.clone(), start));
        Self { client, lives, stop, tasks: vec![kubelet, controllers] }
    }

    /// Lets something run beside, undisturbed, for as long as the world lasts.
    pub fn beside(&mut self, task: impl FnOnce(Client, CancellationToken) -> BoxFuture<'static, ()>) {
        self.tasks.push(tokio::spawn(task(self.client.clone(), self.stop.clone())));
    }

    /// Of all lives so far.
    pub async fn writes(&self) -> usize {
        self.lives.lock().await.iter().map(Faults::writes).sum()
    }

    pub async fn end(self) -> Result<Vec<Faults>> {
        self.stop.cancel();
        for task in self.tasks {
            task.await?;
        }
        Ok(self.lives.lock().await.clone())
    }
}

/// One life after the other: a crashed controller is dropped where it stands, and a new one starts from nothing.
async fn live(
    client: Client,
    plans: Vec<Plan>,
    lives: Arc<Mutex<Vec<Faults>>>,
    stop: CancellationToken,
    start: Start,
) {
    let mut plans = plans.into_iter();
    loop {
        let mut faults = Faults::new(client.clone(), plans.next().unwrap_or_default());
        if let Some(earlier) = lives.lock().await.last() {
            faults = faults.inherit(earlier);
        }
        lives.lock().await.push(faults.clone());
        let end = CancellationToken::new();
        let running = tokio::spawn(start(faults.client(), end.clone()));
        while !faults.has_crashed() && !stop.is_cancelled() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        end.cancel();
        // nothing of the old life may still write
        let _ = running.await;
        if stop.is_cancelled() {
            return;
        }
    }
}

async fn make_pods_ready(client: Client, stop: CancellationToken) {
    let pods: Api<Pod> = Api::all(client.clone());
    let since = "2026-01-01T00:00:00Z";
    let holds = |condition: &str| json!({"type": condition, "status": "True", "lastTransitionTime": since});
    let ready = json!({"status": {
        "phase": "Running", "startTime": since,
        "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}],
        "conditions": [holds("ContainersReady"), holds("Ready")],
    }});
    while !stop.is_cancelled() {
        for pod in pods.list(&ListParams::default()).await.into_iter().flatten() {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            if phase != Some("Running") {
                let there: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
                // it may be gone by now
                let _ =
                    there.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&ready)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
