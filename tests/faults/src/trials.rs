//! A story told again under each kind of fault: its end must be that of the undisturbed one.
//!
//! A story is what the user does; it returns the end state and the lives that the controllers had. It is told how an
//! undisturbed run ends, once that is known: see [`lasting`].

use anyhow::{Result, ensure};
use http::StatusCode;

use crate::{Faults, Plan, RELIST_PERIOD, eventually};

pub type Told = Result<(String, Vec<Faults>)>;

/// The end state without faults, and the writes that it took.
pub type Undisturbed = (String, usize);

pub async fn crash_after_any_write(
    story: impl AsyncFn(Vec<Plan>, Option<&str>) -> Told,
    undisturbed: Undisturbed,
) -> Result<()> {
    crash_after_each(story, undisturbed, 1).await
}

/// For stories that take too long to be told once for every write: after the first and each `step`th from there.
pub async fn crash_after_each(
    story: impl AsyncFn(Vec<Plan>, Option<&str>) -> Told,
    (expected, n_writes): Undisturbed,
    step: usize,
) -> Result<()> {
    for n in (1..=n_writes).step_by(step) {
        let (state, lives) = story(vec![crash_after(n)], Some(&expected)).await?;
        // how many writes a run takes is partly chance: the last ones may not be reached
        ensure!(lives.len() > 1 || n > n_writes / 2, "the crash after write {n} never came");
        same(&state, &expected, format!("after a crash after write {n}"))?;
    }
    Ok(())
}

pub async fn new_life_that_starts_in_the_past(
    story: impl AsyncFn(Vec<Plan>, Option<&str>) -> Told,
    undisturbed: Undisturbed,
) -> Result<()> {
    new_life_in_the_past_after_each(story, undisturbed, 3).await
}

pub async fn new_life_in_the_past_after_each(
    story: impl AsyncFn(Vec<Plan>, Option<&str>) -> Told,
    (expected, n_writes): Undisturbed,
    step: usize,
) -> Result<()> {
    for n in (1..=n_writes).step_by(step) {
        let stale = Plan { stale_lists: true, ..Plan::default() };
        let (state, lives) = story(vec![crash_after(n), stale], Some(&expected)).await?;
        let struck = lives.get(1).is_some_and(|life| life.stale_answers() > 0);
        ensure!(struck || n > n_writes / 2, "no stale list was read after the crash after write {n}");
        same(&state, &expected, format!("with stale lists after a crash after write {n}"))?;
    }
    Ok(())
}

/// Refuses each n-th request, for each n of `every`.
pub async fn refused_requests(
    story: impl AsyncFn(Vec<Plan>, Option<&str>) -> Told,
    (expected, _): Undisturbed,
    every: &[usize],
) -> Result<()> {
    for status in [
        StatusCode::CONFLICT,
        StatusCode::GONE,
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::INTERNAL_SERVER_ERROR,
    ] {
        for every in every {
            let refusing = Plan { refuse: Some((*every, status)), ..Plan::default() };
            let (state, lives) = story(vec![refusing], Some(&expected)).await?;
            ensure!(lives[0].refused() > 0, "no request was refused with {status}");
            same(&state, &expected, format!("with every {every}th request answered {status}"))?;
        }
    }
    Ok(())
}

pub async fn disturbed_events(
    story: impl AsyncFn(Vec<Plan>, Option<&str>) -> Told,
    (expected, _): Undisturbed,
    plans: Vec<Plan>,
) -> Result<()> {
    for plan in plans {
        let (state, _) = story(vec![plan.clone()], Some(&expected)).await?;
        same(&state, &expected, format!("with {plan:?}"))?;
    }
    Ok(())
}

/// The end state, once it lasts. A life that began in the past may still do something that it takes back when it has caught
/// up: the end of an undisturbed run is waited for.
pub async fn lasting(expected: Option<&str>, read: impl AsyncFn() -> Result<String>) -> Result<String> {
    eventually("the end to last", || async {
        let before = read().await?;
        if expected.is_some_and(|expected| expected != before) {
            return Ok(Err((before, String::new())));
        }
        tokio::time::sleep(RELIST_PERIOD * 2).await;
        let after = read().await?;
        Ok(if before == after { Ok(after) } else { Err((before, after)) })
    })
    .await
}

fn crash_after(n: usize) -> Plan {
    Plan { crash_after_write: Some(n), ..Plan::default() }
}

fn same(state: &str, expected: &str, when: String) -> Result<()> {
    ensure!(state == expected, "another end {when}:\n{state}\nexpected:\n{expected}");
    Ok(())
}
