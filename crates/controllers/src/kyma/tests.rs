mod many;

use std::collections::BTreeMap;

use engine::{
    effect::Effect,
    testing::{at, from_json, merge, seconds},
};
use serde_json::{Value, json};

use super::*;

/// One Function and what is there of it, to which plans are applied until there is nothing more to do.
struct World {
    now: i64,
    function: Value,
    config_maps: BTreeMap<String, Value>,
    deployments: BTreeMap<String, Value>,
    services: BTreeMap<String, Value>,
    autoscalers: BTreeMap<String, Value>,
    /// What was applied last, by kind and name.
    applied: BTreeMap<String, Value>,
    commit: Option<git::Answer>,
    failure: Option<Failure>,
    version: u64,
    /// One line a write, in short.
    writes: Vec<String>,
}

impl World {
    fn new(spec: Value) -> Self {
        let mut whole =
            json!({ "runtime": "nodejs22", "source": { "inline": { "source": "module.exports = {}" } } });
        merge(&mut whole, spec);
        Self {
            now: 0,
            function: json!({
                "apiVersion": "serverless.kyma-project.io/v1alpha2", "kind": "Function",
                "metadata": {
                    "namespace": "ns", "name": "greet", "uid": "fn-uid", "generation": 1,
                    "resourceVersion": "1", "creationTimestamp": seconds(0),
                },
                "spec": whole,
            }),
            config_maps: BTreeMap::new(),
            deployments: BTreeMap::new(),
            services: BTreeMap::new(),
            autoscalers: BTreeMap::new(),
            applied: BTreeMap::new(),
            commit: None,
            failure: None,
            version: 1,
            writes: Vec::new(),
        }
    }

    /// As the API would have it after this: a new generation.
    fn edit(&mut self, patch: Value) -> &mut Self {
        merge(&mut self.function, patch);
        let generation = self.function["metadata"]["generation"].as_i64().unwrap();
        self.function["metadata"]["generation"] = json!(generation + 1);
        self
    }

    fn child(&self) -> String {
        child_name(&from_json(self.function.clone()))
    }

    fn observed(&self) -> Observed {
        let function: Arc<Function> = Arc::new(from_json(self.function.clone()));
        let child = self.child();
        fn typed<K: serde::de::DeserializeOwned>(
            objects: &BTreeMap<String, Value>,
            name: &str,
        ) -> Option<Arc<K>> {
            objects.get(name).map(|object| Arc::new(from_json(object.clone())))
        }
        let hpas: Vec<Arc<HorizontalPodAutoscaler>> =
            self.autoscalers.values().map(|hpa| Arc::new(from_json(hpa.clone()))).collect();
        let is_ours = |hpa: &HorizontalPodAutoscaler| controller_of(&hpa.metadata).is_some();
        let latest = self.function["spec"]["source"]["gitRepository"]
            .is_object()
            .then(|| git::Latest { answer: self.commit.clone(), next: at(self.now + 60) });
        Observed {
            config_map: Found::new(&function, typed(&self.config_maps, &child)),
            deployment: Found::new(&function, typed(&self.deployments, &child)),
            spare_deployments: self
                .deployments
                .iter()
                .filter(|(name, _)| **name != child)
                .map(|(_, object)| Arc::new(from_json(object.clone())))
                .collect(),
            service: Found::new(&function, typed(&self.services, "greet")),
            autoscalers: hpas.iter().filter(|hpa| is_ours(hpa)).cloned().collect(),
            foreign_autoscalers: hpas
                .iter()
                .filter(|hpa| {
                    !is_ours(hpa) && crate::autoscaled::scales(hpa, &FUNCTION, name(&function.metadata))
                })
                .map(|hpa| hpa.name_any())
                .collect(),
            latest_commit: latest,
            failure: self.failure.clone(),
            cpu_percent: 50,
            function,
        }
    }

    fn objects(&mut self, kind: &Kind) -> &mut BTreeMap<String, Value> {
        match &*kind.kind {
            "ConfigMap" => &mut self.config_maps,
            "Deployment" => &mut self.deployments,
            "Service" => &mut self.services,
            "HorizontalPodAutoscaler" => &mut self.autoscalers,
            other => panic!("no {other} here"),
        }
    }

    fn apply(&mut self, effect: &Effect) {
        self.version += 1;
        let version = self.version.to_string();
        match effect {
            Effect::Apply { target, body, .. } => {
                let (kind, name) = (&target.kind, target.name.clone());
                let mut body = body.clone();
                let last = self.applied.insert(format!("{kind}/{name}"), body.clone()).unwrap_or_default();
                if let Some(object) = self.objects(kind).get_mut(&name) {
                    assert_eq!(object["metadata"]["uid"], target.uid, "{kind} exists already");
                    without(object, &last, &body);
                    if *kind == engine::kind::SERVICE {
                        // as a whole, says its schema
                        object["spec"]["selector"] = Value::Null;
                    }
                    merge(object, body);
                    let generation = object["metadata"]["generation"].as_i64().unwrap();
                    object["metadata"]["generation"] = json!(generation + 1);
                    self.writes.push(format!("apply {kind}"));
                    return;
                }
                let uid = format!("{}-{version}", kind.kind);
                let meta = json!({ "name": name, "namespace": "ns", "uid": uid, "resourceVersion": version,
                                   "generation": 1, "creationTimestamp": seconds(self.now) });
                merge(&mut body["metadata"], meta);
                self.objects(kind).insert(name, body);
                self.writes.push(format!("create {kind}"));
            }
            Effect::Patch { target, subresource, body } if *target.kind.kind == *"Function" => {
                merge(&mut self.function, body.clone());
                self.writes.push(format!("patch Function/{}", subresource.unwrap_or("spec")));
            }
            Effect::Patch { target, body, .. } => {
                let object = self.objects(&target.kind).get_mut(&target.name).unwrap();
                merge(object, body.clone());
                let generation = object["metadata"]["generation"].as_i64().unwrap();
                object["metadata"]["generation"] = json!(generation + 1);
                self.writes.push(format!("patch {}", target.kind));
            }
            Effect::Delete { target, .. } => {
                self.objects(&target.kind).remove(&target.name);
                self.writes.push(format!("delete {}", target.kind));
            }
            other => panic!("unexpected: {other}"),
        }
    }

    /// Plans and applies until a plan is empty; the writes of it, in short.
    fn settle(&mut self) -> String {
        self.writes.clear();
        for _ in 0..10 {
            let plan = plan(&self.observed(), at(self.now));
            if plan.effects.is_empty() {
                return self.writes.join(", ");
            }
            for effect in &plan.effects {
                self.apply(effect);
            }
        }
        panic!("it does not come to rest: {:?}", self.writes);
    }

    /// What the Deployment controller and a node make of it.
    fn pods_come_up(&mut self) -> &mut Self {
        let wanted = self.function["spec"]["replicas"].as_i64().unwrap_or(1);
        self.pods_are(wanted, wanted)
    }

    /// So many are made, and so many of them are ready.
    fn pods_are(&mut self, made: i64, ready: i64) -> &mut Self {
        for deployment in self.deployments.values_mut() {
            let wanted = deployment["spec"]["replicas"].as_i64().unwrap();
            // as many may be missing as the default of a Deployment lets be unavailable, a quarter
            let available = match ready >= wanted - wanted / 4 {
                true => json!({"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}),
                false => {
                    json!({"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"})
                }
            };
            let reason = if ready >= wanted { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" };
            deployment["status"] = json!({
                "observedGeneration": deployment["metadata"]["generation"],
                "replicas": made,
                "conditions": [available, {"type": "Progressing", "status": "True", "reason": reason}],
            });
        }
        self
    }

    fn running(spec: Value) -> Self {
        let mut world = Self::new(spec);
        world.settle();
        world.pods_come_up().settle();
        world
    }

    fn deployment(&self) -> &Value {
        &self.deployments[&self.child()]
    }

    /// `status/reason` of a condition.
    fn condition(&self, type_: &str) -> String {
        let conditions = self.function["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().find(|condition| condition["type"] == type_).map_or("-".into(), |found| {
            format!("{}/{}", found["status"].as_str().unwrap(), found["reason"].as_str().unwrap())
        })
    }

    fn message(&self, type_: &str) -> String {
        let conditions = self.function["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == type_).unwrap();
        found["message"].as_str().unwrap().to_owned()
    }

    /// Count of the Function, of the Deployment, in the status, and how many autoscalers of ours there are.
    fn counts(&self) -> (Option<i64>, Option<i64>, Option<i64>, usize) {
        let ours =
            self.autoscalers.values().filter(|hpa| hpa["metadata"]["ownerReferences"].is_array()).count();
        (
            self.function["spec"]["replicas"].as_i64(),
            self.deployment()["spec"]["replicas"].as_i64(),
            self.function["status"]["replicas"].as_i64(),
            ours,
        )
    }

    fn foreign_hpa(&mut self, name: &str) -> &mut Self {
        let target =
            json!({"apiVersion": "serverless.kyma-project.io/v1alpha2", "kind": "Function", "name": "greet"});
        self.autoscalers.insert(
            name.into(),
            json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "5"},
                   "spec": {"scaleTargetRef": target, "maxReplicas": 3}}),
        );
        self
    }
}

/// Takes away what was applied before and is not applied now.
fn without(object: &mut Value, last: &Value, now: &Value) {
    let (Some(object), Some(last)) = (object.as_object_mut(), last.as_object()) else { return };
    for (field, before) in last {
        match now.get(field) {
            None => drop(object.remove(field)),
            Some(now) => {
                if let Some(inner) = object.get_mut(field) {
                    without(inner, before, now);
                }
            }
        }
    }
}

#[test]
fn from_apply_to_running_in_few_writes_and_none_when_idle() {
    let mut world = World::new(json!({}));
    assert_eq!(world.settle(), "create ConfigMap, create Service, create Deployment");
    assert_eq!(world.condition("Running"), "-", "it has only just begun");
    assert_eq!(world.pods_come_up().settle(), "patch Function/status");
    assert_eq!(world.condition("ConfigurationReady"), "True/FunctionSpecValidated");
    assert_eq!(world.condition("Running"), "True/DeploymentReady");
    assert_eq!(world.settle(), "");
    world.now = 1_000_000;
    assert_eq!(world.settle(), "", "time alone is no reason to write");

    let mut built_in = World::new(json!({"scaleConfig": {"minReplicas": 1, "maxReplicas": 3}}));
    assert_eq!(built_in.settle(), "create ConfigMap, create Service, create Deployment");
    assert_eq!(built_in.pods_come_up().settle(), "patch Function/status, create HorizontalPodAutoscaler");
    assert_eq!(built_in.settle(), "");
}

/// However long a start takes and in however many steps: three children, one word that it is slow, one that it runs.
#[test]
fn a_slow_start_takes_five_writes() {
    for spec in
        [json!({"replicas": 4}), json!({"replicas": 4, "scaleConfig": {"minReplicas": 4, "maxReplicas": 5}})]
    {
        let mut world = World::new(spec.clone());
        assert_eq!(world.settle(), "create ConfigMap, create Service, create Deployment");
        let mut writes = Vec::new();
        for second in 1..400 {
            world.now = second;
            let (made, ready) = (second / 5, second / 80);
            world.pods_are(made.min(4), ready.min(4));
            writes.extend(Some(world.settle()).filter(|written| !written.is_empty()).map(|w| (second, w)));
            let said = &world.function["status"];
            let deployment = world.deployment();
            assert!(
                said.is_null() || said["replicas"] == deployment["status"]["replicas"],
                "{second} s: {said} of {deployment}"
            );
            let is_running = world.condition("Running").starts_with("True");
            assert_eq!(is_running, ready >= 4, "{second} s: {said}");
        }
        let last = if spec["scaleConfig"].is_object() {
            "patch Function/status, create HorizontalPodAutoscaler"
        } else {
            "patch Function/status"
        };
        assert_eq!(writes, [(20, "patch Function/status".to_owned()), (320, last.to_owned())], "{spec}");
    }
}

#[test]
fn a_start_without_pods_is_said_after_a_while() {
    let mut world = World::new(json!({"scaleConfig": {"minReplicas": 1, "maxReplicas": 3}}));
    world.settle();
    let first = plan(&world.observed(), at(3));
    assert_eq!((first.effects.len(), first.next), (0, Some(at(60))));
    world.pods_are(1, 0);
    let with_pod = plan(&world.observed(), at(3));
    assert_eq!((with_pod.effects.len(), with_pod.next), (0, Some(at(10))));
    world.pods_are(0, 0);
    world.now = 60;
    assert_eq!(world.settle(), "patch Function/status");
    assert_eq!(world.condition("Running"), "Unknown/MinReplicasNotAvailable");
    assert!(world.function["status"]["podSelector"].as_str().unwrap().contains("function-name=greet"));
    let next = plan(&world.observed(), at(70)).next;
    assert_eq!(next, Some(at(600)), "an autoscaler waits for the first pod, but not for ever");
    world.now = 600;
    assert_eq!(world.settle(), "create HorizontalPodAutoscaler");
    assert_eq!(world.pods_come_up().settle(), "patch Function/status");
}

/// The rows of the table of scaling modes: what is asked for, and what there is then.
#[test]
fn scaling_modes() {
    let scale = |min: i32, max: i32| json!({"scaleConfig": {"minReplicas": min, "maxReplicas": max}});
    let with = |mut spec: Value, replicas: i32| {
        spec["replicas"] = json!(replicas);
        spec
    };
    // (Function, Deployment, status, autoscalers), the Scaling condition
    for (row, spec, counts, scaling) in [
        ("no scaleConfig, replicas 4", with(json!({}), 4), (Some(4), Some(4), Some(4), 0), "-"),
        ("nothing at all", json!({}), (None, Some(1), Some(1), 0), "-"),
        ("min < max, no replicas: the HPA will lift it", scale(2, 5), (None, Some(1), Some(1), 1), "-"),
        (
            "above max: followed until the HPA corrects it",
            with(scale(2, 5), 9),
            (Some(9), Some(9), Some(9), 1),
            "-",
        ),
        ("below min", with(scale(2, 5), 1), (Some(1), Some(1), Some(1), 1), "-"),
        ("min = max", with(scale(3, 3), 1), (Some(3), Some(3), Some(3), 0), "True/FixedReplicas"),
        ("min = max, as it is", with(scale(3, 3), 3), (Some(3), Some(3), Some(3), 0), "True/FixedReplicas"),
        ("min = max, paused", with(scale(3, 3), 0), (Some(0), Some(0), Some(0), 0), "False/ScalingPaused"),
        ("0 replicas", with(json!({}), 0), (Some(0), Some(0), Some(0), 0), "-"),
        (
            "0 replicas with scaleConfig",
            with(scale(2, 5), 0),
            (Some(0), Some(0), Some(0), 1),
            "False/ScalingPaused",
        ),
    ] {
        let mut world = World::running(spec);
        world.pods_come_up().settle();
        assert_eq!((world.counts(), world.condition("Scaling").as_str()), (counts, scaling), "{row}");
        assert_eq!(world.condition("Running"), "True/DeploymentReady", "{row}");
    }
}

#[test]
fn the_count_does_not_jump_when_built_in_scaling_goes() {
    let mut world = World::running(json!({"scaleConfig": {"minReplicas": 1, "maxReplicas": 5}}));
    world.edit(json!({"spec": {"replicas": 4}})); // by the HPA
    assert_eq!(world.settle(), "apply Deployment, patch Function/status");
    world.pods_come_up().settle();
    world.edit(json!({"spec": {"env": [{"name": "A", "value": "b"}]}})); // by a user
    world.settle();
    assert_eq!(world.pods_come_up().counts().1, Some(4), "an edit does not touch the count");
    world.settle();
    world.edit(json!({"spec": {"scaleConfig": null}}));
    assert_eq!(world.settle(), "patch Function/status, delete HorizontalPodAutoscaler");
    assert_eq!(world.counts(), (Some(4), Some(4), Some(4), 0));
}

#[test]
fn autoscalers_of_others_are_reported_and_never_touched() {
    let mut world = World::running(json!({}));
    world.foreign_hpa("greet");
    assert_eq!(world.settle(), "", "one is as it should be");
    world.foreign_hpa("second");
    assert_eq!(world.settle(), "patch Function/status");
    assert_eq!(world.condition("Scaling"), "False/AmbiguousAutoscalers");
    assert!(world.message("Scaling").contains("greet, second"));
    world.autoscalers.remove("second");
    world.edit(json!({"spec": {"scaleConfig": {"minReplicas": 1, "maxReplicas": 3}}}));
    assert_eq!(world.settle(), "patch Function/status, create HorizontalPodAutoscaler");
    assert_eq!(world.condition("Scaling"), "False/AmbiguousAutoscalers");
    world.autoscalers.remove("greet");
    world.settle();
    assert_eq!((world.condition("Scaling").as_str(), world.counts().3), ("-", 1));
}

#[test]
fn of_several_autoscalers_of_ours_the_oldest_stays() {
    let mut world = World::running(json!({"scaleConfig": {"minReplicas": 1, "maxReplicas": 3}}));
    let name = world.child();
    let mut copy = world.autoscalers[&name].clone();
    merge(&mut copy, json!({"metadata": {"name": "copy", "uid": "copy", "creationTimestamp": seconds(50)}}));
    world.autoscalers.insert("copy".into(), copy);
    world.autoscalers.get_mut(&name).unwrap()["spec"]["maxReplicas"] = json!(30);
    assert_eq!(world.settle(), "apply HorizontalPodAutoscaler, delete HorizontalPodAutoscaler");
    assert_eq!(world.autoscalers.keys().collect::<Vec<_>>(), [&name]);
    assert_eq!(world.autoscalers[&name]["spec"]["maxReplicas"], 3);
}

#[test]
fn what_is_changed_by_hand_is_brought_back() {
    let mut world = World::running(json!({"labels": {"team": "a"}}));
    let name = world.child();
    let intended = world.deployment()["spec"].clone();
    let by_hand = |world: &mut World, patch: Value| merge(world.deployments.get_mut(&name).unwrap(), patch);
    for patch in [
        json!({"spec": {"replicas": 7}}),
        json!({"spec": {"template": {"spec": {"containers": [{"name": "function", "image": "evil"}]}}}}),
        json!({"spec": {"template": {"metadata": {"labels": {"team": "b"}}}}}),
        json!({"metadata": {"ownerReferences": null}}),
    ] {
        by_hand(&mut world, patch.clone());
        let writes = world.settle();
        assert!(writes.starts_with("apply Deployment"), "{patch}: {writes}");
        assert_eq!(world.deployment()["spec"], intended, "{patch}");
        assert!(world.deployment()["metadata"]["ownerReferences"].is_array());
        world.pods_come_up().settle();
    }
    let mut containers = intended["template"]["spec"]["containers"].as_array().unwrap().clone();
    containers.push(json!({"name": "miner", "image": "evil"}));
    by_hand(&mut world, json!({"spec": {"template": {"spec": {"containers": containers}}}}));
    let writes = world.settle();
    assert!(writes.starts_with("patch Deployment, apply Deployment"), "{writes}");
    assert_eq!(world.deployment()["spec"], intended);
    world.pods_come_up().settle();

    let mut copy = world.deployment().clone();
    merge(&mut copy, json!({"metadata": {"name": "copy", "uid": "copy"}}));
    world.deployments.insert("copy".into(), copy);
    assert_eq!(world.settle(), "delete Deployment");

    world.services.get_mut("greet").unwrap()["spec"]["selector"]["app"] = json!("other");
    assert_eq!(world.settle(), "apply Service");
    assert!(world.services["greet"]["spec"]["selector"]["app"].is_null());
    world.config_maps.get_mut(&name).unwrap()["data"]["handler.js"] = json!("evil()");
    assert_eq!(world.settle(), "apply ConfigMap");

    for objects in [&mut world.config_maps, &mut world.deployments, &mut world.services] {
        objects.clear();
    }
    let writes = world.settle();
    assert!(writes.starts_with("create ConfigMap, create Service, create Deployment"), "{writes}");
}

/// What contradicts nothing of ours is the business of whoever put it there.
#[test]
fn additions_of_others_stay() {
    let mut world = World::running(json!({}));
    let name = world.child();
    let addition = json!({"spec": {"template": {
        "metadata": {"labels": {"more": "c"}}, "spec": {"nodeSelector": {"disk": "fast"}},
    }}});
    merge(world.deployments.get_mut(&name).unwrap(), addition);
    assert_eq!(world.settle(), "");
}

#[test]
fn pod_annotations_of_others_stay_and_ours_go() {
    let mut world = World::running(json!({"annotations": {"ours": "1"}}));
    let name = world.child();
    let restarted = json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}});
    merge(world.deployments.get_mut(&name).unwrap(), restarted);
    assert_eq!(world.settle(), "", "kubectl rollout restart is nobody's business but the user's");
    world.edit(json!({"spec": {"annotations": {"ours": null}}}));
    world.settle();
    let annotations = world.deployment()["spec"]["template"]["metadata"]["annotations"].clone();
    assert!(
        annotations["ours"].is_null() && annotations["kubectl.kubernetes.io/restartedAt"] == "now",
        "{annotations}"
    );
}

#[test]
fn objects_of_others_are_in_the_way() {
    let mut world = World::new(json!({}));
    world
        .services
        .insert("greet".into(), json!({"metadata": {"name": "greet", "namespace": "ns", "uid": "x"}}));
    world.settle();
    assert_eq!(world.condition("Running"), "False/ServiceFailed");
    assert!(world.message("Running").contains("Service greet exists and is not this Function's"));
    world.services.clear();
    world.pods_come_up().settle();
    assert_eq!(world.condition("Running"), "True/DeploymentReady");
}

#[test]
fn a_refused_write_is_said_before_it_is_tried_again() {
    let mut world = World::new(json!({}));
    world.failure = Some(Failure {
        verb: engine::Verb::Create,
        kind: engine::kind::DEPLOYMENT,
        name: "greet-1".into(),
        message: "exceeded quota".into(),
        conflict: false,
    });
    let plan = plan(&world.observed(), at(0));
    let first = plan.effects[0].to_string();
    assert!(first.starts_with("status Function") && first.contains("exceeded quota"), "{first}");
    assert_eq!(plan.effects.len(), 4, "and all is tried again");
}

#[test]
fn a_deployment_says_how_its_function_is() {
    let mut world = World::running(json!({}));
    let name = world.child();
    let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason, "message": format!("{reason}.")});
    let available = condition("Available", "True", "MinimumReplicasAvailable");
    let unavailable = condition("Available", "False", "MinimumReplicasUnavailable");
    let done = condition("Progressing", "True", "NewReplicaSetAvailable");
    let under_way = condition("Progressing", "True", "ReplicaSetUpdated");
    let late = condition("Progressing", "False", "ProgressDeadlineExceeded");
    for (conditions, expected) in [
        (json!([available, done]), "True/DeploymentReady"),
        (json!([unavailable, done]), "Unknown/MinReplicasNotAvailable"),
        (json!([available, done]), "True/DeploymentReady"),
        (json!([available, under_way]), "Unknown/DeploymentWaiting"),
        (json!([unavailable, under_way]), "Unknown/MinReplicasNotAvailable"),
        (json!([unavailable, late]), "False/DeploymentFailed"),
    ] {
        world.deployments.get_mut(&name).unwrap()["status"]["conditions"] = conditions.clone();
        world.settle();
        assert_eq!(world.condition("Running"), expected, "{conditions}");
    }
    assert!(world.message("Running").contains("ProgressDeadlineExceeded"));
    assert_eq!(world.function["status"]["observedGeneration"], 1);
}

#[test]
fn an_invalid_spec_leaves_the_running_version_alone() {
    let mut world = World::running(json!({"replicas": 2}));
    world.edit(json!({"spec": {"runtime": "cobol85", "replicas": 5}}));
    assert_eq!(world.settle(), "patch Function/status");
    assert_eq!(world.condition("ConfigurationReady"), "False/InvalidFunctionSpec");
    assert_eq!(world.message("ConfigurationReady"), "spec.runtime: there is no runtime \"cobol85\"");
    assert_eq!(world.condition("Running"), "True/DeploymentReady");
    assert_eq!(world.counts(), (Some(5), Some(2), Some(2), 0));
    assert_eq!(world.settle(), "");
}

#[test]
fn every_refusal_names_its_field() {
    for (spec, expected) in [
        (json!({"source": {"inline": null}}), "spec.source:"),
        (json!({"source": {"gitRepository": {"url": "https://a/b", "reference": "main"}}}), "spec.source:"),
        (json!({"source": {"inline": {"source": " "}}}), "spec.source.inline.source:"),
        (json!({"source": {"inline": {"dependencies": "axios"}}}), "spec.source.inline.dependencies:"),
        (json!({"env": [{"name": "1A"}]}), "spec.env[0].name:"),
        (json!({"env": [{"name": "A"}, {"name": "FUNC_PORT"}]}), "spec.env[1].name:"),
        (
            json!({"resourceConfiguration": {"function": {"profile": "S", "resources": {}}}}),
            "spec.resourceConfiguration.function:",
        ),
        (
            json!({"resourceConfiguration": {"function": {"profile": "XXL"}}}),
            "spec.resourceConfiguration.function.profile:",
        ),
        (
            json!({"resourceConfiguration": {"function": {"resources": {"requests": {"cpu": "1m"}}}}}),
            "spec.resourceConfiguration.function.resources.requests.cpu:",
        ),
        (
            json!({"resourceConfiguration": {"function": {"resources":
                {"requests": {"memory": "64Mi"}, "limits": {"memory": "32Mi"}}}}}),
            "spec.resourceConfiguration.function.resources.limits.memory:",
        ),
        (json!({"scaleConfig": {"minReplicas": 0, "maxReplicas": 2}}), "spec.scaleConfig.minReplicas:"),
        (json!({"scaleConfig": {"minReplicas": 3, "maxReplicas": 2}}), "spec.scaleConfig:"),
        (
            json!({"secretMounts": [{"secretName": "A_B", "mountPath": "/a"}]}),
            "spec.secretMounts[0].secretName:",
        ),
        (
            json!({"secretMounts": [{"secretName": "a", "mountPath": "/a"}, {"secretName": "a", "mountPath": "/b"}]}),
            "spec.secretMounts[1].secretName:",
        ),
        (
            json!({"labels": {"serverless.kyma-project.io/x": "y"}}),
            "spec.labels[serverless.kyma-project.io/x]:",
        ),
        (json!({"labels": {"a": "not a value"}}), "spec.labels[a]:"),
        (json!({"annotations": {"proxy.istio.io/config": "x"}}), "spec.annotations[proxy.istio.io/config]:"),
        (
            json!({"source": {"inline": null, "gitRepository": {"url": "file:///etc", "reference": "main"}}}),
            "spec.source.gitRepository.url:",
        ),
        (
            json!({"source": {"inline": null, "gitRepository":
                {"url": "git@host:a/b", "reference": "main", "baseDir": "../x"}}}),
            "spec.source.gitRepository.baseDir:",
        ),
    ] {
        let mut world = World::new(spec.clone());
        assert_eq!(world.settle(), "patch Function/status", "{spec}");
        assert_eq!(world.condition("ConfigurationReady"), "False/InvalidFunctionSpec", "{spec}");
        let message = world.message("ConfigurationReady");
        assert!(message.starts_with(expected), "{message} does not begin with {expected}");
    }
}

#[test]
fn demand_scaling_and_built_in_scaling_exclude_each_other() {
    let mut world = World::running(json!({"scaleConfig": {"minReplicas": 1, "maxReplicas": 3}}));
    world.edit(json!({"metadata": {"annotations": {"SlimFaas/Function": "true"}}}));
    assert_eq!(world.settle(), "patch Function/status");
    assert_eq!(world.condition("ConfigurationReady"), "False/InvalidFunctionSpec");
    assert!(world.message("ConfigurationReady").contains("SlimFaas/Function"));
    world.edit(json!({"spec": {"scaleConfig": null, "replicas": 0}}));
    world.settle();
    assert_eq!(world.condition("ConfigurationReady"), "True/FunctionSpecValidated");
    assert_eq!(world.deployment()["spec"]["replicas"], 0, "on demand: to zero");
    world.edit(json!({"spec": {"replicas": 2}}));
    world.settle();
    assert_eq!(world.deployment()["spec"]["replicas"], 2, "and back");
}

#[test]
fn a_git_source_is_deployed_by_commit() {
    let git = json!({"url": "https://git.example/code.git", "reference": "main", "baseDir": "/greet"});
    let mut world = World::new(json!({"source": {"inline": null, "gitRepository": git}}));
    assert_eq!(world.settle(), "", "the commit is not known yet");
    world.commit = Some(Err("no route to host".into()));
    assert_eq!(world.settle(), "patch Function/status");
    assert_eq!(world.condition("ConfigurationReady"), "False/SourceUpdateFailed");
    world.commit = Some(Ok("aaaa".into()));
    world.settle();
    world.pods_come_up().settle();
    assert_eq!(world.condition("ConfigurationReady"), "True/SourceUpdated");
    assert_eq!(world.function["status"]["gitRepository"]["commit"], "aaaa");
    let command = |world: &World| {
        let pod = &world.deployment()["spec"]["template"]["spec"];
        (pod["initContainers"][0]["command"][5].clone(), pod["containers"][0]["command"][2].clone())
    };
    assert_eq!(command(&world), (json!("aaaa"), json!("/usr/src/app/repository/greet")));
    world.commit = Some(Err("no route to host".into()));
    assert_eq!(world.settle(), "patch Function/status", "the last known commit goes on");
    assert_eq!(world.condition("Running"), "True/DeploymentReady");
    world.commit = Some(Ok("bbbb".into()));
    assert_eq!(world.settle(), "apply Deployment, patch Function/status");
    assert_eq!(command(&world).0, "bbbb");
    assert_eq!(plan(&world.observed(), at(0)).next, Some(at(60)), "and asked again");
}

#[test]
fn secrets_profiles_and_variables_reach_the_pod() {
    let world = World::running(json!({
        "runtime": "python312",
        "runtimeImageOverride": "mine:1",
        "env": [{"name": "WHO", "value": "you"}],
        "secretMounts": [{"secretName": "keys", "mountPath": "/keys"}],
        "resourceConfiguration": {"function": {"profile": "S"}},
        "labels": {"team": "a", "app.kubernetes.io/name": "other"},
    }));
    let template = &world.deployment()["spec"]["template"];
    let container = &template["spec"]["containers"][0];
    assert_eq!(container["image"], "mine:1");
    assert_eq!(container["resources"]["limits"], json!({"cpu": "200m", "memory": "256Mi"}));
    assert_eq!(container["command"][0], "python3");
    assert!(container["env"].as_array().unwrap().contains(&json!({"name": "WHO", "value": "you"})));
    assert!(container["volumeMounts"].to_string().contains("/keys"));
    assert!(template["spec"]["volumes"].to_string().contains("\"secretName\":\"keys\""));
    assert_eq!(template["metadata"]["labels"]["team"], "a");
    assert_eq!(template["metadata"]["labels"]["app.kubernetes.io/name"], "greet");
    let status = &world.function["status"];
    assert_eq!(
        (&status["runtimeImage"], &status["functionResourceProfile"]),
        (&json!("mine:1"), &json!("S"))
    );
}
