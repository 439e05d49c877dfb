//! The controllers of pipelines under each kind of fault: pipelines are created, changed, scaled, woken and deleted, and
//! every end state must be that of an undisturbed run. Buffers are values here; what else a cluster has runs beside.

mod ending;
mod place;

use anyhow::Result;
use api::numaflow::{InterStepBufferService, Pipeline, Vertex, VertexStatus};
use controllers::data_plane::Waiting;
use faults::{
    Faults, Plan, RELIST_PERIOD, World, eventually,
    trials::{self, Told, Undisturbed},
};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use place::{Place, world};

fn manifest(name: &str) -> Result<Pipeline> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": name},
        "spec": {
            "vertices": [
                {"name": "in", "source": {"generator": {}}},
                {"name": "cat", "udf": {"container": {"image": "cat:1"}}, "scale": {"disabled": true}},
                {"name": "out", "sink": {"log": {}},
                 "scale": {"scaleUpCooldownSeconds": 0, "scaleDownCooldownSeconds": 0}},
            ],
            "edges": [{"from": "in", "to": "cat"}, {"from": "cat", "to": "out"}],
        },
    }))?)
}

fn service(name: &str) -> Result<InterStepBufferService> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "InterStepBufferService",
        "metadata": {"name": name}, "spec": {"embedded": {}},
    }))?)
}

/// Until a vertex has so many pods, all ready, and each of this image of the user's.
async fn settled(world: &World, vertex: &str, count: i32) -> Result<()> {
    let vertices: Api<Vertex> = Api::default_namespaced(world.client.clone());
    eventually(format!("Vertex {vertex} to run with {count} pods"), || async {
        let Some(found) = vertices.get_opt(vertex).await? else { return Ok(Err(None)) };
        let status = found.status.clone().unwrap_or_default();
        let is_settled = status.phase == "Running"
            && (status.replicas, status.ready_replicas, status.updated_ready_replicas)
                == (count, count, count)
            && status.update_hash == status.current_hash
            && status.observed_generation == found.metadata.generation;
        Ok(if is_settled { Ok(()) } else { Err(Some(found)) })
    })
    .await
}

async fn scale(world: &World, vertex: &str, replicas: i32) -> Result<()> {
    let vertices: Api<Vertex> = Api::default_namespaced(world.client.clone());
    let body = json!({ "spec": { "replicas": replicas } });
    vertices.patch_scale(vertex, &PatchParams::default(), &Patch::Merge(&body)).await?;
    Ok(())
}

/// What the user does, and what is there in the end.
async fn story(plans: Vec<Plan>, expected: Option<&str>) -> Told {
    let place = Place::default();
    let world = world(plans, &place).await?;
    let services: Api<InterStepBufferService> = Api::default_namespaced(world.client.clone());
    let pipelines: Api<Pipeline> = Api::default_namespaced(world.client.clone());
    let service = service("default")?;
    pipelines.create(&PostParams::default(), &manifest("stays")?).await?;
    services.create(&PostParams::default(), &service).await?;
    pipelines.create(&PostParams::default(), &manifest("goes")?).await?;
    for vertex in ["stays-in", "stays-cat", "stays-out", "goes-in", "goes-cat", "goes-out"] {
        settled(&world, vertex, 1).await?;
    }
    scale(&world, "stays-cat", 3).await?;
    settled(&world, "stays-cat", 3).await?;
    pipelines.delete("goes", &DeleteParams::background()).await?;
    let mut changed = manifest("stays")?.spec;
    changed.vertices[1].udf = serde_json::from_value(json!({"container": {"image": "cat:2"}}))?;
    let body = json!({ "spec": { "vertices": changed.vertices } });
    pipelines.patch("stays", &PatchParams::default(), &Patch::Merge(&body)).await?;
    eventually("the new image in all pods", || async {
        let images = images(&world, "stays-cat").await?;
        Ok(if images == ["0 cat:2", "1 cat:2", "2 cat:2"] { Ok(()) } else { Err(images) })
    })
    .await?;
    settled(&world, "stays-cat", 3).await?;
    // A message that waits wakes a vertex that sleeps.
    scale(&world, "stays-out", 0).await?;
    settled(&world, "stays-out", 0).await?;
    place.all().insert("default-stays-out-0".to_owned(), Waiting { pending: 1, ack_pending: 0 });
    settled(&world, "stays-out", 1).await?;
    eventually("the pipeline to be gone with all that was its own", || async {
        let n_buffers = place.all().len();
        let is_there = pipelines.get_opt("goes").await?.is_some();
        let left = (is_there, n_buffers, pods(&world, "goes").await?.len());
        Ok(if left == (false, 2, 0) { Ok(()) } else { Err(left) })
    })
    .await?;
    eventually("the pipeline to be healthy", || async {
        let found = pipelines.get("stays").await?;
        let status = found.status.clone().unwrap_or_default();
        let is_well = status.phase == "Running"
            && status.conditions.iter().flatten().all(|condition| condition.status == "True");
        Ok(if is_well { Ok(()) } else { Err(found) })
    })
    .await?;
    let state = trials::lasting(expected, async || end_state(&world, &place).await).await?;
    Ok((state, world.end().await?))
}

async fn pods(world: &World, prefix: &str) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::default_namespaced(world.client.clone());
    let all = api.list(&ListParams::default()).await?.items;
    Ok(all.into_iter().filter(|pod| pod.name_any().starts_with(&format!("{prefix}-"))).collect())
}

/// Index and the user's image of each pod that is not on its way out.
async fn images(world: &World, vertex: &str) -> Result<Vec<String>> {
    let mut images: Vec<String> = pods(world, vertex)
        .await?
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .map(|pod| {
            let pod = json!(pod);
            let index = &pod["metadata"]["annotations"]["numaflow.numaproj.io/replica"];
            let image = &pod["spec"]["initContainers"][0]["image"];
            format!("{} {}", index.as_str().unwrap_or("?"), image.as_str().unwrap_or("-"))
        })
        .collect();
    images.sort();
    Ok(images)
}

/// What is left, without names and times that are chance.
async fn end_state(world: &World, place: &Place) -> Result<String> {
    let vertices: Api<Vertex> = Api::default_namespaced(world.client.clone());
    let services: Api<Service> = Api::default_namespaced(world.client.clone());
    let mut lines = Vec::new();
    for vertex in vertices.list(&ListParams::default()).await? {
        let status = vertex.status.clone().unwrap_or_default();
        let VertexStatus { phase, replicas, desired_replicas, ready_replicas, selector, .. } = status;
        let pods = images(world, &vertex.name_any()).await?.join(", ");
        let replicas = (vertex.spec.replicas, replicas, desired_replicas, ready_replicas);
        lines.push(format!(
            "{} {phase} {replicas:?} {selector:?} {}: {pods}",
            vertex.name_any(),
            json!(vertex.spec)
        ));
    }
    for service in services.list(&ListParams::default().labels("app.kubernetes.io/part-of=numaflow")).await? {
        lines.push(format!("service {}", service.name_any()));
    }
    lines.push(format!("buffers {:?}", place.all().keys().collect::<Vec<_>>()));
    lines.sort();
    Ok(lines.join("\n"))
}

async fn undisturbed() -> Result<Undisturbed> {
    let (state, lives) = story(Vec::new(), None).await?;
    assert_eq!(state.matches("service ").count(), 3, "one each:\n{state}");
    Ok((state, lives.iter().map(Faults::writes).sum()))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_when_idle() -> Result<()> {
    let place = Place::default();
    let world = world(Vec::new(), &place).await?;
    let mono: Value = json!({
        "apiVersion": "numaflow.numaproj.io/v1alpha1", "kind": "MonoVertex", "metadata": {"name": "one"},
        "spec": {"source": {"http": {"service": true}}, "sink": {"log": {}}},
    });
    let api: Api<api::numaflow::MonoVertex> = Api::default_namespaced(world.client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(mono)?).await?;
    eventually("the MonoVertex to run", || async {
        let status = api.get("one").await?.status.unwrap_or_default();
        Ok(if (status.ready_replicas, status.updated_ready_replicas) == (1, 1) {
            Ok(())
        } else {
            Err(status)
        })
    })
    .await?;
    let writes = world.writes().await;
    // a pod, two Services, and a status for what was made and for what became of it
    assert!(writes <= 7, "{writes} writes");
    // several lists and looks, each of which would show a difference if there were one
    tokio::time::sleep(RELIST_PERIOD * 8).await;
    assert_eq!(world.writes().await, writes, "nothing changed, and something was written");
    world.end().await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_life_that_starts_in_the_past() -> Result<()> {
    trials::new_life_that_starts_in_the_past(story, undisturbed().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn events_lost_and_repeated() -> Result<()> {
    let plans = vec![
        Plan { lose_event: Some(2), ..Plan::default() },
        Plan { repeat_event: Some(1), ..Plan::default() },
    ];
    trials::disturbed_events(story, undisturbed().await?, plans).await
}

/// A story takes some five seconds, and most of its writes are of the same few kinds over and over: after each 11th it is
/// a minute and meets every part of the story.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_many_a_write() -> Result<()> {
    trials::crash_after_each(story, undisturbed().await?, 11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_requests() -> Result<()> {
    trials::refused_requests(story, undisturbed().await?, &[5]).await
}
