//! Applies many Functions and prints what it took, see `bench/functions`: `functions_bench [FUNCTIONS] [IDLE_SECONDS]`, with
//! the API that `KUBECONFIG` names, or else with one in this program.
//!
//! Every write raises the API's version by one, so the controller's writes are what is left of the difference when the
//! writes of this program are taken away. Deployments are marked ready by this program, as their controller would.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::time::{Duration, Instant};

use api::kyma::Function;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::{api::apps::v1::Deployment, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use localkube::ApiServer;
use serde_json::json;

type Error = Box<dyn std::error::Error + Send + Sync>;

const AT_ONCE: usize = 32;
const STUCK: Duration = Duration::from_secs(600);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let mut next = |otherwise| arguments.next().transpose().map(|given| given.unwrap_or(otherwise));
    let (count, idle) = (next(1000)?, next(60)?);
    let client = match std::env::var_os("KUBECONFIG") {
        Some(_) => Client::try_default().await?,
        None => ApiServer::open(localkube::Options::default()).await?.client("default"),
    };
    controllers::crds::install(&client).await?;
    let before = resident_mb();
    let options = controllers::kyma::Options::new("/nonexistent");
    tokio::spawn(controllers::kyma::run(client.clone(), options, std::future::pending()));
    let functions: Api<Function> = Api::default_namespaced(client.clone());
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());

    let first = version(&client).await?;
    let begun = Instant::now();
    stream::iter(0..count)
        .map(|index| create(&functions, index))
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    let applied = begun.elapsed();
    until(|| async { Ok((count_of(&deployments).await? == count).then_some(())) }).await?;
    let deployed = begun.elapsed();
    mark_all_ready(&deployments).await?;
    for index in 0..count {
        until(|| async { Ok(is_running(&functions.get(&name(index)).await?).then_some(())) }).await?;
    }
    let running = begun.elapsed();
    let last = version(&client).await?;
    let writes = (last - first) as f64 / count as f64 - 2.0;
    tokio::time::sleep(Duration::from_secs(idle as u64)).await;
    let idle_writes = version(&client).await? - last;

    println!("| {count} Functions | |");
    println!("|---|--:|");
    println!("| all applied after, s | {:.2} |", applied.as_secs_f64());
    println!("| all Deployments created after, s | {:.2} |", deployed.as_secs_f64());
    println!("| all running after, s | {:.2} |", running.as_secs_f64());
    println!("| the controller's writes per Function, from apply to running | {writes:.2} |");
    println!("| writes in {idle} idle seconds | {idle_writes} |");
    println!("| memory of this program before and after, MB | {before} and {} |", resident_mb());
    Ok(())
}

fn name(index: usize) -> String {
    format!("f{index:05}")
}

/// Without reading them all: the looking must not become the work that is measured.
async fn count_of(deployments: &Api<Deployment>) -> Result<usize, Error> {
    let page = deployments.list_metadata(&ListParams::default().limit(1)).await?;
    let remaining = page.metadata.remaining_item_count.unwrap_or_default();
    Ok(page.items.len() + usize::try_from(remaining)?)
}

async fn create(functions: &Api<Function>, index: usize) -> Result<(), Error> {
    let function = serde_json::from_value(json!({
        "apiVersion": "serverless.kyma-project.io/v1alpha2", "kind": "Function",
        "metadata": {"name": name(index)},
        "spec": {"runtime": "nodejs22", "source": {"inline": {"source": format!("exports.main = () => {index}")}}},
    }))?;
    functions.create(&PostParams::default(), &function).await?;
    Ok(())
}

/// A few at a time, as one list of all would be most of the memory that is measured.
async fn mark_all_ready(deployments: &Api<Deployment>) -> Result<(), Error> {
    let mut few = ListParams::default().limit(32);
    loop {
        let page = deployments.list_metadata(&few).await?;
        futures::future::try_join_all(page.items.iter().map(|one| mark_ready(deployments, &one.metadata)))
            .await?;
        few.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if few.continue_token.is_none() {
            return Ok(());
        }
    }
}

async fn mark_ready(deployments: &Api<Deployment>, deployment: &ObjectMeta) -> Result<(), Error> {
    let status = json!({"status": {
        "observedGeneration": deployment.generation, "replicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "conditions": [
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
        ],
    }});
    let params = PatchParams::default();
    let name = deployment.name.as_deref().unwrap_or_default();
    deployments.patch_status(name, &params, &Patch::Merge(status)).await?;
    Ok(())
}

fn is_running(function: &Function) -> bool {
    let conditions = function.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Running" && condition.status == "True")
}

async fn version(client: &Client) -> Result<u64, Error> {
    let functions: Api<Function> = Api::default_namespaced(client.clone());
    let list = functions.list(&ListParams::default().limit(1)).await?;
    Ok(list.metadata.resource_version.unwrap_or_default().parse()?)
}

async fn until<T, F: Future<Output = Result<Option<T>, Error>>>(
    mut ask: impl FnMut() -> F,
) -> Result<T, Error> {
    let begun = Instant::now();
    while begun.elapsed() < STUCK {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Err("stuck: the controller does not get on".into())
}

fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) / 1024
}
