//! What is scaled.

use anyhow::Result;
use cluster::Counts;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Pod};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::figures::{PER_REPLICA, name};

const AT_ONCE: usize = 32;
const SOURCE: &str = "source";

/// Objects of one replica, and the pod that has the figures of all.
pub async fn create(client: &Client, n_objects: usize, port: u16) -> Result<()> {
    controllers::crds::install(client).await?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let all = (0..n_objects).map(|object| (name(object), scaled()));
    let all = all.chain([(SOURCE.to_owned(), json!({"SlimFaas/ReplicasMin": "1"}))]);
    stream::iter(all)
        .map(|(name, annotations)| {
            let deployments = deployments.clone();
            async move {
                let object = serde_json::from_value(deployment(&name, &annotations))?;
                deployments.create(&PostParams::default(), &object).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    pods.create(&PostParams::default(), &serde_json::from_value(pod(port))?).await?;
    let status = json!({"status": {
        "phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}],
        "conditions": [{"type": "ContainersReady", "status": "True"}, {"type": "Ready", "status": "True"}],
    }});
    pods.patch_status("source-1", &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

fn scaled() -> Value {
    let trigger = json!({
        "MetricType": "AverageValue", "MetricName": "load",
        "Query": "sum(load{object=\"${app}\"})", "Threshold": PER_REPLICA,
    });
    json!({
        "SlimFaas/ReplicasMin": "1", "SlimFaas/ReplicasAtStart": "1",
        "SlimFaas/TimeoutSecondBeforeSetReplicasMin": "3600",
        "SlimFaas/Scale": json!({"ReplicaMax": 100, "Triggers": [trigger]}).to_string(),
    })
}

fn deployment(name: &str, annotations: &Value) -> Value {
    json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": "none", "ports": [{"containerPort": 8080}]}]},
            },
        },
    })
}

fn pod(port: u16) -> Value {
    json!({
        "metadata": {
            "name": "source-1", "labels": {"app": SOURCE, "pod-template-hash": "1"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": port.to_string()},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "source-1", "controller": true,
                "uid": "00000000-0000-0000-0000-000000000001",
            }],
        },
        "spec": {
            "nodeName": "none",
            "containers": [{"name": "app", "image": "none", "ports": [{"containerPort": port}]}],
        },
    })
}

/// A HorizontalPodAutoscaler for each, over the same figures.
pub async fn autoscale(client: &Client, n_objects: usize) -> Result<()> {
    let autoscalers: Api<HorizontalPodAutoscaler> = Api::namespaced(client.clone(), "default");
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    stream::iter((0..n_objects).map(name))
        .map(|name| {
            let (autoscalers, deployments) = (autoscalers.clone(), deployments.clone());
            async move {
                // as if it had a pod: the controller multiplies by what is there
                let status = json!({"status": {"replicas": 1, "observedGeneration": 1}});
                deployments.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
                let object = serde_json::from_value(autoscaler(&name))?;
                autoscalers.create(&PostParams::default(), &object).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

fn autoscaler(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1, "maxReplicas": 100,
            "metrics": [{"type": "External", "external": {
                "metric": {"name": "load", "selector": {"matchLabels": {"object": name}}},
                "target": {"type": "AverageValue", "averageValue": PER_REPLICA.to_string()},
            }}],
        },
    })
}

pub fn watch(client: &Client) -> Counts {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "default");
    Counts::watch(deployments, |object| object.spec.as_ref()?.replicas)
}
