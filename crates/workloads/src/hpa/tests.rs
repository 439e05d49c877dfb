use std::collections::BTreeMap;

use decide::quantity::{Figure, Quantity};
use engine::{
    Verb,
    effect::Effect,
    kind,
    testing::{at, from_json, merge, seconds},
};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{
    metrics::{Answers, Usage},
    plan::MEMORY,
    *,
};

/// An autoscaler, its target and the metrics APIs; each turn is one decision in a fresh process.
struct World {
    hpa: Value,
    replicas: i32,
    now: i64,
    log: String,
}

impl World {
    fn new(spec: Value) -> Self {
        let mut hpa = json!({
            "metadata": { "namespace": "default", "name": "web", "uid": "h", "generation": 1, "resourceVersion": "1" },
            "spec": {
                "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "minReplicas": 1, "maxReplicas": 10,
                "metrics": [{ "type": "Resource", "resource": { "name": "cpu",
                    "target": { "type": "Utilization", "averageUtilization": 50 } } }],
            },
        });
        merge(&mut hpa["spec"], spec);
        Self { hpa, replicas: 1, now: 0, log: String::new() }
    }

    fn input(&self, answers: Answers) -> Result<plan::Input, Trouble> {
        let hpa: HorizontalPodAutoscaler = from_json(self.hpa.clone());
        let scaled = self.scaled();
        let pods: Vec<Arc<Pod>> = (0..self.replicas).map(pod).collect();
        let memory = plan::stored_memory(&hpa);
        let circumstances = observe::Circumstances { settings: Default::default(), memory };
        observe::input(&hpa, &hpa.spec, &scaled, &pods, answers, circumstances)
    }

    fn scaled(&self) -> Scaled {
        let meta =
            from_json(json!({ "namespace": "default", "name": "web", "uid": "d", "resourceVersion": "7" }));
        Scaled {
            target: Target::of(&kind::DEPLOYMENT, &meta),
            replicas: self.replicas,
            status_replicas: self.replicas,
            selector: Some("app=web".into()),
        }
    }

    /// `milli` CPU used by each pod, of 100m requested.
    fn cpu(&mut self, milli: i64) -> &mut Self {
        let usage = |n: i32| {
            let used = BTreeMap::from([("cpu".to_owned(), Figure(Some(Quantity(milli))))]);
            let usage = Usage { at: None, window_seconds: 15, containers: [("c".to_owned(), used)].into() };
            (format!("p{n}"), usage)
        };
        let answers = Answers { usage: Ok((0..self.replicas).map(usage).collect()), others: vec![None] };
        self.turn(&format!("cpu={milli}m"), answers, None)
    }

    fn turn(&mut self, what: &str, answers: Answers, failure: Option<Failure>) -> &mut Self {
        let observed = Observed {
            hpa: Arc::new(from_json(self.hpa.clone())),
            target: Some((self.scaled().target, self.replicas)),
            input: self.input(answers),
            failure,
        };
        let (plan, _) = plan(&observed, at(self.now));
        let mut done = Vec::new();
        for effect in &plan.effects {
            match effect {
                Effect::Patch { subresource: Some("scale"), body, .. } => {
                    self.replicas = i32::try_from(body["spec"]["replicas"].as_i64().unwrap()).unwrap();
                    done.push(format!("scale to {}", self.replicas));
                }
                Effect::Patch { subresource: Some("status"), body, .. } => {
                    merge(&mut self.hpa, body.clone());
                    done.push("status".into());
                }
                Effect::Patch { body, .. } => {
                    merge(&mut self.hpa, body.clone());
                    let annotations = self.hpa["metadata"]["annotations"].as_object_mut().unwrap();
                    annotations.retain(|_, value| !value.is_null());
                    done.push("remember".into());
                }
                Effect::Event(event) => done.push(format!("{} {:?}", event.reason, event.note)),
                other => panic!("{other}"),
            }
        }
        self.log += &format!("{}s {what} => {}\n", self.now, done.join(", "));
        self.now += 15;
        self
    }

    fn conditions(&self) -> String {
        let conditions = self.hpa["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        let line = |condition: &Value| {
            format!(
                "{}={} {}\n",
                text(condition, "type"),
                text(condition, "status"),
                text(condition, "reason")
            )
        };
        conditions.iter().map(line).collect()
    }

    fn check(&self, expected: Expect) {
        expected.assert_eq(&self.log);
    }
}

fn pod(n: i32) -> Arc<Pod> {
    Arc::new(from_json(json!({
        "metadata": { "namespace": "default", "name": format!("p{n}"), "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "100m" } } }] },
        "status": {
            "phase": "Running", "startTime": seconds(-9000),
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": seconds(-8000) }],
        },
    })))
}

#[test]
fn follows_the_load_and_comes_to_rest() {
    let mut world = World::new(json!({}));
    world.cpu(100).cpu(50).cpu(50);
    world.check(expect![[r#"
        0s cpu=100m => remember, scale to 2, SuccessfulRescale "New size: 2; reason: cpu is above target and asks for 2", status
        15s cpu=50m => remember, status
        30s cpu=50m => 
    "#]]);
    expect![[r#"
        AbleToScale=True ReadyForNewScale
        ScalingActive=True ValidMetricFound
        ScalingLimited=False DesiredWithinRange
    "#]]
    .assert_eq(&world.conditions());
    assert_eq!(
        world.hpa["status"]["currentMetrics"].to_string(),
        r#"[{"resource":{"current":{"averageUtilization":50,"averageValue":"50m"},"name":"cpu"},"type":"Resource"}]"#
    );
}

#[test]
fn the_window_outlives_the_process() {
    // every turn reads its memory from the object alone
    let mut world = World::new(json!({ "behavior": { "scaleDown": { "stabilizationWindowSeconds": 60 } } }));
    world.replicas = 4;
    for _ in 0..7 {
        world.cpu(10);
    }
    assert!(world.log.lines().take(4).all(|line| !line.contains("scale to")), "{}", world.log);
    assert_eq!(world.replicas, 1, "{}", world.log);
}

#[test]
fn no_answer_scales_nothing_and_is_told() {
    let mut world = World::new(json!({}));
    world.replicas = 5;
    let silent = || Answers { usage: Err("the server is down".into()), others: vec![None] };
    world.turn("silence", silent(), None).turn("silence", silent(), None);
    world.check(expect![[r#"
        0s silence => FailedGetResourceMetric "the HPA was unable to compute the replica count: cpu cannot be used: the server is down", status
        15s silence => 
    "#]]);
    expect![[r#"
        AbleToScale=True SucceededGetScale
        ScalingActive=False FailedGetResourceMetric
    "#]]
    .assert_eq(&world.conditions());
}

#[test]
fn a_refused_scale_is_told_before_the_next_attempt() {
    let mut world = World::new(json!({}));
    world.replicas = 20;
    let failure = Failure {
        verb: Verb::Update,
        kind: kind::DEPLOYMENT,
        name: "web".into(),
        message: "forbidden".into(),
        conflict: false,
    };
    let usage = Answers { usage: Err("not read".into()), others: vec![None] };
    world.turn("above the maximum, refused before", usage, Some(failure));
    assert!(
        world.log.contains("=> status, remember, scale to 10")
            || world.log.contains("=> status, scale to 10"),
        "{}",
        world.log
    );
    assert!(world.conditions().contains("AbleToScale=False FailedUpdateScale"));
}

#[test]
fn trouble_with_the_target_is_a_condition() {
    let world = World::new(json!({}));
    let observed = |trouble: Trouble| Observed {
        hpa: Arc::new(from_json(world.hpa.clone())),
        target: None,
        input: Err(trouble),
        failure: None,
    };
    let (first, memory) = plan(&observed(Trouble::NoScale("not found".into())), at(0));
    assert_eq!(memory, None);
    expect![[r#"
        warning FailedGetScale "not found" on HorizontalPodAutoscaler default/web
        status HorizontalPodAutoscaler default/web {"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"not found","reason":"FailedGetScale","status":"False","type":"AbleToScale"}],"desiredReplicas":0}
    "#]]
    .assert_eq(&engine::testing::lines(&first));
}

#[test]
fn external_metrics_wake_from_zero_only_what_the_autoscaler_put_there() {
    let external = json!({ "minReplicas": 0, "metrics": [{ "type": "External", "external": {
        "metric": { "name": "queue" }, "target": { "type": "AverageValue", "averageValue": "10" } } }] });
    let queue = |n: i64| Answers {
        usage: Ok(BTreeMap::new()),
        others: vec![Some(Ok(vec![metrics::Value {
            object: String::new(),
            value: Figure(Some(Quantity(n * 1000))),
            at: None,
            window_seconds: 60,
        }]))],
    };
    let mut world = World::new(external);
    world.replicas = 0;
    world.turn("zero of another, queue=50", queue(50), None);
    assert_eq!(world.replicas, 0);
    assert!(world.conditions().contains("ScalingActive=False ScalingDisabled"));
    world.hpa["status"]["conditions"] =
        json!([{ "type": "ScaledToZero", "status": "True", "lastTransitionTime": seconds(0) }]);
    world.turn("own zero, queue=50", queue(50), None);
    assert!(world.replicas > 0, "{}", world.log);
    assert!(world.conditions().contains("ScaledToZero=False"));

    // The minimum was raised while it slept: it comes up to it, and is not asleep any more.
    world.replicas = 0;
    world.hpa["spec"]["minReplicas"] = json!(2);
    world.hpa["status"]["conditions"] =
        json!([{ "type": "ScaledToZero", "status": "True", "lastTransitionTime": seconds(0) }]);
    world.turn("own zero, minimum raised to 2, queue=0", queue(0), None);
    assert_eq!(world.replicas, 2, "{}", world.log);
    assert!(world.conditions().contains("ScaledToZero=False NotScaledToZero"), "{}", world.conditions());
}

#[test]
fn requests_of_a_whole_pod_are_completed_by_those_of_its_containers() {
    let spec = from_json(json!({
        "resources": { "requests": { "memory": "1Gi", "example.com/gpu": "1" } },
        "overhead": { "cpu": "5m" },
        "containers": [
            { "name": "a", "resources": { "requests": { "cpu": "100m", "memory": "64Mi" } } }, { "name": "b" }],
        "initContainers": [
            { "name": "mesh", "restartPolicy": "Always", "resources": { "requests": { "cpu": "20m" } } },
            { "name": "migrate", "resources": { "requests": { "cpu": "300m" } } }],
    }));
    let requests: Vec<String> = observe::pod_requests(&spec)
        .iter()
        .map(|(resource, quantity)| format!("{resource}={quantity}"))
        .collect();
    // The migration beside the mesh needs 320m, more than the 120m of what runs later; 5m are the runtime's.
    assert_eq!(requests.join(" "), "cpu=325m memory=1073741824");
    assert!(observe::pod_requests(&from_json(json!({ "containers": [] }))).is_empty());
}

#[test]
fn memory_that_cannot_be_read_is_none() {
    let mut world = World::new(json!({}));
    world.hpa["metadata"]["annotations"] = json!({ MEMORY: "{broken" });
    assert_eq!(plan::stored_memory(&from_json(world.hpa)), Memory::default());
}
