//! Messages that are posted, worked off slowly and written down.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result, ensure};
use api::numaflow::{InterStepBufferService, Pipeline, Vertex};
use e2e::{eventually, http_call, pod_ip};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::world::World;

const N_MESSAGES: usize = 600;
const AT_ONCE: usize = 50;

/// A message takes half a second, and a pod has one under way and ten read ahead: 22 a second each.
fn pipeline(world: &World, lines: &Path) -> Result<Pipeline> {
    let program = std::env::current_exe()?;
    let container = |args: &[&str]| {
        let command: Vec<String> = [program.display().to_string()]
            .into_iter()
            .chain(args.iter().map(|argument| (*argument).to_owned()))
            .collect();
        json!({ "container": { "image": "none", "command": command } })
    };
    // where `ballast` is
    let bin = Path::new(env!("CARGO_BIN_EXE_ballast")).parent().context("no directory")?;
    let path = format!("{}:{}", bin.display(), std::env::var("PATH")?);
    let scale = |min: i32| {
        json!({
            "min": min, "max": 4, "lookbackSeconds": 10, "targetProcessingSeconds": 2,
            "scaleUpCooldownSeconds": 1, "scaleDownCooldownSeconds": 1,
        })
    };
    let sockets = "/var/run/numaflow";
    let file = lines.display().to_string();
    Ok(serde_json::from_value(json!({
        "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "Pipeline",
        "metadata": { "name": "posted", "namespace": world.namespace },
        "spec": {
            "lifecycle": { "deletionGracePeriodSeconds": 600 },
            "templates": { "vertex": { "containerTemplate": { "env": [{ "name": "PATH", "value": path }] } } },
            "vertices": [
                { "name": "in", "source": { "http": {} }, "scale": { "min": 1, "max": 1 } },
                {
                    "name": "slow", "udf": container(&["slow-map", sockets, "500"]), "scale": scale(1),
                    "limits": { "readBatchSize": 10, "concurrency": 1 },
                },
                { "name": "out", "sink": { "udsink": container(&["sink", sockets, &file]) }, "scale": scale(0) },
            ],
            "edges": [{ "from": "in", "to": "slow" }, { "from": "slow", "to": "out" }],
        },
    }))?)
}

pub async fn what_waits_decides_how_many_pods_there_are(world: &World) -> Result<()> {
    let lines = world.directory.path().join("lines");
    let services: Api<InterStepBufferService> = Api::namespaced(world.client.clone(), &world.namespace);
    let pipelines: Api<Pipeline> = Api::namespaced(world.client.clone(), &world.namespace);
    let service = serde_json::from_value(json!({
        "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "InterStepBufferService",
        "metadata": { "name": "default" }, "spec": world.buffers,
    }))?;
    services.create(&PostParams::default(), &service).await?;
    pipelines.create(&PostParams::default(), &pipeline(world, &lines)?).await?;
    let source = running(world, "posted-in", 1).await?;
    running(world, "posted-slow", 1).await?;
    let source = pod_ip(&source[0])?;

    stream::iter(0..N_MESSAGES)
        .map(|number| post(&source, number))
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    // 600 take one pod half a minute, and 2 seconds are wanted
    let pods = running(world, "posted-slow", 4).await?;
    let why = explained(world, "posted-slow", |record| record["desired"] == 4).await?;
    ensure!(why["steps"].as_array().is_some_and(|steps| !steps.is_empty()), "{why}");

    // as `kill -9` does to all of its containers
    let api: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let name = pods[0].metadata.name.clone().unwrap_or_default();
    api.delete(&name, &DeleteParams::default().grace_period(0)).await?;
    arrived(&lines, N_MESSAGES).await?;

    // nothing waits any more
    running(world, "posted-slow", 1).await?;
    running(world, "posted-out", 0).await?;
    // and something does again
    post(&source, N_MESSAGES).await?;
    arrived(&lines, N_MESSAGES + 1).await?;

    pipelines.delete("posted", &DeleteParams::background()).await?;
    eventually("the pipeline to be gone with its pods", || async {
        let is_there = pipelines.get_opt("posted").await?.is_some();
        let left = (is_there, api.list(&of("posted-slow")).await?.items.len());
        Ok(if left == (false, 0) { Ok(()) } else { Err(left) })
    })
    .await?;
    let again: usize = numbers(&lines).values().map(|times| times - 1).sum();
    // what one pod of the map had under way, and its reads ahead
    ensure!(again <= 20, "{again} messages came more than once");
    Ok(())
}

async fn post(source: &str, number: usize) -> Result<()> {
    let answer = http_call(source, 8090, "POST", "/vertices/in", &[], &number.to_string()).await?;
    ensure!(answer.status == 204, "{answer:?}");
    Ok(())
}

fn of(vertex: &str) -> ListParams {
    let (pipeline, vertex) = vertex.split_once('-').unwrap_or((vertex, ""));
    ListParams::default().labels(&format!(
        "numaflow.numaproj.io/pipeline-name={pipeline},numaflow.numaproj.io/vertex-name={vertex}"
    ))
}

/// The pods of a vertex, once it has so many and all move messages.
async fn running(world: &World, vertex: &str, count: i32) -> Result<Vec<Pod>> {
    let vertices: Api<Vertex> = Api::namespaced(world.client.clone(), &world.namespace);
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    eventually(format!("{vertex} to run with {count} pods"), || async {
        let Some(found) = vertices.get_opt(vertex).await? else { return Ok(Err(None)) };
        let status = found.status.clone().unwrap_or_default();
        let all = pods.list(&of(vertex)).await?.items;
        let is_so = status.replicas == count
            && usize::try_from(count).is_ok_and(|count| all.len() == count)
            && all.iter().all(e2e::is_ready);
        let shown: Vec<Value> = all.iter().map(|pod| json!(pod.status)).collect();
        Ok(if is_so { Ok(all) } else { Err(Some((json!(status), shown))) })
    })
    .await
}

/// A decision that is known of a vertex.
async fn explained(world: &World, vertex: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
    let path = format!("/api/v1/decisions?kind=vertex&name={vertex}&namespace={}", world.namespace);
    let (ip, port) = (world.operator.ip().to_string(), world.operator.port());
    eventually(format!("a decision about {vertex}"), || async {
        let answer = http_call(&ip, port, "GET", &path, &[], "").await?;
        let records: Vec<Value> = serde_json::from_str(&answer.body).unwrap_or_default();
        Ok(records.into_iter().find(|record| holds(record)).ok_or(answer.body))
    })
    .await
}

/// How often each number was written down.
fn numbers(lines: &Path) -> BTreeMap<usize, usize> {
    let text = fs::read_to_string(lines).unwrap_or_default();
    let mut numbers = BTreeMap::new();
    // the last line may be half written
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        if let Ok(number) = line.parse() {
            *numbers.entry(number).or_default() += 1;
        }
    }
    numbers
}

/// Each of the first `count` numbers.
async fn arrived(lines: &Path, count: usize) -> Result<()> {
    eventually(format!("{count} messages to arrive"), || async {
        let there = numbers(lines);
        let missing: BTreeSet<usize> = (0..count).filter(|number| !there.contains_key(number)).collect();
        Ok(if missing.is_empty() { Ok(()) } else { Err(missing) })
    })
    .await
}
