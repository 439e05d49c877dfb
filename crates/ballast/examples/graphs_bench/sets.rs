//! Sets, which only Ballast has.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::{Client, api::PostParams};
use serde_json::json;

use crate::{
    instances::Instances,
    objects::{api, define, definition, object, patch},
};

pub const ROLLED_OUT: usize = 100;
pub const AT_ONCE: usize = 10;

pub struct Figures {
    pub up: Duration,
    pub down: Duration,
    /// Of [`ROLLED_OUT`] instances, [`AT_ONCE`] at once.
    pub rollout: Duration,
    /// The most instances that were seen with the new template and not ready.
    pub most_in_flight: usize,
}

pub async fn measure(client: &Client, n_instances: usize) -> Result<Figures> {
    define(client, definition("Cell", 3, Some("CellSet"))).await?;
    let sets = api(client, "CellSet");
    let mut cells = Instances::watch(api(client, "Cell"));
    let spec =
        json!({"replicas": 0, "rollingUpdate": {"maxConcurrentUpdated": AT_ONCE}, "template": {"spec": {}}});
    sets.create(&PostParams::default(), &object("CellSet", "all", spec)?).await?;

    let begun = Instant::now();
    patch(&sets, "all", json!({"replicas": n_instances})).await?;
    cells.until(n_instances).await?;
    let up = begun.elapsed();
    let begun = Instant::now();
    patch(&sets, "all", json!({"replicas": 0})).await?;
    cells.until(0).await?;
    let down = begun.elapsed();

    patch(&sets, "all", json!({"replicas": ROLLED_OUT})).await?;
    cells.until(ROLLED_OUT).await?;
    let old = cells.all().next().and_then(|cell| cell.template.clone()).context("no template is noted")?;
    let begun = Instant::now();
    patch(&sets, "all", json!({"template": {"spec": {"text": "new"}}})).await?;
    let mut most_in_flight = 0;
    loop {
        let new = || cells.all().filter(|cell| cell.template.as_ref() != Some(&old));
        let n_ready = new().filter(|cell| cell.is_ready).count();
        most_in_flight = most_in_flight.max(new().count() - n_ready);
        if n_ready == ROLLED_OUT {
            break;
        }
        cells.next().await?;
    }
    Ok(Figures { up, down, rollout: begun.elapsed(), most_in_flight })
}
