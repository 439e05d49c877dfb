//! What goes along when an owner goes.

use anyhow::{Result, ensure};
use cluster::Cluster;
use e2e::Place;

fn sleeper(name: &str) -> String {
    format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: {name}}}, spec: {{replicas: 1, selector: \
         {{matchLabels: {{app: {name}}}}}, template: {{metadata: {{labels: {{app: {name}}}}}, spec: \
         {{terminationGracePeriodSeconds: 0, containers: [{{name: main, image: none, command: [sleep, infinity]}}]}}}}}}}}"
    )
}

pub async fn background_foreground_and_orphan(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "cascade").await?;
    for cascade in ["background", "foreground", "orphan"] {
        place.apply(&sleeper(cascade)).await?;
        place.ready_pods(&format!("app={cascade}"), 1).await?;
        place.kubectl(&format!("delete deployment {cascade} --cascade={cascade}")).await?;
        place.until_gone("deployment", cascade).await?;
        let sets = place.kubectl(&format!("get replicasets -l app={cascade} -o name")).await?;
        match cascade {
            // the owner goes last
            "foreground" => ensure!(sets.is_empty(), "{sets}"),
            "orphan" => ensure!(sets.lines().count() == 1, "{sets}"),
            _ => {}
        }
        place.ready_pods(&format!("app={cascade}"), usize::from(cascade == "orphan")).await?;
    }
    let owners = place
        .kubectl("get replicasets -l app=orphan -o jsonpath={.items[0].metadata.ownerReferences}")
        .await?;
    ensure!(owners.is_empty(), "an orphan has no owner: {owners}");
    Ok(())
}

pub async fn a_namespace_takes_its_contents_along(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "contents").await?;
    place.apply(&sleeper("inside")).await?;
    place.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: inside}}").await?;
    place.ready_pods("app=inside", 1).await?;
    place.kubectl(&format!("delete namespace {} --wait=true", place.namespace)).await?;
    let left = place.kubectl("get pods,deployments,replicasets,configmaps -o name").await?;
    ensure!(left.trim().is_empty(), "{left}");
    Ok(())
}
