use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::decision::replay;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn spec(replicas: u32, max_concurrent_updated: u32) -> Spec {
    Spec {
        name: "web".to_owned(),
        replicas,
        max_concurrent_updated,
        revision: "new".to_owned(),
        max_creations: 500,
    }
}

/// One word an instance: a name, then flags: `o` outdated, `u` updated, `n` not ready, `s` ready for an older
/// generation, `t` terminating.  Ages follow the order of words; `a=b` gives both the same second.
fn fleet(text: &str) -> Observed {
    let mut instances = Vec::new();
    for (second, group) in text.split_whitespace().enumerate() {
        for word in group.split('=') {
            let (name, flags) = word.split_once(':').unwrap_or((word, ""));
            let has = |flag| flags.contains(flag);
            instances.push(Instance {
                name: name.to_owned(),
                uid: format!("uid-{name}"),
                created_at: at(second as i64),
                sequence: instances.len() as u64,
                revision: Some(if has('o') { "old" } else { "new" }.to_owned()),
                updated: has('u'),
                generation: 2,
                ready: Some(Ready { status: !has('n'), observed_generation: if has('s') { 1 } else { 2 } }),
                terminating: has('t'),
            });
        }
    }
    Observed { instances }
}

fn check(spec: &Spec, observed: &str, expected: &Expect) {
    let decision = plan(at(100), spec, &fleet(observed), &Memory::default(), 7);
    let text = format!("{}: {}", decision.reason.code, decision.desired);
    expected.assert_eq(&text);
}

#[test]
fn scaling() {
    check(&spec(3, 1), "a b c", &expect!["Settled: nothing"]);
    check(&spec(5, 1), "a b c", &expect!["ScaleUp: create 2"]);
    check(&spec(1, 1), "a b c", &expect!["ScaleDown: delete c b"]);
    check(&spec(0, 1), "a b:n", &expect!["ScaleDown: delete b a"]);
    // Strictly newest first, ready or not.
    check(&spec(2, 1), "a:n b c", &expect!["ScaleDown: delete c"]);
    // Same second: the running number decides, then the name.
    check(&spec(1, 1), "a=c=b", &expect!["ScaleDown: delete b c"]);
    // What is going away is replaced at once and never counted.
    check(&spec(2, 1), "a b:t", &expect!["ScaleUp: create 1"]);
    check(&spec(5000, 1), "", &expect!["ScaleUp: create 500"]);
    let frozen = Spec { max_creations: 0, ..spec(3, 1) };
    check(&frozen, "a b", &expect!["CreationsSwitchedOff: nothing"]);
    check(&frozen, "a b c", &expect!["Settled: nothing"]);
}

#[test]
fn updating() {
    check(&spec(3, 1), "a:o b:o c:o", &expect!["RollingUpdate: update a"]);
    check(&spec(3, 2), "a:o b:o c:o", &expect!["RollingUpdate: update a b"]);
    check(&spec(3, 1), "a:un b:o c:o", &expect!["WaitingForReady: nothing"]);
    check(&spec(3, 2), "a:un b:o c:o", &expect!["RollingUpdate: update b"]);
    check(&spec(3, 1), "a:u b:o c:o", &expect!["RollingUpdate: update b"]);
    // True for the generation before the update is not ready.
    check(&spec(3, 1), "a:us b:o c:o", &expect!["WaitingForReady: nothing"]);
    // New instances that are still starting take no slot.
    check(&spec(3, 1), "a:o b:n c:n", &expect!["RollingUpdate: update a"]);
    // A fix for a broken rollout reaches the broken one first, and takes no other down with it.
    check(&spec(3, 1), "a:oun b:o c:o", &expect!["RollingUpdate: update a"]);
    check(&spec(4, 2), "a:o b:oun c:oun d:o", &expect!["RollingUpdate: update b c"]);
    check(&spec(4, 2), "a:oun b:un c:o d:o", &expect!["RollingUpdate: update a"]);
    check(&spec(4, 3), "a:oun b:un c:o d:o", &expect!["RollingUpdate: update a c"]);
    check(&spec(4, 1), "a:oun b:oun c:o d:o", &expect!["RollingUpdate: update a b"]);
    // Scale-down comes before updates, and what it takes is not updated.
    check(&spec(1, 5), "a:o b:o c:o", &expect!["RollingUpdate: delete c b, update a"]);
    check(&spec(4, 1), "a:o b:o c:o", &expect!["RollingUpdate: create 1, update a"]);
}

#[test]
fn one_pass_explained() {
    let decision = plan(at(100), &spec(2, 1), &fleet("a:o b:o c:o"), &Memory::default(), 7);
    expect![[r#"
        nothing -> delete c, update a  RollingUpdate: 2 outdated, 0 of at most 1 not ready after an update: updates 1 now
          scaleDown  nothing -> delete c             3 instances, 2 wanted: the newest 1 go
          update     delete c -> delete c, update a  2 outdated, 0 of at most 1 not ready after an update: updates 1 now
          look again at 2027-01-15T08:06:40Z"#]]
    .assert_eq(&decision.explain().to_string());
}

#[test]
fn nothing_is_asked_twice() {
    let (spec, before) = (spec(3, 1), fleet("a:o b"));
    let first = plan(at(100), &spec, &before, &Memory::default(), 7);
    assert_eq!(first.desired.to_string(), "create 1, update a");
    let again = |now, observed: &Observed, memory: &Memory| {
        let decision = plan(now, &spec, observed, memory, 8);
        format!("{}: {}", decision.reason.code, decision.desired)
    };
    expect!["WaitingForCache: nothing"].assert_eq(&again(at(101), &before, &first.memory));
    // Half of it seen is not enough.
    let created = &first.desired.create[0];
    let mut seen = fleet("a:o b c:n");
    seen.instances[2].name = created.name.clone();
    expect!["WaitingForCache: nothing"].assert_eq(&again(at(101), &seen, &first.memory));
    // A refused call is forgotten and tried again, the rest is still awaited.
    let mut failed = first.memory.clone();
    failed.forget_failed(&Expected::Updated { uid: "uid-a".to_owned(), revision: "new".to_owned() });
    expect!["RollingUpdate: update a"].assert_eq(&again(at(101), &seen, &failed));
    // Five minutes without a trace: lost.
    expect!["RollingUpdate: create 1, update a"].assert_eq(&again(at(400), &before, &first.memory));
}

#[test]
fn names_and_batches() {
    let long = "x".repeat(80);
    let name = instance_name(&long, 3);
    assert_eq!(name.len(), MAX_NAME_LENGTH);
    assert!(instance_name("é".repeat(40).as_str(), 3).len() <= MAX_NAME_LENGTH);
    let create = plan(at(0), &spec(300, 1), &fleet(""), &Memory::default(), 1).desired.create;
    let names: BTreeSet<_> = create.iter().map(|new| &new.name).collect();
    assert_eq!(names.len(), 300);
    assert!(create.iter().map(|new| new.sequence).eq(0..300));
    assert!(names.iter().all(|name| name[4..].chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c))));
    assert_eq!(slow_start(10).collect::<Vec<_>>(), [1, 2, 4, 3]);
    assert_eq!(slow_start(0).count(), 0);
}

#[test]
fn by_name() {
    let input = serde_json::json!({
        "now": "2027-01-15T08:00:00Z",
        "spec": {"name": "web", "replicas": 3, "maxConcurrentUpdated": 1, "revision": "b"},
        "observed": {"instances": [
            {"name": "web-1", "uid": "1", "createdAt": "2027-01-15T07:00:00Z", "revision": "b", "updated": true,
             "generation": 2, "ready": {"status": true, "observedGeneration": 1}},
            {"name": "web-2", "uid": "2", "createdAt": "2027-01-15T07:00:00Z", "sequence": 1, "revision": "a"},
        ]},
        "seed": 7,
    });
    let outcome = crate::policy::decide("rollout", &input.to_string()).unwrap();
    expect![[r#"
        nothing -> create 1  ScaleUp: 2 instances, 3 wanted: 1 more
          scaleUp  nothing -> create 1   2 instances, 3 wanted: 1 more
          update   create 1 -> create 1  1 outdated, 1 of at most 1 not ready after an update: updates 0 now
          look again at 2027-01-15T08:05:00Z"#]]
    .assert_eq(&outcome.explanation);
    let mut wrong = input.clone();
    wrong["spec"]["maxConcurrentUpdated"] = 0.into();
    let error = crate::policy::decide("rollout", &wrong.to_string()).unwrap_err();
    expect!["spec.maxConcurrentUpdated: expected 1 or more, found 0"].assert_eq(&error.to_string());
}

fn any_instance() -> impl Strategy<Value = Instance> {
    (0..5i64, 0..10u64, 0..50u8, any::<[bool; 5]>()).prop_map(|(second, sequence, name, flags)| Instance {
        name: format!("i{name}"),
        uid: format!("{name}/{second}/{sequence}"),
        created_at: at(second),
        sequence,
        revision: Some(if flags[0] { "new" } else { "old" }.to_owned()),
        updated: flags[1],
        generation: 1,
        ready: Some(Ready { status: flags[2], observed_generation: i64::from(flags[3]) }),
        terminating: flags[4],
    })
}

proptest! {
    #![proptest_config(repeatable::cases(256))]

    #[test]
    fn solutions_keep_their_promises(
        replicas in 0..20usize,
        max_concurrent_updated in 1..6usize,
        max_creations in 0..20usize,
        flags in prop::collection::vec(any::<[bool; 3]>(), 0..20),
    ) {
        let instances = flags
            .into_iter()
            .map(|[is_current, is_ready, was_updated]| InstanceModel { is_current, is_ready, was_updated })
            .collect();
        let problem = Problem { replicas, max_concurrent_updated, max_creations, instances };
        prop_assert_eq!(problem.check(&solve(&problem)), Ok(()));
    }

    #[test]
    fn plans_replay_and_settle(
        instances in prop::collection::vec(any_instance(), 0..12),
        replicas in 0..10u32,
        limit in 0..4u32,
        seed in any::<u64>(),
    ) {
        let (spec, observed) = (spec(replicas, limit), Observed { instances });
        let first = plan(at(10), &spec, &observed, &Memory::default(), seed);
        prop_assert_eq!(&replay(first.current.clone(), &first.steps), &Ok(first.desired.clone()));
        let mut reversed = observed.clone();
        reversed.instances.reverse();
        let distinct: BTreeSet<_> =
            observed.instances.iter().map(|one| (one.created_at, one.sequence, &one.name)).collect();
        if distinct.len() == observed.instances.len() {
            prop_assert_eq!(&plan(at(10), &spec, &reversed, &Memory::default(), seed).desired, &first.desired);
        }
        let stored = serde_json::to_string(&first.memory).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Memory>(&stored).unwrap(), &first.memory);
        let second = plan(at(10), &spec, &observed, &first.memory, seed);
        prop_assert!(!second.changes() || !first.changes(), "the same input again asks for nothing more");
    }

    /// However often the template changes in the middle, no more than the limit are down because of updates.
    #[test]
    fn a_template_that_keeps_changing_never_takes_down_more_than_the_limit(
        n in 1..10u32,
        limit in 1..4u32,
        templates in prop::collection::vec(any::<bool>(), 1..40),
        ready in prop::collection::vec(any::<prop::sample::Index>(), 40),
    ) {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let mut observed = fleet(&names[..n.min(9) as usize].join(" "));
        let mut revision = 0;
        let mut memory = Memory::default();
        for (round, changes) in templates.into_iter().enumerate() {
            revision += i32::from(changes);
            let spec = Spec { revision: revision.to_string(), ..spec(observed.instances.len() as u32, limit) };
            let decision = plan(at(100 + round as i64), &spec, &observed, &memory, 1);
            memory = decision.memory;
            for one in &mut observed.instances {
                if decision.desired.update.iter().any(|target| target.uid == one.uid) {
                    one.revision = Some(spec.revision.clone());
                    (one.updated, one.generation) = (true, one.generation + 1);
                }
            }
            let down = observed.instances.iter().filter(|one| one.updated && !one.is_ready()).count();
            prop_assert!(down <= limit as usize, "{down} are down in round {round}");
            if let Some(one) = observed.instances.iter_mut().filter(|one| !one.is_ready()).nth(ready[round].index(3)) {
                one.ready = Some(Ready { status: true, observed_generation: one.generation });
            }
        }
    }

    /// Applies plans to a model of the cluster until it rests: the rollout must end, with the right number, the newest template,
    /// and never more updated instances unready than allowed.
    #[test]
    fn rollouts_end(
        instances in prop::collection::vec(any_instance(), 0..8),
        replicas in 0..8u32,
        limit in 1..4u32,
    ) {
        let spec = spec(replicas, limit);
        let mut observed = Observed { instances };
        let mut names = BTreeSet::new();
        observed.instances.retain(|one| names.insert(one.name.clone()) && !one.terminating);
        let in_flight_of =
            |observed: &Observed| observed.instances.iter().filter(|one| one.model("new").is_in_flight()).count();
        let started_in_flight = in_flight_of(&observed);
        let mut memory = Memory::default();
        for round in 0..200i64 {
            let decision = plan(at(10 + round), &spec, &observed, &memory, round as u64);
            memory = decision.memory;
            let Actions { delete, create, update } = decision.desired;
            for target in delete {
                observed.instances.retain(|one| one.uid != target.uid);
            }
            for new in create {
                let mut fresh = fleet("x:n").instances.remove(0);
                fresh.uid = new.name.clone();
                fresh.created_at = at(10 + round);
                (fresh.name, fresh.sequence) = (new.name, new.sequence);
                observed.instances.push(fresh);
            }
            for one in &mut observed.instances {
                if update.iter().any(|target| target.uid == one.uid) {
                    (one.revision, one.updated, one.generation) = (Some("new".to_owned()), true, one.generation + 1);
                }
            }
            let in_flight = in_flight_of(&observed);
            prop_assert!(in_flight <= started_in_flight.max(limit as usize));
            // One instance a round becomes ready, the last one first.
            if let Some(one) = observed.instances.iter_mut().rev().find(|one| !one.is_ready()) {
                one.ready = Some(Ready { status: true, observed_generation: one.generation });
            }
        }
        let counts = counts(&spec, &observed);
        let all = replicas as usize;
        prop_assert_eq!((counts.replicas, counts.updated_replicas, counts.ready_replicas), (all, all, all));
    }
}
