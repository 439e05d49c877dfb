//! Calls that go on while something dies.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
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
/// And so many are accepted to be made later.
const ACCEPTED_AFTERWARDS: usize = 5;

/// Calls of a function that is awake, at each gateway in turn: some callers wait for the answer, one hands in calls to be
/// made later.
pub struct Load {
    stop: CancellationToken,
    gateways: Gateways,
    answered: Arc<AtomicUsize>,
    /// Ids of calls to be made later.
    accepted: Accepted,
    callers: JoinSet<Result<()>>,
}

/// Where calls go. Only what the test takes away may fail to answer: a healthy node does not make up for a sick one.
#[derive(Clone)]
struct Gateways {
    all: Arc<[SocketAddr]>,
    taken_away: Arc<Mutex<HashSet<SocketAddr>>>,
}

#[derive(Clone, Default)]
struct Accepted(Arc<Mutex<Vec<String>>>);

impl Load {
    /// Makes the function too.
    pub async fn start(world: &World, gateways: Vec<SocketAddr>) -> Result<Self> {
        world.deployment("steady", &[("ReplicasMin", "1")], 1).await?;
        let mut load = Load {
            stop: CancellationToken::new(),
            gateways: Gateways { all: gateways.into(), taken_away: Arc::default() },
            answered: Arc::default(),
            accepted: Accepted::default(),
            callers: JoinSet::new(),
        };
        for caller in 0..CALLERS {
            let (answered, gateways) = (load.answered.clone(), load.gateways.clone());
            load.call(caller, move |n| {
                let (answered, gateways) = (answered.clone(), gateways.clone());
                async move {
                    let answer = gateways.ask(n, "/function/steady/fib/5").await?;
                    ensure!(answer.status == 200, "a call was lost: {answer:?}");
                    answered.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                }
            });
        }
        let (accepted, gateways) = (load.accepted.clone(), load.gateways.clone());
        load.call(0, move |n| {
            let (accepted, gateways) = (accepted.clone(), gateways.clone());
            async move {
                let id = gateways.hand_in(n).await?;
                accepted.ids().extend(id);
                Ok(())
            }
        });
        load.more(CALLERS, 1).await?;
        Ok(load)
    }

    /// One call after the other, until it is enough or one was lost.
    fn call<F>(&mut self, first: usize, make: impl Fn(usize) -> F + Send + 'static)
    where
        F: Future<Output = Result<()>> + Send,
    {
        let stop = self.stop.clone();
        self.callers.spawn(async move {
            for n in first.. {
                make(n).await?;
                if stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
                    break;
                }
            }
            Ok(())
        });
    }

    /// From now on this gateway need not answer.
    pub fn does_without(&self, gateway: SocketAddr) {
        self.gateways.taken_away().insert(gateway);
    }

    /// Until some more calls were answered. Fails if any was lost since the start, also of those that were accepted.
    pub async fn end(mut self) -> Result<()> {
        self.more(AFTERWARDS, ACCEPTED_AFTERWARDS).await?;
        self.stop.cancel();
        while let Some(caller) = self.callers.join_next().await {
            caller??;
        }
        let accepted = self.accepted.ids().clone();
        for (n, id) in accepted.iter().enumerate() {
            let answer = eventually(format!("the result of {id}"), || async {
                let answer = self.gateways.ask(n, &format!("/async-function-result/steady/{id}")).await?;
                let is_there = matches!(answer.header("ballast-result"), Some("done" | "dead"));
                Ok(if is_there { Ok(answer) } else { Err(answer) })
            });
            let answer = answer.await?;
            ensure!(answer.status == 200, "an accepted call was lost: {id}: {answer:?}");
        }
        Ok(())
    }

    async fn more(&mut self, answers: usize, accepted: usize) -> Result<()> {
        let enough = (self.answered.load(Ordering::Relaxed) + answers, self.accepted.ids().len() + accepted);
        let (answered, ids) = (self.answered.clone(), self.accepted.clone());
        eventually(format!("{answers} more answers, {accepted} more accepted"), || {
            // a caller ends early only if a call was lost
            let ended = self.callers.try_join_next();
            let now = (answered.load(Ordering::Relaxed), ids.ids().len());
            async move {
                ended.transpose()?.transpose()?;
                Ok(if now.0 >= enough.0 && now.1 >= enough.1 { Ok(()) } else { Err(now) })
            }
        })
        .await
    }
}

impl Accepted {
    fn ids(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gateways {
    fn taken_away(&self) -> MutexGuard<'_, HashSet<SocketAddr>> {
        self.taken_away.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer of one gateway; none if it was taken away.
    async fn ask_one(
        &self,
        n: usize,
        method: &str,
        path: &str,
        body: &'static str,
    ) -> Result<Option<Answer>> {
        let at = self.all[n % self.all.len()];
        match http::request(at, method, path, body).await {
            Ok(answer) => Ok(Some(answer)),
            // asked after the failure: what is taken away meanwhile was named before
            Err(_) if self.taken_away().contains(&at) => Ok(None),
            Err(error) => Err(error.context(format!("the gateway at {at} was left alone, and failed"))),
        }
    }

    /// The id of a call that a gateway has accepted, if it has. It takes a moment, so that some are always under way.
    async fn hand_in(&self, n: usize) -> Result<Option<String>> {
        let answer = self.ask_one(n, "POST", "/async-function/steady/sleep/0.1", "{}").await?;
        let accepted = answer.filter(|answer| answer.status == 202);
        Ok(accepted.and_then(|answer| answer.header("slimfaas-element-id").map(str::to_owned)))
    }

    /// A call that a node breaks off, or does not take, is sent to the next: it has no body, so whoever made it may.
    async fn ask(&self, first: usize, path: &str) -> Result<Answer> {
        for n in 0..self.all.len() {
            if let Some(answer) = self.ask_one(first + n, "GET", path, "").await? {
                return Ok(answer);
            }
        }
        bail!("all gateways were taken away")
    }
}
