use engine::{
    effect::Effect,
    kind,
    testing::{at, from_json, lines, merge, seconds},
};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

/// A StatefulSet with its pods and revisions, to which plans are applied. `tick` is a node: pods become ready, pods
/// that are being deleted vanish.
struct World {
    set: Value,
    pods: std::collections::BTreeMap<String, Value>,
    revisions: std::collections::BTreeMap<String, Value>,
    claims: std::collections::HashSet<String>,
    broken: Vec<&'static str>,
    log: String,
}

impl World {
    fn new(spec: Value) -> Self {
        let mut set = json!({
            "metadata": { "namespace": "default", "name": "db", "uid": "s", "generation": 1, "resourceVersion": "1" },
            "spec": {
                "replicas": 3, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
                "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
                "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "partition": 0 } },
                "template": template("v1"),
            },
        });
        merge(&mut set["spec"], spec);
        Self {
            set,
            pods: Default::default(),
            revisions: Default::default(),
            claims: Default::default(),
            broken: vec![],
            log: String::new(),
        }
    }

    fn observed(&self) -> Observed {
        Observed {
            set: Arc::new(from_json(self.set.clone())),
            pods: self.pods.values().map(|pod| Arc::new(from_json(pod.clone()))).collect(),
            revisions: self
                .revisions
                .values()
                .map(|revision| Arc::new(from_json(revision.clone())))
                .collect(),
            claims: self.claims.clone(),
        }
    }

    fn set_spec(&mut self, change: Value) -> &mut Self {
        merge(&mut self.set["spec"], change);
        let generation = self.set["metadata"]["generation"].as_i64().unwrap();
        self.set["metadata"]["generation"] = json!(generation + 1);
        self
    }

    fn say(&mut self, what: &str) -> &mut Self {
        self.log += &format!("-- {what}\n");
        self
    }

    fn apply(&mut self, effect: &Effect) -> Option<String> {
        match effect {
            Effect::Create { kind, body, .. } => {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                let mut body = body.clone();
                body["metadata"]["uid"] = json!(name);
                body["metadata"]["resourceVersion"] = json!("1");
                if *kind == kind::POD {
                    body["status"] = json!({ "phase": "Pending" });
                    let command = body["spec"]["containers"][0]["command"][1].as_str().unwrap().to_owned();
                    self.pods.insert(name.clone(), body);
                    return Some(format!("+{name}({command})"));
                }
                self.revisions.insert(name, body);
                None
            }
            Effect::Delete { target, .. } if target.kind == kind::POD => {
                self.pods.get_mut(&target.name).unwrap()["metadata"]["deletionTimestamp"] = json!(seconds(0));
                Some(format!("-{}", target.name))
            }
            Effect::Delete { target, .. } => {
                self.revisions.remove(&target.name);
                None
            }
            Effect::Patch { target, body, .. } => {
                let object = match &target.kind {
                    kind if *kind == kind::POD => self.pods.get_mut(&target.name),
                    kind if *kind == kind::CONTROLLER_REVISION => self.revisions.get_mut(&target.name),
                    _ => Some(&mut self.set),
                };
                merge(object.unwrap(), body.clone());
                None
            }
            _ => None,
        }
    }

    /// Plans and nodes take turns until nothing happens; one line a turn.
    fn run(&mut self) -> &mut Self {
        for _ in 0..40 {
            let plan = plan(&self.observed(), at(0));
            let done: Vec<String> = plan.effects.iter().filter_map(|effect| self.apply(effect)).collect();
            if !done.is_empty() {
                self.log += &format!("{}\n", done.join(" "));
            }
            if !self.tick() && plan.effects.is_empty() {
                return self;
            }
        }
        panic!("never at rest:\n{}", self.log);
    }

    fn tick(&mut self) -> bool {
        let before = self.pods.clone();
        self.pods.retain(|_, pod| pod["metadata"]["deletionTimestamp"].is_null());
        for (name, pod) in &mut self.pods {
            if !self.broken.contains(&name.as_str()) && pod["status"]["phase"] == "Pending" {
                let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": seconds(0) });
                pod["status"] = json!({ "phase": "Running", "conditions": [ready] });
            }
        }
        self.pods != before
    }

    fn check(&self, expected: Expect) {
        expected.assert_eq(&self.log);
    }
}

fn template(version: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "db" } },
        "spec": { "containers": [{ "name": "c", "command": ["serve", version] }] },
    })
}

#[test]
fn the_first_pod_and_its_revision() {
    let world = World::new(json!({ "replicas": 1 }));
    let plan = plan(&world.observed(), at(0));
    let Effect::Create { body: revision, .. } = &plan.effects[0] else { panic!("{plan:?}") };
    let Effect::Create { body: pod, .. } = &plan.effects[1] else { panic!("{plan:?}") };
    let revision_name = revision["metadata"]["name"].as_str().unwrap();
    let hash = revision["metadata"]["labels"]["controller.kubernetes.io/hash"].as_str().unwrap();
    let shown = format!("{}{revision}\n{pod}\n", lines(&plan))
        .replace(revision_name, "db-HASH")
        .replace(hash, "HASH");
    expect![[r#"
        create ControllerRevision default/db-HASH
        create Pod default/db-0
        status StatefulSet default/db {"availableReplicas":0,"collisionCount":0,"currentRevision":"db-HASH","observedGeneration":1,"replicas":0,"updateRevision":"db-HASH"}
        {"apiVersion":"apps/v1","data":{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"command":["serve","v1"],"name":"c"}]}}}},"kind":"ControllerRevision","metadata":{"labels":{"app":"db","controller.kubernetes.io/hash":"HASH"},"name":"db-HASH","namespace":"default","ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"StatefulSet","name":"db","uid":"s"}]},"revision":1}
        {"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"db-","labels":{"app":"db","apps.kubernetes.io/pod-index":"0","controller-revision-hash":"db-HASH","statefulset.kubernetes.io/pod-name":"db-0"},"name":"db-0","namespace":"default","ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"StatefulSet","name":"db","uid":"s"}]},"spec":{"containers":[{"command":["serve","v1"],"name":"c"}],"hostname":"db-0","subdomain":"db"}}
    "#]]
    .assert_eq(&shown);
}

#[test]
fn one_after_the_other_up_down_and_through_an_update() {
    let mut world = World::new(json!({}));
    world.run().say("v2").set_spec(json!({ "template": template("v2") })).run();
    world.say("to 1").set_spec(json!({ "replicas": 1 })).run();
    world.check(expect![[r#"
        +db-0(v1)
        +db-1(v1)
        +db-2(v1)
        -- v2
        -db-2
        +db-2(v2)
        -db-1
        +db-1(v2)
        -db-0
        +db-0(v2)
        -- to 1
        -db-2
        -db-1
    "#]]);
    assert_eq!(world.set["status"]["currentRevision"], world.set["status"]["updateRevision"]);
}

#[test]
fn parallel_does_not_wait() {
    let mut world = World::new(json!({ "podManagementPolicy": "Parallel", "ordinals": { "start": 5 } }));
    world.run().say("to 1").set_spec(json!({ "replicas": 1 })).run();
    world.check(expect![[r#"
        +db-5(v1) +db-6(v1) +db-7(v1)
        -- to 1
        -db-7 -db-6
    "#]]);
}

#[test]
fn a_broken_pod_holds_up_the_rest_in_order() {
    let mut world = World::new(json!({}));
    world.broken = vec!["db-1"];
    world.run().say("repaired").broken.clear();
    world.run();
    world.check(expect![[r#"
        +db-0(v1)
        +db-1(v1)
        -- repaired
        +db-2(v1)
    "#]]);
}

#[test]
fn a_partition_keeps_low_numbers_as_they_are_even_when_made_again() {
    let mut world = World::new(json!({}));
    let partition = json!({ "rollingUpdate": { "partition": 2 } });
    world
        .run()
        .say("v2 from 2 on")
        .set_spec(json!({ "template": template("v2"), "updateStrategy": partition }))
        .run();
    world.say("db-0 is lost").pods.remove("db-0");
    world.run();
    world.check(expect![[r#"
        +db-0(v1)
        +db-1(v1)
        +db-2(v1)
        -- v2 from 2 on
        -db-2
        +db-2(v2)
        -- db-0 is lost
        +db-0(v1)
    "#]]);
    assert_ne!(world.set["status"]["currentRevision"], world.set["status"]["updateRevision"]);
}

#[test]
fn on_delete_leaves_it_to_people() {
    let mut world = World::new(json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } }));
    world.run().say("v2").set_spec(json!({ "template": template("v2") })).run();
    world.say("db-1 is deleted by hand").pods.remove("db-1");
    world.run();
    world.check(expect![[r#"
        +db-0(v1)
        +db-1(v1)
        +db-2(v1)
        -- v2
        -- db-1 is deleted by hand
        +db-1(v2)
    "#]]);
}

#[test]
fn a_finished_pod_is_made_again() {
    let mut world = World::new(json!({ "replicas": 1 }));
    world.run().say("db-0 fails").pods.get_mut("db-0").unwrap()["status"] = json!({ "phase": "Failed" });
    world.run();
    world.check(expect![[r#"
        +db-0(v1)
        -- db-0 fails
        -db-0
        +db-0(v1)
    "#]]);
}

#[test]
fn going_back_raises_the_old_revision_and_history_is_cut() {
    let mut world = World::new(json!({ "replicas": 1, "revisionHistoryLimit": 1 }));
    world.run();
    for version in ["v2", "v3", "v2"] {
        world.set_spec(json!({ "template": template(version) })).run();
    }
    let mut revisions: Vec<(i64, String)> = world
        .revisions
        .values()
        .map(|revision| {
            let command = &revision["data"]["spec"]["template"]["spec"]["containers"][0]["command"][1];
            (revision["revision"].as_i64().unwrap(), command.as_str().unwrap().to_owned())
        })
        .collect();
    revisions.sort();
    assert_eq!(revisions, [(3, "v3".to_owned()), (4, "v2".to_owned())]);
}

#[test]
fn each_pod_has_claims_of_its_own_that_stay() {
    let claim = json!({ "metadata": { "name": "data", "labels": { "tier": "db" } }, "spec": { "accessModes": ["ReadWriteOnce"] } });
    let mut world = World::new(json!({ "replicas": 1, "volumeClaimTemplates": [claim] }));
    let first = plan(&world.observed(), at(0));
    let made: Vec<&Effect> =
        first.effects.iter().filter(|effect| matches!(effect, Effect::Create { .. })).collect();
    let body = |effect: &Effect| match effect {
        Effect::Create { kind, body, .. } => (kind.kind.to_string(), body.clone()),
        _ => Default::default(),
    };
    let (kind, claim) = body(made[made.len() - 2]);
    assert_eq!((kind.as_str(), &claim["metadata"]["name"]), ("PersistentVolumeClaim", &json!("data-db-0")));
    assert_eq!(claim["metadata"]["labels"], json!({ "app": "db", "tier": "db" }));
    assert!(claim["metadata"]["ownerReferences"].is_null(), "it outlives the set");
    let (kind, pod) = body(made[made.len() - 1]);
    assert_eq!(kind, "Pod");
    let volumes = &pod["spec"]["volumes"];
    assert_eq!(volumes[0]["persistentVolumeClaim"]["claimName"], "data-db-0", "{volumes}");
    // one that is there is used again
    world.claims.insert("data-db-0".to_owned());
    assert!(!lines(&plan(&world.observed(), at(0))).contains("PersistentVolumeClaim"));
}
