//! The Function controller under each kind of fault: Functions are created, changed, scaled and deleted, and every end
//! state must be that of an undisturbed run. What else a cluster has runs beside it, undisturbed.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use api::kyma::Function;
use controllers::kyma;
use faults::{
    Faults, Plan, RELIST_PERIOD, Start, World, eventually,
    trials::{self, Told, Undisturbed},
};
use futures::FutureExt;
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{ConfigMap, Service},
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use localkube::ApiServer;
use serde_json::{Value, json};

const LABEL: &str = "serverless.kyma-project.io/function-name";

async fn world(plans: Vec<Plan>) -> Result<World> {
    let client = ApiServer::open(localkube::Options::default()).await?.client("default");
    controllers::crds::install(&client).await?;
    let start: Start = Arc::new(|client, end| {
        // no Git source here, so nothing is ever kept on disk
        let options = kyma::Options { relist_period: RELIST_PERIOD, ..kyma::Options::new("/nonexistent") };
        kyma::run(client, options, end.cancelled_owned()).boxed()
    });
    let mut world = World::new(client, plans, start);
    world.beside(|client, stop| {
        workloads::Controllers::new(client, workloads::Options::default()).run(stop.cancelled_owned()).boxed()
    });
    Ok(world)
}

fn manifest(name: &str, spec: Value) -> Result<Function> {
    let mut whole =
        json!({"runtime": "nodejs22", "source": {"inline": {"source": "exports.main = () => 1"}}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        whole[field] = value.clone();
    }
    Ok(serde_json::from_value(json!({
        "apiVersion": "serverless.kyma-project.io/v1alpha2", "kind": "Function",
        "metadata": {"name": name}, "spec": whole,
    }))?)
}

/// Until the Function runs its latest spec with `count` pods.
async fn settled(functions: &Api<Function>, name: &str, count: i32) -> Result<()> {
    eventually(format!("Function {name} to run with {count} pods"), || async {
        let function = functions.get(name).await?;
        let status = function.status.clone().unwrap_or_default();
        let is_running = status.conditions.iter().flatten().any(|condition| {
            condition.type_ == "Running"
                && condition.status == "True"
                && condition.reason == "DeploymentReady"
        });
        let is_settled = is_running
            && status.observed_generation == function.metadata.generation
            && status.replicas == Some(count)
            && function.spec.replicas == Some(count);
        Ok(if is_settled { Ok(()) } else { Err(function) })
    })
    .await
}

async fn of_function<K>(world: &World, name: &str) -> Result<Vec<K>>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::default_namespaced(world.client.clone());
    Ok(api.list(&ListParams::default().labels(&format!("{LABEL}={name}"))).await?.items)
}

/// What the user does, and what is there in the end.
async fn story(plans: Vec<Plan>, expected: Option<&str>) -> Told {
    let world = world(plans).await?;
    let functions: Api<Function> = Api::default_namespaced(world.client.clone());
    let patch = |name: &'static str, patch: Value| {
        let functions = functions.clone();
        async move { functions.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await }
    };
    functions.create(&PostParams::default(), &manifest("stays", json!({}))?).await?;
    let scaled = json!({"scaleConfig": {"minReplicas": 2, "maxReplicas": 4}});
    functions.create(&PostParams::default(), &manifest("auto", scaled)?).await?;
    functions.create(&PostParams::default(), &manifest("goes", json!({}))?).await?;
    settled(&functions, "stays", 1).await?;
    settled(&functions, "auto", 2).await?;
    settled(&functions, "goes", 1).await?;
    patch(
        "stays",
        json!({"spec": {"replicas": 3, "source": {"inline": {"source": "exports.main = () => 2"}}}}),
    )
    .await?;
    patch("auto", json!({"spec": {"scaleConfig": null}})).await?;
    functions.delete("goes", &DeleteParams::background()).await?;
    settled(&functions, "stays", 3).await?;
    settled(&functions, "auto", 2).await?;
    patch("stays", json!({"spec": {"scaleConfig": {"minReplicas": 2, "maxReplicas": 2}}})).await?;
    settled(&functions, "stays", 2).await?;
    eventually("all to be cleared away", || async {
        let hpas = of_function::<HorizontalPodAutoscaler>(&world, "auto").await?;
        let deployments = of_function::<Deployment>(&world, "goes").await?;
        let services = of_function::<Service>(&world, "goes").await?;
        let maps = of_function::<ConfigMap>(&world, "goes").await?;
        let left = (hpas.len(), deployments.len(), services.len(), maps.len());
        Ok(if left == (0, 0, 0, 0) { Ok(()) } else { Err(left) })
    })
    .await?;
    let state = trials::lasting(expected, async || end_state(&world, &functions).await).await?;
    Ok((state, world.end().await?))
}

/// What is left, without names and times that are chance.
async fn end_state(world: &World, functions: &Api<Function>) -> Result<String> {
    let mut lines = Vec::new();
    for function in functions.list(&ListParams::default()).await? {
        let name = function.name_any();
        let uid = function.uid().unwrap_or_default();
        let mut status = function.status.clone().unwrap_or_default();
        // how often the count was written on the way is chance
        status.observed_generation = None;
        for condition in status.conditions.iter_mut().flatten() {
            condition.last_transition_time = serde_json::from_value(json!("2026-01-01T00:00:00Z"))?;
        }
        let mut text = format!("function {name} replicas {:?} {}\n", function.spec.replicas, json!(status));
        for deployment in of_function::<Deployment>(world, &name).await? {
            text = text.replace(&deployment.name_any(), "CHILD");
            text += &format!(
                "  deployment {}\n",
                json!(deployment.spec).to_string().replace(&deployment.name_any(), "CHILD")
            );
        }
        for service in of_function::<Service>(world, &name).await? {
            text += &format!("  service {}\n", json!(service.spec.map(|spec| (spec.selector, spec.ports))));
        }
        for map in of_function::<ConfigMap>(world, &name).await? {
            text += &format!(
                "  config map {:?}\n",
                map.data.map(|data| data.into_values().map(|text| text.len()).collect::<Vec<_>>())
            );
        }
        for hpa in of_function::<HorizontalPodAutoscaler>(world, &name).await? {
            text += &format!("  hpa {}\n", json!(hpa.spec));
        }
        lines.push(text.replace(&uid, "UID"));
    }
    Ok(lines.join(""))
}

async fn undisturbed() -> Result<Undisturbed> {
    let (state, lives) = story(Vec::new(), None).await?;
    assert_eq!(state.matches("  deployment").count(), 2, "one Deployment each:\n{state}");
    assert!(!state.contains("  hpa"), "{state}");
    Ok((state, lives.iter().map(Faults::writes).sum()))
}

#[tokio::test(flavor = "multi_thread")]
async fn few_writes_to_run_and_none_when_idle() -> Result<()> {
    for (spec, count) in [(json!({}), 1), (json!({"scaleConfig": {"minReplicas": 1, "maxReplicas": 3}}), 1)] {
        let world = world(Vec::new()).await?;
        let functions: Api<Function> = Api::default_namespaced(world.client.clone());
        functions.create(&PostParams::default(), &manifest("one", spec.clone())?).await?;
        settled(&functions, "one", count).await?;
        let autoscalers = usize::from(spec["scaleConfig"].is_object());
        eventually("the autoscaler", || async {
            let hpas = of_function::<HorizontalPodAutoscaler>(&world, "one").await?;
            Ok(if hpas.len() == autoscalers { Ok(()) } else { Err(hpas) })
        })
        .await?;
        let writes = world.writes().await;
        // the autoscaler is made when the Function runs
        assert!(writes - autoscalers <= 5, "{writes} writes for {spec}");
        // several lists, each of which would show a difference if there were one
        tokio::time::sleep(RELIST_PERIOD * 4).await;
        assert_eq!(world.writes().await, writes, "nothing changed, and something was written for {spec}");
        world.end().await?;
    }
    Ok(())
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
    trials::refused_requests(story, undisturbed().await?, &[3]).await
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
