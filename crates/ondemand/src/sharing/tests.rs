use std::net::{IpAddr, Ipv4Addr};

use api::slimfaas::Settings;
use bytes::Bytes;
use store::{Embedded, Expect, Limits};

use super::*;
use crate::{Function, Pod, Snapshot, Target};

/// A store, and nodes that share through it. The catalog says of `up` that it has a pod, of `down` that it has none.
struct Nodes {
    store: store::Shared,
    catalog: Catalog,
    shutdown: CancellationToken,
}

pub(super) fn function(name: &str, is_up: bool) -> Function {
    let ip = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let pod = Pod { name: "pod".into(), ip, port: Some(1), ready: true, failure: None };
    Function {
        target: Target {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: "default".into(),
            name: name.into(),
        },
        settings: Arc::new(Settings::default()),
        problems: Vec::new(),
        requested: i32::from(is_up),
        pods: is_up.then_some(pod).into_iter().collect(),
        is_scaled: true,
        unschedulable: None,
        autoscaler: None,
    }
}

impl Nodes {
    fn new() -> Self {
        let catalog = Catalog::default();
        let functions = [function("up", true), function("down", false)];
        let functions = functions.map(|function| (function.name().clone(), Arc::new(function)));
        catalog.publish(Snapshot { functions: functions.into(), ..Snapshot::default() });
        let store = Arc::new(Embedded::memory(Limits::default()).unwrap());
        Nodes { store, catalog, shutdown: CancellationToken::new() }
    }

    fn start(&self, node: &str) -> (Activity, CancellationToken) {
        let activity = Activity::default();
        let sharing = Sharing {
            activity: activity.clone(),
            catalog: self.catalog.clone(),
            store: self.store.clone(),
            node: node.into(),
        };
        let shutdown = self.shutdown.child_token();
        tokio::spawn(run(sharing, shutdown.clone()));
        (activity, shutdown)
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

async fn until(activity: &Activity, what: &str, is_so: impl Fn(&Activity) -> bool) {
    let mut changes = activity.changes();
    let waiting = async {
        while !is_so(activity) {
            changes.changed().await.unwrap();
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(120), waiting).await;
    assert!(waited.is_ok(), "{what}: {:?}", activity.all());
}

#[tokio::test]
async fn the_first_call_of_a_function_is_heard_everywhere() {
    let nodes = Nodes::new();
    let ((a, _), (b, _)) = (nodes.start("a"), nodes.start("b"));
    let call = a.begin(&"down".into());
    until(&b, "b hears of the call", |b| b.of("down").active_elsewhere == 1).await;
    // Later than the call it may be: as long as it lasts, it is a sign of life.
    assert!(b.of("down").elsewhere >= a.of("down").last);
    assert!(b.of("down").is_active() && b.of("down").active == 0);
    drop(call);
    until(&b, "b hears of its end", |b| b.of("down").active_elsewhere == 0).await;
    assert!(b.of("down").latest().is_some());
}

#[tokio::test]
async fn every_wake_of_a_function_at_zero_is_written_at_once() {
    let nodes = Nodes::new();
    let ((a, _), (b, _)) = (nodes.start("a"), nodes.start("b"));
    for _ in 0..5 {
        a.touch(&"down".into());
        let last = a.of("down").last;
        until(&b, "b hears of a wake", |b| b.of("down").elsewhere == last).await;
    }
}

#[tokio::test]
async fn a_restarted_node_knows_when_functions_were_called() {
    let nodes = Nodes::new();
    let (a, stop) = nodes.start("a");
    let call = a.begin(&"up".into());
    let last = a.of("up").last;
    let (b, _) = nodes.start("b");
    until(&b, "b hears of the call", |b| b.of("up").elsewhere >= last).await;
    stop.cancel();
    drop(call);
    let (again, _) = nodes.start("a");
    until(&again, "a remembers", |a| a.of("up").latest() == last).await;
    assert_eq!(again.of("up").active_elsewhere, 0, "its own calls have ended with it");
}

#[tokio::test]
async fn nonsense_in_the_store_is_passed_over() {
    let nodes = Nodes::new();
    for (key, value) in
        [("history/up/x", "{"), ("history/up", "{}"), ("history/", ""), ("history/up/y", "[1]")]
    {
        nodes.store.put(key, Bytes::from(value), Expect::Anything, None).await.unwrap();
    }
    let word = serde_json::to_vec(&Word { last: Timestamp::now(), active: 1 }).unwrap();
    nodes.store.put(&key("up", "z"), word.into(), Expect::Anything, None).await.unwrap();
    let (b, _) = nodes.start("b");
    until(&b, "b hears what can be read", |b| b.of("up").active_elsewhere == 1).await;
}
