//! The HorizontalPodAutoscaler, from the processor time of real processes.

use anyhow::{Result, ensure};
use cluster::Cluster;
use e2e::{Place, at, eventually};
use serde_json::json;

pub async fn load_raises_replicas_and_silence_lowers_them(cluster: &Cluster) -> Result<()> {
    let place = Place::new(cluster, "autoscale").await?;
    let quiet = cluster.directory().join(format!("{}-quiet", place.namespace));
    place
        .apply(&format!(
            r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{name: busy}}
spec:
  selector: {{matchLabels: {{app: busy}}}}
  template:
    metadata: {{labels: {{app: busy}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: none
        # about a fifth of a core until it is told to be quiet
        command: [sh, -c, "while [ ! -e {0} ]; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.1; done; sleep infinity"]
        resources: {{requests: {{cpu: 10m}}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {{name: busy}}
spec:
  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: busy}}
  minReplicas: 1
  maxReplicas: 3
  metrics: [{{type: Resource, resource: {{name: cpu, target: {{type: Utilization, averageUtilization: 50}}}}}}]
  behavior: {{scaleDown: {{stabilizationWindowSeconds: 0}}}}
"#,
            quiet.display()
        ))
        .await?;
    place.ready_pods("app=busy", 3).await?;
    let hpa = place.until("hpa", "busy", |hpa| at(hpa, "/status/desiredReplicas") == &json!(3)).await?;
    let conditions = at(&hpa, "/status/conditions").to_string();
    ensure!(
        conditions.contains("ValidMetricFound") && conditions.contains("TooManyReplicas"),
        "{conditions}"
    );
    std::fs::write(&quiet, "")?;
    place.ready_pods("app=busy", 1).await?;
    eventually("an event of each change", || async {
        let events = place.kubectl("get events --field-selector involvedObject.name=busy").await?;
        Ok(if events.matches("SuccessfulRescale").count() >= 2 { Ok(()) } else { Err(events) })
    })
    .await
}
