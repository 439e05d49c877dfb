use std::sync::{Arc, atomic::Ordering};

use api::slimfaas::Settings;
use jiff::Timestamp;
use store::{Counts, Shared};
use tokio::sync::Semaphore;

use crate::world::{FakePod, Node, answer, eventually, function, publish, retries};

/// A pod whose calls wait until they are let go.
async fn gated() -> (FakePod, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let inside = gate.clone();
    let pod = FakePod::start(move |_| {
        let gate = inside.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            answer(200, "")
        }
    })
    .await;
    (pod, gate)
}

fn under_way(pods: &[&FakePod]) -> usize {
    pods.iter().map(|pod| pod.now.load(Ordering::SeqCst)).sum()
}

pub async fn no_more_calls_than_allowed(store: Shared) {
    const CALLS: usize = 30;
    let ((a, gate_a), (b, gate_b)) = (gated().await, gated().await);
    let settings = Settings { parallel: 3, parallel_per_pod: 2, ..retries(0) };
    let functions = [function("f", settings, vec![a.ready(), b.ready()])];
    let node = Node::start(store.clone(), &functions).await;
    let mut ids = Vec::new();
    for _ in 0..CALLS {
        ids.push(node.accept("/async-function/f", "").await);
    }
    eventually("as many calls are under way as may be", || async {
        let now = under_way(&[&a, &b]);
        if now == 3 { Ok(()) } else { Err(now) }
    })
    .await;
    let counts = store.counts("f").await.unwrap();
    assert_eq!((counts.in_flight, counts.ready), (3, CALLS - 3));
    gate_a.add_permits(CALLS);
    gate_b.add_permits(CALLS);
    for id in &ids {
        node.result("f", id).await;
    }
    assert!(a.most.load(Ordering::SeqCst) <= 2);
    assert!(b.most.load(Ordering::SeqCst) <= 2);
    assert_eq!(a.tries().len() + b.tries().len(), CALLS);
}

pub async fn the_limit_holds_over_a_change_of_master(store: Shared) {
    const CALLS: usize = 12;
    let (pod, gate) = gated().await;
    let settings = Settings { parallel: 3, ..retries(0) };
    let functions = [function("f", settings, vec![pod.ready()])];
    let first = Node::start(store.clone(), &functions).await;
    let second = Node::start_idle(store.clone(), &functions).await;
    let mut ids = Vec::new();
    for _ in 0..CALLS {
        ids.push(second.accept("/async-function/f", "").await);
    }
    eventually("the first master fills its places", || async {
        let now = under_way(&[&pod]);
        if now == 3 { Ok(()) } else { Err(now) }
    })
    .await;
    first.master.send_replace(false);
    second.master.send_replace(true);
    gate.add_permits(CALLS);
    for id in &ids {
        second.result("f", id).await;
    }
    assert_eq!(pod.most.load(Ordering::SeqCst), 3);
    // each once: nothing was in two hands
    assert_eq!(pod.tries(), vec!["1"; CALLS]);
    assert_eq!(store.counts("f").await.unwrap(), Counts::default());
}

/// The calls of the old master fill one pod: the new one leaves it alone, and lets the other work.
pub async fn no_pod_gets_too_many_over_a_change_of_master(store: Shared) {
    const CALLS: usize = 12;
    let ((a, gate_a), (b, gate_b)) = (gated().await, gated().await);
    let settings = Settings { parallel: 10, parallel_per_pod: 2, ..retries(0) };
    let of = |pods| [function("f", settings.clone(), pods)];
    let first = Node::start(store.clone(), &of(vec![a.ready()])).await;
    let second = Node::start_idle(store.clone(), &of(vec![a.ready(), b.ready()])).await;
    let mut ids = Vec::new();
    for _ in 0..CALLS {
        ids.push(second.accept("/async-function/f", "").await);
    }
    eventually("the first master fills the pod that it knows", || async {
        let now = under_way(&[&a]);
        if now == 2 { Ok(()) } else { Err(now) }
    })
    .await;
    first.master.send_replace(false);
    second.master.send_replace(true);
    gate_b.add_permits(CALLS);
    eventually("the second master makes the other calls on the other pod", || async {
        let tries = b.tries().len();
        if tries == CALLS - 2 && under_way(&[&b]) == 0 { Ok(()) } else { Err(tries) }
    })
    .await;
    assert_eq!(under_way(&[&a]), 2);
    gate_a.add_permits(CALLS);
    for id in &ids {
        second.result("f", id).await;
    }
    assert_eq!(a.most.load(Ordering::SeqCst), 2);
    assert!(b.most.load(Ordering::SeqCst) <= 2);
    assert_eq!([a.tries(), b.tries()].concat(), vec!["1"; CALLS]);
}

/// What the old master leaves behind makes room when it ends, and nothing else has to happen for that.
pub async fn room_left_by_the_old_master_is_used(store: Shared) {
    let (pod, gate) = gated().await;
    let settings = Settings { parallel: 10, parallel_per_pod: 1, ..retries(0) };
    let functions = [function("f", settings, vec![pod.ready()])];
    let first = Node::start(store.clone(), &functions).await;
    let second = Node::start_idle(store.clone(), &functions).await;
    let ids = [second.accept("/async-function/f", "").await, second.accept("/async-function/f", "").await];
    eventually("the first call is under way", || async {
        let now = under_way(&[&pod]);
        if now == 1 { Ok(()) } else { Err(now) }
    })
    .await;
    first.master.send_replace(false);
    second.master.send_replace(true);
    eventually("the second master knows what waits", || async {
        let counts = second.gauges.read(&second.catalog);
        let now = counts.get("f").map(|counts| (counts.ready, counts.in_flight));
        if now == Some((1, 1)) { Ok(()) } else { Err(now) }
    })
    .await;
    gate.add_permits(2);
    for id in &ids {
        second.result("f", id).await;
    }
    assert_eq!(pod.most.load(Ordering::SeqCst), 1);
}

pub async fn waiting_calls_keep_a_function_awake(store: Shared) {
    let settings = retries(0);
    let node = Node::start(store, &[function("f", settings.clone(), Vec::new())]).await;
    assert_eq!(node.activity.of("f").latest(), None);
    let id = node.accept("/async-function/f", "").await;
    assert!(node.activity.of("f").last.is_some(), "the first sign of life comes with the answer");
    eventually("the function is kept awake", || async {
        let calls = node.activity.of("f");
        if calls.active > 0 { Ok(()) } else { Err(calls) }
    })
    .await;
    let pod = FakePod::start(|_| async { answer(200, "") }).await;
    publish(&node.catalog, &[function("f", settings, vec![pod.ready()])]);
    node.result("f", &id).await;
    eventually("nothing keeps it awake any more", || async {
        let calls = node.activity.of("f");
        if calls.active == 0 { Ok(()) } else { Err(calls) }
    })
    .await;
}

pub async fn gauges_tell_what_waits(store: Shared) {
    let (pod, gate) = gated().await;
    let settings = Settings { parallel: 1, ..retries(0) };
    let functions =
        [function("busy", settings, vec![pod.ready()]), function("idle", Settings::default(), Vec::new())];
    let node = Node::start(store, &functions).await;
    for _ in 0..3 {
        node.accept("/async-function/busy", "").await;
    }
    let counts = eventually("the gauges are up to date", || async {
        let counts = node.gauges.read(&node.catalog);
        let busy = counts.get("busy").copied().unwrap_or_default();
        if (busy.ready, busy.in_flight) == (2, 1) { Ok(counts) } else { Err(counts) }
    })
    .await;
    assert_eq!(counts["idle"], Counts::default());
    let mut page = String::new();
    gateway::render(&node.gauges.families(&node.catalog, Timestamp::now()), &mut page);
    for line in [
        "slimfaas_function_queue_ready_items{function=\"busy\"} 2\n",
        "slimfaas_function_queue_ready_items{function=\"idle\"} 0\n",
        "slimfaas_function_queue_in_flight_items{function=\"busy\"} 1\n",
        "slimfaas_function_queue_retry_pending_items{function=\"busy\"} 0\n",
        "ballast_function_queue_dead_items{function=\"busy\"} 0\n",
        "ballast_function_queue_oldest_seconds{function=\"idle\"} 0\n",
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
    node.master.send_replace(false);
    eventually("only the master tells", || async {
        let counts = node.gauges.read(&node.catalog);
        if counts.is_empty() { Ok(()) } else { Err(counts) }
    })
    .await;
    gate.add_permits(9);
}
