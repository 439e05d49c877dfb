//! Writes a pod's status to the API: always the latest, and nothing when nothing changed.

use std::time::Duration;

use k8s_openapi::api::core::v1 as k8s;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};
use tokio::{sync::watch, time};

#[derive(Debug, Clone, PartialEq)]
pub struct Desired {
    pub status: k8s::PodStatus,
    /// This is the last word: the pod may go.
    pub delete: bool,
}

const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(10);

/// Runs until the pod is deleted or the sender is gone.
pub async fn run(client: Client, pod: k8s::Pod, mut desired: watch::Receiver<Option<Desired>>) {
    let meta = &pod.metadata;
    let (namespace, name) =
        (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
    let uid = meta.uid.clone().unwrap_or_default();
    let pods: Api<k8s::Pod> = Api::namespaced(client, &namespace);
    let mut written = pod.status.as_ref().map(|status| patch(&uid, &owned(status)));
    let mut retry = FIRST_RETRY;
    loop {
        let next = desired.borrow_and_update().clone();
        if let Some(next) = next {
            match write(&pods, &name, &uid, &next, &mut written).await {
                Ok(()) if next.delete => return,
                Ok(()) => retry = FIRST_RETRY,
                Err(kube::Error::Api(status)) if is_final(&status) => {
                    tracing::debug!(%namespace, %name, message = %status.message, "the pod is gone");
                    return;
                }
                Err(error) => {
                    tracing::warn!(%namespace, %name, %error, "cannot write the pod's status, will try again");
                    tokio::select! {
                        () = time::sleep(retry) => {}
                        changed = desired.changed() => if changed.is_err() { return },
                    }
                    retry = (retry * 2).min(LAST_RETRY);
                    continue;
                }
            }
        }
        if desired.changed().await.is_err() {
            return;
        }
    }
}

/// The pod no longer exists, or its name belongs to another pod by now.
fn is_final(status: &kube::core::Status) -> bool {
    status.code == 404
        || (status.code == 409 && status.message.contains("uid"))
        || status.message.contains("Precondition failed: UID")
}

async fn write(
    pods: &Api<k8s::Pod>,
    name: &str,
    uid: &str,
    desired: &Desired,
    written: &mut Option<Value>,
) -> Result<(), kube::Error> {
    let patch = patch(uid, &desired.status);
    if written.as_ref() != Some(&patch) {
        pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(&patch)).await?;
        *written = Some(patch);
    }
    if desired.delete {
        let params = DeleteParams::default()
            .grace_period(0)
            .preconditions(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        pods.delete(name, &params).await?;
    }
    Ok(())
}

/// A strategic merge patch keeps what it does not mention, so what is to go has to be named.
fn patch(uid: &str, status: &k8s::PodStatus) -> Value {
    let mut status = json!(status);
    for field in ["reason", "message"] {
        status[field] = status[field].take();
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            condition[field] = condition[field].take();
        }
    }
    json!({ "metadata": { "uid": uid }, "status": status })
}

/// The part of the API's status that the node writes.
fn owned(status: &k8s::PodStatus) -> k8s::PodStatus {
    let ours = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let conditions = status.conditions.as_ref().map(|all| {
        ours.iter().filter_map(|kind| all.iter().find(|c| c.type_ == *kind).cloned()).collect::<Vec<_>>()
    });
    k8s::PodStatus {
        observed_generation: status.observed_generation,
        conditions,
        phase: status.phase.clone(),
        reason: status.reason.clone(),
        message: status.message.clone(),
        host_ip: status.host_ip.clone(),
        host_ips: status.host_ips.clone(),
        pod_ip: status.pod_ip.clone(),
        pod_ips: status.pod_ips.clone(),
        start_time: status.start_time.clone(),
        init_container_statuses: status.init_container_statuses.clone(),
        container_statuses: status.container_statuses.clone(),
        ..k8s::PodStatus::default()
    }
}
