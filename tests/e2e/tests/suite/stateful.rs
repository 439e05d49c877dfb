//! StatefulSets: order and identity.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Result, ensure};
use cluster::Cluster;
use e2e::{Place, at};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde_json::json;
use tokio::task::JoinHandle;

pub async fn pods_come_in_order_and_go_in_reverse(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "stateful").await?;
    let story = Story::follow(place.api()).await?;
    place
        .apply(
            r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: db, image: none, command: [sleep, infinity]}
"#,
        )
        .await?;
    let mut pods = place.ready_pods("app=db", 3).await?;
    pods.sort_by_key(ResourceExt::name_any);
    let names: Vec<String> = pods.iter().map(ResourceExt::name_any).collect();
    ensure!(names == ["db-0", "db-1", "db-2"], "{names:?}");
    ensure!(pods[1].labels()["apps.kubernetes.io/pod-index"] == "1");

    place.kubectl("scale statefulset/db --replicas=1").await?;
    place.until_gone("pod", "db-2").await?;
    place.until_gone("pod", "db-1").await?;
    place.until("statefulset", "db", |db| at(db, "/status/replicas") == &json!(1)).await?;
    let rest = place.ready_pods("app=db", 1).await?;
    ensure!(rest[0].uid() == pods[0].uid(), "the first one stays as it is");
    // each waits for the one before to be ready, or for the one behind to be gone
    story
        .is("created db-0, ready db-0, created db-1, ready db-1, created db-2, ready db-2, \
             leaving db-2, gone db-2, leaving db-1, gone db-1")
        .await?;

    place.kubectl("set env statefulset/db A=1").await?;
    place.kubectl("rollout status statefulset/db").await?;
    let updated = place.ready_pods("app=db", 1).await?;
    ensure!(updated[0].name_any() == "db-0" && updated[0].uid() != pods[0].uid());
    Ok(())
}

/// What happened to pods, in the order in which the API tells it. Creation times are whole seconds: they would let two
/// pods that start at once pass for one after the other.
struct Story {
    told: Arc<Mutex<Vec<String>>>,
    follower: JoinHandle<()>,
}

impl Story {
    async fn follow(pods: Api<Pod>) -> Result<Self> {
        let version = pods.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
        let mut events = pods.watch(&WatchParams::default().timeout(290), &version).await?.boxed();
        let told = Arc::new(Mutex::new(Vec::new()));
        let teller = told.clone();
        let follower = tokio::spawn(async move {
            let mut known = BTreeSet::new();
            while let Ok(Some(event)) = events.try_next().await {
                let chapters = match event {
                    WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                        let leaving = pod.metadata.deletion_timestamp.is_some();
                        let chapters =
                            [("created", true), ("ready", e2e::is_ready(&pod)), ("leaving", leaving)];
                        let of_pod = |(what, _)| format!("{what} {}", pod.name_any());
                        chapters.into_iter().filter(|(_, is_so)| *is_so).map(of_pod).collect()
                    }
                    WatchEvent::Deleted(pod) => vec![format!("gone {}", pod.name_any())],
                    _ => vec![],
                };
                for chapter in chapters {
                    if known.insert(chapter.clone()) {
                        teller.lock().unwrap_or_else(PoisonError::into_inner).push(chapter);
                    }
                }
            }
        });
        Ok(Self { told, follower })
    }

    /// Waits until as much is told, and compares it.
    async fn is(self, wanted: &str) -> Result<()> {
        let n_wanted = wanted.split(", ").count();
        let told = e2e::eventually("all of the story", || async {
            let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Ok(if told.len() >= n_wanted { Ok(told) } else { Err(told) })
        })
        .await?;
        self.follower.abort();
        ensure!(told.join(", ") == wanted, "{}", told.join(", "));
        Ok(())
    }
}
