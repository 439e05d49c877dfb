//! The workload controllers under each kind of fault: a Deployment is created, updated, scaled and deleted, and every
//! end state must be that of an undisturbed run.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::Result;
use faults::{
    Faults, Plan, RELIST_PERIOD, Start, World, eventually,
    trials::{self, Told, Undisturbed},
};
use futures::FutureExt;
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::Pod,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use localkube::ApiServer;
use serde_json::json;

async fn world(plans: Vec<Plan>) -> Result<World> {
    let client = ApiServer::open(localkube::Options::default()).await?.client("default");
    let start: Start = Arc::new(|client, end| {
        let options = workloads::Options { relist_period: RELIST_PERIOD, ..workloads::Options::default() };
        workloads::Controllers::new(client, options).run(end.cancelled_owned()).boxed()
    });
    Ok(World::new(client, plans, start))
}

/// What the user does, and what is there in the end.
async fn story(plans: Vec<Plan>, expected: Option<&str>) -> Told {
    let world = world(plans).await?;
    let deployments: Api<Deployment> = Api::default_namespaced(world.client.clone());
    let deployment = |name: &str| -> Result<Deployment> {
        Ok(serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "one"}]}
            }}
        }))?)
    };
    let patch = |name: &'static str, patch: serde_json::Value| {
        let deployments = deployments.clone();
        async move { deployments.patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await }
    };
    deployments.create(&PostParams::default(), &deployment("stays")?).await?;
    deployments.create(&PostParams::default(), &deployment("goes")?).await?;
    settled(&deployments, "stays").await?;
    settled(&deployments, "goes").await?;
    patch(
        "stays",
        json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "two"}]}}}}),
    )
    .await?;
    settled(&deployments, "stays").await?;
    patch("stays", json!({"spec": {"replicas": 2}})).await?;
    deployments.delete("goes", &DeleteParams::background()).await?;
    settled(&deployments, "stays").await?;

    let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
    let sets: Api<ReplicaSet> = Api::default_namespaced(world.client.clone());
    // garbage goes when it goes
    eventually("what was the Deployment's to be gone", || async {
        let left = ListParams::default().labels("app=goes");
        let (pods, sets) = (pods.list(&left).await?.items, sets.list(&left).await?.items);
        Ok(if pods.is_empty() && sets.is_empty() { Ok(()) } else { Err((pods, sets)) })
    })
    .await?;
    let state = trials::lasting(expected, async || {
        settled(&deployments, "stays").await?;
        end_state(&deployments, &sets, &pods).await
    })
    .await?;
    Ok((state, world.end().await?))
}

/// Until the Deployment reports that it is done with its latest spec.
async fn settled(deployments: &Api<Deployment>, name: &str) -> Result<()> {
    eventually(format!("Deployment {name} to settle"), || async {
        let deployment = deployments.get(name).await?;
        let desired = deployment.spec.as_ref().and_then(|spec| spec.replicas);
        let status = deployment.status.clone().unwrap_or_default();
        let counts =
            [status.replicas, status.updated_replicas, status.available_replicas, status.ready_replicas];
        let is_settled = status.observed_generation == deployment.metadata.generation
            && status.terminating_replicas.unwrap_or(0) == 0
            && counts.iter().all(|count| *count == desired);
        Ok(if is_settled { Ok(()) } else { Err(deployment) })
    })
    .await
}

/// What is left, without names and times that are chance.
async fn end_state(deployments: &Api<Deployment>, sets: &Api<ReplicaSet>, pods: &Api<Pod>) -> Result<String> {
    let all = ListParams::default();
    let mut lines = Vec::new();
    for deployment in deployments.list(&all).await? {
        let mut status = deployment.status.clone().unwrap_or_default();
        for condition in status.conditions.iter_mut().flatten() {
            condition.last_transition_time = None;
            condition.last_update_time = None;
        }
        // a map by type, in no particular order
        status.conditions.iter_mut().for_each(|conditions| conditions.sort_by(|a, b| a.type_.cmp(&b.type_)));
        lines.push(format!("deployment {} {}", deployment.name_any(), serde_json::to_string(&status)?));
    }
    let mut pods_of: BTreeMap<String, usize> = BTreeMap::new();
    for pod in pods.list(&all).await? {
        let owner = pod.owner_references().first().map(|owner| owner.name.clone());
        *pods_of.entry(owner.unwrap_or_default()).or_default() += 1;
    }
    for set in sets.list(&all).await? {
        let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
        let revision = set.annotations().get("deployment.kubernetes.io/revision");
        let n_pods = pods_of.remove(&set.name_any()).unwrap_or(0);
        lines.push(format!(
            "set {} replicas {replicas:?} revision {revision:?} pods {n_pods}",
            set.name_any()
        ));
    }
    lines.push(format!("pods without a set: {pods_of:?}"));
    lines.sort();
    Ok(lines.join("\n"))
}

async fn undisturbed() -> Result<Undisturbed> {
    let (state, lives) = story(Vec::new(), None).await?;
    let n_writes = lives.iter().map(Faults::writes).sum();
    assert!(
        state.contains("pods 2") && state.contains("pods 0"),
        "two pods of the new set, none of the old:\n{state}"
    );
    Ok((state, n_writes))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_any_write() -> Result<()> {
    trials::crash_after_any_write(story, undisturbed().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_life_that_starts_in_the_past() -> Result<()> {
    trials::new_life_that_starts_in_the_past(story, undisturbed().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_requests() -> Result<()> {
    trials::refused_requests(story, undisturbed().await?, &[3, 7]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn events_lost_repeated_and_late() -> Result<()> {
    let plans = vec![
        Plan { lose_event: Some(2), ..Plan::default() },
        Plan { lose_event: Some(5), ..Plan::default() },
        Plan { repeat_event: Some(1), ..Plan::default() },
        Plan { delay: Duration::from_millis(30), ..Plan::default() },
        Plan {
            lose_event: Some(3),
            repeat_event: Some(2),
            delay: Duration::from_millis(5),
            ..Plan::default()
        },
    ];
    trials::disturbed_events(story, undisturbed().await?, plans).await
}
