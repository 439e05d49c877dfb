//! The Hvpa controller under each kind of fault: workloads get busier, in place and by their template, and every end state
//! must be that of an undisturbed run. How busy they are is a value here, which all pods of a workload share.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::Result;
use api::hvpa::Hvpa;
use controllers::hvpa;
use faults::{
    Faults, Loads, Plan, RELIST_PERIOD, Start, World, eventually,
    trials::{self, Told, Undisturbed},
};
use futures::FutureExt;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use localkube::ApiServer;
use serde_json::{Value, json};

const SYNC_PERIOD: Duration = Duration::from_millis(50);

/// At 30 % utilization these are needs of 280m and 800m: pairs of 2 × 140m and 3 × 267m on the path of the ratio. Neither load
/// comes near to what its pods request by then, so nothing is assumed of a load that cannot be seen, and both loads are
/// whole numbers for each of 1 to 3 pods.
const CALM: u64 = 84;
const BUSY: u64 = 240;
const HELD_WHEN_CALM: u64 = 280;
const HELD_WHEN_BUSY: u64 = 800;

async fn world(plans: Vec<Plan>) -> Result<(World, Loads)> {
    let server = ApiServer::open(localkube::Options::default()).await?.client("default");
    controllers::crds::install(&server).await?;
    let loads = Loads::default();
    for name in ["placed", "rolled", "goes"] {
        loads.set(name, CALM);
    }
    let client = loads.client(server);
    let store = store::open("memory:", store::Options::default()).await?;
    let start: Start = Arc::new(move |client, end| {
        let options = hvpa::Options {
            relist_period: RELIST_PERIOD,
            sync_period: SYNC_PERIOD,
            learn_period: SYNC_PERIOD,
            ..hvpa::Options::default()
        };
        hvpa::run(client, store.clone(), options, end.cancelled_owned()).boxed()
    });
    let mut world = World::new(client, plans, start);
    world.beside(|client, stop| {
        workloads::Controllers::new(client, workloads::Options::default()).run(stop.cancelled_owned()).boxed()
    });
    Ok((world, loads))
}

fn deployment(name: &str) -> Result<Deployment> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "main", "image": "none", "resources": {"requests": {"cpu": "100m"}},
                }]},
            },
        },
    }))?)
}

fn manifest(name: &str, target: &str, update_mode: &str) -> Result<Hvpa> {
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 30}});
    let policy = json!({
        "containerName": "*", "controlledResources": ["cpu"],
        "minAllowed": {"cpu": "100m"}, "maxAllowed": {"cpu": "800m"},
    });
    Ok(serde_json::from_value(json!({
        "apiVersion": "autoscaling.k8s.io/v1alpha1", "kind": "Hvpa", "metadata": {"name": name},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "mode": "RatioBased",
            "ratioBasedScalingSpec": {"vToHScalingRatio": 1},
            "updateMode": update_mode,
            "hpa": {"template": {"spec": {
                "minReplicas": 1, "maxReplicas": 8, "metrics": [{"type": "Resource", "resource": cpu}],
            }}},
            "vpa": {"template": {"spec": {"resourcePolicy": {"containerPolicies": [policy]}}}},
        },
    }))?)
}

fn request(container: &Value) -> String {
    container["resources"]["requests"]["cpu"].as_str().unwrap_or("?").to_owned()
}

/// How many pods there are of each size.
async fn pods(world: &World, app: &str) -> Result<BTreeMap<String, usize>> {
    let api: Api<Pod> = Api::default_namespaced(world.client.clone());
    let mut sizes = BTreeMap::new();
    for pod in api.list(&ListParams::default().labels(&format!("app={app}"))).await? {
        if pod.metadata.deletion_timestamp.is_none() {
            *sizes.entry(request(&json!(pod.spec)["containers"][0])).or_default() += 1;
        }
    }
    Ok(sizes)
}

fn conditions(hvpa: &Value) -> Vec<String> {
    let all = hvpa["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let text = |one: &Value| format!("{} {} {}", one["type"], one["status"], one["reason"]).replace('"', "");
    all.iter().map(text).collect()
}

/// Until all pods of a workload have what its Hvpa applied last, which holds `held` thousandths of a core or more.
async fn settled(world: &World, name: &str, held: u64) -> Result<()> {
    let hvpas: Api<Hvpa> = Api::default_namespaced(world.client.clone());
    let deployments: Api<Deployment> = Api::default_namespaced(world.client.clone());
    eventually(format!("{name} to hold {held}m"), || async {
        let hvpa = json!(hvpas.get(name).await?);
        let deployment = json!(deployments.get(name).await?);
        let pods = pods(world, name).await?;
        let status = &hvpa["status"];
        let applied = &status["applied"];
        let size = applied["requests"][0]["target"]["cpu"].as_str().unwrap_or("?");
        let milli: u64 = size.trim_end_matches('m').parse().unwrap_or(0);
        let replicas = applied["replicas"].as_u64().unwrap_or(0);
        let is_settled = replicas * milli >= held
            && deployment["spec"]["replicas"] == replicas
            && deployment["status"]["replicas"] == replicas
            && deployment["status"]["readyReplicas"] == replicas
            && pods == BTreeMap::from([(size.to_owned(), replicas as usize)])
            && status["replicas"] == replicas
            && status["observedGeneration"] == hvpa["metadata"]["generation"]
            && hvpa["spec"]["replicas"].is_number()
            && conditions(&hvpa).iter().all(|condition| condition.contains(" True "));
        Ok(if is_settled { Ok(()) } else { Err((pods, hvpa["status"].to_string())) })
    })
    .await
}

/// What the user does, and what is there in the end.
async fn story(plans: Vec<Plan>, expected: Option<&str>) -> Told {
    let (world, loads) = world(plans).await?;
    let deployments: Api<Deployment> = Api::default_namespaced(world.client.clone());
    let hvpas: Api<Hvpa> = Api::default_namespaced(world.client.clone());
    let post = PostParams::default();
    for (name, update_mode) in [("placed", "InPlace"), ("rolled", "Template"), ("goes", "InPlaceOrRecreate")]
    {
        deployments.create(&post, &deployment(name)?).await?;
        hvpas.create(&post, &manifest(name, name, update_mode)?).await?;
    }
    for name in ["placed", "rolled", "goes"] {
        settled(&world, name, HELD_WHEN_CALM).await?;
    }
    hvpas.delete("goes", &DeleteParams::background()).await?;
    // a younger one for the same workload has to leave it alone
    hvpas.create(&post, &manifest("second", "placed", "InPlace")?).await?;
    for name in ["placed", "rolled"] {
        loads.set(name, BUSY);
    }
    for name in ["placed", "rolled"] {
        settled(&world, name, HELD_WHEN_BUSY).await?;
    }
    eventually("the second one to be told", || async {
        let second = json!(hvpas.get("second").await?);
        let told = conditions(&second);
        Ok(if told.contains(&"Ready False TargetConflict".to_owned()) { Ok(()) } else { Err(told) })
    })
    .await?;
    let state = trials::lasting(expected, async || end_state(&world).await).await?;
    Ok((state, world.end().await?))
}

/// What is left. What an Hvpa says of its readings is not there: every refused question about them is told.
async fn end_state(world: &World) -> Result<String> {
    let hvpas: Api<Hvpa> = Api::default_namespaced(world.client.clone());
    let deployments: Api<Deployment> = Api::default_namespaced(world.client.clone());
    let mut lines = Vec::new();
    for deployment in deployments.list(&ListParams::default()).await? {
        let name = deployment.name_any();
        let spec = json!(deployment.spec);
        let template = request(&spec["template"]["spec"]["containers"][0]);
        lines.push(format!(
            "deployment {name} {} of {template}: {:?}",
            spec["replicas"],
            pods(world, &name).await?
        ));
    }
    for hvpa in hvpas.list(&ListParams::default()).await? {
        let hvpa = json!(hvpa);
        let applied = &hvpa["status"]["applied"];
        let size = &applied["requests"][0]["target"];
        lines.push(format!("hvpa {} applied {} of {size}", hvpa["metadata"]["name"], applied["replicas"]));
    }
    Ok(lines.join("\n"))
}

async fn undisturbed() -> Result<Undisturbed> {
    let (state, lives) = story(Vec::new(), None).await?;
    assert!(state.contains("deployment placed 3 of 100m: {\"267m\": 3}"), "{state}");
    assert!(state.contains("deployment rolled 3 of 267m: {\"267m\": 3}"), "{state}");
    Ok((state, lives.iter().map(Faults::writes).sum()))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_when_idle() -> Result<()> {
    let (world, _) = world(Vec::new()).await?;
    let deployments: Api<Deployment> = Api::default_namespaced(world.client.clone());
    let hvpas: Api<Hvpa> = Api::default_namespaced(world.client.clone());
    deployments.create(&PostParams::default(), &deployment("placed")?).await?;
    hvpas.create(&PostParams::default(), &manifest("placed", "placed", "InPlace")?).await?;
    settled(&world, "placed", HELD_WHEN_CALM).await?;
    // The estimate for one pod has to forget first how much the only one used. From then on there are several lists and
    // many looks at the metrics, each of which would show a difference if there were one.
    eventually("rest", || async {
        let before = world.writes().await;
        tokio::time::sleep(RELIST_PERIOD * 8).await;
        let after = world.writes().await;
        Ok(if before == after { Ok(()) } else { Err((before, after)) })
    })
    .await?;
    world.end().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_a_write() -> Result<()> {
    trials::crash_after_each(story, undisturbed().await?, 3).await
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
