//! The only node dies, and comes back to its file.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Result, ensure};

use crate::{
    http,
    world::{World, result_at},
};

/// Some calls are made, some are under way, some wait and some are being handed in.
pub async fn no_accepted_call_is_lost_with_the_only_node(world: &mut World) -> Result<()> {
    world.deployment("slow", &[("ReplicasMin", "1"), ("NumberParallelRequest", "4")], 1).await?;
    let at = world.any_gateway();
    let mut accepted = Vec::new();
    for _ in 0..20 {
        accepted.push(world.later(at, "slow/sleep/0.1").await?);
    }
    let handing_in = tokio::spawn(hand_in_until_it_dies(at));
    world.result("slow", &accepted[0]).await?;
    world.node("node-a")?.kill();
    accepted.extend(handing_in.await?);

    world.add_node("node-a").await?;
    world.all_know("slow").await?;
    let at = world.any_gateway();
    for id in &accepted {
        let answer = http::get(at, &format!("/async-function-result/slow/{id}")).await?;
        ensure!(answer.header("ballast-result").is_some(), "{id} is unknown: {answer:?}");
    }
    for id in &accepted {
        let answer = result_at(at, "slow", id).await?;
        ensure!(answer.status == 200 && answer.json()?["slept"] == 0.1, "{id}: {answer:?}");
    }
    Ok(())
}

/// What was accepted until then.
async fn hand_in_until_it_dies(at: SocketAddr) -> Vec<String> {
    let mut accepted = Vec::new();
    while let Ok(answer) = http::request(at, "POST", "/async-function/slow/sleep/0.1", "{}").await {
        accepted.extend(answer.header("slimfaas-element-id").map(str::to_owned));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    accepted
}
