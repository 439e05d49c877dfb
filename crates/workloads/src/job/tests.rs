use std::collections::{BTreeMap, BTreeSet};

use engine::{
    effect::Effect,
    kind,
    testing::{at, from_json, merge, seconds},
};
use serde_json::{Value, json};

use super::*;

/// A Job and its pods, to which plans are applied. Each pod ends as `fates` says, in the order of their creation, or
/// runs on once those are used up.
struct World {
    job: Value,
    pods: BTreeMap<String, Value>,
    fates: Vec<&'static str>,
    /// Pods in the order of their creation.
    made: Vec<String>,
    now: i64,
    log: Vec<String>,
}

impl World {
    fn new(spec: Value, fates: &[&'static str]) -> Self {
        let mut job = json!({
            "metadata": { "namespace": "default", "name": "sum", "uid": "j", "generation": 1, "resourceVersion": "1" },
            "spec": {
                "completions": 1, "parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
                "selector": { "matchLabels": { "controller-uid": "j" } },
                "template": {
                    "metadata": { "labels": { "controller-uid": "j", "batch.kubernetes.io/job-name": "sum" } },
                    "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "command": ["sum"] }] },
                },
            },
        });
        merge(&mut job["spec"], spec);
        let fates = fates.to_vec();
        Self { job, pods: BTreeMap::new(), fates, made: Vec::new(), now: 0, log: Vec::new() }
    }

    fn observed(&self) -> Observed {
        Observed {
            job: Arc::new(from_json(self.job.clone())),
            candidates: self.pods.values().map(|pod| Arc::new(from_json(pod.clone()))).collect(),
            taken: self.pods.keys().cloned().collect(),
        }
    }

    fn number(&self, name: &str) -> usize {
        self.made.iter().position(|made| made == name).unwrap() + 1
    }

    fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Create { body, .. } => {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                assert!(!self.made.contains(&name), "{name} is made twice");
                let mut pod = body.clone();
                pod["metadata"]["uid"] = json!(format!("uid-{name}"));
                pod["metadata"]["resourceVersion"] = json!("1");
                pod["metadata"]["creationTimestamp"] = json!(seconds(self.now));
                pod["status"] = json!({ "phase": "Pending" });
                self.pods.insert(name.clone(), pod);
                self.made.push(name);
                self.log.push(format!("{}s +{}", self.now, self.made.len()));
            }
            Effect::Delete { target, .. } if target.kind == kind::POD => {
                self.log.push(format!("{}s -{}", self.now, self.number(&target.name)));
                self.pods.get_mut(&target.name).unwrap()["metadata"]["deletionTimestamp"] =
                    json!(seconds(self.now));
            }
            Effect::Delete { .. } => self.log.push(format!("{}s the job goes", self.now)),
            Effect::Patch { target, body, .. } if target.kind == kind::POD => {
                merge(self.pods.get_mut(&target.name).unwrap(), body.clone());
            }
            Effect::Patch { body, .. } => merge(&mut self.job, body.clone()),
            Effect::Event(event) => self.log.push(format!("{}s {}", self.now, event.reason)),
            other => panic!("unexpected: {other}"),
        }
    }

    /// Pods end as is their fate; pods that are deleted and that nobody holds vanish.
    fn tick(&mut self) {
        let fates: BTreeMap<String, &str> =
            self.made.iter().cloned().zip(self.fates.iter().copied()).collect();
        self.pods.retain(|_, pod| {
            let held = pod["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
            held || pod["metadata"]["deletionTimestamp"].is_null()
        });
        let now = seconds(self.now);
        for (name, pod) in &mut self.pods {
            let phase = match fates.get(name).copied().unwrap_or("Running") {
                _ if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) => continue,
                _ if !pod["metadata"]["deletionTimestamp"].is_null() => "Failed",
                fate => fate,
            };
            let end = json!({ "terminated": { "exitCode": 1, "finishedAt": now } });
            pod["status"] = json!({ "phase": phase });
            if phase != "Running" {
                pod["status"]["containerStatuses"] = json!([{ "name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": end }]);
            }
        }
    }

    /// Until nothing happens, and nothing will without a change from outside.
    fn run(&mut self) -> &mut Self {
        for _ in 0..200 {
            let before = (self.job.clone(), self.pods.clone());
            let plan = plan(&self.observed(), at(self.now));
            plan.effects.iter().for_each(|effect| self.apply(effect));
            let gone = self.log.last().is_some_and(|line| line.ends_with("the job goes"));
            self.tick();
            if gone {
                return self;
            }
            if (&self.job, &self.pods) == (&before.0, &before.1) {
                let Some(next) = plan.next else { return self };
                self.now = next.duration_since(at(0)).as_secs();
            }
        }
        panic!("never at rest: {:?}", self.log);
    }

    fn check(&self, log: &[&str], status: Value) {
        assert_eq!(self.log, log);
        for (key, expected) in status.as_object().unwrap() {
            assert_eq!(&self.job["status"][key], expected, "{key} of {}", self.job["status"]);
        }
    }

    fn conditions(&self) -> Vec<String> {
        let list = self.job["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let shown =
            |one: &Value| format!("{}={} {}", one["type"], one["status"], one["reason"]).replace('"', "");
        list.iter().map(shown).collect()
    }
}

#[test]
fn runs_until_enough_succeeded() {
    let mut world = World::new(json!({ "completions": 3, "parallelism": 2 }), &["Succeeded"; 3]);
    world.run().check(
        &["0s +1", "0s +2", "0s +3", "0s Completed"],
        json!({ "succeeded": 3, "failed": null, "active": null, "completionTime": seconds(0), "startTime": seconds(0) }),
    );
    assert_eq!(
        world.conditions(),
        ["SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached",]
    );
    // counted, so nothing keeps them
    assert!(world.pods.values().all(|pod| pod["metadata"]["finalizers"] == json!([])));
}

#[test]
fn failures_make_the_next_attempt_wait_and_end_the_job() {
    let mut world = World::new(json!({ "backoffLimit": 2 }), &["Failed"; 9]);
    // 10 s after the first failure, 20 s after the second
    world.run().check(
        &["0s +1", "10s +2", "30s +3", "30s BackoffLimitExceeded"],
        json!({ "failed": 3, "succeeded": null, "completionTime": null }),
    );
    assert_eq!(
        world.conditions(),
        ["FailureTarget=True BackoffLimitExceeded", "Failed=True BackoffLimitExceeded",]
    );
}

#[test]
fn a_deleted_pod_is_a_failed_one_and_is_counted_once() {
    let mut world = World::new(json!({}), &[]);
    world.run();
    let first = world.made[0].clone();
    world.pods.get_mut(&first).unwrap()["metadata"]["deletionTimestamp"] = json!(seconds(0));
    world.fates = vec!["Running", "Succeeded"];
    world.run();
    assert_eq!(world.job["status"]["failed"], 1);
    assert_eq!(world.job["status"]["succeeded"], 1);
    assert_eq!(world.made.len(), 2);
}

#[test]
fn a_deadline_ends_what_runs() {
    let mut world =
        World::new(json!({ "activeDeadlineSeconds": 60, "parallelism": 2, "completions": 2 }), &[]);
    world.run();
    // which of the two goes first is nobody's business
    world.log[2..4].sort();
    world.check(
        &["0s +1", "0s +2", "60s -1", "60s -2", "60s DeadlineExceeded"],
        json!({ "failed": 2, "active": null }),
    );
    assert_eq!(world.conditions()[1], "Failed=True DeadlineExceeded");
}

#[test]
fn a_work_queue_is_empty_when_one_said_so() {
    let mut world = World::new(
        json!({ "completions": null, "parallelism": 3 }),
        &["Succeeded", "Succeeded", "Succeeded"],
    );
    world.run().check(&["0s +1", "0s +2", "0s +3", "0s Completed"], json!({ "succeeded": 3 }));
}

#[test]
fn each_index_succeeds_once() {
    let spec = json!({ "completions": 3, "parallelism": 3, "completionMode": "Indexed" });
    let mut world = World::new(spec, &["Succeeded", "Failed", "Succeeded", "Succeeded"]);
    world.run();
    assert_eq!(world.job["status"]["completedIndexes"], "0-2");
    assert_eq!((&world.job["status"]["succeeded"], &world.job["status"]["failed"]), (&json!(3), &json!(1)));
    let again = &world.pods[&world.made[3]];
    assert_eq!(again["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"], "1");
    assert_eq!(again["spec"]["hostname"], "sum-1");
    assert_eq!(again["spec"]["containers"][0]["env"][0]["name"], "JOB_COMPLETION_INDEX");
}

#[test]
fn suspended_it_has_no_pods_and_its_clock_stands() {
    let mut world = World::new(json!({ "suspend": true }), &[]);
    world.run().check(&["0s Suspended"], json!({ "startTime": null }));
    world.now = 50;
    world.job["spec"]["suspend"] = json!(false);
    world
        .run()
        .check(&["0s Suspended", "50s Resumed", "50s +1"], json!({ "startTime": seconds(50), "active": 1 }));
    world.job["spec"]["suspend"] = json!(true);
    world.run();
    assert_eq!(world.log[3..], ["50s Suspended", "50s -1"]);
    assert!(world.pods.is_empty());
    assert_eq!(world.conditions(), ["Suspended=True JobSuspended"]);
}

#[test]
fn a_finished_job_goes_after_its_time() {
    let mut world = World::new(json!({ "ttlSecondsAfterFinished": 30 }), &["Succeeded"]);
    world.run().check(&["0s +1", "0s Completed", "30s the job goes"], json!({}));
}

#[test]
fn fewer_at_a_time_stops_the_youngest() {
    let mut world = World::new(json!({ "completions": 5, "parallelism": 3 }), &[]);
    world.run();
    for (age, name) in world.made.clone().iter().enumerate() {
        let created = json!(seconds(i64::try_from(age).unwrap()));
        world.pods.get_mut(name).unwrap()["metadata"]["creationTimestamp"] = created;
    }
    world.job["spec"]["parallelism"] = json!(1);
    world.run();
    assert_eq!(world.log[3..], ["0s -3", "0s -2"]);
}

#[test]
fn another_manager_is_left_alone() {
    let world = World::new(json!({ "managedBy": "example.org/queue" }), &[]);
    assert!(plan(&world.observed(), at(0)).effects.is_empty());
}

#[test]
fn a_name_that_is_taken_is_passed_over() {
    let world = World::new(json!({}), &[]);
    let name_of = |taken: &[String]| {
        let observed = Observed { taken: taken.iter().cloned().collect::<BTreeSet<_>>(), ..world.observed() };
        let plan = plan(&observed, at(0));
        let create = plan.effects.iter().find_map(|effect| match effect {
            Effect::Create { body, .. } => body["metadata"]["name"].as_str().map(str::to_owned),
            _ => None,
        });
        create.unwrap()
    };
    let first = name_of(&[]);
    assert_eq!(first, name_of(&[]), "two who decide the same name the same pod");
    assert_ne!(first, name_of(std::slice::from_ref(&first)));
}
