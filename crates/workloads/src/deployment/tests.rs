use std::collections::BTreeMap;

use engine::{
    Verb,
    effect::Effect,
    kind,
    testing::{at, from_json, lines, merge, seconds},
};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::object::{annotation, name};

/// A Deployment and its ReplicaSets, to which plans are applied. Pods come up or stay away as the test says.
struct World {
    deployment: Value,
    sets: BTreeMap<String, Value>,
    pods: Vec<Arc<Pod>>,
    now: i64,
    /// Short names for the sets in the order they came: hashes tell a reader nothing.
    letters: Vec<String>,
    log: String,
}

impl World {
    fn new(spec: Value) -> Self {
        let mut deployment = json!({
            "metadata": {
                "namespace": "default", "name": "web", "uid": "d", "generation": 1, "resourceVersion": "1",
                "annotations": { "team": "shop" },
            },
            "spec": {
                "replicas": 3, "selector": { "matchLabels": { "app": "web" } },
                "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" } },
                "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                "template": template("v1"),
            },
        });
        merge(&mut deployment["spec"], spec);
        Self { deployment, sets: BTreeMap::new(), pods: vec![], now: 0, letters: vec![], log: String::new() }
    }

    fn set_spec(&mut self, change: Value) -> &mut Self {
        merge(&mut self.deployment["spec"], change);
        let generation = self.deployment["metadata"]["generation"].as_i64().unwrap();
        self.deployment["metadata"]["generation"] = json!(generation + 1);
        self
    }

    fn observed(&self, failure: Option<Failure>) -> Observed {
        Observed {
            deployment: Arc::new(from_json(self.deployment.clone())),
            candidates: self.sets.values().map(|set| Arc::new(from_json(set.clone()))).collect(),
            foreign_names: vec![],
            pods: self.pods.clone(),
            failure,
        }
    }

    /// One plan, applied and logged.
    fn turn(&mut self) -> bool {
        let plan = plan(&self.observed(None), at(self.now));
        for effect in &plan.effects {
            self.apply(effect);
        }
        !plan.effects.is_empty()
    }

    /// Plans until nothing is left to do.
    fn settle(&mut self) -> &mut Self {
        for _ in 0..20 {
            if !self.turn() {
                return self;
            }
        }
        panic!("never at rest:\n{}", self.log);
    }

    fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Create { body, .. } => {
                let set_name = body["metadata"]["name"].as_str().unwrap().to_owned();
                let mut body = body.clone();
                body["metadata"]["uid"] = json!(set_name);
                body["metadata"]["creationTimestamp"] = json!(seconds(self.now));
                body["metadata"]["resourceVersion"] = json!("1");
                self.letters.push(set_name.clone());
                self.note(format!("create {} with {}", self.short(&set_name), body["spec"]["replicas"]));
                self.sets.insert(set_name, body);
            }
            Effect::Patch { target, body, .. } if target.kind == kind::REPLICA_SET => {
                if let Some(n) = body["spec"].get("replicas") {
                    self.note(format!("resize {} to {n}", self.short(&target.name)));
                }
                merge(self.sets.get_mut(&target.name).unwrap(), body.clone());
            }
            Effect::Patch { body, .. } => merge(&mut self.deployment, body.clone()),
            Effect::Delete { target, .. } => {
                self.note(format!("delete {}", self.short(&target.name)));
                self.sets.remove(&target.name);
            }
            other => assert!(matches!(other, Effect::Event(_) | Effect::Confirm(_)), "{other}"),
        }
    }

    /// The ReplicaSets do what they are told; of each, all but `n` pods become available.
    fn pods_come_up_except(&mut self, letter: &str, n: i64) -> &mut Self {
        let letters = self.letters.clone();
        for (set_name, set) in &mut self.sets {
            let size = set["spec"]["replicas"].as_i64().unwrap();
            let index = letters.iter().position(|known| known == set_name).unwrap();
            let missing = if letter_of(index) == letter { n } else { 0 };
            let up = (size - missing).max(0);
            set["status"] = json!({ "replicas": size, "readyReplicas": up, "availableReplicas": up, "terminatingReplicas": 0 });
        }
        self
    }

    fn pods_come_up(&mut self) -> &mut Self {
        self.pods_come_up_except("", 0)
    }

    fn roll_out(&mut self) -> &mut Self {
        for _ in 0..20 {
            let before = self.log.clone();
            self.settle().pods_come_up();
            if self.log == before {
                return self.settle();
            }
            self.now += 1;
        }
        panic!("never rolled out:\n{}", self.log);
    }

    fn short(&self, set_name: &str) -> String {
        letter_of(self.letters.iter().position(|known| known == set_name).unwrap())
    }

    fn note(&mut self, what: String) {
        self.log += &format!("{}s {what}\n", self.now);
    }

    fn say(&mut self, what: &str) -> &mut Self {
        self.note(format!("-- {what}"));
        self
    }

    fn conditions(&self) -> String {
        let conditions = self.deployment["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let line = |condition: &Value| {
            let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            let mut message = text("message");
            for (index, set_name) in self.letters.iter().enumerate() {
                message = message.replace(set_name, &letter_of(index));
            }
            format!("{}={} {}: {message}\n", text("type"), text("status"), text("reason"))
        };
        let mut lines: Vec<String> = conditions.iter().map(line).collect();
        lines.sort();
        lines.concat()
    }

    fn revisions(&self) -> String {
        let of = |set_name: &String| {
            let set: ReplicaSet = from_json(self.sets[set_name].clone());
            let get = |key: &str| annotation(&set.metadata, key).unwrap_or("-").to_owned();
            let (revision, history) =
                (get(rollout::REVISION), get("deployment.kubernetes.io/revision-history"));
            format!("{} revision {revision} before {history}\n", self.short(set_name))
        };
        self.letters.iter().filter(|set_name| self.sets.contains_key(*set_name)).map(of).collect()
    }

    fn check(&self, expected: Expect) {
        expected.assert_eq(&self.log);
    }
}

fn letter_of(index: usize) -> String {
    char::from(b'A' + u8::try_from(index).unwrap()).to_string()
}

fn template(version: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "c", "command": ["serve", version] }] },
    })
}

#[test]
fn the_first_set() {
    let world = World::new(json!({}));
    let plan = plan(&world.observed(None), at(0));
    let Effect::Create { body, .. } = &plan.effects[0] else { panic!("{plan:?}") };
    let hash = body["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    let shown = format!("{}\n{}", lines(&plan), serde_json::to_string_pretty(body).unwrap());
    expect![[r#"
        create ReplicaSet default/web-HASH
        event ScalingReplicaSet "Scaled up replica set web-HASH from 0 to 3" on Deployment default/web
        status Deployment default/web {"metadata":{"annotations":{"deployment.kubernetes.io/revision":"1"}}}
        status Deployment default/web {"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-01T00:00:00Z","message":"Created new replica set \"web-HASH\"","reason":"NewReplicaSetCreated","status":"True","type":"Progressing"},{"lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-01T00:00:00Z","message":"Deployment does not have minimum availability.","reason":"MinimumReplicasUnavailable","status":"False","type":"Available"}],"observedGeneration":1,"unavailableReplicas":3}
        look again after 601s

        {
          "apiVersion": "apps/v1",
          "kind": "ReplicaSet",
          "metadata": {
            "annotations": {
              "deployment.kubernetes.io/desired-replicas": "3",
              "deployment.kubernetes.io/max-replicas": "4",
              "deployment.kubernetes.io/revision": "1",
              "team": "shop"
            },
            "labels": {
              "app": "web",
              "pod-template-hash": "HASH"
            },
            "name": "web-HASH",
            "namespace": "default",
            "ownerReferences": [
              {
                "apiVersion": "apps/v1",
                "blockOwnerDeletion": true,
                "controller": true,
                "kind": "Deployment",
                "name": "web",
                "uid": "d"
              }
            ]
          },
          "spec": {
            "replicas": 3,
            "selector": {
              "matchLabels": {
                "app": "web",
                "pod-template-hash": "HASH"
              }
            },
            "template": {
              "metadata": {
                "labels": {
                  "app": "web",
                  "pod-template-hash": "HASH"
                }
              },
              "spec": {
                "containers": [
                  {
                    "command": [
                      "serve",
                      "v1"
                    ],
                    "name": "c"
                  }
                ]
              }
            }
          }
        }"#]]
    .assert_eq(&shown.replace(hash, "HASH"));
}

#[test]
fn rolls_one_by_one_with_the_default_limits() {
    let mut world = World::new(json!({}));
    world.roll_out().say("v2").set_spec(json!({ "template": template("v2") })).roll_out();
    world.check(expect![[r#"
        0s create A with 3
        1s -- v2
        1s create B with 1
        2s resize A to 2
        2s resize B to 2
        3s resize A to 1
        3s resize B to 3
        4s resize A to 0
    "#]]);
    expect![[r#"
        Available=True MinimumReplicasAvailable: Deployment has minimum availability.
        Progressing=True NewReplicaSetAvailable: ReplicaSet "B" has successfully progressed.
    "#]]
    .assert_eq(&world.conditions());
    assert!(!world.turn(), "nothing changed, nothing written");
}

#[test]
fn limits_in_numbers_and_percent() {
    // 10 replicas: surge 3, unavailable 2, so at most 13 pods and at least 8 available
    let limits = json!({ "maxSurge": 3, "maxUnavailable": "25%" });
    let mut world = World::new(json!({ "replicas": 10, "strategy": { "rollingUpdate": limits } }));
    world.roll_out().say("v2").set_spec(json!({ "template": template("v2") })).roll_out();
    world.check(expect![[r#"
        0s create A with 10
        1s -- v2
        1s create B with 3
        1s resize A to 8
        1s resize B to 5
        2s resize A to 3
        2s resize B to 10
        3s resize A to 0
    "#]]);
}

#[test]
fn both_limits_zero_still_move() {
    let limits = json!({ "maxSurge": 0, "maxUnavailable": 0 });
    let mut world = World::new(json!({ "replicas": 1, "strategy": { "rollingUpdate": limits } }));
    world.roll_out().say("v2").set_spec(json!({ "template": template("v2") })).roll_out();
    world.check(expect![[r#"
        0s create A with 1
        1s -- v2
        1s create B with 0
        1s resize A to 0
        1s resize B to 1
    "#]]);
}

#[test]
fn a_broken_version_stops_and_times_out_and_a_rollback_reuses_the_old_set() {
    let mut world = World::new(json!({}));
    world.roll_out().say("v2 never comes up").set_spec(json!({ "template": template("v2") })).settle();
    for _ in 0..3 {
        world.pods_come_up_except("B", 9).settle();
    }
    world.now = 700;
    world.settle();
    expect![[r#"
        Available=True MinimumReplicasAvailable: Deployment has minimum availability.
        Progressing=False ProgressDeadlineExceeded: ReplicaSet "B" has timed out progressing.
    "#]]
    .assert_eq(&world.conditions());
    world.say("undo").set_spec(json!({ "template": template("v1") })).roll_out();
    world.check(expect![[r#"
        0s create A with 3
        1s -- v2 never comes up
        1s create B with 1
        700s -- undo
        700s resize B to 0
    "#]]);
    expect![[r#"
        A revision 3 before 1
        B revision 2 before -
    "#]]
    .assert_eq(&world.revisions());
    assert_eq!(world.deployment["metadata"]["annotations"][rollout::REVISION], "3");
}

#[test]
fn recreate_waits_for_the_last_old_pod() {
    let mut world = World::new(json!({ "strategy": { "type": "Recreate", "rollingUpdate": null } }));
    world.roll_out().say("v2").set_spec(json!({ "template": template("v2") }));
    let old = world.letters[0].clone();
    let owner =
        json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": old, "uid": old, "controller": true });
    let pod =
        json!({ "metadata": { "name": "p", "ownerReferences": [owner], "deletionTimestamp": seconds(0) } });
    world.pods = vec![Arc::new(from_json(pod))];
    world.roll_out().say("the last old pod is gone").pods.clear();
    world.roll_out();
    world.check(expect![[r#"
        0s create A with 3
        1s -- v2
        1s resize A to 0
        2s -- the last old pod is gone
        2s create B with 3
    "#]]);
}

#[test]
fn scaling_in_the_middle_of_a_rollout_keeps_the_proportion() {
    let limits = json!({ "maxSurge": 3, "maxUnavailable": 2 });
    let mut world = World::new(json!({ "replicas": 10, "strategy": { "rollingUpdate": limits } }));
    world.roll_out().say("v2 does not come up").set_spec(json!({ "template": template("v2") })).settle();
    world.pods_come_up_except("B", 9).settle();
    world.say("to 15").set_spec(json!({ "replicas": 15 })).settle();
    world.pods_come_up_except("B", 99).settle();
    world.say("to 5").set_spec(json!({ "replicas": 5 })).settle();
    world.check(expect![[r#"
        0s create A with 10
        1s -- v2 does not come up
        1s create B with 3
        1s resize A to 8
        1s resize B to 5
        1s -- to 15
        1s resize B to 7
        1s resize A to 11
        1s -- to 5
        1s resize B to 3
        1s resize A to 5
        1s resize A to 3
        1s resize B to 5
    "#]]);
}

#[test]
fn paused_scales_but_does_not_roll() {
    let mut world = World::new(json!({}));
    world.roll_out().set_spec(json!({ "paused": true, "template": template("v2") })).roll_out();
    world.say("paused, to 5").set_spec(json!({ "replicas": 5 })).roll_out();
    expect![[r#"
        Available=True MinimumReplicasAvailable: Deployment has minimum availability.
        Progressing=Unknown DeploymentPaused: Deployment is paused
    "#]]
    .assert_eq(&world.conditions());
    world.say("resumed").set_spec(json!({ "paused": null })).roll_out();
    world.check(expect![[r#"
        0s create A with 3
        1s -- paused, to 5
        1s resize A to 5
        2s -- resumed
        2s create B with 2
        2s resize A to 4
        2s resize B to 3
        3s resize A to 1
        3s resize B to 5
        4s resize A to 0
    "#]]);
}

#[test]
fn history_is_cut() {
    let mut world = World::new(json!({ "revisionHistoryLimit": 1 }));
    for version in ["v1", "v2", "v3", "v4"] {
        world.set_spec(json!({ "template": template(version) })).roll_out();
    }
    expect![[r#"
        C revision 3 before -
        D revision 4 before -
    "#]]
    .assert_eq(&world.revisions());
}

#[test]
fn a_taken_name_counts_as_a_collision() {
    let mut world = World::new(json!({}));
    let first = plan(&world.observed(None), at(0));
    let Effect::Create { body, .. } = &first.effects[0] else { panic!("{first:?}") };
    let mut observed = world.observed(None);
    observed.foreign_names = vec![body["metadata"]["name"].as_str().unwrap().to_owned()];
    let collided = plan(&observed, at(0));
    expect![[r#"
        status Deployment default/web {"collisionCount":1}
    "#]]
    .assert_eq(&lines(&collided));
    world.apply(&collided.effects[0]);
    let second = plan(&world.observed(None), at(0));
    let Effect::Create { body: other, .. } = &second.effects[0] else { panic!("{second:?}") };
    assert_ne!(body["metadata"]["name"], other["metadata"]["name"]);
}

#[test]
fn a_refused_set_is_told_and_tried_again() {
    let world = World::new(json!({}));
    let failure = Failure {
        verb: Verb::Create,
        kind: kind::REPLICA_SET,
        name: "web-x".into(),
        message: "no quota".into(),
        conflict: false,
    };
    let plan = plan(&world.observed(Some(failure)), at(0));
    let words: Vec<String> = lines(&plan)
        .lines()
        .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        words,
        [
            "warning ReplicaSetCreateError",
            "status Deployment",
            "create ReplicaSet",
            "event ScalingReplicaSet",
            // with the revision, which is no change of the spec
            "status Deployment"
        ]
    );
    assert!(lines(&plan).contains("Failed to create new replica set \\\"web-x\\\": no quota"));
}

#[test]
fn takes_over_a_set_and_lets_another_go() {
    let mut world = World::new(json!({}));
    world.roll_out();
    let set_name = world.letters[0].clone();
    let set = world.sets.get_mut(&set_name).unwrap();
    set["metadata"]["ownerReferences"] = json!(null);
    let adopted = plan(&world.observed(None), at(0));
    assert!(
        lines(&adopted)
            .starts_with(&format!("confirm Deployment default/web\npatch ReplicaSet default/{set_name} "))
    );
    world.apply(&adopted.effects[1]);
    world.sets.get_mut(&set_name).unwrap()["metadata"]["labels"] = json!({ "app": "other" });
    let released = plan(&world.observed(None), at(0));
    assert_eq!(
        lines(&released).lines().next().unwrap(),
        format!(r#"patch ReplicaSet default/{set_name} {{"metadata":{{"ownerReferences":null}}}}"#)
    );
    assert_eq!(name(&world.observed(None).deployment.metadata), "web");
}

#[test]
fn selecting_everything_is_refused_once() {
    let mut world = World::new(json!({ "selector": { "matchLabels": null } }));
    expect![[r#"
        warning SelectingAll "This deployment is selecting all pods. A non-empty selector is required." on Deployment default/web
        status Deployment default/web {"observedGeneration":1}
    "#]]
    .assert_eq(&lines(&plan(&world.observed(None), at(0))));
    world.settle();
    assert!(!world.turn());
}

/// What a rollout from A to B holds at any moment: sizes, and what of them is available.
fn totals(world: &World) -> (i64, i64) {
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    world.sets.values().fold((0, 0), |(size, available), set| {
        let own = number(&set["spec"]["replicas"]);
        (size + own, available + own.min(number(&set["status"]["availableReplicas"])))
    })
}

proptest::proptest! {
    #![proptest_config(repeatable::cases(64))]

    /// However slowly the new pods come up: never more pods than the surge allows, never fewer available ones than
    /// asked for, and an end.
    #[test]
    fn limits_hold_at_every_step(
        replicas in 0i64..12, surge in 0i64..5, unavailable in 0i64..5, missing in proptest::collection::vec(0i64..6, 0..6),
    ) {
        let mut missing = missing;
        missing.sort_by_key(|n| std::cmp::Reverse(*n)); // pods that are up stay up
        let limits = json!({ "maxSurge": surge, "maxUnavailable": unavailable });
        let mut world = World::new(json!({ "replicas": replicas, "strategy": { "rollingUpdate": limits } }));
        world.roll_out().set_spec(json!({ "template": template("v2") }));
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        for missing in missing.into_iter().chain([0; 20]) {
            for _ in 0..20 {
                let changed = world.turn();
                let (size, available) = totals(&world);
                proptest::prop_assert!(size <= replicas + surge, "{size} pods\n{}", world.log);
                proptest::prop_assert!(available >= replicas - unavailable, "{available} available\n{}", world.log);
                if !changed {
                    break;
                }
            }
            world.pods_come_up_except("B", missing);
        }
        proptest::prop_assert_eq!(totals(&world), (replicas, replicas));
        proptest::prop_assert_eq!(&world.sets[&world.letters[0]]["spec"]["replicas"], &json!(0));
    }
}
