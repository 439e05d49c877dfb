//! A process is killed while it works, again and again.

use std::{collections::BTreeSet, io::Write, process::Stdio, sync::Arc, time::Duration};

use bytes::Bytes;
use store::{NewItem, Settle, Take};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::{eventually, options};

/// A busy machine is no reason to fail.
const PATIENCE: Duration = Duration::from_secs(120);
const ROUNDS: usize = 3;
/// What is waited for before the kill.
const ENOUGH: (usize, usize) = (300, 30);

/// What the child has told: `+` handed in, `?` about to be settled, `-` settled.
#[derive(Default)]
struct Told {
    accepted: BTreeSet<String>,
    doubtful: BTreeSet<String>,
    done: BTreeSet<String>,
}

/// Hands in and settles until it is killed, and tells of each after it was acknowledged.
pub async fn work(address: &str, name: &str, prefix: &str) {
    // whoever had the file before may still be closing it
    let store =
        eventually("the store opens", async || store::open(address, options(name, 1, PATIENCE)).await).await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel::<String>();
    for task in 0..16 {
        let (store, tell, prefix) = (store.clone(), tell.clone(), prefix.to_owned());
        tokio::spawn(async move {
            for number in 0.. {
                let id = format!("{prefix}-{task}-{number}");
                let item = NewItem { id: id.clone(), head: Bytes::new(), body: Bytes::from(id.clone()) };
                store.enqueue("q", item).await.unwrap();
                tell.send(format!("+{id}")).unwrap();
            }
        });
    }
    let taker = Arc::clone(&store);
    tokio::spawn(async move {
        let lease = Duration::from_secs(3600);
        loop {
            let (holder, spots) = ("child".to_owned(), vec!["here".into(); 4]);
            let take =
                Take { holder, in_flight: 1_000_000, spots, per_spot: usize::MAX, bytes: u64::MAX, lease };
            for taken in taker.take("q", take).await.unwrap() {
                assert_eq!(taken.body, taken.id);
                tell.send(format!("?{}", taken.id)).unwrap();
                taker.settle("q", &taken.id, taken.ticket, Settle::Done).await.unwrap();
                tell.send(format!("-{}", taken.id)).unwrap();
            }
        }
    });
    let mut output = std::io::stdout().lock();
    while let Some(line) = told.recv().await {
        writeln!(output, "{line}").unwrap();
    }
}

pub async fn a_killed_process_loses_nothing_in_a_file() {
    let directory = tempfile::TempDir::with_prefix("ballast-crash-").unwrap();
    rounds(&format!("redb:{}", directory.path().join("store.redb").display())).await;
}

pub async fn a_killed_process_loses_nothing_on_nats() {
    let nats = cluster::Nats::one().await.unwrap();
    rounds(&nats.url()).await;
}

async fn rounds(address: &str) {
    let mut all = Told::default();
    for round in 0..ROUNDS {
        run_and_kill(address, &format!("r{round}"), &mut all).await;
        let store = eventually("the store opens again", async || {
            store::open(address, options("crash", 1, PATIENCE)).await
        })
        .await;
        for id in &all.accepted {
            let place = store.find("q", id).await.unwrap();
            let may_be_gone = all.doubtful.contains(id);
            assert!(place.is_some() || may_be_gone, "round {round}: {id} was accepted and is lost");
            assert!(place.is_none() || !all.done.contains(id), "round {round}: {id} is back: {place:?}");
        }
    }
}

async fn run_and_kill(address: &str, prefix: &str, told: &mut Told) {
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["child", address, "crash", prefix])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let (mut accepted, mut done) = (0, 0);
    let mut is_killed = false;
    loop {
        let mut line = String::new();
        let read = tokio::time::timeout(Duration::from_secs(300), lines.read_line(&mut line)).await;
        if read.expect("the child says nothing").unwrap() == 0 {
            break;
        }
        // the last line may be cut off
        let Some(line) = line.strip_suffix('\n') else { break };
        let (sign, id) = line.split_at(1);
        match sign {
            "+" => told.accepted.insert(id.to_owned()),
            "?" => told.doubtful.insert(id.to_owned()),
            _ => told.done.insert(id.to_owned()),
        };
        accepted += usize::from(sign == "+");
        done += usize::from(sign == "-");
        if !is_killed && accepted >= ENOUGH.0 && done >= ENOUGH.1 {
            // SIGKILL: it has no chance to write anything down
            child.start_kill().unwrap();
            is_killed = true;
        }
    }
    assert!(is_killed, "the child ended by itself after {accepted} accepted and {done} done");
    child.wait().await.unwrap();
}
