//! The controllers of resource graphs under each kind of fault: a Set is created, scaled, rolled out, rolled out anew
//! before that is done, and deleted. Every end state must be that of an undisturbed run, and at no moment may more
//! instances be under change than the Set allows. What else a cluster has runs beside, undisturbed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, Result, ensure};
use controllers::graphs;
use engine::{Cached, Engine, Scope, Selection, Supervisor, kind::Kind};
use faults::{
    Faults, Plan, RELIST_PERIOD, Start, World, eventually,
    trials::{self, Told, Undisturbed},
};
use futures::FutureExt;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use localkube::ApiServer;
use serde_json::{Value, json};

const RGD: Kind = Kind::cluster("kro.run", "v1alpha1", "ResourceGraphDefinition", "resourcegraphdefinitions");
const STAND: Kind = Kind::namespaced("faults.kro.run", "v1alpha1", "Stand", "stands");
const STAND_SET: Kind = Kind::namespaced("faults.kro.run", "v1alpha1", "StandSet", "standsets");
const DEPLOYMENT: Kind = Kind::namespaced("apps", "v1", "Deployment", "deployments");
const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");

/// maxConcurrentUpdated of the Set.
const LIMIT: usize = 1;

async fn world(plans: Vec<Plan>) -> Result<World> {
    let client = ApiServer::open(localkube::Options::default()).await?.client("default");
    controllers::crds::install(&client).await?;
    let start: Start =
        Arc::new(|client, end| graphs::run(client, RELIST_PERIOD, end.cancelled_owned()).boxed());
    let mut world = World::new(client, plans, start);
    world.beside(|client, stop| {
        workloads::Controllers::new(client, workloads::Options::default()).run(stop.cancelled_owned()).boxed()
    });
    Ok(world)
}

/// As many authors write it: whether the status is about the present spec is not asked in `readyWhen`. That no pod of the
/// old spec is left is asked: what is available could be that one, and the instance would be ready and then not again.
fn definition() -> Value {
    json!({
        "apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": "stand"},
        "spec": {
            "scaling": {"kind": "StandSet", "method": "replicas"},
            "schema": {
                "apiVersion": "v1alpha1", "kind": "Stand", "group": "faults.kro.run",
                "spec": {"replicas": "integer | scale default=1", "greeting": "string | default=hello"},
                "status": {
                    "replicas": "${deployment.status.replicas} | scale",
                    "selector": "${labelSelector(deployment.spec.selector)} | scaleSelector",
                    "greeting": "${config.data.greeting}",
                },
            },
            "resources": [
                {"id": "config", "template": {
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": "${schema.metadata.name}-config"},
                    "data": {"greeting": "${schema.spec.greeting}"},
                }},
                {"id": "deployment",
                 "readyWhen": [
                    "${deployment.status.?availableReplicas.orValue(0) == deployment.spec.replicas}",
                    "${deployment.status.?updatedReplicas.orValue(0) == deployment.spec.replicas}",
                    "${deployment.status.?replicas.orValue(0) == deployment.spec.replicas}",
                 ],
                 "template": {
                    "apiVersion": "apps/v1", "kind": "Deployment",
                    "metadata": {"name": "${schema.metadata.name}"},
                    "spec": {
                        "replicas": "${schema.spec.replicas}",
                        "selector": {"matchLabels": {"app": "${schema.metadata.name}"}},
                        "template": {
                            "metadata": {
                                "labels": {"app": "${schema.metadata.name}"},
                                "annotations": {
                                    "greeting": "${config.data.greeting}",
                                    "tier": "${schema.metadata.labels[?\"tier\"].orValue(\"none\")}",
                                },
                            },
                            "spec": {"containers": [{"name": "main", "image": "none"}]},
                        },
                    },
                }},
            ],
        },
    })
}

fn api(client: &Client, kind: &Kind) -> Api<DynamicObject> {
    engine::execute::api(client, kind, Some("default"))
}

fn object(value: Value) -> Result<DynamicObject> {
    Ok(serde_json::from_value(value)?)
}

fn at<'a>(object: &'a DynamicObject, pointer: &str) -> &'a Value {
    object.data.pointer(pointer).unwrap_or(&Value::Null)
}

/// The Ready condition is True and about the present generation.
fn is_ready(object: &DynamicObject) -> bool {
    let conditions = at(object, "/status/conditions").as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == "Ready"
            && condition["status"] == "True"
            && condition["observedGeneration"] == json!(object.metadata.generation)
    })
}

/// The Deployment runs what its spec says, and says so of the present spec.
fn has_rolled_out(deployment: &DynamicObject) -> bool {
    let status = |field: &str| at(deployment, &format!("/status/{field}"));
    let replicas = at(deployment, "/spec/replicas");
    status("observedGeneration") == &json!(deployment.metadata.generation)
        && status("availableReplicas") == replicas
        && status("updatedReplicas") == replicas
        && status("replicas") == replicas
}

/// What one object looked like when it was first seen, and whether it has come to rest since it was changed.
struct Followed {
    name: String,
    made_for: Value,
    wanted: Value,
    is_done: bool,
}

/// Sees every state that a kind goes through, in order, and notes when too many are under change.
///
/// `wanted` tells what an object is made for: it is changed when that is no longer what it was first seen with. It stays
/// under change until `is_done`; what becomes of it afterwards is no longer the rollout's doing.
fn observe(
    cache: &Cached<DynamicObject>,
    what: &'static str,
    noted: &Arc<Mutex<Vec<String>>>,
    wanted: impl Fn(&DynamicObject) -> Value + Send + Sync + 'static,
    is_done: impl Fn(&DynamicObject) -> bool + Send + Sync + 'static,
) {
    let noted = noted.clone();
    let followed: Mutex<BTreeMap<String, Followed>> = Mutex::default();
    cache.listen(move |change| {
        let mut all = followed.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(object) = &change.new else {
            all.retain(|uid, _| change.old.as_ref().and_then(|old| old.uid()).as_ref() != Some(uid));
            return;
        };
        let uid = object.uid().unwrap_or_default();
        if object.metadata.deletion_timestamp.is_some() {
            all.remove(&uid);
            return;
        }
        let now = wanted(object);
        let one = all.entry(uid).or_insert_with(|| Followed {
            name: object.name_any(),
            made_for: now.clone(),
            wanted: now.clone(),
            is_done: true,
        });
        if one.wanted != now {
            (one.wanted, one.is_done) = (now, false);
        }
        one.is_done |= is_done(object);
        let under_change: Vec<&Followed> =
            all.values().filter(|one| one.wanted != one.made_for && !one.is_done).collect();
        if under_change.len() > LIMIT {
            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
            let shown: Vec<String> =
                under_change.iter().map(|one| format!("{} for {}", one.name, one.wanted)).collect();
            noted.push(format!("{} {what} under change at once: {}", shown.len(), shown.join(", ")));
        }
    });
}

/// Instances by what the Set made of them, Deployments by what really runs.
fn observe_the_limit(engine: &Engine) -> (Scope, Arc<Mutex<Vec<String>>>) {
    let scope = engine.scope("observer");
    let noted = Arc::default();
    let stands = scope.dynamic(&STAND, Selection::all());
    let template = |stand: &DynamicObject| json!([at(stand, "/spec/greeting"), stand.labels().get("tier")]);
    let is_done = |stand: &DynamicObject| {
        let hash = stand.labels().get("kro.run/template-hash");
        is_ready(stand) && at(stand, "/status/observedTemplateHash").as_str() == hash.map(String::as_str)
    };
    observe(&stands, "instances", &noted, template, is_done);
    let deployments = scope.dynamic(&DEPLOYMENT, Selection::all());
    let template = |deployment: &DynamicObject| at(deployment, "/spec/template/metadata/annotations").clone();
    observe(&deployments, "Deployments", &noted, template, has_rolled_out);
    (scope, noted)
}

/// Until the Set says of its latest spec that all is done.
async fn settled(world: &World, replicas: usize, greeting: &str) -> Result<()> {
    let (sets, stands) = (api(&world.client, &STAND_SET), api(&world.client, &STAND));
    eventually(format!("the Set to settle with {replicas} that say {greeting}"), || async {
        let set = sets.get("row").await?;
        let all = stands.list(&ListParams::default()).await?.items;
        let counts = ["replicas", "readyReplicas", "updatedReplicas", "updatedReadyReplicas"];
        let is_settled = is_ready(&set)
            && counts.iter().all(|count| set.data["status"][count] == json!(replicas))
            && set.data["status"]["terminatingReplicas"] == json!(0)
            && all.len() == replicas
            && all.iter().all(|one| is_ready(one) && at(one, "/status/greeting") == greeting);
        Ok(if is_settled { Ok(()) } else { Err((set, all)) })
    })
    .await
}

/// What the user does, and what is there in the end.
async fn story(plans: Vec<Plan>, expected: Option<&str>) -> Told {
    let world = world(plans).await?;
    let sets = api(&world.client, &STAND_SET);
    let deployments = api(&world.client, &DEPLOYMENT);
    api(&world.client, &RGD).create(&PostParams::default(), &object(definition())?).await?;
    eventually("the definition to be active", || async {
        let found = api(&world.client, &RGD).get("stand").await?;
        Ok(if at(&found, "/status/state") == "Active" { Ok(()) } else { Err(found) })
    })
    .await?;
    let engine = Engine::new(world.client.clone(), Supervisor::default(), RELIST_PERIOD * 1000);
    let (observer, noted) = observe_the_limit(&engine);
    let set = json!({
        "apiVersion": STAND_SET.api_version(), "kind": "StandSet", "metadata": {"name": "row"},
        "spec": {
            "replicas": 2, "rollingUpdate": {"maxConcurrentUpdated": LIMIT},
            "template": {"spec": {"greeting": "one"}},
        },
    });
    sets.create(&PostParams::default(), &object(set)?).await?;
    settled(&world, 2, "one").await?;
    scale(&world, 4).await?;
    settled(&world, 4, "one").await?;

    roll_out(&world, json!({"spec": {"greeting": "two"}})).await?;
    eventually("an instance of the new template", || async {
        let all = api(&world.client, &STAND).list(&ListParams::default()).await?.items;
        let is_begun = all.iter().any(|one| at(one, "/spec/greeting") == "two");
        Ok(if is_begun { Ok(()) } else { Err(all) })
    })
    .await?;
    roll_out(&world, json!({"spec": {"greeting": "three"}})).await?;
    settled(&world, 4, "three").await?;
    // no new generation of any instance
    roll_out(&world, json!({"metadata": {"labels": {"tier": "gold"}}})).await?;
    settled(&world, 4, "three").await?;

    scale(&world, 3).await?;
    settled(&world, 3, "three").await?;
    let goes = deployments.list(&ListParams::default()).await?.items.pop().context("no Deployment")?;
    deployments.delete(&goes.name_any(), &DeleteParams::background()).await?;
    eventually("the Deployment to come back", || async {
        let found = deployments.get_opt(&goes.name_any()).await?;
        let is_back = |found: &DynamicObject| found.uid() != goes.uid() && has_rolled_out(found);
        Ok(if found.as_ref().is_some_and(is_back) { Ok(()) } else { Err(found) })
    })
    .await?;
    let state = trials::lasting(expected, async || {
        settled(&world, 3, "three").await?;
        end_state(&world).await
    })
    .await?;

    sets.delete("row", &DeleteParams::background()).await?;
    eventually("all to be gone", || async {
        let mut left = Vec::new();
        for kind in [STAND_SET, STAND, DEPLOYMENT, CONFIG_MAP, POD] {
            let all = api(&world.client, &kind).list_metadata(&ListParams::default()).await?.items;
            left.extend(all.iter().map(|one| format!("{kind} {}", one.name_any())));
        }
        Ok(if left.is_empty() { Ok(()) } else { Err(left) })
    })
    .await?;
    observer.stop().await;
    let noted = noted.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure!(noted.is_empty(), "{}", noted.join("\n"));
    Ok((state, world.end().await?))
}

async fn roll_out(world: &World, template: Value) -> Result<()> {
    let body = json!({"spec": {"template": template}});
    api(&world.client, &STAND_SET).patch("row", &PatchParams::default(), &Patch::Merge(&body)).await?;
    Ok(())
}

async fn scale(world: &World, replicas: usize) -> Result<()> {
    let body = json!({"spec": {"replicas": replicas}});
    api(&world.client, &STAND_SET).patch_scale("row", &PatchParams::default(), &Patch::Merge(&body)).await?;
    Ok(())
}

/// What is there, without names, versions and times that are chance.
async fn end_state(world: &World) -> Result<String> {
    let all = ListParams::default();
    let mut stands = api(&world.client, &STAND).list(&all).await?.items;
    stands.sort_by_key(|stand| stand.annotations().get("internal.kro.run/set-sequence").cloned());
    let set = api(&world.client, &STAND_SET).get("row").await?;
    let mut lines = vec![format!("set {} {}", set.data["spec"], plain(&set.data["status"]))];
    for stand in &stands {
        let hash = stand.labels().get("kro.run/template-hash");
        let updated_to = stand.annotations().get("internal.kro.run/set-updated-to");
        let status = plain(&stand.data["status"]);
        lines.push(format!("{} {} {hash:?} {updated_to:?} {status}", stand.name_any(), stand.data["spec"]));
    }
    for deployment in api(&world.client, &DEPLOYMENT).list(&all).await? {
        let (spec, mut status) = (&deployment.data["spec"], plain(&deployment.data["status"]));
        // they name ReplicaSets
        status["conditions"].take();
        lines.push(format!("deployment {} {spec} {status}", deployment.name_any()));
    }
    for map in api(&world.client, &CONFIG_MAP).list(&all).await? {
        lines.push(format!("config map {} {}", map.name_any(), map.data["data"]));
    }
    let mut text = lines.join("\n");
    for (number, stand) in stands.iter().enumerate() {
        text = text.replace(&stand.name_any(), &format!("STAND{number}"));
    }
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    Ok(lines.join("\n"))
}

fn plain(status: &Value) -> Value {
    /// How often something was written on the way, when, and whether the ReplicaSets of a Deployment that was deleted
    /// were still there when the next one of that name came.
    const CHANCE: [&str; 5] = [
        "observedGeneration",
        "lastTransitionTime",
        "lastUpdateTime",
        "terminatingReplicas",
        "collisionCount",
    ];
    match status {
        Value::Object(fields) => fields
            .iter()
            .filter(|(field, _)| !CHANCE.contains(&field.as_str()))
            .map(|(field, value)| (field.clone(), plain(value)))
            .collect(),
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

async fn undisturbed() -> Result<Undisturbed> {
    let (state, lives) = story(Vec::new(), None).await?;
    for what in ["\nSTAND", "\ndeployment ", "config map "] {
        assert_eq!(format!("\n{state}").matches(what).count(), 3, "{what}:\n{state}");
    }
    Ok((state, lives.iter().map(Faults::writes).sum()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_keeps_to_its_limit() -> Result<()> {
    undisturbed().await?;
    Ok(())
}

/// A story takes some ten seconds and two hundred writes, most of them of the same few kinds over and over: after each
/// write would be more than half an hour, after each 23rd it is two minutes and meets every part of the story.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_many_a_write() -> Result<()> {
    trials::crash_after_each(story, undisturbed().await?, 23).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_life_that_starts_in_the_past() -> Result<()> {
    trials::new_life_in_the_past_after_each(story, undisturbed().await?, 37).await
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_requests() -> Result<()> {
    trials::refused_requests(story, undisturbed().await?, &[5]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn events_lost_and_repeated() -> Result<()> {
    let plans = vec![
        Plan { lose_event: Some(2), ..Plan::default() },
        Plan { lose_event: Some(3), repeat_event: Some(2), ..Plan::default() },
        Plan { repeat_event: Some(1), ..Plan::default() },
    ];
    trials::disturbed_events(story, undisturbed().await?, plans).await
}
