//! StatefulSets: order and identity.

use anyhow::{Result, ensure};
use cluster::Cluster;
use e2e::{Place, at};
use kube::ResourceExt;
use serde_json::json;

pub async fn pods_come_in_order_and_go_in_reverse(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "stateful").await?;
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
    let started: Vec<_> = pods.iter().map(|pod| pod.metadata.creation_timestamp.clone()).collect();
    ensure!(started.is_sorted(), "each waits for the one before: {started:?}");
    ensure!(pods[1].labels()["apps.kubernetes.io/pod-index"] == "1");

    place.kubectl("scale statefulset/db --replicas=1").await?;
    place.until_gone("pod", "db-2").await?;
    place.until_gone("pod", "db-1").await?;
    place.until("statefulset", "db", |db| at(db, "/status/replicas") == &json!(1)).await?;
    let rest = place.ready_pods("app=db", 1).await?;
    ensure!(rest[0].uid() == pods[0].uid(), "the first one stays as it is");

    place.kubectl("set env statefulset/db A=1").await?;
    place.kubectl("rollout status statefulset/db").await?;
    let updated = place.ready_pods("app=db", 1).await?;
    ensure!(updated[0].name_any() == "db-0" && updated[0].uid() != pods[0].uid());
    Ok(())
}
