//! `deploy/` as a user would apply it: what it allows is enough.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::kyma::Function;
use controllers::crds;
use e2e::eventually;
use k8s_openapi::api::{autoscaling::v2::HorizontalPodAutoscaler, core::v1::Secret};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{autoscaler, kyma};
use crate::world::World;

const SINGLE: &str = include_str!("../../../../../deploy/single.yaml");
const SPLIT: &str = include_str!("../../../../../deploy/serve.yaml");
const GIT_SECRETS: &str = include_str!("../../../../../deploy/git-secrets.yaml");

/// For the namespace of the test, and without pods: the nodes run beside the cluster. Functions are looked after in this
/// namespace only, so that a binding there is enough.
fn fitted(manifest: &str, namespace: &str) -> String {
    manifest
        .replace("namespace: default", &format!("namespace: {namespace}"))
        .replace("replicas: 1", "replicas: 0")
        .replace("replicas: 2", "replicas: 0")
        .replace(
            "kind: ClusterRoleBinding\nmetadata:\n",
            &format!("kind: RoleBinding\nmetadata:\n  namespace: {namespace}\n"),
        )
}

/// The embedded API has no NetworkPolicies: nothing there would keep to them. The real one takes and checks them.
async fn apply(world: &World, manifest: &str) -> Result<()> {
    let are_served = world.place.kubectl("get networkpolicies -o name").await.is_ok();
    let is_known = |document: &&str| are_served || !document.contains("\nkind: NetworkPolicy\n");
    let documents: Vec<&str> = manifest.split("\n---\n").filter(is_known).collect();
    world.place.apply(&documents.join("\n---\n")).await.map(drop)
}

pub async fn the_manifest_is_enough_and_what_is_missing_is_named(world: &mut World) -> Result<()> {
    crds::install(&world.place.cluster.client()).await?;
    let namespace = world.place.namespace.clone();
    let manifest = fitted(SINGLE, &namespace);
    let is_binding = |document: &&str| document.contains("Binding\n");
    let (bindings, others): (Vec<&str>, Vec<&str>) = manifest.split("\n---\n").partition(is_binding);
    ensure!(bindings.len() >= 2, "{bindings:?}");
    let secrets = fitted(GIT_SECRETS, &namespace)
        .replace("namespace: team", &format!("namespace: {namespace}"))
        .replace("name: ballast-controller", "name: ballast");
    world.place.apply(&secrets).await?;
    apply(world, &others.join("\n---\n")).await?;
    let token = world.place.kubectl("create token ballast").await?;
    world.act_as(token.trim())?;

    let refused = world.look_after_functions().await.err().context("a node may do without being allowed")?;
    let refused = format!("{refused:#}");
    for named in [
        format!("list, watch deployments.apps in namespace {namespace}\n"),
        format!("list, watch, create, update, delete leases.coordination.k8s.io in namespace {namespace}\n"),
        format!("get, list, watch functions.serverless.kyma-project.io in namespace {namespace}\n"),
        "allow it as deploy/serve.yaml does".to_owned(),
    ] {
        ensure!(refused.contains(&named), "{named:?} is not in {refused}");
    }

    world.place.apply(&bindings.join("\n---\n")).await?;
    // the API takes a moment to know of it
    while let Err(error) = world.look_after_functions().await {
        ensure!(format!("{error:#}").contains("this account may not"), "{error:#}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    on_demand(world).await?;
    functions(world).await?;
    let log = world.log("node-a")?;
    let refused: Vec<&str> = log.lines().filter(|line| line.to_lowercase().contains("forbidden")).collect();
    ensure!(refused.is_empty(), "{refused:#?}");
    Ok(())
}

/// The node that takes calls reads only; those that write take no calls from outside.
pub async fn a_node_that_takes_calls_writes_nothing(world: &mut World) -> Result<()> {
    crds::install(&world.place.cluster.client()).await?;
    apply(world, &fitted(SPLIT, &world.place.namespace.clone())).await?;
    for (node, part) in [("node-a", "controller"), ("node-b", "controller"), ("node-c", "gateway")] {
        let token = world.place.kubectl(&format!("create token ballast-{part}")).await?;
        world.act_as_part(node, token.trim(), &format!("--roles={part}"))?;
    }
    // the API takes a moment to know of the bindings
    while let Err(error) = world.look_after_functions().await {
        ensure!(format!("{error:#}").contains("this account may not"), "{error:#}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for (verb, what) in
        [("patch", "deployments/scale"), ("get", "secrets"), ("create", "leases"), ("create", "configmaps")]
    {
        let account = format!("system:serviceaccount:{}:ballast-gateway", world.place.namespace);
        let said = world.place.kubectl(&format!("auth can-i {verb} {what} --as={account}")).await;
        ensure!(
            said.is_err() || said.as_deref().is_ok_and(|said| said.trim() == "no"),
            "{verb} {what}: {said:?}"
        );
    }
    on_demand(world).await?;
    for node in ["node-a", "node-b", "node-c"] {
        let log = world.log(node)?;
        let refused: Vec<&str> =
            log.lines().filter(|line| line.to_lowercase().contains("forbidden")).collect();
        ensure!(refused.is_empty(), "{node}: {refused:#?}");
    }
    ensure!(["node-a", "node-b"].contains(&world.master().await?.as_str()));
    Ok(())
}

async fn on_demand(world: &World) -> Result<()> {
    let soon = ("TimeoutSecondBeforeSetReplicasMin", "2");
    world.function("fib", &[soon]).await?;
    world.stateful_set("state", &[soon]).await?;
    for name in ["fib", "state"] {
        world.ok(&format!("{name}/fib/10")).await?;
        world.event(name, |event| event.reason.as_deref() == Some("WakeUp")).await?;
        eventually(format!("{name} to be asleep"), || async {
            let pods = world.pods(name).await?;
            Ok(if pods.is_empty() { Ok(()) } else { Err(world.status(name).await) })
        })
        .await?;
    }
    let id = world.later(world.any_gateway(), "fib/fib/10").await?;
    ensure!(world.result("fib", &id).await?.status == 200);

    autoscaler::create(world).await?;
    autoscaler::until_told(world).await
}

/// Woken by its scale, scaled by an autoscaler that comes and goes, and with its source behind a Secret.
async fn functions(world: &World) -> Result<()> {
    kyma::create(world, "greet", json!({})).await?;
    kyma::until_replicas(world, "greet", 0).await?;
    world.ok("greet/there?who=you").await?;

    let own = world.place.api::<Function>();
    let autoscalers = world.place.api::<HorizontalPodAutoscaler>();
    let all_of = async |count: usize| {
        eventually(format!("{count} autoscalers"), || async {
            let all = autoscalers.list(&ListParams::default()).await?.items;
            Ok(if all.len() == count { Ok(()) } else { Err((all, own.get("greet").await?.status)) })
        })
        .await
    };
    let patch = async |patch| own.patch("greet", &PatchParams::default(), &Patch::Merge(patch)).await;
    patch(json!({
        "metadata": {"annotations": null},
        "spec": {"replicas": 1, "scaleConfig": {"minReplicas": 1, "maxReplicas": 3}},
    }))
    .await?;
    all_of(2).await?;
    patch(json!({"spec": {"scaleConfig": null}})).await?;
    all_of(1).await?;

    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "key"}}))?;
    world.place.api().create(&PostParams::default(), &secret).await?;
    let repository = json!({
        "url": "https://git.invalid/it.git", "reference": "main", "baseDir": "/",
        "auth": {"type": "basic", "secretName": "key"},
    });
    patch(json!({"spec": {"source": {"inline": null, "gitRepository": repository}}})).await?;
    eventually("the Secret to be read", || async {
        let status = json!(own.get("greet").await?.status).to_string();
        Ok(if status.contains("Secret key has no entry") { Ok(()) } else { Err(status) })
    })
    .await
}
