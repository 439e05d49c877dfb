//! The workload controllers under each kind of fault: a Deployment is created, updated, scaled and deleted, and every
//! end state must be that of an undisturbed run.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::Result;
use faults::{Faults, Plan, RELIST_PERIOD, Start, World, eventually};
use futures::FutureExt;
use http::StatusCode;
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
async fn story(plans: Vec<Plan>) -> Result<(String, Vec<Faults>)> {
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
    let state = end_state(&deployments, &sets, &pods).await?;
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

async fn undisturbed() -> Result<(String, usize)> {
    let (state, lives) = story(Vec::new()).await?;
    let n_writes = lives.iter().map(Faults::writes).sum();
    assert!(
        state.contains("pods 2") && state.contains("pods 0"),
        "two pods of the new set, none of the old:\n{state}"
    );
    Ok((state, n_writes))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_any_write() -> Result<()> {
    let (expected, n_writes) = undisturbed().await?;
    for n in 1..=n_writes {
        let (state, lives) = story(vec![Plan { crash_after_write: Some(n), ..Plan::default() }]).await?;
        // how many writes a run takes is partly chance: the last ones may not be reached
        assert!(lives.len() > 1 || n > n_writes / 2, "the crash after write {n} never came");
        assert_eq!(state, expected, "after a crash after write {n}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_life_that_starts_in_the_past() -> Result<()> {
    let (expected, n_writes) = undisturbed().await?;
    for n in (1..=n_writes).step_by(3) {
        let crash = Plan { crash_after_write: Some(n), ..Plan::default() };
        let stale = Plan { stale_lists: true, ..Plan::default() };
        let (state, _) = story(vec![crash, stale]).await?;
        assert_eq!(state, expected, "with stale lists after a crash after write {n}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_requests() -> Result<()> {
    let (expected, _) = undisturbed().await?;
    for status in [
        StatusCode::CONFLICT,
        StatusCode::GONE,
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::INTERNAL_SERVER_ERROR,
    ] {
        for every in [3, 7] {
            let (state, lives) =
                story(vec![Plan { refuse: Some((every, status)), ..Plan::default() }]).await?;
            assert!(lives[0].refused() > 0);
            assert_eq!(state, expected, "with every {every}th request answered {status}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn events_lost_repeated_and_late() -> Result<()> {
    let (expected, _) = undisturbed().await?;
    for plan in [
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
    ] {
        let (state, _) = story(vec![plan.clone()]).await?;
        assert_eq!(state, expected, "with {plan:?}");
    }
    Ok(())
}
