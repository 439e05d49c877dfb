//! The HPA controller under each kind of fault: a workload gets busier and then calm again, and every end state must be
//! that of an undisturbed run.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use faults::{
    Faults, Loads, Plan, RELIST_PERIOD, Start, World, eventually,
    trials::{self, Told, Undisturbed},
};
use futures::FutureExt;
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use localkube::ApiServer;
use serde_json::json;
use workloads::{Controllers, Name, Options};

/// Of 100m each, at 50 %: 1 pod, 6 pods and 3 pods.
const CALM: u64 = 50;
const BUSY: u64 = 300;
const LESS_BUSY: u64 = 150;

fn options(which: impl IntoIterator<Item = Name>) -> Options {
    Options {
        which: which.into_iter().collect(),
        hpa_sync_period: Duration::from_millis(50),
        relist_period: RELIST_PERIOD,
        ..Options::default()
    }
}

async fn world(plans: Vec<Plan>) -> Result<(World, Loads)> {
    let server = ApiServer::open(localkube::Options::default()).await?.client("default");
    let loads = Loads::default();
    let start: Start = Arc::new(|client, end| {
        Controllers::new(client, options([Name::HorizontalPodAutoscaler])).run(end.cancelled_owned()).boxed()
    });
    let mut world = World::new(loads.client(server), plans, start);
    world.beside(|client, stop| {
        let others = Name::ALL.into_iter().filter(|name| *name != Name::HorizontalPodAutoscaler);
        Controllers::new(client, options(others)).run(stop.cancelled_owned()).boxed()
    });
    Ok((world, loads))
}

/// Until the Deployment runs so many, and its HPA says so.
async fn settled(world: &World, name: &str, replicas: i32) -> Result<()> {
    let deployments: Api<Deployment> = Api::default_namespaced(world.client.clone());
    let autoscalers: Api<HorizontalPodAutoscaler> = Api::default_namespaced(world.client.clone());
    eventually(format!("{name} to have {replicas}"), || async {
        let (deployment, autoscaler) = (deployments.get(name).await?, autoscalers.get(name).await?);
        let status = autoscaler.status.clone().unwrap_or_default();
        let is_settled = deployment.spec.as_ref().and_then(|spec| spec.replicas) == Some(replicas)
            && deployment.status.as_ref().and_then(|status| status.ready_replicas) == Some(replicas)
            && status.current_replicas == Some(replicas)
            && status.desired_replicas == replicas;
        Ok(if is_settled { Ok(()) } else { Err((deployment.status, autoscaler.status)) })
    })
    .await
}

/// What the load does, and what is there in the end.
async fn story(plans: Vec<Plan>, expected: Option<&str>) -> Told {
    let (world, loads) = world(plans).await?;
    let deployments: Api<Deployment> = Api::default_namespaced(world.client.clone());
    let autoscalers: Api<HorizontalPodAutoscaler> = Api::default_namespaced(world.client.clone());
    for name in ["shop", "cart"] {
        loads.set(name, CALM);
        let resources = json!({"requests": {"cpu": "100m"}});
        let deployment = json!({"metadata": {"name": name}, "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "none", "resources": resources}]},
            },
        }});
        deployments.create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
        let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
        let autoscaler = json!({"metadata": {"name": name}, "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1, "maxReplicas": 8,
            "metrics": [{"type": "Resource", "resource": cpu}],
            "behavior": {
                "scaleDown": {"stabilizationWindowSeconds": 0},
                "scaleUp": {"policies": [{"type": "Pods", "value": 8, "periodSeconds": 1}]},
            },
        }});
        autoscalers.create(&PostParams::default(), &serde_json::from_value(autoscaler)?).await?;
        settled(&world, name, 1).await?;
    }
    loads.set("shop", BUSY);
    loads.set("cart", LESS_BUSY);
    settled(&world, "shop", 6).await?;
    settled(&world, "cart", 3).await?;
    loads.set("shop", LESS_BUSY);
    loads.set("cart", CALM);
    let state = trials::lasting(expected, async || {
        settled(&world, "shop", 3).await?;
        settled(&world, "cart", 1).await?;
        end_state(&autoscalers).await
    })
    .await?;
    Ok((state, world.end().await?))
}

/// What the HPAs say, without times. What they say of their readings is not there: every refused question is told.
async fn end_state(autoscalers: &Api<HorizontalPodAutoscaler>) -> Result<String> {
    let mut lines = Vec::new();
    for autoscaler in autoscalers.list(&ListParams::default()).await? {
        let status = autoscaler.status.clone().unwrap_or_default();
        let current = json!(status.current_metrics);
        lines.push(format!("{} {} {current}", autoscaler.name_any(), status.desired_replicas));
    }
    Ok(lines.join("\n"))
}

async fn undisturbed() -> Result<Undisturbed> {
    let (state, lives) = story(Vec::new(), None).await?;
    Ok((state, lives.iter().map(Faults::writes).sum()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_every_second_write() -> Result<()> {
    trials::crash_after_each(story, undisturbed().await?, 2).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_life_that_starts_in_the_past() -> Result<()> {
    trials::new_life_that_starts_in_the_past(story, undisturbed().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_requests() -> Result<()> {
    trials::refused_requests(story, undisturbed().await?, &[4]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn events_lost_repeated_and_late() -> Result<()> {
    let plans = vec![
        Plan { lose_event: Some(2), ..Plan::default() },
        Plan { repeat_event: Some(1), ..Plan::default() },
        Plan {
            lose_event: Some(3),
            repeat_event: Some(2),
            delay: Duration::from_millis(5),
            ..Plan::default()
        },
    ];
    trials::disturbed_events(story, undisturbed().await?, plans).await
}
