//! Deployments: rollouts, scale, repair.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use cluster::Cluster;
use e2e::{Place, at, eventually, http_get, pod_ip};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;

/// A web server that answers with its version.
fn web(replicas: u32, version: &str, extra: &str) -> String {
    format!(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: {replicas}
  progressDeadlineSeconds: 600
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: none
        env: [{{name: VERSION, value: "{version}"}}]
        command: [sh, -c, "mkdir -p /tmp/$BALLAST_POD_IP && cd /tmp/$BALLAST_POD_IP && echo version $VERSION > version && exec python3 -m http.server --bind $BALLAST_POD_IP 8080"]
        ports: [{{name: http, containerPort: 8080}}]
        readinessProbe: {{httpGet: {{path: /version, port: http}}, periodSeconds: 1}}
{extra}
"#
    )
}

pub async fn three_web_servers_answer_on_their_addresses(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "web").await?;
    place.apply(&web(3, "1", "")).await?;
    let pods = place.ready_pods("app=web", 3).await?;
    let addresses: BTreeSet<String> = pods.iter().map(pod_ip).collect::<Result<_>>()?;
    ensure!(addresses.len() == 3, "each pod has an address of its own: {addresses:?}");
    for address in &addresses {
        let answer = http_get(address, 8080, "/version").await?;
        ensure!(answer.contains("200 OK") && answer.contains("version 1"), "{address}: {answer}");
    }
    let deployment =
        place.until("deployment", "web", |web| at(web, "/status/availableReplicas") == &json!(3)).await?;
    let conditions = at(&deployment, "/status/conditions").to_string();
    ensure!(conditions.contains("MinimumReplicasAvailable"), "{conditions}");
    Ok(())
}

pub async fn a_rollout_replaces_pods_and_can_be_undone(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "rollout").await?;
    place.apply(&web(2, "1", "")).await?;
    place.kubectl("rollout status deployment/web").await?;
    let before: BTreeSet<String> =
        place.ready_pods("app=web", 2).await?.iter().map(ResourceExt::name_any).collect();

    place.kubectl("set env deployment/web VERSION=2").await?;
    place.kubectl("rollout status deployment/web").await?;
    let after = place.ready_pods("app=web", 2).await?;
    for pod in &after {
        ensure!(!before.contains(&pod.name_any()), "an old pod is still there");
        let answer = http_get(&pod_ip(pod)?, 8080, "/version").await?;
        ensure!(answer.contains("version 2"), "{answer}");
    }
    let history = place.kubectl("rollout history deployment/web").await?;
    ensure!(history.contains('1') && history.contains('2'), "{history}");

    place.kubectl("rollout undo deployment/web").await?;
    place.kubectl("rollout status deployment/web").await?;
    for pod in place.ready_pods("app=web", 2).await? {
        let answer = http_get(&pod_ip(&pod)?, 8080, "/version").await?;
        ensure!(answer.contains("version 1"), "{answer}");
    }
    let deployment = place.until("deployment", "web", |_| true).await?;
    let revision = at(&deployment, "/metadata/annotations/deployment.kubernetes.io~1revision");
    ensure!(revision == "3", "an undo is a new revision, not {revision}");
    let sets = place.kubectl("get replicasets -o name").await?;
    ensure!(sets.lines().count() == 2, "the first set is used again: {sets}");
    Ok(())
}

pub async fn a_bad_rollout_keeps_the_old_pods(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "bad-rollout").await?;
    place.apply(&web(2, "1", "")).await?;
    place.kubectl("rollout status deployment/web").await?;
    let patch = r#"{"spec":{"template":{"spec":{"containers":[{"name":"web","command":["false"]}]}}}}"#;
    place.kubectl(&format!("patch deployment web -p {patch}")).await?;
    // 25 % of two pods: one new pod at a time, no old one may go
    eventually("the new pod to fail", || async {
        let pods = place.pods("app=web").await?;
        let restarts: i32 = pods
            .iter()
            .flat_map(|pod| pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten()))
            .map(|status| status.restart_count)
            .sum();
        let ready = pods.iter().filter(|pod| e2e::is_ready(pod)).count();
        ensure!(ready >= 2, "the old pods must stay: {ready} ready");
        Ok(if restarts > 0 { Ok(()) } else { Err(pods.len()) })
    })
    .await?;
    let deployment = place.until("deployment", "web", |_| true).await?;
    ensure!(at(&deployment, "/status/updatedReplicas") == &json!(1), "{deployment}");
    ensure!(at(&deployment, "/status/availableReplicas") == &json!(2), "{deployment}");
    Ok(())
}

pub async fn scale_up_and_down(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "scale").await?;
    place.apply(&web(1, "1", "")).await?;
    place.ready_pods("app=web", 1).await?;
    place.kubectl("scale deployment/web --replicas=4").await?;
    place.ready_pods("app=web", 4).await?;
    place.kubectl("scale deployment/web --replicas=0").await?;
    place.ready_pods("app=web", 0).await?;
    let status = place.until("deployment", "web", |web| at(web, "/status/replicas").is_null()).await?;
    ensure!(at(&status, "/status/observedGeneration") == at(&status, "/metadata/generation"), "{status}");
    Ok(())
}

pub async fn a_killed_pod_is_replaced(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "repair").await?;
    place.apply(&web(2, "1", "")).await?;
    let first = place.ready_pods("app=web", 2).await?.remove(0);
    place.api::<Pod>().delete(&first.name_any(), &DeleteParams::default()).await?;
    place.until_gone("pod", &first.name_any()).await?;
    let pods = place.ready_pods("app=web", 2).await?;
    ensure!(pods.iter().all(|pod| pod.uid() != first.uid()));
    Ok(())
}
