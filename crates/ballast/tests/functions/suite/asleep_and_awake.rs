//! Zero to N and back: calls, schedule, dependencies, events.

use anyhow::{Context, Result, ensure};
use e2e::eventually;
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::{http, world::World};

pub async fn a_call_wakes_and_silence_puts_to_sleep(world: &mut World) -> Result<()> {
    world.function("fib", &[("TimeoutSecondBeforeSetReplicasMin", "2")]).await?;
    let answer = world.ok("fib/fib/10").await?;
    ensure!(answer.json()?["fibonacci"] == 55, "{answer:?}");
    ensure!(answer.header("ballast-cold-start").is_some(), "{answer:?}");
    let event = world.event("fib", |event| event.reason.as_deref() == Some("WakeUp")).await?;
    let message = event.message.unwrap_or_default();
    ensure!(message.starts_with("Scale up fib from 0 to 1"), "{message}");

    world.until_replicas("fib", |n| n == 0).await?;
    let down = |message: &Option<String>| {
        message.as_deref().is_some_and(|text| text.starts_with("Scale down fib from 1 to 0"))
    };
    world.event("fib", |event| down(&event.message)).await?;
    world.ok("fib/fib/10").await?;
    Ok(())
}

/// The minute that has just begun: a wake-up time that has come.
pub async fn a_schedule_wakes(world: &mut World) -> Result<()> {
    let time = Timestamp::now().strftime("%H:%M").to_string();
    let schedule = format!(r#"{{"TimeZoneID":"UTC","Default":{{"WakeUp":["{time}"]}}}}"#);
    let annotations = [
        ("Schedule", schedule.as_str()),
        ("ReplicasAtStart", "2"),
        ("TimeoutSecondBeforeSetReplicasMin", "40000"),
    ];
    world.function("early", &annotations).await?;
    world.until_replicas("early", |n| n == 2).await?;
    Ok(())
}

pub async fn dependencies_wake_first(world: &mut World) -> Result<()> {
    world.function("db", &[("ReplicasAtStart", "2")]).await?;
    world.function("cart", &[("DependsOn", r#"["db"]"#)]).await?;
    world.function("shop", &[("DependsOn", "cart")]).await?;
    world.ok("shop/fib/1").await?;
    ensure!(world.replicas("db").await? == 2 && world.replicas("cart").await? == 1);
    let mut began = Vec::new();
    for name in ["db", "cart", "shop"] {
        let pods = world.pods(name).await?;
        let ready = pods.iter().filter_map(ready_since).max().context("nothing is ready")?;
        let created = pods.iter().filter_map(|pod| pod.metadata.creation_timestamp.as_ref()).min();
        began.push((created.context("no pods")?.0, ready));
    }
    // times are whole seconds
    ensure!(began[1].0 >= began[0].1 && began[2].0 >= began[1].1, "created and ready: {began:?}");
    Ok(())
}

/// Nobody wakes it but whoever runs it; until then the call is held, and a name of nothing holds up nothing.
pub async fn a_dependency_that_is_no_function_is_waited_for(world: &mut World) -> Result<()> {
    world.function("mysql", &[]).await?;
    let change = async |body| {
        let deployments = world.place.api::<Deployment>();
        deployments.patch("mysql", &PatchParams::default(), &Patch::Merge(body)).await
    };
    change(json!({"metadata": {"annotations": {"SlimFaas/Function": "maybe"}}})).await?;
    let says_so = |message: &str| message.contains("SlimFaas/Function: expected true or false");
    world.event("mysql", |event| event.message.as_deref().is_some_and(says_so)).await?;
    eventually("mysql to be no function", || async {
        let answer = http::get(world.any_gateway(), "/status-function/mysql").await?;
        Ok(if answer.status == 404 { Ok(()) } else { Err(answer) })
    })
    .await?;
    world.function("shop", &[("DependsOn", "mysql, mysqll")]).await?;
    for problem in ["no workload mysqll", "mysql has no replicas"] {
        let says_so = |message: &str| message.contains(problem);
        world.event("shop", |event| event.message.as_deref().is_some_and(says_so)).await?;
    }
    let wakes_mysql = async {
        world.event("shop", |event| event.reason.as_deref() == Some("WaitingForDependencies")).await?;
        ensure!(world.replicas("shop").await? == 0, "it did not wait");
        change(json!({"spec": {"replicas": 1}})).await?;
        Ok(())
    };
    tokio::try_join!(world.ok("shop/fib/1"), wakes_mysql)?;
    let (mysql, shop) = (world.pods("mysql").await?, world.pods("shop").await?);
    let ready = mysql.iter().find_map(ready_since).context("mysql is not ready")?;
    let created = shop.iter().find_map(|pod| pod.metadata.creation_timestamp.clone());
    ensure!(created.context("shop has no pod")?.0 >= ready, "shop began before {ready}");
    Ok(())
}

fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|one| one.type_ == "Ready" && one.status == "True")?;
    Some(ready.last_transition_time.as_ref()?.0)
}

pub async fn an_event_wakes_its_subscribers(world: &mut World) -> Result<()> {
    world.function("mail", &[("SubscribeEvents", "paid")]).await?;
    world.function("other", &[("SubscribeEvents", "sent")]).await?;
    let answer = http::request(world.any_gateway(), "POST", "/publish-event/paid/echo", "{}").await?;
    ensure!(answer.status == 204, "{answer:?}");
    ensure!(world.replicas("mail").await? == 1 && world.replicas("other").await? == 0);
    Ok(())
}

pub async fn below_the_minimum_it_is_raised(world: &mut World) -> Result<()> {
    world.function("base", &[("ReplicasMin", "2"), ("ReplicasAtStart", "1")]).await?;
    world.until_replicas("base", |n| n == 2).await?;
    Ok(())
}

/// While it is called, and only once what it depends on is ready.
pub async fn a_call_raises_from_below_the_minimum(world: &mut World) -> Result<()> {
    world.function("db", &[]).await?;
    // nothing listens there
    probe(world, "db", json!(9)).await?;
    let annotations = [("ReplicasMin", "2"), ("ReplicasAtStart", "3"), ("DependsOn", "db")];
    world.deployment("base", &annotations, 2).await?;
    world.ok("base/fib/1").await?;

    let patch = Patch::Merge(json!({"spec": {"replicas": 1}}));
    world.place.api::<Deployment>().patch("base", &PatchParams::default(), &patch).await?;
    eventually("base to wait for db", || async {
        let status = world.status("base").await?;
        let last = &status["LastDecision"];
        let waits = last["Reason"] == "WaitingForDependencies" && last["Current"] == 1;
        Ok(if waits { Ok(()) } else { Err(status) })
    })
    .await?;
    ensure!(world.replicas("base").await? == 1);

    probe(world, "db", json!("http")).await?;
    world.until_replicas("base", |n| n == 3).await?;
    let up = "Scale up base from 1 to 3";
    world.event("base", |event| event.message.as_deref().is_some_and(|text| text.starts_with(up))).await?;
    Ok(())
}

/// Its pods are ready if something listens on this port.
async fn probe(world: &World, name: &str, port: Value) -> Result<()> {
    let container = json!({"name": "app", "readinessProbe": {"tcpSocket": {"port": port}}});
    let patch = Patch::Strategic(json!({"spec": {"template": {"spec": {"containers": [container]}}}}));
    world.place.api::<Deployment>().patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Longer than the timeout by far: were it put to sleep, the call would break off.
pub async fn a_long_call_keeps_awake(world: &mut World) -> Result<()> {
    world.function("slow", &[("TimeoutSecondBeforeSetReplicasMin", "1")]).await?;
    let answer = world.ok("slow/sleep/6").await?;
    ensure!(answer.json()?["slept"] == 6.0, "{answer:?}");
    world.until_replicas("slow", |n| n == 0).await?;
    Ok(())
}
