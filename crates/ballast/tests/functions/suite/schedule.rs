//! The guide's business hours, at a time that is about to come.

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp, tz::TimeZoneDatabase};
use k8s_openapi::api::core::v1::Event;

use super::examples::asleep;
use crate::world::World;

const BUSINESS_HOURS: &str = include_str!("../../../../../examples/on-demand/business-hours.yaml");
/// Far from UTC, half of the time also in its date.
const ZONE: &str = "Pacific/Auckland";
/// For the function to be known before.
const AHEAD: i64 = 10;
const TIMEOUT: SignedDuration = SignedDuration::from_secs(3);

/// The times are whole minutes, so this takes one. Until then the timeout is the other one of the example, of minutes.
pub async fn a_wake_up_comes_at_its_time_and_lasts_its_timeout(world: &mut World) -> Result<()> {
    let zone = TimeZoneDatabase::bundled().get(ZONE)?;
    let wake = Timestamp::from_second(((Timestamp::now().as_second() + AHEAD) / 60 + 1) * 60)?;
    let on_the_wall = |time: Timestamp| time.to_zoned(zone.clone()).strftime("%H:%M").to_string();
    let (time, before) = (on_the_wall(wake), on_the_wall(wake - SignedDuration::from_mins(1)));
    let timeout = TIMEOUT.as_secs().to_string();
    let changes = [
        // above the minimum of one that the example keeps up there is nothing to wake
        (r#"ReplicasMin: "1""#, r#"ReplicasMin: "0""#),
        ("Europe/Paris", ZONE),
        ("08:30", time.as_str()),
        ("18:30", before.as_str()),
        ("3600", timeout.as_str()),
    ];
    world.place.apply(&asleep(BUSINESS_HOURS, &changes)?).await?;
    world.all_know("business-func").await?;

    let up = change(world, "Scale up business-func from 0 to 2").await?;
    ensure!(up >= wake, "woken at {up}, to be woken at {wake}");
    let down = change(world, "Scale down business-func from 2 to 0").await?;
    ensure!(down >= wake + TIMEOUT, "asleep at {down}, woken at {wake}");
    let status = world.status("business-func").await?;
    let steps = status["LastDecision"]["Steps"].as_array().into_iter().flatten();
    let is_by_schedule = |step: &&serde_json::Value| {
        step["input"]["last"]["source"] == "schedule" && step["input"]["timeoutSeconds"] == TIMEOUT.as_secs()
    };
    ensure!(steps.filter(is_by_schedule).count() == 1, "{status}");
    Ok(())
}

/// When it was written, to the whole second below.
async fn change(world: &World, headline: &str) -> Result<Timestamp> {
    let is_it = |event: &Event| event.message.as_deref().is_some_and(|text| text.starts_with(headline));
    let event = world.event("business-func", is_it).await?;
    Ok(event.first_timestamp.context("an Event without a time")?.0)
}
