//! A service of buffers that is deleted while its pipeline is still there, and one that is deleted together with it: it goes
//! with the last pipeline that names it, and nothing is left behind.

use anyhow::{Result, ensure};
use api::numaflow::{InterStepBufferService, Pipeline, Vertex};
use controllers::data_plane::Waiting;
use faults::{
    Faults, Plan, World, eventually,
    trials::{self, Told, Undisturbed},
};
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde::de::DeserializeOwned;

use crate::{
    manifest,
    place::{Place, world},
    scale, service, settled,
};

async fn story(plans: Vec<Plan>, expected: Option<&str>) -> Told {
    let place = Place::default();
    let world = world(plans, &place).await?;
    let services: Api<InterStepBufferService> = Api::default_namespaced(world.client.clone());
    let pipelines: Api<Pipeline> = Api::default_namespaced(world.client.clone());
    for name in ["early", "together"] {
        services.create(&PostParams::default(), &service(name)?).await?;
        let mut pipeline = manifest(name)?;
        pipeline.spec.inter_step_buffer_service_name = Some(name.to_owned());
        pipelines.create(&PostParams::default(), &pipeline).await?;
        for vertex in ["in", "cat", "out"] {
            settled(&world, &format!("{name}-{vertex}"), 1).await?;
        }
    }
    services.delete("early", &DeleteParams::background()).await?;
    // Both, with a message that has to be worked off first.
    let waiting = |pending| Waiting { pending, ack_pending: 0 };
    place.all().insert("default-together-out-0".to_owned(), waiting(1));
    let now = DeleteParams::background();
    let (service, pipeline) =
        tokio::join!(services.delete("together", &now), pipelines.delete("together", &now));
    service?;
    pipeline?;
    // The first pipeline goes on as if nothing had been asked.
    scale(&world, "early-cat", 2).await?;
    settled(&world, "early-cat", 2).await?;
    outlived(&world, "early").await?;
    place.all().insert("default-together-out-0".to_owned(), waiting(0));
    gone(&world, "together").await?;
    outlived(&world, "early").await?;
    ensure!(services.get_opt("early").await?.is_some(), "its pipeline is still there");
    pipelines.delete("early", &now).await?;
    gone(&world, "early").await?;
    let state = trials::lasting(expected, async || left(&world, &place).await).await?;
    Ok((state, world.end().await?))
}

/// No pipeline is there without its service.
async fn outlived(world: &World, name: &str) -> Result<()> {
    let service =
        Api::<InterStepBufferService>::default_namespaced(world.client.clone()).get_opt(name).await?;
    // Asked for after the service: it was there at that time too.
    let pipeline = Api::<Pipeline>::default_namespaced(world.client.clone()).get_opt(name).await?;
    ensure!(service.is_some() || pipeline.is_none(), "{name} has lost its buffers: {pipeline:?}");
    Ok(())
}

async fn gone(world: &World, name: &str) -> Result<()> {
    let services: Api<InterStepBufferService> = Api::default_namespaced(world.client.clone());
    eventually(format!("{name} to be gone with its service"), || async {
        outlived(world, name).await?;
        let found = services.get_opt(name).await?;
        Ok(found.map_or(Ok(()), Err))
    })
    .await
}

/// All that was made for pipelines.
async fn left(world: &World, place: &Place) -> Result<String> {
    let mut lines: Vec<String> = place.all().keys().map(|buffer| format!("buffer {buffer}")).collect();
    lines.extend(names::<Pipeline>(world).await?);
    lines.extend(names::<Vertex>(world).await?);
    lines.extend(names::<InterStepBufferService>(world).await?);
    lines.extend(names::<Pod>(world).await?);
    lines.extend(names::<Service>(world).await?);
    lines.extend(names::<Secret>(world).await?);
    Ok(lines.join("\n"))
}

async fn names<K>(world: &World) -> Result<Vec<String>>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let all = Api::<K>::default_namespaced(world.client.clone()).list(&ListParams::default()).await?;
    // the API server has a Service of its own
    let others = all.iter().map(ResourceExt::name_any).filter(|name| name != "kubernetes");
    Ok(others.map(|name| format!("{} {name}", K::kind(&()))).collect())
}

async fn undisturbed() -> Result<Undisturbed> {
    let (state, lives) = story(Vec::new(), None).await?;
    assert_eq!(state, "", "nothing is left");
    Ok((state, lives.iter().map(Faults::writes).sum()))
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_end_and_a_new_life_that_starts_in_the_past() -> Result<()> {
    trials::new_life_in_the_past_after_each(story, undisturbed().await?, 15).await
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_end_and_events_lost_and_repeated() -> Result<()> {
    let plans = vec![
        Plan { lose_event: Some(2), ..Plan::default() },
        Plan { repeat_event: Some(1), ..Plan::default() },
    ];
    trials::disturbed_events(story, undisturbed().await?, plans).await
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_end_and_a_crash_after_many_a_write() -> Result<()> {
    trials::crash_after_each(story, undisturbed().await?, 11).await
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_end_and_refused_requests() -> Result<()> {
    trials::refused_requests(story, undisturbed().await?, &[5]).await
}
