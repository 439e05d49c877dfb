use std::collections::BTreeMap;

use engine::{
    effect::Effect,
    kind,
    testing::{at, from_json, merge, seconds},
};
use serde_json::{Value, json};

use super::*;

/// A DaemonSet, its nodes and pods. `tick` is what scheduler and nodes do: pods become ready where they were sent,
/// pods that are being deleted vanish.
struct World {
    set: Value,
    nodes: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
    /// Nodes on which nothing becomes ready.
    broken: Vec<&'static str>,
    log: Vec<String>,
    /// The most nodes that were without an available pod at one time, once all had one.
    most_down: usize,
}

impl World {
    fn new(spec: Value, nodes: &[&str]) -> Self {
        let mut set = json!({
            "metadata": { "namespace": "default", "name": "agent", "uid": "d", "generation": 1, "resourceVersion": "1" },
            "spec": {
                "selector": { "matchLabels": { "app": "agent" } },
                "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 0 } },
                "template": template("v1"),
            },
        });
        merge(&mut set["spec"], spec);
        let nodes =
            nodes.iter().map(|name| ((*name).to_owned(), json!({ "metadata": { "name": name } }))).collect();
        Self { set, nodes, pods: BTreeMap::new(), broken: Vec::new(), log: Vec::new(), most_down: 0 }
    }

    fn observed(&self) -> Observed {
        Observed {
            set: Arc::new(from_json(self.set.clone())),
            candidates: self.pods.values().map(|pod| Arc::new(from_json(pod.clone()))).collect(),
            nodes: self.nodes.values().map(|node| Arc::new(from_json(node.clone()))).collect(),
        }
    }

    fn shown(pod: &Value) -> String {
        let field = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            ["nodeSelectorTerms"][0]["matchFields"][0]["values"][0];
        let version = &pod["spec"]["containers"][0]["command"][1];
        format!("{}({})", field.as_str().unwrap(), version.as_str().unwrap())
    }

    fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Create { body, .. } => {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                assert!(!self.pods.contains_key(&name), "{name} is made twice");
                let mut pod = body.clone();
                pod["metadata"]["uid"] = json!(name);
                pod["metadata"]["resourceVersion"] = json!("1");
                pod["metadata"]["creationTimestamp"] = json!(seconds(-100));
                pod["status"] = json!({ "phase": "Pending" });
                self.log.push(format!("+{}", Self::shown(&pod)));
                self.pods.insert(name, pod);
            }
            Effect::Delete { target, .. } => {
                let pod = self.pods.get_mut(&target.name).unwrap();
                pod["metadata"]["deletionTimestamp"] = json!(seconds(0));
                self.log.push(format!("-{}", Self::shown(pod)));
            }
            Effect::Patch { target, body, .. } if target.kind == kind::DAEMON_SET => {
                merge(&mut self.set, body.clone());
            }
            other => panic!("unexpected: {other}"),
        }
    }

    fn tick(&mut self) {
        self.pods.retain(|_, pod| pod["metadata"]["deletionTimestamp"].is_null());
        for pod in self.pods.values_mut() {
            let shown = Self::shown(pod);
            let broken = self.broken.iter().any(|node| shown.starts_with(node));
            if pod["status"]["phase"] == "Pending" && !broken {
                let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": seconds(0) });
                pod["status"] = json!({ "phase": "Running", "conditions": [ready] });
            }
        }
    }

    fn run(&mut self) -> &mut Self {
        for _ in 0..50 {
            let before = (self.set.clone(), self.pods.clone());
            let plan = plan(&self.observed(), at(0));
            plan.effects.iter().for_each(|effect| self.apply(effect));
            let up = self.pods.values().filter(|pod| {
                pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] == "Running"
            });
            if self.set["status"]["numberAvailable"].as_u64() == Some(self.nodes.len() as u64) {
                self.most_down = self.most_down.max(self.nodes.len().saturating_sub(up.count()));
            }
            self.tick();
            if (&self.set, &self.pods) == (&before.0, &before.1) {
                return self;
            }
        }
        panic!("never at rest: {:?}", self.log);
    }

    fn set_spec(&mut self, change: Value) -> &mut Self {
        merge(&mut self.set["spec"], change);
        let generation = self.set["metadata"]["generation"].as_i64().unwrap();
        self.set["metadata"]["generation"] = json!(generation + 1);
        self
    }

    fn status(&self, field: &str) -> i64 {
        self.set["status"][field].as_i64().unwrap_or_default()
    }
}

fn template(version: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "agent" } },
        "spec": { "containers": [{ "name": "c", "command": ["run", version] }] },
    })
}

#[test]
fn one_pod_a_node_also_on_those_that_come_and_not_on_those_that_go() {
    let mut world = World::new(json!({}), &["n1", "n2"]);
    world.run();
    assert_eq!(world.log, ["+n1(v1)", "+n2(v1)"]);
    assert_eq!((world.status("desiredNumberScheduled"), world.status("numberReady")), (2, 2));
    world.nodes.insert("n3".into(), json!({ "metadata": { "name": "n3" } }));
    world.nodes.remove("n1");
    world.run();
    assert_eq!(world.log[2..], ["+n3(v1)", "-n1(v1)"]);
    assert_eq!((world.status("desiredNumberScheduled"), world.status("numberMisscheduled")), (2, 0));
}

#[test]
fn selectors_and_taints_keep_it_away_and_trouble_does_not() {
    let mut world = World::new(json!({}), &["ssd", "tainted", "cordoned", "hdd"]);
    world.set["spec"]["template"]["spec"]["nodeSelector"] = json!({ "disk": "fast" });
    for name in ["ssd", "tainted", "cordoned"] {
        world.nodes.get_mut(name).unwrap()["metadata"]["labels"] = json!({ "disk": "fast" });
    }
    let taint = |key: &str| json!({ "taints": [{ "key": key, "effect": "NoSchedule" }] });
    world.nodes.get_mut("tainted").unwrap()["spec"] = taint("gpu");
    world.nodes.get_mut("cordoned").unwrap()["spec"] = taint("node.kubernetes.io/unschedulable");
    world.run();
    assert_eq!(world.log, ["+cordoned(v1)", "+ssd(v1)"]);
}

#[test]
fn an_update_goes_node_by_node() {
    let mut world = World::new(json!({}), &["n1", "n2", "n3"]);
    world.run().set_spec(json!({ "template": template("v2") })).run();
    let expected = ["-n1(v1)", "+n1(v2)", "-n2(v1)", "+n2(v2)", "-n3(v1)", "+n3(v2)"];
    assert_eq!(world.log[3..], expected);
    assert_eq!(world.most_down, 1);
    assert_eq!((world.status("updatedNumberScheduled"), world.status("observedGeneration")), (3, 2));
}

#[test]
fn an_update_stops_where_the_new_pod_does_not_work() {
    let mut world = World::new(json!({}), &["n1", "n2", "n3"]);
    world.run();
    world.broken = vec!["n1"];
    world.set_spec(json!({ "template": template("v2") })).run();
    assert_eq!(world.log[3..], ["-n1(v1)", "+n1(v2)"]);
    // and goes on with what mends it
    world.broken.clear();
    world.set_spec(json!({ "template": template("v3") })).run();
    assert_eq!(world.status("updatedNumberScheduled"), 3);
}

#[test]
fn with_surge_the_new_pod_comes_first() {
    let rolling = json!({ "rollingUpdate": { "maxUnavailable": 0, "maxSurge": 1 } });
    let mut world = World::new(json!({ "updateStrategy": rolling }), &["n1", "n2"]);
    world.run().set_spec(json!({ "template": template("v2") })).run();
    assert_eq!(world.log[2..], ["+n1(v2)", "-n1(v1)", "+n2(v2)", "-n2(v1)"]);
    assert_eq!(world.most_down, 0);
}

#[test]
fn on_delete_leaves_it_to_people() {
    let mut world =
        World::new(json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } }), &["n1", "n2"]);
    world.run().set_spec(json!({ "template": template("v2") })).run();
    assert_eq!(world.log.len(), 2);
    let first = world.pods.keys().next().unwrap().clone();
    let node = World::shown(&world.pods[&first]).replace("(v1)", "");
    world.pods.remove(&first);
    world.run();
    assert_eq!(world.log[2..], [format!("+{node}(v2)")]);
}

#[test]
fn a_pod_that_failed_is_made_again() {
    let mut world = World::new(json!({}), &["n1"]);
    world.run();
    let name = world.pods.keys().next().unwrap().clone();
    world.pods.get_mut(&name).unwrap()["status"] = json!({ "phase": "Failed" });
    world.run();
    assert_eq!(world.log, ["+n1(v1)", "-n1(v1)", "+n1(v1)"]);
    assert_eq!(world.status("numberReady"), 1);
}
