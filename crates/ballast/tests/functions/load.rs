//! Calls that go on while something dies.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, bail, ensure};
use e2e::eventually;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    http::{self, Answer},
    world::World,
};

const CALLERS: usize = 3;
const PAUSE: Duration = Duration::from_millis(20);
/// So many calls are answered after what happens, so that it happens in the midst of them.
const AFTERWARDS: usize = 30;

/// Synchronous calls of a function that is awake, at each gateway in turn.
pub struct Load {
    stop: CancellationToken,
    answered: Arc<AtomicUsize>,
    callers: JoinSet<Result<()>>,
}

impl Load {
    /// Makes the function too.
    pub async fn start(world: &World, gateways: Vec<SocketAddr>) -> Result<Self> {
        world.deployment("steady", &[("ReplicasMin", "1")], 1).await?;
        let mut load =
            Load { stop: CancellationToken::new(), answered: Arc::default(), callers: JoinSet::new() };
        for caller in 0..CALLERS {
            let (stop, answered, gateways) = (load.stop.clone(), load.answered.clone(), gateways.clone());
            load.callers.spawn(async move {
                for n in caller.. {
                    let answer = ask(&gateways, n, "/function/steady/fib/5").await?;
                    ensure!(answer.status == 200, "a call was lost: {answer:?}");
                    answered.fetch_add(1, Ordering::Relaxed);
                    if stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
                        break;
                    }
                }
                Ok(())
            });
        }
        load.more(CALLERS).await?;
        Ok(load)
    }

    /// Until some more calls were answered. Fails if any was lost since the start.
    pub async fn end(mut self) -> Result<()> {
        self.more(AFTERWARDS).await?;
        self.stop.cancel();
        while let Some(caller) = self.callers.join_next().await {
            caller??;
        }
        Ok(())
    }

    async fn more(&mut self, n: usize) -> Result<()> {
        let enough = self.answered.load(Ordering::Relaxed) + n;
        let answered = self.answered.clone();
        eventually(format!("{n} more answers"), || {
            // a caller ends early only if a call was lost
            let ended = self.callers.try_join_next();
            let now = answered.load(Ordering::Relaxed);
            async move {
                ended.transpose()?.transpose()?;
                Ok(if now >= enough { Ok(()) } else { Err(now) })
            }
        })
        .await
    }
}

/// A call that a node breaks off, or does not take, is sent to the next: it has no body, so whoever made it may.
async fn ask(gateways: &[SocketAddr], first: usize, path: &str) -> Result<Answer> {
    let mut errors = Vec::new();
    for n in 0..gateways.len() {
        match http::get(gateways[(first + n) % gateways.len()], path).await {
            Ok(answer) => return Ok(answer),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    bail!("no gateway answered: {errors:?}")
}
