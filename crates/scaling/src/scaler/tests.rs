use std::sync::Mutex;

use decide::Decision;
use engine::{
    effect::Target,
    kind::DEPLOYMENT,
    testing::{at, lines},
};
use expect_test::expect;
use serde::{Deserialize, Serialize};

use super::*;
use crate::{Fallback, Fixed, Object, OnConflict, Subject, Write, Writers, fixed};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Memory {
    n_decisions: u32,
}

/// Wants as many as it is told to, and counts its decisions.
struct Told(Mutex<Option<Situation>>);

#[derive(Clone)]
struct Situation {
    writers: Writers,
    controls: Controls,
    current: i32,
    wanted: i32,
    has_metrics: bool,
}

impl Policy for Told {
    type Spec = bool;
    type Observed = (i32, i32);
    type Memory = Memory;
    type Rule = Fixed;

    fn name(&self) -> &'static str {
        "told"
    }

    fn component(&self) -> &'static str {
        "test"
    }

    fn kind(&self, _: &Key) -> Option<Kind> {
        Some(DEPLOYMENT)
    }

    fn look(&self, key: &Key, _: Timestamp) -> Look<bool, (i32, i32)> {
        let Some(situation) = self.0.lock().unwrap().clone() else { return Look::Gone };
        Look::Found(Box::new(Subject {
            target: Target::absent(&DEPLOYMENT, Some(&key.namespace), &key.name),
            controls: situation.controls,
            spec: situation.has_metrics,
            observed: (situation.current, situation.wanted),
        }))
    }

    fn decide(
        &self,
        _: Timestamp,
        has_metrics: &bool,
        (current, wanted): &(i32, i32),
        memory: Memory,
    ) -> Decision<Memory, Fixed> {
        let because = if *has_metrics { "somebody" } else { "nothing known" };
        let Decision { current, desired, reason, steps, next_check, .. } = fixed(*current, *wanted, because);
        let memory = Memory { n_decisions: memory.n_decisions + 1 };
        Decision { current, desired, reason, steps, next_check, memory }
    }

    fn lacks_metrics(&self, decision: &Decision<Memory, Fixed>) -> bool {
        decision.why().starts_with("nothing known")
    }

    fn gist(&self, decision: &Decision<Memory, Fixed>) -> String {
        decision.why()
    }

    fn decided(
        &self,
        _: &Subject<bool, (i32, i32)>,
        _: &Decision<Memory, Fixed>,
        _: Timestamp,
    ) -> Vec<Effect> {
        Vec::new()
    }

    fn writers(&self, _: &Key) -> Writers {
        self.0.lock().unwrap().as_ref().map(|situation| situation.writers.clone()).unwrap_or_default()
    }

    fn gone(&self, _: &Key) {}
}

fn key() -> Key {
    Key::new("shop", "fib")
}

async fn scaler(store: &store::Shared) -> Scaler<Told> {
    let memories = Memories::load(store.clone(), "told/", "shop").await;
    Scaler::new(Told(Mutex::new(None)), memories, History::default())
}

fn situation(current: i32, wanted: i32) -> Situation {
    let (writers, controls) = (Writers::default(), Controls::default());
    Situation { writers, controls, current, wanted, has_metrics: true }
}

async fn memory_store() -> store::Shared {
    store::open("memory:", store::Options::default()).await.unwrap()
}

#[tokio::test]
async fn what_people_ask_for_holds_the_write_and_nothing_else() {
    let store = memory_store().await;
    let scaler = scaler(&store).await;
    let controls = |edit: fn(&mut Controls)| {
        let mut controls = Controls::default();
        edit(&mut controls);
        controls
    };
    let rows = [
        ("as usual", controls(|_| {})),
        ("paused", controls(|c| c.paused = true)),
        ("paused for a minute", controls(|c| c.paused_until = Some(at(60)))),
        ("paused until now", controls(|c| c.paused_until = Some(at(0)))),
        ("dry run", controls(|c| c.dry_run = true)),
    ];
    let mut all = String::new();
    for (what, controls) in rows {
        *scaler.policy.0.lock().unwrap() = Some(Situation { controls, ..situation(1, 3) });
        let plan = scaler.turn(&key(), at(0)).await.unwrap();
        let object = Object { kind: "Deployment".into(), namespace: "shop".into(), name: "fib".into() };
        let record = scaler.history.last(&object).unwrap();
        all += &format!(
            "{what}: {} -> {} {:?}\n{}",
            record.current,
            record.desired,
            record.outcome,
            lines(&plan)
        );
    }
    expect![[r#"
        as usual: 1 -> 3 Written
        patch Deployment shop/fib/scale {"spec":{"replicas":3}}
        event FixedCount "Scale up fib from 1 to 3: somebody fixes the count to 3" on Deployment shop/fib
        paused: 1 -> 3 Held("paused by ballast.dev/paused")
        paused for a minute: 1 -> 3 Held("paused until 2026-01-01T00:01:00Z")
        look again after 60s
        paused until now: 1 -> 3 Written
        patch Deployment shop/fib/scale {"spec":{"replicas":3}}
        event FixedCount "Scale up fib from 1 to 3: somebody fixes the count to 3" on Deployment shop/fib
        dry run: 1 -> 3 Held("dry run by ballast.dev/dry-run")
    "#]]
    .assert_eq(&all);
}

#[tokio::test]
async fn a_fallback_raises_when_metrics_are_gone_for_long_and_survives_a_new_master() {
    let store = memory_store().await;
    let without = |current: i32, wanted: i32| Situation {
        controls: Controls {
            fallback: Some(Fallback { replicas: 4, after: std::time::Duration::from_secs(60) }),
            ..Controls::default()
        },
        has_metrics: false,
        ..situation(current, wanted)
    };
    let mut all = String::new();
    for (seconds, situation) in [
        (0, without(2, 2)),
        (59, without(2, 2)),
        (60, without(2, 2)),
        (61, without(4, 4)),
        (62, without(6, 6)),
        (63, Situation { has_metrics: true, ..without(6, 6) }),
        (130, without(2, 2)),
    ] {
        // each time another node: what it knows comes from the store
        let scaler = scaler(&store).await;
        *scaler.policy.0.lock().unwrap() = Some(situation);
        let plan = scaler.turn(&key(), at(seconds)).await.unwrap();
        all += &format!("{seconds} s\n{}", lines(&plan));
    }
    expect![[r#"
        0 s
        look again after 60s
        59 s
        look again after 60s
        60 s
        patch Deployment shop/fib/scale {"spec":{"replicas":4}}
        event MetricsFallback "Scale up fib from 2 to 4: no metrics for 60 s, so at least 4 as ballast.dev/fallback-replicas says" on Deployment shop/fib
        61 s
        62 s
        63 s
        130 s
        look again after 190s
    "#]]
    .assert_eq(&all);
}

#[tokio::test]
async fn memory_is_in_the_store_before_the_write_it_justifies() {
    let store = memory_store().await;
    let old = scaler(&store).await;
    *old.policy.0.lock().unwrap() = Some(situation(1, 3));
    let plan = old.turn(&key(), at(0)).await.unwrap();
    assert_eq!(plan.effects.len(), 2);
    let kept = |scaler: &Scaler<Told>| scaler.memories.get(&key()).memory.n_decisions;
    let new = scaler(&store).await;
    assert_eq!(kept(&new), 1, "although nothing of the plan was carried out yet");
    *new.policy.0.lock().unwrap() = Some(situation(1, 3));
    new.turn(&key(), at(1)).await.unwrap();
    // the old one wakes up, still believing to be the master: it gets no plan to carry out
    let refused = old.turn(&key(), at(20)).await.map_err(|error| error.to_string());
    assert!(refused.is_err_and(|error| error.starts_with("another node decided meanwhile")));
    assert_eq!(kept(&scaler(&store).await), 2);
}

#[tokio::test]
async fn of_what_is_gone_nothing_is_left() {
    let store = memory_store().await;
    let scaler = scaler(&store).await;
    *scaler.policy.0.lock().unwrap() = Some(situation(1, 3));
    scaler.turn(&key(), at(0)).await.unwrap();
    *scaler.policy.0.lock().unwrap() = None;
    assert_eq!(scaler.turn(&key(), at(1)).await.unwrap(), Plan::default());
    assert_eq!(store.list("").await.unwrap(), []);
    assert!(scaler.history.select(|_| true).is_empty());
}

/// The events, the outcome and what explain shows, of one decision from 1 to 3.
async fn decided(scaler: &Scaler<Told>, manager: &str, on_conflict: Option<OnConflict>) -> String {
    let writers = Writers {
        of_value: Some(vec![Write { manager: manager.into(), at: Some(at(5)) }]),
        autoscaler: None,
    };
    let controls = Controls { on_conflict, ..Controls::default() };
    *scaler.policy.0.lock().unwrap() = Some(Situation { writers, controls, ..situation(1, 3) });
    let plan = scaler.turn(&key(), at(10)).await.unwrap();
    let object = Object { kind: "Deployment".into(), namespace: "shop".into(), name: "fib".into() };
    let record = scaler.history.last(&object).unwrap();
    let is_told = lines(&plan).contains("ConflictingWriter");
    format!("{manager}: {:?}, told: {is_told}, known: {}\n", record.outcome, record.conflict.is_some())
}

#[tokio::test]
async fn another_writer_is_told_once_and_left_alone_if_asked_for() {
    let store = memory_store().await;
    let first = scaler(&store).await;
    let mut all = String::new();
    for manager in ["kubectl-client-side-apply", "test", "kubectl-scale", "kubectl-scale", "test"] {
        all += &decided(&first, manager, None).await;
    }
    // The next master knows that the count was ours once.
    let next = scaler(&store).await;
    all += &decided(&next, "kubectl-scale", Some(OnConflict::Yield)).await;
    // What is done about it now is something else.
    all += &decided(&next, "kubectl-scale", Some(OnConflict::Override)).await;
    expect![[r#"
        kubectl-client-side-apply: Written, told: false, known: false
        test: Written, told: false, known: false
        kubectl-scale: Written, told: true, known: true
        kubectl-scale: Written, told: false, known: true
        test: Written, told: false, known: false
        kubectl-scale: Held("left to kubectl-scale, as ballast.dev/on-conflict says"), told: true, known: true
        kubectl-scale: Written, told: true, known: true
    "#]]
    .assert_eq(&all);
}

#[tokio::test]
async fn of_two_policies_on_one_object_the_second_writes_nothing_until_the_first_is_gone() {
    let store = memory_store().await;
    let (claims, queue) = (Claims::default(), Arc::default());
    let target = Object { kind: "Deployment".into(), namespace: "shop".into(), name: "fib".into() };
    let older = Claim { created: None, policy: "hvpa", key: Key::new("shop", "web") };
    assert_eq!(claims.claim(&target, older.clone()), Ok(()));
    let scaler = scaler(&store).await.among(&claims, &queue);
    *scaler.policy.0.lock().unwrap() = Some(situation(1, 3));
    let plan = scaler.turn(&key(), at(0)).await.unwrap();
    expect![[r#"
        warning ConflictingWriter "policy hvpa of web decides about it, which is older: remove one of the two" on Deployment shop/fib
    "#]]
    .assert_eq(&lines(&plan));
    claims.release(&older.key, older.policy);
    assert_eq!(queue.next().await, key(), "it is looked at again");
    let plan = scaler.turn(&key(), at(1)).await.unwrap();
    assert!(lines(&plan).contains("patch Deployment shop/fib/scale"), "{}", lines(&plan));
}
