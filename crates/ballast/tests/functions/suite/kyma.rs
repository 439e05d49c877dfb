//! Kyma's Functions on demand: `spec.replicas` of the Function is what is written, its Deployment follows.

use anyhow::{Context, Result, ensure};
use api::kyma::Function;
use e2e::eventually;
use k8s_openapi::{
    api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler},
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::World;

const HANDLER: &str = "
def main(event, context):
    request = event['extensions']['request']
    return {'hello': request.query.get('who'), 'path': request.path, 'from': context['function-name']}
";

pub async fn a_call_wakes_a_function_by_its_scale(world: &mut World) -> Result<()> {
    world.look_after_functions().await?;
    create(world, "greet", json!({})).await?;
    until_replicas(world, "greet", 0).await?;
    asleep(world, "greet").await?;

    let answer = world.ok("greet/there?who=you").await?;
    let expected = json!({"hello": "you", "path": "/there", "from": "greet"});
    ensure!(answer.json()? == expected && answer.header("ballast-cold-start").is_some(), "{answer:?}");
    let woken = world.event("greet", |event| event.reason.as_deref() == Some("WakeUp")).await?;
    ensure!(woken.involved_object.kind.as_deref() == Some("Function"), "{woken:?}");
    let message = woken.message.unwrap_or_default();
    ensure!(message.starts_with("Scale up greet from 0 to 1"), "{message}");

    until_replicas(world, "greet", 0).await?;
    asleep(world, "greet").await?;
    let function = world.place.api::<Function>().get("greet").await?;
    // made, to zero, to one, to zero: nobody else wrote
    ensure!(function.metadata.generation == Some(4), "{function:?}");
    let deployment = deployment(world, "greet").await?.context("the Deployment is gone")?;
    ensure!(
        writers(&deployment.metadata) == ["ballast-function"],
        "{:?}",
        deployment.metadata.managed_fields
    );
    Ok(())
}

pub async fn one_that_scales_itself_is_refused(world: &mut World) -> Result<()> {
    world.look_after_functions().await?;
    create(world, "torn", json!({"scaleConfig": {"minReplicas": 1, "maxReplicas": 3}})).await?;
    let refused = until_configured(world, "torn", "False").await?;
    let expected = "spec.scaleConfig: cannot be used together with the annotation SlimFaas/Function: remove one of the two";
    ensure!(refused.reason == "InvalidFunctionSpec" && refused.message == expected, "{refused:?}");
    let status = world.status("torn").await?;
    ensure!(status["Problems"].to_string().contains("spec.scaleConfig"), "{status}");

    // it is as idle as this one, which came later
    create(world, "other", json!({})).await?;
    until_replicas(world, "other", 0).await?;
    ensure!(world.place.api::<Function>().get("torn").await?.spec.replicas() == 1);
    ensure!(deployment(world, "torn").await?.is_none());
    let autoscalers = world.place.api::<HorizontalPodAutoscaler>().list(&ListParams::default()).await?.items;
    ensure!(autoscalers.is_empty(), "{autoscalers:?}");

    let patch = Patch::Merge(json!({"spec": {"scaleConfig": null}}));
    world.place.api::<Function>().patch("torn", &PatchParams::default(), &patch).await?;
    until_configured(world, "torn", "True").await?;
    until_replicas(world, "torn", 0).await?;
    asleep(world, "torn").await
}

/// A Function on demand that soon goes to sleep; `spec` is merged over it.
pub(super) async fn create(world: &World, name: &str, spec: Value) -> Result<()> {
    let mut function = json!({
        "apiVersion": "serverless.kyma-project.io/v1alpha2", "kind": "Function",
        "metadata": {
            "name": name,
            "annotations": {
                "SlimFaas/Function": "true",
                "SlimFaas/TimeoutSecondBeforeSetReplicasMin": "2",
            },
        },
        "spec": {
            "runtime": "python312",
            "source": {"inline": {"source": HANDLER}},
            "resourceConfiguration": {"function": {"resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}},
        },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        function["spec"][field] = value.clone();
    }
    let function: Function = serde_json::from_value(function)?;
    world.place.api::<Function>().create(&PostParams::default(), &function).await?;
    world.all_know(name).await
}

pub(super) async fn until_replicas(world: &World, name: &str, count: i32) -> Result<()> {
    eventually(format!("{count} replicas of the Function {name}"), || async {
        let function = world.place.api::<Function>().get(name).await?;
        let is_so = function.spec.replicas() == count;
        Ok(if is_so { Ok(()) } else { Err((function, world.status(name).await)) })
    })
    .await
}

/// Until the Deployment has followed to zero, and no pod is left.
async fn asleep(world: &World, name: &str) -> Result<()> {
    eventually(format!("{name} to be asleep"), || async {
        let deployment = deployment(world, name).await?;
        let pods = world.place.pods(&selector(name)).await?;
        let is_zero = deployment.as_ref().and_then(|all| all.spec.as_ref()?.replicas) == Some(0);
        Ok(if is_zero && pods.is_empty() { Ok(()) } else { Err((deployment, pods)) })
    })
    .await
}

pub(super) async fn until_configured(world: &World, name: &str, status: &str) -> Result<Condition> {
    eventually(format!("ConfigurationReady of {name} to be {status}"), || async {
        let function = world.place.api::<Function>().get(name).await?;
        let conditions = function.status.and_then(|status| status.conditions).unwrap_or_default();
        let is_it = |one: &&Condition| one.type_ == "ConfigurationReady" && one.status == status;
        Ok(conditions.iter().find(is_it).cloned().ok_or(conditions))
    })
    .await
}

fn selector(name: &str) -> String {
    format!("serverless.kyma-project.io/function-name={name}")
}

/// The one Deployment that runs a Function.
async fn deployment(world: &World, name: &str) -> Result<Option<Deployment>> {
    let labelled = ListParams::default().labels(&selector(name));
    let mut all = world.place.api::<Deployment>().list(&labelled).await?.items;
    ensure!(all.len() < 2, "several Deployments of one Function: {all:?}");
    Ok(all.pop())
}

/// Who last wrote `spec.replicas`.
fn writers(meta: &ObjectMeta) -> Vec<&str> {
    let wrote = |fields: &Value| !fields["f:spec"]["f:replicas"].is_null();
    let entries = meta.managed_fields.iter().flatten();
    let entries = entries.filter(|entry| entry.fields_v1.as_ref().is_some_and(|fields| wrote(&fields.0)));
    entries.filter_map(|entry| entry.manager.as_deref()).collect()
}
