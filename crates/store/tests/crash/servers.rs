//! NATS servers are killed under load.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use store::{Expect, NewItem, Settle, Shared, Take};
use tokio_util::sync::CancellationToken;

use crate::{eventually, options};

/// Servers do go away here: whoever asked one that did tries again after this.
const PATIENCE: Duration = Duration::from_secs(3);

/// Hands in items until it is stopped; only what was acknowledged is in the set.
struct Load {
    accepted: Arc<Mutex<BTreeSet<String>>>,
    stop: CancellationToken,
    tasks: tokio::task::JoinSet<()>,
}

impl Load {
    fn start(store: &Shared) -> Self {
        let (accepted, stop) = (Arc::new(Mutex::new(BTreeSet::new())), CancellationToken::new());
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..8 {
            let (store, accepted, stop) = (store.clone(), accepted.clone(), stop.clone());
            tasks.spawn(async move {
                let mut number = 0;
                while !stop.is_cancelled() {
                    let id = format!("{task}-{number}");
                    let item = NewItem { id: id.clone(), head: Bytes::new(), body: Bytes::from(id.clone()) };
                    match store.enqueue("q", item).await {
                        Ok(()) => {
                            accepted.lock().unwrap().insert(id);
                            number += 1;
                        }
                        Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                    // slow enough that all of it can be looked at in the end
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        }
        Load { accepted, stop, tasks }
    }

    async fn more(&self, count: usize) {
        let goal = self.accepted.lock().unwrap().len() + count;
        eventually("more is accepted", async || {
            let now = self.accepted.lock().unwrap().len();
            if now >= goal { Ok(()) } else { Err((now, goal)) }
        })
        .await;
    }

    async fn stop(mut self) -> BTreeSet<String> {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        std::mem::take(&mut self.accepted.lock().unwrap())
    }
}

/// Takes and settles everything.
async fn drain(store: &Shared) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    loop {
        let take = || {
            let (spots, lease) = (vec!["here".into(); 50], Duration::from_secs(5));
            Take {
                holder: "drain".into(),
                in_flight: 100,
                spots,
                per_spot: usize::MAX,
                bytes: u64::MAX,
                lease,
            }
        };
        let counts = eventually("the store counts", async || store.counts("q").await).await;
        if counts.ready + counts.in_flight + counts.retry_pending == 0 {
            return seen;
        }
        let taken = eventually("the store gives out", async || store.take("q", take()).await).await;
        for taken in taken {
            assert_eq!(taken.body, taken.id);
            // an unclear answer leaves it to the lease
            let _ = store.settle("q", &taken.id, taken.ticket, Settle::Done).await;
            seen.insert(taken.id);
        }
    }
}

fn assert_nothing_lost(accepted: &BTreeSet<String>, seen: &BTreeSet<String>) {
    let lost: Vec<_> = accepted.difference(seen).collect();
    assert!(lost.is_empty(), "{} of {} are lost: {lost:?}", lost.len(), accepted.len());
}

pub async fn a_killed_server_loses_nothing() {
    let mut nats = cluster::Nats::one().await.unwrap();
    let store = store::open(&nats.url(), options("one", 1, PATIENCE)).await.unwrap();
    let revision = store.put("key", Bytes::from("kept"), Expect::Anything, None).await.unwrap();
    let load = Load::start(&store);
    for _ in 0..2 {
        load.more(100).await;
        nats.kill(0);
        eventually("the store notices", async || match store.ready().await {
            Err(_) => Ok(()),
            Ok(()) => Err(()),
        })
        .await;
        nats.restart(0).await.unwrap();
        eventually("the store is ready again", async || store.ready().await).await;
        load.more(100).await;
    }
    let accepted = load.stop().await;
    assert_nothing_lost(&accepted, &drain(&store).await);
    let entry = eventually("the key is read", async || store.get("key").await).await.unwrap();
    assert_eq!((entry.revision, &entry.value[..]), (revision, &b"kept"[..]));
}

pub async fn three_servers_lose_each_in_turn() {
    let mut nats = cluster::Nats::three().await.unwrap();
    let store = eventually("the cluster is there", async || {
        store::open(&nats.url(), options("three", 3, PATIENCE)).await
    })
    .await;
    let load = Load::start(&store);
    for index in 0..nats.len() {
        load.more(50).await;
        nats.kill(index);
        load.more(50).await;
        nats.restart(index).await.unwrap();
    }
    load.more(50).await;
    let accepted = load.stop().await;
    assert_nothing_lost(&accepted, &drain(&store).await);
}
