//! What is asked of a gateway beside calls: callbacks, dead letters, wake-ups, the status as it changes.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use e2e::eventually;
use serde_json::Value;

use crate::{
    http::{self, Answer, Events},
    world::World,
};

/// The pod answers 202, which says that it will call back. One attempt is all there is.
pub async fn a_callback_ends_a_call_and_the_dead_are_made_again(world: &mut World) -> Result<()> {
    let once = r#"{"DefaultAsync":{"HttpTimeout":600,"TimeoutRetries":[]}}"#;
    world.function("late", &[("Configuration", once)]).await?;
    let at = world.any_gateway();
    let id = world.later(at, "late/status/202").await?;
    call_back(at, &id, "failed").await?;
    until_ended(at, &id, "dead", 500).await?;
    let letters = dead_letters(at, 1).await?;
    ensure!(letters[0]["Id"] == id.as_str() && letters[0]["Attempts"] == 1, "{letters:?}");
    ensure!(letters[0]["Method"] == "POST" && letters[0]["Path"] == "/status/202", "{letters:?}");

    let replay = format!("/async-function-dead/late/{id}/replay");
    let answer = http::request(at, "POST", &replay, "").await?;
    ensure!(answer.status == 202, "{answer:?}");
    call_back(at, &id, "success").await?;
    until_ended(at, &id, "done", 200).await?;
    dead_letters(at, 0).await?;
    let answer = http::request(at, "POST", &replay, "").await?;
    ensure!(answer.status == 404, "{answer:?}");
    Ok(())
}

/// Until there is something to call back for.
async fn call_back(at: SocketAddr, id: &str, status: &str) -> Result<()> {
    eventually("a callback to be taken", || async {
        let path = format!("/async-function-callback/late/{id}/{status}");
        let answer = http::request(at, "POST", &path, "").await?;
        Ok(if answer.status == 200 { Ok(()) } else { Err(answer) })
    })
    .await
}

async fn until_ended(at: SocketAddr, id: &str, how: &str, status: u16) -> Result<Answer> {
    eventually(format!("{id} to be {how}"), || async {
        let answer = http::get(at, &format!("/async-function-result/late/{id}")).await?;
        let is_so = answer.header("ballast-result") == Some(how) && answer.status == status;
        Ok(if is_so { Ok(answer) } else { Err(answer) })
    })
    .await
}

async fn dead_letters(at: SocketAddr, count: usize) -> Result<Vec<Value>> {
    eventually(format!("{count} dead letters"), || async {
        let answer = http::get(at, "/async-function-dead/late").await?;
        let letters = answer.json()?.as_array().cloned().with_context(|| format!("{answer:?}"))?;
        Ok(if letters.len() == count { Ok(letters) } else { Err(letters) })
    })
    .await
}

pub async fn wake_routes_wake_and_the_stream_tells(world: &mut World) -> Result<()> {
    world.function("one", &[]).await?;
    world.function("two", &[]).await?;
    let at = world.any_gateway();
    let mut events = Events::follow(at, "/status-functions-stream").await?;
    let (name, state) = events.next().await?;
    ensure!(name == "state" && ready(&state) == [("one", 0), ("two", 0)], "{name}: {state}");

    let answer = http::request(at, "POST", "/wake-function/one", "").await?;
    ensure!(answer.status == 204, "{answer:?}");
    // whichever comes first
    let (mut was_active, mut was_ready) = (false, false);
    while !(was_active && was_ready) {
        let (name, data) = events.next().await?;
        match name.as_str() {
            "state" => was_ready |= ready(&data) == [("one", 1), ("two", 0)],
            "activity" => was_active |= data["Name"] == "one" && data["LastCall"].is_string(),
            _ => {}
        }
    }
    ensure!(world.replicas("two").await? == 0);

    let answer = http::get(at, "/wake-functions").await?;
    ensure!(answer.status == 204, "{answer:?}");
    while !matches!(events.next().await?, (name, data) if name == "state" && ready(&data) == [("one", 1), ("two", 1)])
    {
    }
    let answer = http::request(at, "POST", "/wake-function/nobody", "").await?;
    ensure!(answer.status == 404, "{answer:?}");
    Ok(())
}

/// How many pods of each function are ready.
fn ready(state: &Value) -> Vec<(&str, u64)> {
    let functions = state.as_array().into_iter().flatten();
    functions.filter_map(|one| Some((one["Name"].as_str()?, one["NumberReady"].as_u64()?))).collect()
}
